//! Searching chats: which hits there are, where, and how many.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

use pretty_assertions::assert_eq;
use store_fixtures::Closing;
use store_fixtures::chat::{Call, Chat, Generation, Planted, Step, Turn, planted_chat};

use crate::chat::listing::ChatsRoot;
use crate::model::StoreKind;
use crate::search::{Case, Matcher, Pattern};
use crate::store::{ConversationStore, Hit};

fn hits(path: &Path, pattern: Pattern<'_>) -> Vec<Hit> {
    let root = ChatsRoot::new(StoreKind::Cli, path.to_owned());
    let matcher = Matcher::new(pattern, Case::Smart).unwrap();
    let found = Mutex::new(Vec::new());
    let damage = root.search(&matcher, &|hit| {
        found.lock().unwrap().push(hit);
        ControlFlow::Continue(())
    });
    assert_eq!(damage, []);
    found.into_inner().unwrap()
}

fn words(path: &Path, words: &str) -> Vec<Hit> {
    hits(path, Pattern::Words(words))
}

#[test]
fn a_word_in_any_field_is_found() {
    let home = tempfile::tempdir().unwrap();
    let mut planted = Planted::default();
    planted_chat(home.path(), "a", &mut planted);
    assert!(planted.words.len() > 30);
    for (word, field) in &planted.words {
        let found = words(home.path(), word);
        let fields: Vec<_> = found.iter().map(|hit| hit.field.as_str()).collect();
        assert!(!found.is_empty(), "{field}");
        assert!(
            found.iter().all(|hit| hit.key.ends_with("/a") && &hit.snippet.found == word),
            "{field}"
        );
        let is_orphan = fields.iter().any(|field| field.starts_with("orphan:"));
        assert_eq!(
            is_orphan,
            field.contains("orphan") || field.contains("abandoned"),
            "{field}: {fields:?}"
        );
    }
}

#[test]
fn the_same_words_in_both_histories_are_found_once_with_their_position() {
    let home = tempfile::tempdir().unwrap();
    let steps = vec![
        Step::Thinking("a thoughtful needle1".to_owned()),
        Step::Text("some needle2 said".to_owned()),
        Step::Call(Call::shell("call_1", "grep needle3", "found needle4 there")),
    ];
    let turns = vec![Turn::Agent { prompt: "where is the needle0?".to_owned(), steps }];
    Chat::new(Generation::Sep2026, "a").with_turns(turns).write_cli(home.path(), Closing::Clean);
    for (word, position, field) in [
        ("needle0", 2, "text"),
        ("needle1", 3, "thinking"),
        ("needle2", 3, "text"),
        ("needle3", 3, "tool.input.command"),
        ("needle4", 3, "tool.result.output"),
    ] {
        let found = words(home.path(), word);
        assert_eq!(found.len(), 1, "{word}: {found:?}");
        assert_eq!((found[0].position, found[0].field.as_str()), (Some(position), field));
        assert_eq!(found[0].message_id.as_ref().map(String::len), Some(64));
    }
    // Words in different parts of one message.
    assert_eq!(words(home.path(), "needle1 needle4").len(), 1);
    assert_eq!(words(home.path(), "needle0 needle4"), []);
    assert_eq!(hits(home.path(), Pattern::Regex("n.edle2")).len(), 1);
}

#[test]
fn fields_that_are_not_shown_are_found_where_they_belong() {
    let home = tempfile::tempdir().unwrap();
    let turns = vec![Turn::Agent {
        prompt: "p".to_owned(),
        steps: vec![Step::Thinking("t".to_owned()), Step::Text("x".to_owned())],
    }];
    Chat::new(Generation::Sep2026, "a").with_turns(turns).write_cli(home.path(), Closing::Clean);
    let found = words(home.path(), "c2lnbmF0dXJl");
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].position, found[0].field.as_str()), (Some(3), "content.signature"));
}

#[test]
fn the_encryption_key_is_not_found() {
    let home = tempfile::tempdir().unwrap();
    Chat::new(Generation::Sep2026, "a")
        .with_turns(vec![Turn::plain("p", "a")])
        .write_cli(home.path(), Closing::Clean);
    assert_eq!(words(home.path(), "5ec2e7"), []);
}

#[test]
fn a_search_ends_when_it_is_told_to() {
    let home = tempfile::tempdir().unwrap();
    for number in 0..50 {
        let chat = Chat::new(Generation::Jul2026, &format!("chat-{number}"));
        chat.with_turns(vec![Turn::plain("needle", "needle")])
            .write_cli(home.path(), Closing::Clean);
    }
    let root = ChatsRoot::new(StoreKind::Cli, home.path().to_owned());
    let matcher = Matcher::new(Pattern::Words("needle"), Case::Smart).unwrap();
    let n_found = Mutex::new(0);
    root.search(&matcher, &|_| {
        *n_found.lock().unwrap() += 1;
        ControlFlow::Break(())
    });
    // Each thread may already be reporting a hit.
    assert!((1..=16).contains(&*n_found.lock().unwrap()));
}

#[test]
fn a_store_that_cannot_be_searched_is_named() {
    let home = tempfile::tempdir().unwrap();
    let directory = Chat::new(Generation::Sep2026, "a")
        .with_turns(vec![Turn::plain("needle", "a")])
        .write_cli(home.path(), Closing::Clean);
    std::fs::write(directory.join("store.db"), "garbage").unwrap();
    let root = ChatsRoot::new(StoreKind::Cli, home.path().to_owned());
    let matcher = Matcher::new(Pattern::Words("needle"), Case::Smart).unwrap();
    let damage = root.search(&matcher, &|_| ControlFlow::Continue(()));
    assert_eq!(damage.len(), 1);
    assert!(damage[0].place.ends_with("/a/store.db"));
}
