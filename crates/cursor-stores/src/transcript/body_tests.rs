use std::io::{Seek, SeekFrom, Write};

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::{ToolCall, ToolResult, ToolState};

fn file(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file
}

fn whole(content: &str) -> Body {
    read_whole(file(content.as_bytes()), &Layout::Nested, u64::MAX).unwrap().finish(None)
}

fn last(content: &str, n_messages: usize) -> Body {
    read_last(file(content.as_bytes()), content.len() as u64, n_messages, None).unwrap()
}

fn line(role: &str, text: &str) -> String {
    json!({"role": role, "message": {"content": [{"type": "text", "text": text}]}}).to_string()
        + "\n"
}

#[test]
fn results_go_to_their_calls_and_leave_no_empty_message() {
    let content = [
        json!({"role": "assistant", "message": {"content": [
            {"type": "tool_use", "id": "a", "name": "Read", "input": 1},
            {"type": "tool_use", "id": "b", "name": "Read", "input": 2},
        ]}}),
        json!({"role": "user", "message": {"content": [
            {"type": "tool_result", "tool_use_id": "b", "content": "two"},
            {"type": "tool_result", "tool_use_id": "a", "content": "one", "is_error": true},
        ]}}),
        json!({"role": "user", "message": {"content": [
            {"type": "tool_result", "tool_use_id": "c", "content": "lost"},
        ]}}),
    ];
    let body = whole(&content.map(|line| line.to_string() + "\n").concat());
    let call = |id: &str, input: i32, state, output: &str, error: Option<&str>| {
        Part::ToolCall(ToolCall {
            id: Some(id.to_owned()),
            state,
            result: Some(ToolResult {
                output: json!(output),
                error: error.map(str::to_owned),
                is_truncated: false,
            }),
            ..ToolCall::new("Read", json!(input))
        })
    };
    assert_eq!(body.messages.len(), 2);
    assert_eq!(
        body.messages[0].parts,
        [
            call("a", 1, ToolState::Failed, "one", Some("one")),
            call("b", 2, ToolState::Succeeded, "two", None)
        ]
    );
    assert_eq!(body.messages[1].kind, MessageKind::Context);
    assert_eq!(body.turns.len(), 1, "results are not prompts");
}

#[test]
fn broken_lines_are_named_and_the_rest_is_read() {
    let content =
        format!("{}{{\"role\":\n{}{{\"role\":\"us", line("user", "a"), line("assistant", "b"));
    let mut body = whole(&content);
    let said = |body: &Body| body.messages.iter().map(|message| message.parts[0].clone()).collect();
    let parts: Vec<Part> = said(&body);
    assert_eq!(parts, [Part::text("a"), Part::damaged(b"{\"role\":"), Part::text("b")]);
    assert_eq!(body.n_said(), 2);
    let places: Vec<&str> = body.damage.iter().map(|damage| damage.place.as_str()).collect();
    assert_eq!(places, ["line 2", "line 4"]);
    assert!(body.damage[1].what.starts_with("is cut off"), "{:?}", body.damage[1]);

    // A line that may still grow is not a message, unless the caller wants orphans.
    body.add_torn();
    let parts: Vec<Part> = said(&body);
    assert_eq!(parts[3], Part::damaged(b"{\"role\":\"us"));

    let tail = last(&content, 1);
    assert_eq!(tail.messages.len(), 1);
    let expected = format!("the line at byte {}", line("user", "a").len());
    assert_eq!(tail.damage[0].place, expected);
}

#[test]
fn a_file_of_garbage_does_not_fill_the_memory_with_complaints() {
    let body = whole(&"garbage\n".repeat(1000));
    assert_eq!(body.damage.len(), MAX_DAMAGE + 1);
    assert_eq!(body.damage[MAX_DAMAGE].place, "900 more lines");
}

#[test]
fn the_last_messages_of_a_long_file_are_read_without_the_rest() {
    let mut content = "garbage that must not be read\n".repeat(10_000);
    let long = "x".repeat(100_000);
    for text in ["one", &long, "three"] {
        content += &line("user", text);
        content += &line("assistant", text);
    }
    let body = last(&content, 4);
    let texts: Vec<String> = body.messages.iter().map(Message::text).collect();
    assert_eq!(texts, [long.clone(), long, "three".to_owned(), "three".to_owned()]);
    assert_eq!(
        body.messages.iter().map(|message| message.turn).collect::<Vec<_>>(),
        [Some(0), Some(0), Some(1), Some(1)]
    );
    assert_eq!(body.turns.len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_last_messages_are_the_end_of_the_whole_transcript(
        sizes in proptest::collection::vec(("user|assistant|x", 0..9000_usize), 0..40),
        n_messages in 0..50_usize,
    ) {
        let content: String =
            sizes.iter().map(|(role, size)| line(role, &format!("{size}").repeat(*size))).collect();
        let all = whole(&content).keep_last(n_messages);
        let some = last(&content, n_messages);
        prop_assert_eq!(all.messages.len(), some.messages.len());
        for (one, other) in all.messages.iter().zip(&some.messages) {
            prop_assert!((one.role, &one.parts) == (other.role, &other.parts));
        }
    }

    #[test]
    fn no_bytes_make_it_fail(bytes: Vec<u8>) {
        for layout in [Layout::Nested, Layout::Text] {
            let _body = read_whole(file(&bytes), &layout, u64::MAX).unwrap().finish(None);
        }
        let _body = read_last(file(&bytes), bytes.len() as u64, 3, None).unwrap();
    }
}
