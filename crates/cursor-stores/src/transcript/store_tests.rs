use std::fs::{self, File};
use std::path::Path;
use std::time::SystemTime;

use pretty_assertions::assert_eq;
use serde_json::json;
use store_fixtures::transcript::{Block, Layout, Line, TranscriptProject, prompt, turn_succeeded};

use super::test_home::{AT, Home, ID, MODIFIED, WRITTEN, head_of, make_old, small, text};
use crate::model::{
    Activity, Conversation, Head, Message, MessageKind, Moment, Parent, Part, Role, Shelf,
    ToolCall, ToolResult, Turn, TurnState,
};
use crate::store::{ConversationStore, Extent, Family, ReadConversationError, Treatment};

#[test]
fn a_current_transcript_is_read_completely() {
    let home = Home::new();
    let lines = [
        Line::User(vec![text("<user_info>\nOS: linux\n</user_info>")]),
        prompt(WRITTEN, "fix it"),
        Line::Assistant(vec![
            Block::Thinking("hm".to_owned()),
            text("I look. [REDACTED]"),
            Block::ToolUse { name: "Shell".to_owned(), input: json!({"command": "ls"}) },
        ]),
        Line::AssistantString("done".to_owned()),
        turn_succeeded(),
        prompt("Tuesday, Jul 21, 2026, 1:10 PM (UTC)", "again"),
        Line::Error("Provider Error".to_owned()),
        Line::TurnEnded { status: "error".to_owned(), error: Some("later".to_owned()) },
    ];
    let path = home.write(Layout::Nested, ID, &lines);
    let message = |role, turn, at, parts| Message { turn, at, ..Message::new(role, parts) };
    let mut expected = Conversation::new(Head {
        activity: Activity::Failed,
        n_messages: Some(5),
        ..head_of(&path, ID)
    });
    expected.messages = vec![
        Message {
            kind: MessageKind::Context,
            ..message(
                Role::User,
                None,
                None,
                vec![Part::Attachment {
                    kind: "context".to_owned(),
                    name: Some("user_info".to_owned()),
                    text: Some("OS: linux".to_owned()),
                }],
            )
        },
        message(Role::User, Some(0), Some(Moment::recorded(AT)), vec![Part::text("fix it")]),
        message(
            Role::Assistant,
            Some(0),
            Some(Moment::interpolated(AT + 120_000)),
            vec![
                Part::reasoning("hm"),
                Part::text("I look. [REDACTED]"),
                Part::ToolCall(ToolCall::new("Shell", json!({"command": "ls"}))),
            ],
        ),
        message(
            Role::Assistant,
            Some(0),
            Some(Moment::interpolated(AT + 240_000)),
            vec![Part::text("done")],
        ),
        message(
            Role::User,
            Some(1),
            Some(Moment::recorded(AT + 360_000)),
            vec![Part::text("again")],
        ),
        message(
            Role::Assistant,
            Some(1),
            Some(Moment::interpolated(AT + 480_000)),
            vec![Part::Error { text: "Provider Error".to_owned() }],
        ),
    ];
    expected.turns = vec![
        Turn { started: Some(Moment::recorded(AT)), state: TurnState::Finished, ..Turn::default() },
        Turn {
            started: Some(Moment::recorded(AT + 360_000)),
            ended: Some(Moment::of_file(MODIFIED)),
            state: TurnState::Failed,
            error: Some("later".to_owned()),
            ..Turn::default()
        },
    ];
    assert_eq!(home.read(ID), expected);

    let mut listed = home.store().list();
    assert_eq!(listed.damage, []);
    let head = &mut listed.heads[0];
    home.store().complete(head);
    assert_eq!(*head, expected.head);
}

#[test]
fn every_layout_is_listed() {
    let home = Home::new();
    let nested = home.write(Layout::Nested, "a", &small());
    let child = home.write(Layout::Subagent { parent: "a" }, "b", &small());
    let flat = home.write(Layout::Flat, "c", &small());
    let oldest = home.write(Layout::Text, "d", &small());
    let empty = home.write(Layout::Flat, "e", &[]);
    let listing = home.store().list();
    let parent = Parent { id: "a".to_owned(), ..Parent::default() };
    let unrecorded = |path: &Path| Some(Moment::of_file(born(path).min(MODIFIED)));
    let expected = vec![
        Head { subagents: vec!["b".to_owned()], ..head_of(&nested, "a") },
        Head { parent: Some(parent), ..head_of(&child, "b") },
        head_of(&flat, "c"),
        head_of(&oldest, "d"),
        Head {
            title: None,
            created: unrecorded(&empty),
            shelf: Shelf::Empty,
            ..head_of(&empty, "e")
        },
    ];
    assert_eq!((listing.heads, listing.damage), (expected, vec![]));
    let subagent = home.read("b");
    assert_eq!(subagent.head.parent.unwrap().id, "a");
    assert_eq!(home.read("a").head.subagents, ["b"]);
}

