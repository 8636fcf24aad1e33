//! A search finds a word in any field of any row, no matter how it is split.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Mutex;

use pretty_assertions::assert_eq;
use serde_json::json;
use store_fixtures::sdk::events::{
    checkpoint_answer, checkpoint_prompt, running, status, text, thinking, user,
};
use store_fixtures::sdk::{Agent, Generation, Run, planted_agent, write_database, write_lines};
use store_fixtures::{Closing, open_writer};

use crate::sdk::test_home::Home;
use crate::search::{Case, Matcher, Pattern};
use crate::store::{ConversationStore, Hit};
use crate::test_store::picture_of_tree;

fn search(store: &dyn ConversationStore, pattern: Pattern<'_>) -> Vec<Hit> {
    let matcher = Matcher::new(pattern, Case::Smart).unwrap();
    let hits = Mutex::new(Vec::new());
    let damage = store.search(&matcher, &|hit| {
        hits.lock().unwrap().push(hit);
        ControlFlow::Continue(())
    });
    assert_eq!(damage, []);
    let mut hits = hits.into_inner().unwrap();
    hits.sort_by(|one, other| one.message_id.cmp(&other.message_id));
    hits
}

fn fields(store: &dyn ConversationStore, words: &str) -> Vec<String> {
    search(store, Pattern::Words(words)).into_iter().map(|hit| hit.field).collect()
}

#[test]
fn a_word_in_any_field_is_found() {
    let mut words: BTreeMap<String, String> = BTreeMap::new();
    let mut word = |field: &str| {
        let word = format!("planted{:03}x", words.len());
        words.insert(word.clone(), field.to_owned());
        word
    };
    let agent = planted_agent("agent-1", &mut word);
    let in_database = Home::with(Generation::Future, std::slice::from_ref(&agent));
    let writer = open_writer(&in_database.root.join("index.db"));
    writer.execute_batch("UPDATE agents SET mood_json = '{\"a\":\"plantedmood\"}'").unwrap();
    writer.close().unwrap();
    words.insert("plantedmood".to_owned(), "a future column".to_owned());
    let in_lines = Home::new();
    write_lines(&in_lines.root, &[agent]);
    assert!(words.len() > 35);
    for home in [in_database, in_lines] {
        let before = picture_of_tree(home.directory.path());
        let store = home.store();
        let is_future = home.root.join("index.db").exists();
        for (word, field) in &words {
            let hits = search(&*store, Pattern::Words(word));
            let n_expected = usize::from(is_future || word != "plantedmood");
            assert!(hits.len() >= n_expected, "{word} in {field} is not found");
            assert!(hits.iter().all(|hit| hit.key == "agent-1"), "{word} in {field}: {hits:?}");
        }
        assert_eq!(picture_of_tree(home.directory.path()), before);
    }
}

#[test]
fn a_word_in_pieces_is_found_once_with_the_text_around_it() {
    let run = Run::new(
        "run-1",
        vec![
            user("Go."),
            thinking("Where is the nee"),
            status("RUNNING", None),
            thinking("dle now?"),
            text("A nee"),
            text("dle, "),
            text("a haystack, a needle."),
        ],
    );
    let home = Home::with(Generation::July2026, &[Agent::new("agent-1", "/w").with(run)]);
    let hits = search(&*home.store(), Pattern::Words("needle"));
    let told: Vec<_> = hits
        .iter()
        .map(|hit| {
            (hit.message_id.as_deref().unwrap(), hit.field.as_str(), hit.snippet.before.as_str())
        })
        .collect();
    let expected = [
        ("run-1/2", "message.text", "Where is the "),
        ("run-1/5", "message.message.content.text", "A "),
    ];
    assert_eq!(told, expected);
    assert_eq!(fields(&*home.store(), "haystack needle"), ["message.message.content.text"]);
    assert_eq!(search(&*home.store(), Pattern::Regex("nee?dle now")).len(), 1);
}

