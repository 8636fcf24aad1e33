use std::borrow::Cow;

use super::*;

fn call<'a>(id: &'a str, args: &'a RawValue) -> ToolCall<'a> {
    ToolCall {
        call_id: Some(Cow::Borrowed(id)),
        name: Some(Cow::Borrowed("shell")),
        args: Some(args),
        ..ToolCall::default()
    }
}

fn raw(json: &str) -> Box<RawValue> {
    serde_json::from_str(json).unwrap()
}

#[test]
fn parallel_calls_finish_in_any_order_and_keep_their_arguments() {
    let (first, second) = (raw(r#"{"command":"sleep 6"}"#), raw(r#"{"command":"sleep 4"}"#));
    let mut calls = OpenCalls::default();
    calls.started(&call("a\nfc", &first), Some(1));
    calls.started(&call("b\nfc", &second), Some(2));
    let done = calls.completed(Some("b\nfc")).unwrap();
    assert_eq!((done.args.unwrap().get(), done.started_ms), (second.get(), Some(2)));
    assert_eq!(calls.iter().map(|call| call.call_id.as_str()).collect::<Vec<_>>(), ["a\nfc"]);
    assert!(calls.completed(Some("a\nfc")).is_some());
    assert!(calls.is_empty());
}

#[test]
fn an_end_without_a_start_is_accepted() {
    assert!(OpenCalls::default().completed(Some("never")).is_none());
    assert!(OpenCalls::default().completed(None).is_none());
}

#[test]
fn calls_that_never_end_do_not_fill_the_memory() {
    let args = raw(&format!("\"{}\"", "x".repeat(1 << 20)));
    let mut calls = OpenCalls::default();
    for number in 0..3000 {
        calls.started(&call(&format!("call {number}"), &args), None);
        assert!(calls.bytes <= MOST_BYTES + MOST_OPEN * LONGEST_LABELS);
        assert!(calls.calls.len() <= MOST_OPEN);
    }
    assert_eq!(calls.iter().last().unwrap().call_id, "call 2999");
    for number in 0..3000 {
        calls.completed(Some(&format!("call {number}")));
    }
    assert!(calls.is_empty() && calls.bytes == 0);
}

#[test]
fn a_call_with_a_monstrous_id_is_not_kept() {
    let args = raw("{}");
    let id = "x".repeat(LONGEST_LABELS + 1);
    let mut calls = OpenCalls::default();
    calls.started(&call(&id, &args), None);
    assert!(calls.is_empty() && calls.bytes == 0);
}