#[test]
fn an_incomplete_last_line_means_interrupted_but_one_too_long_to_read_does_not() {
    let home = Home::new();
    let path = home.write(Layout::Nested, ID, &small());
    for (line, expected) in [
        ("{\"type\":\"turn_ended\",\"status\":\"error\"}".to_owned(), Activity::Failed),
        ("{\"type\":\"turn_en".to_owned(), Activity::Interrupted),
        (
            format!("{{\"role\":\"assistant\",\"message\":\"{}\"}}", "x".repeat(9000)),
            Activity::Idle,
        ),
    ] {
        let mut content = fs::read_to_string(&path).unwrap();
        content.push_str(&line);
        fs::write(&path, content).unwrap();
        make_old(&path);
        assert_eq!(home.store().list().heads[0].activity, expected, "{line}");
        home.write(Layout::Nested, ID, &small());
    }
}

fn born(path: &Path) -> i64 {
    Moment::of_file_time(fs::metadata(path).unwrap().created().unwrap()).at_ms
}

#[test]
fn a_text_transcript_is_read_completely() {
    let home = Home::new();
    let lines = [
        prompt(WRITTEN, "fix it"),
        Line::Assistant(vec![
            Block::Thinking("hm".to_owned()),
            text("I look."),
            Block::ToolUse {
                name: "Read".to_owned(),
                input: json!({"path": "a.rs", "range": [1, 2]}),
            },
            Block::ToolResult { name: "Read".to_owned(), output: "fn main() {}".to_owned() },
        ]),
        Line::AssistantString("done".to_owned()),
    ];
    home.write(Layout::Text, ID, &lines);
    let conversation = home.read(ID);
    let mut call = ToolCall::new("Read", json!({"path": "a.rs", "range": [1, 2]}));
    call.result =
        Some(ToolResult { output: json!("fn main() {}"), error: None, is_truncated: false });
    let said: Vec<(Role, Vec<Part>)> =
        conversation.messages.iter().map(|message| (message.role, message.parts.clone())).collect();
    assert_eq!(
        said,
        [
            (Role::User, vec![Part::text("fix it")]),
            (
                Role::Assistant,
                vec![Part::reasoning("hm"), Part::text("I look."), Part::ToolCall(call)]
            ),
            (Role::Assistant, vec![Part::text("done")]),
        ]
    );
    assert_eq!(conversation.messages[0].at, Some(Moment::recorded(AT)));
    assert_eq!((conversation.head.n_messages, conversation.turns.len()), (Some(3), 1));
    let last = home.store().read(ID, Extent { last: Some(1), ..Extent::default() }).unwrap();
    assert_eq!(last.messages[0].parts, [Part::text("done")]);
}

#[test]
fn a_copy_without_a_workspace_yields_to_the_project() {
    let home = Home::new();
    let real = home.write(Layout::Nested, ID, &small());
    for slug in ["empty-window", "1790000000000"] {
        let ghost = TranscriptProject::new(home.directory.path(), slug);
        ghost.transcript(Layout::Nested, ID, &small());
    }
    let listing = home.store().list();
    assert_eq!(listing.heads, [head_of(&real, ID)]);
    assert_eq!(home.search("done").len(), 1, "duplicates are found once");

    // Messages that only the copy has are not lost.
    let ghost = TranscriptProject::new(home.directory.path(), "empty-window");
    let path = ghost.transcript(Layout::Nested, ID, &[prompt(WRITTEN, "ghostly")]);
    let key = format!("empty-window/agent-transcripts/{ID}/{ID}.jsonl");
    let keys: Vec<_> =
        home.store().list().heads.iter().map(|head| head.origins[0].key.clone()).collect();
    assert_eq!(keys, [None, Some(key.clone())]);
    assert_eq!(home.search("ghostly")[0].key, key);
    let ghostly = home.read(&key);
    assert_eq!(ghostly.head.origins[0].path.as_ref(), path);
    assert_eq!((ghostly.head.id.as_str(), ghostly.messages.len()), (ID, 1));
}