#[test]
fn text_that_every_event_repeats_is_found_once() {
    let call = |command: &str| running("call-1", "shell", json!({"command": command}));
    let mut run = Run::new(
        "run-1",
        vec![user("Go."), call("ech"), call("echo nee"), call("echo needle"), call("echo needle")],
    );
    run.checkpoint = vec![
        checkpoint_prompt("Where is the gravel needle?"),
        checkpoint_answer("Where is the gravel needle? Nowhere."),
    ];
    let home = Home::with(Generation::July2026, &[Agent::new("agent-0123456789", "/w").with(run)]);
    let store = home.store();
    assert_eq!(fields(&*store, "echo needle"), ["message.args.command"]);
    let mut of_agent = fields(&*store, "agent-0123456789");
    of_agent.sort();
    assert_eq!(of_agent, ["agents.agent_id", "agents.name", "blobs.agentId", "runs.agent_id"]);
    assert_eq!(fields(&*store, "run-1"), ["runs.run_id"]);
    assert_eq!(search(&*store, Pattern::Phrase("gravel needle")).len(), 2);
}

#[test]
fn a_match_in_the_events_is_not_found_again_in_the_blobs() {
    let mut run =
        Run::new("run-1", vec![user("Where is the gravel needle, please?"), text("Here.")]);
    run.checkpoint =
        vec![checkpoint_prompt("Where is the gravel needle, please?"), checkpoint_answer("Here.")];
    let home = Home::with(Generation::July2026, &[Agent::new("agent-1", "/w").with(run)]);
    assert_eq!(fields(&*home.store(), "needle"), ["message.message.content.text"]);
}

#[test]
fn escaped_words_and_events_without_an_agent_are_found() {
    let run = Run::new("run-1", vec![user("Go.")]);
    let home = Home::with(Generation::July2026, &[Agent::new("agent-1", "/w").with(run)]);
    let writer = open_writer(&home.root.join("index.db"));
    let sql = "INSERT INTO run_events (run_id, seq, offset, event_type, payload_json, created_at) VALUES (?1, ?2, ?2, 'x', ?3, 'y')";
    let escaped = r#"{"type":"sdk_message","message":{"type":"assistant","message":{"content":[{"type":"text","text":"caf\u00e9 \u006eeedle"}]}}}"#;
    writer.execute(sql, ("run-1", 9, escaped)).unwrap();
    writer
        .execute(sql, ("run-lost", 1, "{\"type\":\"sdk_message\",\"message\":\"a lost pin\"}"))
        .unwrap();
    writer.close().unwrap();
    let store = home.store();
    assert_eq!(fields(&*store, "café needle"), ["message.message.content.text"]);
    let hits = search(&*store, Pattern::Phrase("lost pin"));
    assert_eq!(hits.len(), 1);
    assert_eq!((hits[0].key.as_str(), hits[0].message_id.as_deref()), ("", Some("run-lost/1")));
}

#[test]
fn a_search_ends_when_enough_is_found() {
    let agents: Vec<Agent> = (0..40)
        .map(|number| {
            let run = Run::new(&format!("run-{number}"), vec![user("needle"), text("needle")]);
            Agent::new(&format!("agent-{number}"), "/w").with(run)
        })
        .collect();
    let (database, lines) = (Home::with(Generation::July2026, &agents), Home::new());
    write_lines(&lines.root, &agents);
    for home in [database, lines] {
        let matcher = Matcher::new(Pattern::Words("needle"), Case::Smart).unwrap();
        let n_hits = Mutex::new(0);
        home.store().search(&matcher, &|_| {
            let mut n_hits = n_hits.lock().unwrap();
            *n_hits += 1;
            if *n_hits < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        // Threads that just found a match may still report it.
        assert!(*n_hits.lock().unwrap() < 20);
    }
}

#[test]
fn the_encryption_key_is_never_found() {
    let mut run = Run::new("run-1", vec![user("Go.")]);
    run.checkpoint = vec![checkpoint_prompt("Go.")];
    let home = Home::new();
    write_database(
        &home.root,
        Generation::September2026,
        &[Agent::new("agent-1", "/w").with(run)],
        Closing::Clean,
    );
    assert_eq!(fields(&*home.store(), "5ec7e7"), Vec::<String>::new());
    let conversation = serde_json::to_string(&home.read("agent-1")).unwrap();
    assert!(!conversation.contains("5ec7e7"));
}
