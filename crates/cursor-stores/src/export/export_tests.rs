use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::model::{
    Conversation, Head, Message, MessageKind, Origin, Part, Role, StoreKind, ToolCall,
};
use crate::search::{Case, Matcher, Pattern};
use crate::{Catalogue, Extent, ReadConversationError, StorePlaces};

/// The fixture uses this crate as other crates see it, without `cfg(test)`.
fn rich() -> Conversation {
    let value = serde_json::to_value(store_fixtures::conversation::rich()).unwrap();
    serde_json::from_value(value).unwrap()
}

fn small(id: &str, text: &str) -> Conversation {
    let origin = Origin { store: StoreKind::Cli, path: "/nowhere".into(), key: None };
    let mut conversation = Conversation::new(Head::new(id, origin));
    conversation.messages.push(Message::new(Role::User, vec![Part::text(text)]));
    conversation
}

fn as_json(conversation: &Conversation) -> Vec<u8> {
    let mut out = Vec::new();
    write_json(conversation, &mut out).unwrap();
    out
}

fn as_jsonl(conversations: &[Conversation]) -> Vec<u8> {
    let mut out = Vec::new();
    for conversation in conversations {
        write_jsonl(conversation.clone(), &mut out).unwrap();
    }
    out
}

fn catalogue(path: &Path) -> Catalogue {
    Catalogue::open(&StorePlaces { exports: vec![path.to_owned()], ..StorePlaces::default() }, &[])
}

/// Returns the conversations in a file, without the origin that the reader adds.
#[track_caller]
fn read_back(path: &Path) -> Vec<Conversation> {
    let catalogue = catalogue(path);
    let listing = catalogue.list();
    assert_eq!(listing.damage, []);
    let read = |head: &Head| {
        let mut conversation = catalogue.read(head, Extent::default()).unwrap();
        assert_eq!(conversation.head, *head, "the list and the read agree");
        let gained = conversation.head.origins.pop().unwrap();
        assert_eq!(gained.store, StoreKind::Export);
        conversation
    };
    listing.heads.iter().map(read).collect()
}

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

#[test]
fn a_conversation_is_read_back_as_it_was() {
    let files = Files::new();
    let json = files.write("one.json", as_json(&rich()));
    assert_eq!(read_back(&json), [rich()]);
    let jsonl = files.write("one.jsonl", as_jsonl(&[rich()]));
    assert_eq!(read_back(&jsonl), [rich()]);
    let compact = files.write("compact.json", serde_json::to_vec(&rich()).unwrap());
    assert_eq!(read_back(&compact), [rich()]);
}

#[test]
fn a_file_of_lines_may_hold_many_conversations() {
    let files = Files::new();
    let all = [small("a", "first"), rich(), small("b", "second\nline")];
    assert_eq!(read_back(&files.write("all.jsonl", as_jsonl(&all))), all);
}

/// If an id occurs twice in a file, the later export is newer.
#[test]
fn a_rewritten_file_is_read_with_its_new_content() {
    let files = Files::new();
    let path = files.write("all.jsonl", as_jsonl(&[small("a", "first"), small("b", "second")]));
    let catalogue = catalogue(&path);
    let heads = catalogue.list().heads;
    let text = |id: &str| {
        let head = heads.iter().find(|head| head.id == id).unwrap();
        catalogue.read(head, Extent::default()).map(|read| read.messages[0].text())
    };
    assert_eq!(text("b").unwrap(), "second");
    let anew = [small("b", "third"), small("c", "fourth"), small("b", "fifth")];
    files.write("all.jsonl", as_jsonl(&anew));
    assert_eq!(text("b").unwrap(), "fifth");
    assert!(matches!(text("a"), Err(ReadConversationError::Missing(_))));
}

#[test]
fn fields_in_another_order_mean_the_same() {
    let value: serde_json::Value = serde_json::from_slice(&as_json(&rich())).unwrap();
    let mut fields: Vec<(String, serde_json::Value)> =
        value.as_object().unwrap().clone().into_iter().collect();
    fields.reverse();
    let reversed: serde_json::Map<_, _> = fields.into_iter().collect();
    let file = Files::new();
    let path = file.write("reversed.json", serde_json::to_vec(&reversed).unwrap());
    assert_eq!(read_back(&path), [rich()]);
}