#[test]
fn the_last_line_shows_the_activity() {
    let home = Home::new();
    let ended = |status: &str| Line::TurnEnded { status: status.to_owned(), error: None };
    let call = Block::ToolUse { name: "Shell".to_owned(), input: json!({}) };
    let cases = [
        (vec![ended("success")], Activity::Idle),
        (vec![ended("aborted")], Activity::Interrupted),
        (vec![ended("error")], Activity::Failed),
        (vec![Line::Error("no".to_owned())], Activity::Failed),
        (vec![prompt(WRITTEN, "x")], Activity::Interrupted),
        (vec![Line::Assistant(vec![text("I look."), call])], Activity::Interrupted),
        (vec![Line::Assistant(vec![text("done")])], Activity::Idle),
        (vec![Line::Assistant(vec![text(&"long".repeat(9000))])], Activity::Idle),
    ];
    for (lines, expected) in cases {
        let path = home.write(Layout::Nested, ID, &lines);
        assert_eq!(home.store().list().heads[0].activity, expected, "{lines:?}");
        let is_over = matches!(lines[0], Line::TurnEnded { .. } | Line::Error(_));
        File::options().append(true).open(&path).unwrap().set_modified(SystemTime::now()).unwrap();
        let now = home.store().list().heads[0].activity;
        assert_eq!(now, if is_over { expected } else { Activity::Live }, "{lines:?}");
    }
}

#[test]
fn a_first_prompt_that_is_too_long_for_a_list_still_gives_a_title() {
    let home = Home::new();
    let long = format!("the \"title\" ünd\n{}", "x é 😀 \\ ".repeat(20_000));
    home.write(Layout::Nested, ID, &[prompt(WRITTEN, &long)]);
    assert_eq!(home.store().list().heads[0].title.as_deref(), Some("the \"title\" ünd"));
    home.write(Layout::Nested, ID, &[prompt(WRITTEN, "wörd ".repeat(100))]);
    let title = home.store().list().heads[0].title.clone().unwrap();
    assert_eq!((title.chars().count(), title.ends_with('…')), (121, true));
}

#[test]
fn a_stamp_changes_with_appends_and_rewrites_only() {
    let home = Home::new();
    let path = home.write(Layout::Nested, ID, &small());
    let store = home.store();
    let first = store.stamp(ID).unwrap();
    home.read(ID);
    assert_eq!(store.stamp(ID), Some(first));
    let mut rewritten = small();
    rewritten.splice(0..1, [prompt(WRITTEN, "rewritten"), Line::AssistantString("ok".to_owned())]);
    home.project.transcript(Layout::Nested, ID, &rewritten);
    assert_ne!(store.stamp(ID), Some(first));
    assert_eq!(home.read(ID).messages[0].parts, [Part::text("rewritten")]);
    assert_eq!(store.watched(Some(ID)), [path.parent().unwrap()]);
    // A new conversation begins as an empty directory.
    let transcripts = path.parent().unwrap().parent().unwrap();
    let begun = transcripts.join("begun");
    fs::create_dir(&begun).unwrap();
    let expected = [home.directory.path(), transcripts.parent().unwrap(), transcripts, &begun];
    assert_eq!(store.watched(None), expected);
    fs::remove_file(path).unwrap();
    assert_eq!(store.stamp(ID), None);
    assert!(matches!(store.read(ID, Extent::default()), Err(ReadConversationError::Missing(_))));
}

#[test]
fn everything_is_accounted_for() {
    let home = Home::new();
    home.write(Layout::Nested, "a", &small());
    home.write(Layout::Subagent { parent: "a" }, "b", &small());
    home.write(Layout::Flat, "c", &small());
    home.write(Layout::Text, "c", &small());
    home.write(Layout::Flat, "e", &[]);
    TranscriptProject::new(home.directory.path(), "empty-window").transcript(
        Layout::Flat,
        "c",
        &small(),
    );
    home.project.tool_output("out", "x");
    fs::write(home.project.path().join("agent-transcripts/index.json"), "{}").unwrap();
    fs::write(home.project.path().join("mcp-auth.json"), "{}").unwrap();
    fs::create_dir(home.project.path().join("terminals")).unwrap();
    fs::write(home.project.path().join("terminals/1.txt"), "x").unwrap();
    let account = home.store().account();
    let family =
        |name: &str, n_rows, treatment| Family { name: name.to_owned(), n_rows, treatment };
    assert_eq!(account.n_conversations, 2);
    assert_eq!(
        account.n_hidden.into_iter().collect::<Vec<_>>(),
        [("empty".to_owned(), 1), ("sub-agents".to_owned(), 1)]
    );
    assert_eq!(
        account.families,
        [
            family("<id>.jsonl", 3, Treatment::Read),
            family("<id>.txt", 1, Treatment::Read),
            family("<id>/<id>.jsonl", 1, Treatment::Read),
            family("<id>/subagents/<id>.jsonl", 1, Treatment::Read),
            family("copies of the same transcript", 1, Treatment::Counted),
            family("other files in agent-transcripts", 1, Treatment::Counted),
            family("agent-tools/*.txt", 1, Treatment::Read),
            family("terminals", 1, Treatment::Counted),
            family("mcp-auth.json", 1, Treatment::NeverRead),
        ]
    );
}
