use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Mutex;

use pretty_assertions::assert_eq;
use serde_json::json;
use store_fixtures::transcript::{Block, Layout, Line, every_line, prompt};

use super::test_home::{Home, ID, WRITTEN, search, small};
use crate::search::{Case, Matcher, Pattern};
use crate::store::ConversationStore;

#[test]
fn a_word_planted_in_any_field_is_found_there() {
    let home = Home::new();
    let mut fields = Vec::new();
    let lines = every_line(&mut |field| {
        fields.push(field.to_owned());
        format!("planted{:02}", fields.len())
    });
    assert!(fields.len() >= 10);
    for (number, layout) in
        [Layout::Nested, Layout::Flat, Layout::Subagent { parent: "p" }].into_iter().enumerate()
    {
        home.write(layout, &format!("id{number}"), &lines);
    }
    let conversation = serde_json::to_string(&home.read("id0")).unwrap();
    for (number, field) in fields.iter().enumerate() {
        let word = format!("planted{:02}", number + 1);
        let hits = home.search(&word);
        let keys: BTreeSet<&str> = hits.iter().map(|hit| hit.key.as_str()).collect();
        assert_eq!(keys, BTreeSet::from(["id0", "id1", "id2"]), "{field}");
        assert!(conversation.contains(&word), "{field}");
        for hit in hits {
            let Some(position) = hit.position else {
                assert_eq!(field, "turn error", "only the end of a turn is not a message");
                continue;
            };
            let message = serde_json::to_string(&home.read(&hit.key).messages[position]).unwrap();
            assert!(message.contains(&word), "{field} is not in message {position}");
        }
    }
}

#[test]
fn words_in_broken_lines_and_text_transcripts_are_found_too() {
    let home = Home::new();
    let lines = [
        Line::Raw(
            "{\"role\":\"user\",\"message\":{\"content\":\"caf\\u00e9 \\u006fpen \\ud83d\"}}"
                .to_owned(),
        ),
        Line::Raw("broken needle".to_owned()),
    ];
    home.write(Layout::Nested, "a", &lines);
    home.write(
        Layout::Text,
        "b",
        &[
            prompt(WRITTEN, "one"),
            Line::Assistant(vec![
                Block::Thinking("two".to_owned()),
                Block::ToolUse { name: "Shell".to_owned(), input: json!({"command": "three"}) },
                Block::ToolResult { name: "Shell".to_owned(), output: "four".to_owned() },
            ]),
        ],
    );
    for (word, key, position) in
        [("one", "b", Some(0)), ("two four three", "b", Some(1)), ("needle", "a", Some(1))]
    {
        let (hits, damage) = search(&home.store(), word);
        let lost: Vec<&str> = damage.iter().map(|damage| damage.what.as_str()).collect();
        assert_eq!(lost, ["line 2 is damaged"], "with or without a match there");
        let found: Vec<_> = hits.iter().map(|hit| (hit.key.as_str(), hit.position)).collect();
        assert_eq!(found, [(key, position)], "{word}");
    }
}

#[test]
fn output_that_overflowed_belongs_to_the_conversation_that_names_it() {
    let home = Home::new();
    let output = home.project.tool_output("out-1", "a long needle");
    home.project.tool_output("out-2", "another needle");
    let input = json!({"path": output.to_str().unwrap()});
    home.write(
        Layout::Nested,
        ID,
        &[Line::Assistant(vec![Block::ToolUse { name: "Read".to_owned(), input }])],
    );
    let mut hits: Vec<_> = home
        .search("needle")
        .into_iter()
        .map(|hit| (hit.key, hit.message_id.unwrap(), hit.field))
        .collect();
    hits.sort();
    let owned = |key: &str, name: &str| {
        (key.to_owned(), format!("agent-tools/{name}.txt"), "agent-tools".to_owned())
    };
    assert_eq!(hits, [owned("", "out-2"), owned(ID, "out-1")]);
}

#[test]
fn a_search_ends_when_the_caller_breaks() {
    let home = Home::new();
    for number in 0..20 {
        home.write(Layout::Flat, &format!("id{number}"), &small());
    }
    let matcher = Matcher::new(Pattern::Words("done"), Case::Smart).unwrap();
    let n_hits = Mutex::new(0);
    home.store().search(&matcher, &|_| {
        *n_hits.lock().unwrap() += 1;
        ControlFlow::Break(())
    });
    assert!(*n_hits.lock().unwrap() < 20);
}
