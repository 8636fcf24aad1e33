use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::Moment;

fn message(value: Json) -> Message {
    match decode_line(value.to_string().as_bytes()).unwrap() {
        TranscriptLine::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

fn said(role: &str, content: Json) -> Message {
    message(json!({"role": role, "message": {"content": content}}))
}

fn context(name: &str, text: &str) -> Part {
    Part::Attachment {
        kind: "context".to_owned(),
        name: Some(name.to_owned()),
        text: Some(text.to_owned()),
    }
}

#[test]
fn a_prompt_has_what_the_user_typed_and_when() {
    let text = "<timestamp>Tuesday, Jul 21, 2026, 3:04 PM (UTC+2)</timestamp>\n<user_query>\nfix it\n</user_query>";
    let expected = Message {
        at: Some(Moment::recorded(1_784_639_040_000)),
        ..Message::new(Role::User, vec![Part::text("fix it")])
    };
    assert_eq!(said("user", json!([{"type": "text", "text": text}])), expected);
    assert_eq!(said("user", json!(text)), expected);
}

#[test]
fn a_time_that_cannot_be_read_is_kept_as_it_is() {
    let text = "<timestamp>some day</timestamp>\n<user_query>\nfix it\n</user_query>";
    let expected = vec![context("timestamp", "some day"), Part::text("fix it")];
    assert_eq!(said("user", json!(text)).parts, expected);
}

#[test]
fn context_alone_is_context() {
    let message = said("user", json!([{"type": "text", "text": "<user_info>\nOS\n</user_info>"}]));
    assert_eq!(
        (message.kind, message.parts),
        (MessageKind::Context, vec![context("user_info", "OS")])
    );
}

#[test]
fn blocks_of_every_kind_keep_their_order() {
    let content = json!([
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "so [REDACTED]"},
        {"type": "tool_use", "name": "Shell", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "call_1", "name": "Read", "input": {"path": "/a"}},
        {"type": "tool_result", "tool_use_id": "call_1", "content": "no", "is_error": true},
        {"type": "image", "source": {"media_type": "image/png", "data": "AAAAAA=="}},
        {"type": "of_tomorrow", "x": 1},
        "bare",
        7,
    ]);
    let mut read = ToolCall::new("Read", json!({"path": "/a"}));
    read.id = Some("call_1".to_owned());
    assert_eq!(
        said("assistant", content).parts,
        vec![
            Part::reasoning("hm"),
            Part::Reasoning { text: String::new(), duration_ms: None, is_redacted: true },
            Part::text("so [REDACTED]"),
            Part::ToolCall(ToolCall::new("Shell", json!({"command": "ls"}))),
            Part::ToolCall(read),
            Part::ToolResult {
                call_id: Some("call_1".to_owned()),
                tool_name: None,
                result: ToolResult {
                    output: json!("no"),
                    error: Some("no".to_owned()),
                    is_truncated: false
                },
            },
            Part::Image { media_type: Some("image/png".to_owned()), path: None, n_bytes: Some(4) },
            Part::Unknown {
                kind: "of_tomorrow".to_owned(),
                value: json!({"type": "of_tomorrow", "x": 1})
            },
            Part::text("bare"),
            Part::Unknown { kind: "block".to_owned(), value: json!(7) },
        ]
    );
}

#[test]
fn the_end_of_a_turn_says_how_it_ended() {
    let end = |value: Json| decode_line(value.to_string().as_bytes()).unwrap();
    let ended = |state, error: Option<&str>| TranscriptLine::TurnEnded {
        state,
        error: error.map(str::to_owned),
    };
    assert_eq!(
        end(json!({"type": "turn_ended", "status": "success"})),
        ended(TurnState::Finished, None)
    );
    assert_eq!(
        end(json!({"type": "turn_ended", "status": "aborted", "error": "by user"})),
        ended(TurnState::Cancelled, Some("by user"))
    );
    assert_eq!(
        end(json!({"type": "turn_ended", "status": "error", "error": {"message": "no"}})),
        ended(TurnState::Failed, Some("no"))
    );
    assert_eq!(end(json!({"type": "turn_ended"})), ended(TurnState::Unknown, None));
}

#[test]
fn unknown_content_is_kept() {
    let error = message(json!({"type": "error", "error": "Provider Error"}));
    assert_eq!(
        error,
        Message::new(Role::Assistant, vec![Part::Error { text: "Provider Error".to_owned() }])
    );
    let unknown = |kind: &str, value: Json| {
        Message::new(Role::Unknown, vec![Part::Unknown { kind: kind.to_owned(), value }])
    };
    let line = json!({"type": "of_tomorrow", "x": [1]});
    assert_eq!(message(line.clone()), unknown("of_tomorrow", line));
    assert_eq!(message(json!([1, 2])), unknown("line", json!([1, 2])));
    let odd = message(json!({"role": "oracle", "message": {"content": "42"}}));
    assert_eq!((odd.role, odd.parts.len()), (Role::Unknown, 2));
}

#[test]
fn wrong_types_lose_nothing() {
    assert_eq!(
        said("assistant", json!(7)).parts,
        [Part::Unknown { kind: "block".to_owned(), value: json!(7) }]
    );
    assert_eq!(
        message(json!({"role": "assistant", "content": "flat"})).parts,
        [Part::text("flat")]
    );
    assert_eq!(
        message(json!({"role": "assistant", "message": "bare"})).parts,
        [Part::text("bare")]
    );
    assert_eq!(message(json!({"role": "user"})).parts, []);
}

proptest! {
    #[test]
    fn no_bytes_make_it_fail(bytes: Vec<u8>) {
        let _decoded = decode_line(&bytes);
    }

    #[test]
    fn no_json_makes_it_fail(
        role in "user|assistant|tool|x",
        kind in "text|thinking|tool_use|tool_result|image|x",
        name in "text|thinking|name|input|content|source|data",
        value in prop_oneof![Just(json!(null)), Just(json!(7)), Just(json!("x")), Just(json!([{}])), Just(json!({"data": "="}))],
    ) {
        let block = json!({"type": kind, name: value});
        for content in [json!([block.clone()]), block, value] {
            let line = json!({"role": role, "message": {"content": content}});
            prop_assert!(decode_line(line.to_string().as_bytes()).is_ok());
        }
    }
}