#[test]
fn a_directory_is_a_store_of_all_its_exports_and_reports_other_json_files() {
    let files = Files::new();
    files.write("a.json", as_json(&small("a", "first")));
    files.write("b.jsonl", as_jsonl(&[small("b", "second")]));
    files.write("notes.md", "ignored");
    files.write("package.json", r#"{"name": "left-pad"}"#);
    files.write("newer.json", r#"{"version": 2, "head": "something else"}"#);
    files.write("cut.json", &as_json(&rich())[..100]);
    let listing = catalogue(files.0.path()).list();
    let mut ids: Vec<&str> = listing.heads.iter().map(|head| head.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a", "b"]);
    let damage: Vec<String> = listing
        .damage
        .iter()
        .map(|lost| format!("{}: {}", lost.damage.place, lost.damage.what))
        .collect();
    assert_eq!(damage.len(), 3, "{damage:?}");
    assert!(damage[0].starts_with("cut.json: it is not an exported conversation: EOF"));
    assert_eq!(damage[1], "newer.json: it has version 2; only version 1 is supported");
    assert!(damage[2].starts_with("package.json: it is not"), "{}", damage[2]);
}

#[test]
fn a_path_that_is_not_a_file_is_skipped_with_a_reason() {
    let files = Files::new();
    let real = files.write("real.json", as_json(&rich()));
    let link = files.0.path().join("link.json");
    std::os::unix::fs::symlink(real, &link).unwrap();
    let fifo = files.0.path().join("fifo.json");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in [link, fifo, files.0.path().join("missing.json")] {
        let catalogue = catalogue(&path);
        assert_eq!((catalogue.stores().count(), catalogue.skipped().len()), (0, 1), "{path:?}");
    }
    let giant = files.write("giant.json", "");
    fs::OpenOptions::new().write(true).open(&giant).unwrap().set_len(20 << 30).unwrap();
    // In a directory, broken files are reported and the others are read.
    let listing = catalogue(files.0.path()).list();
    assert_eq!((listing.heads.len(), listing.damage.len()), (1, 3), "{:?}", listing.damage);
}

#[test]
fn a_line_that_cannot_be_read_costs_one_message() {
    let mut conversation = small("a", "first");
    for text in ["second", "third", "fourth"] {
        conversation.messages.push(Message::new(Role::User, vec![Part::text(text)]));
    }
    let bytes = as_jsonl(&[conversation]);
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let damaged = format!("{}\n{}\n{{\"role\":\"us\n{}\n", lines[0], lines[1], lines[3]);
    let files = Files::new();
    let path = files.write("damaged.jsonl", damaged);
    let catalogue = catalogue(&path);
    let head = catalogue.list().heads.remove(0);
    let read = catalogue.read(&head, Extent::default()).unwrap();
    let texts: Vec<String> = read.messages.iter().map(Message::text).collect();
    assert_eq!(texts, ["first", "third"]);
    let places: Vec<&str> = read.damage.iter().map(|damage| damage.place.as_str()).collect();
    assert_eq!(places, ["message 2", "messages"]);
    assert_eq!(read.damage[1].what, "the file ends before the last 1 of its messages");
}

#[test]
fn the_last_messages_can_be_read_alone_and_orphans_only_on_request() {
    let mut conversation = small("a", "first");
    conversation.messages.push(Message::new(Role::User, vec![Part::text("second")]));
    conversation.messages.push(Message {
        kind: MessageKind::Orphan,
        ..Message::new(Role::User, vec![Part::text("abandoned")])
    });
    let files = Files::new();
    let path = files.write("a.json", as_json(&conversation));
    let catalogue = catalogue(&path);
    let head = catalogue.list().heads.remove(0);
    let texts = |extent| -> Vec<String> {
        let read = catalogue.read(&head, extent).unwrap();
        read.messages.iter().map(Message::text).collect()
    };
    assert_eq!(texts(Extent { last: Some(1), ..Extent::default() }), ["second"]);
    let all = Extent { branches: crate::Branches::WithOrphans, ..Extent::default() };
    assert_eq!(texts(all), ["first", "second", "abandoned"]);
}

#[test]
fn a_conversation_in_two_files_is_listed_once_with_each_origin_once() {
    let files = Files::new();
    files.write("a.json", as_json(&rich()));
    files.write("b.jsonl", as_jsonl(&[rich()]));
    let listing = catalogue(files.0.path()).list();
    let stores: Vec<StoreKind> =
        listing.heads[0].origins.iter().map(|origin| origin.store).collect();
    assert_eq!(
        stores,
        [StoreKind::Cli, StoreKind::Transcript, StoreKind::Export, StoreKind::Export]
    );
}

#[test]
fn words_are_found_inside_and_outside_messages() {
    let files = Files::new();
    files.write("a.json", as_json(&rich()));
    files.write("b.jsonl", as_jsonl(&[small("b", "an unrelated word"), small("c", "outlive me")]));
    let search = |words: &str| {
        let matcher = Matcher::new(Pattern::Words(words), Case::Smart).unwrap();
        let hits = Mutex::new(Vec::new());
        let damage = catalogue(files.0.path()).search(&matcher, &|found| {
            let hit = found.hit;
            hits.lock().unwrap().push(format!("{} {:?} {}", hit.key, hit.position, hit.field));
            std::ops::ControlFlow::Continue(())
        });
        assert_eq!(damage, []);
        let mut hits = hits.into_inner().unwrap();
        hits.sort();
        hits
    };
    let id = store_fixtures::conversation::RICH_ID;
    assert_eq!(
        search("outlive"),
        [format!("a.json/{id} Some(2) parts.text"), "b.jsonl/c Some(0) parts.text".to_owned()]
    );
    assert_eq!(search("lifetime error"), [format!("a.json/{id} None head.title")]);
    assert_eq!(search("hologram"), [format!("a.json/{id} Some(9) parts.kind")]);
    assert_eq!(search("nowhere-to-be-found"), [] as [String; 0]);
}

#[test]
fn a_key_from_outside_the_store_does_not_read_another_file() {
    let files = Files::new();
    let path = files.write("a.json", as_json(&small("a", "first")));
    files.write("b.json", as_json(&small("b", "second")));
    let catalogue = catalogue(&path);
    let store = catalogue.stores().next().unwrap();
    for key in ["b.json/b", "../b.json/b", "a.json/b", "a.json", ""] {
        let read = store.read(key, Extent::default());
        assert!(matches!(read, Err(ReadConversationError::Missing(_))), "{key}");
    }
}

/// Nests values deeper than a store's value can be.
#[test]
fn deep_values_come_back_and_bottomless_ones_are_refused() {
    let nested = |depth: usize| {
        let mut value = json!(1);
        for _ in 0..depth {
            value = json!([value]);
        }
        value
    };
    let with = |depth: usize| {
        let mut conversation = small("a", "first");
        let call = Part::ToolCall(ToolCall::new("Odd", nested(depth)));
        conversation.messages.push(Message::new(Role::Assistant, vec![call]));
        conversation
    };
    let files = Files::new();
    let deep = files.write("deep.json", as_json(&with(128)));
    assert_eq!(read_back(&deep), [with(128)]);
    for bottomless in [as_json(&with(300)), as_jsonl(&[with(300)])] {
        let path = files.write("bottomless.json", bottomless);
        let catalogue = catalogue(&path);
        let head = catalogue.list().heads.remove(0);
        match catalogue.read(&head, Extent::default()) {
            Err(ReadConversationError::Unreadable { .. }) => {}
            Ok(read) => assert_eq!((read.messages.len(), read.damage.len()), (1, 1)),
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    #[test]
    fn any_text_and_any_number_is_read_back(text: String, number: f64, id in "\\PC{1,20}") {
        let mut conversation = small(&id, &text);
        let input = json!({"number": number, text.as_str(): [number.to_string(), text.as_str()]});
        let call = Part::ToolCall(ToolCall::new(text.clone(), input));
        conversation.messages.push(Message::new(Role::Assistant, vec![call]));
        conversation.head.title = Some(text);
        let files = Files::new();
        let json = files.write("a.json", as_json(&conversation));
        prop_assert_eq!(read_back(&json), [conversation.clone()]);
        let jsonl = files.write("a.jsonl", as_jsonl(std::slice::from_ref(&conversation)));
        prop_assert_eq!(read_back(&jsonl), [conversation]);
    }

    #[test]
    fn no_bytes_make_a_reader_fail(bytes: Vec<u8>, at in 0usize..4000, flip: u8) {
        let mut flipped = as_jsonl(&[rich()]);
        let place = at % flipped.len();
        flipped[place] ^= flip;
        let files = Files::new();
        for bytes in [bytes, flipped] {
            let path = files.write("a.jsonl", bytes);
            let catalogue = catalogue(&path);
            for head in catalogue.list().heads {
                let _read = catalogue.read(&head, Extent::default());
            }
        }
    }
}
