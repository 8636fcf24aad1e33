use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn the_calls_of_a_pending_message_are_listed_with_their_start() {
    let message = json!({
        "id": "1", "role": "assistant",
        "content": [
            {"type": "text", "text": "I'll look."},
            {"type": "tool-call", "toolCallId": "toolu_1", "toolName": "Shell", "args": {"command": "ls"}},
            {"type": "tool-call", "toolCallId": "toolu_2", "toolName": "Read", "args": {"path": "a"}},
        ],
        "providerOptions": {"cursor": {"pendingToolCallStartedAtMs": 1_790_000_000_000_i64}},
    });
    let call = |name: &str, id: &str, args: Json| PendingToolCall {
        tool_name: name.to_owned(),
        tool_call_id: id.to_owned(),
        args,
        started_at_ms: Some(1_790_000_000_000),
    };
    assert_eq!(
        parse_pending(&[message.to_string()]),
        PendingMessages {
            n_messages: 1,
            n_unreadable: 0,
            tool_calls: vec![
                call("Shell", "toolu_1", json!({"command": "ls"})),
                call("Read", "toolu_2", json!({"path": "a"})),
            ],
        }
    );
}

#[test]
fn a_pending_final_answer_has_no_calls() {
    let text =
        json!({"role": "assistant", "content": [{"type": "text", "text": "Done."}]}).to_string();
    let plain = json!({"role": "assistant", "content": "Done."}).to_string();
    let expected = PendingMessages { n_messages: 2, ..PendingMessages::default() };
    assert_eq!(parse_pending(&[text, plain]), expected);
}

#[test]
fn messages_that_are_not_objects_are_counted_and_odd_types_are_tolerated() {
    let odd = json!({"content": [{"type": "tool-call", "toolName": 7}, 3, null]}).to_string();
    let pending = parse_pending(&["[]".to_owned(), "{".to_owned(), odd]);
    assert_eq!((pending.n_messages, pending.n_unreadable, pending.tool_calls.len()), (3, 2, 1));
    assert_eq!(pending.tool_calls[0].tool_name, "");
    assert_eq!(pending.tool_calls[0].started_at_ms, None);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(texts in prop::collection::vec(".{0,80}", 0..4)) {
        assert_eq!(parse_pending(&texts).n_messages, texts.len());
    }
}
