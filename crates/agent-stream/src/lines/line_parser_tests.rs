use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{AgentStream, EventName};

/// The event of a line in the form that `--json` prints. The tests compare its fields.
fn parsed(line: impl AsRef<[u8]>) -> Value {
    let mut parser = LineParser::default();
    serde_json::to_value(parser.parse(RawLine::Whole(line.as_ref()))).unwrap()
}

#[test]
fn init_is_typed_and_may_lack_fields() {
    assert_eq!(
        parsed(
            r#"{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/w","session_id":"s","model":"Auto","permissionMode":"default"}"#
        ),
        json!({"kind":"init","api_key_source":"login","cwd":"/w","session_id":"s","model":"Auto","permission_mode":"default"})
    );
    assert_eq!(
        parsed(r#"{"type":"system","subtype":"init","session_id":"s","timestamp_ms":5}"#),
        json!({"kind":"init","api_key_source":null,"cwd":null,"session_id":"s","model":null,"permission_mode":null,"timestamp_ms":5})
    );
}

#[test]
fn the_envelope_shows_the_form_of_an_assistant_event() {
    let message = r#""message":{"role":"assistant","content":[{"type":"text","text":"a\n"},{"type":"image"},{"type":"text","text":"b"}]}"#;
    for (fields, form) in [
        (r#","timestamp_ms":1"#, "delta_or_before_query"),
        (r#","timestamp_ms":1,"model_call_id":"m""#, "before_tool"),
        ("", "last"),
    ] {
        let event = parsed(format!(r#"{{"type":"assistant",{message}{fields}}}"#));
        assert_eq!((&event["form"], &event["text"]), (&form.into(), &"a\nb".into()));
    }
}

#[test]
fn every_other_kind_of_the_catalogue_is_typed() {
    let cases = [
        (
            json!({"type":"user","message":{"role":"user","content":[{"type":"text","text":"hi"}]}}),
            json!({"kind":"user","text":"hi"}),
        ),
        (
            json!({"type":"thinking","subtype":"delta","text":"hm"}),
            json!({"kind":"thinking_delta","text":"hm"}),
        ),
        (json!({"type":"thinking","subtype":"completed"}), json!({"kind":"thinking_completed"})),
        (
            json!({"type":"connection","subtype":"reconnecting","attempt":2,"endpoint_url":"u"}),
            json!({"kind":"reconnecting","attempt":2,"endpoint_url":"u"}),
        ),
        (json!({"type":"connection","subtype":"reconnected"}), json!({"kind":"reconnected"})),
        (
            json!({"type":"retry","subtype":"starting","attempt":1,"is_resume":true}),
            json!({"kind":"retry","phase":"starting","attempt":1,"is_resume":true}),
        ),
        (
            json!({"type":"retry","subtype":"resuming"}),
            json!({"kind":"retry","phase":"resuming","attempt":null,"is_resume":null}),
        ),
        (
            json!({"type":"retry","subtype":"resuming","checkpoint_turn_count":1,"attempt":2}),
            json!({"kind":"retry","phase":"resuming","attempt":2,"is_resume":null,"checkpoint_turn_count":1}),
        ),
        (json!({"type":"thinking","text":"hm"}), json!({"kind":"thinking_delta","text":"hm"})),
        (json!({"type":"thinking"}), json!({"kind":"thinking_completed"})),
        (
            json!({"type":"system","subtype":"task_notification","task":1}),
            json!({"kind":"task_notification","raw":{"type":"system","subtype":"task_notification","task":1}}),
        ),
        (
            json!({"type":"system","subtype":"background_shell_timeout","aborted_count":2,"timeout_ms":"500"}),
            json!({"kind":"background_shell_timeout","aborted_count":2,"timeout_ms":500}),
        ),
        (
            json!({"type":"error","message":"boom"}),
            json!({"kind":"error","message":"boom","raw":{"type":"error","message":"boom"}}),
        ),
        (
            json!({"type":"result","subtype":"success","is_error":false,"result":"r","duration_ms":1,"duration_api_ms":1,"request_id":"q","usage":{"inputTokens":1,"outputTokens":2,"cacheReadTokens":3,"cacheWriteTokens":4}}),
            json!({"kind":"result","subtype":"success","is_error":false,"text":"r","duration_ms":1,"duration_api_ms":1,"request_id":"q","usage":{"input_tokens":1,"output_tokens":2,"cache_read_tokens":3,"cache_write_tokens":4}}),
        ),
    ];
    for (line, event) in cases {
        assert_eq!(parsed(line.to_string()), event);
    }
}

#[test]
fn a_query_and_its_answer_are_typed() {
    let request = parsed(
        r#"{"type":"interaction_query","subtype":"request","query_type":"webFetchRequestQuery","query":{"id":3,"webFetchRequestQuery":{"args":{}}}}"#,
    );
    assert_eq!((&request["kind"], &request["id"]), (&"query_request".into(), &3.into()));
    for (body, answer) in [
        (
            r#"{"rejected":{"reason":"User Rejected"}}"#,
            json!({"decision":"rejected","reason":"User Rejected"}),
        ),
        (r#"{"approved":{}}"#, json!({"decision":"approved"})),
        (
            r#"{"result":{"rejected":{"reason":"skipped"}}}"#,
            json!({"decision":"rejected","reason":"skipped"}),
        ),
        (r#"{"result":{"success":{}},"planUri":""}"#, json!({"decision":"approved"})),
        (r#"{"later":1}"#, json!({"decision":"other"})),
    ] {
        let line = format!(
            r#"{{"type":"interaction_query","subtype":"response","query_type":"q","response":{{"id":"3","someResponse":{body}}}}}"#
        );
        let response = parsed(line);
        assert_eq!(
            (&response["kind"], &response["id"], &response["answer"]),
            (&"query_response".into(), &3.into(), &answer)
        );
    }
}

#[test]
fn json_of_an_unknown_kind_keeps_its_content() {
    assert_eq!(
        parsed(r#"{"type":"sparkle","subtype":"x","session_id":"s","more":[1]}"#),
        json!({"kind":"unknown","type":"sparkle","subtype":"x","session_id":"s","raw":{"type":"sparkle","subtype":"x","session_id":"s","more":[1]}})
    );
    for (line, kind) in [
        ("17", Value::Null),
        (r#"["assistant"]"#, Value::Null),
        (r#"{"type":5}"#, Value::Null),
        (r#"{"a":1}"#, Value::Null),
    ] {
        let event = parsed(line);
        assert_eq!((&event["kind"], &event["type"]), (&"unknown".into(), &kind), "{line}");
    }
}

#[test]
fn a_known_kind_with_renamed_or_reshaped_fields_is_still_that_kind() {
    assert_eq!(
        parsed(r#"{"type":"assistant","message":17,"timestamp_ms":"yes"}"#)["kind"],
        "assistant"
    );
    assert_eq!(
        parsed(r#"{"type":"tool_call","subtype":"started","tool_call":[1]}"#)["kind"],
        "tool_started"
    );
    assert_eq!(parsed(r#"{"type":"result","usage":"none","is_error":"no"}"#)["kind"], "result");
}

#[test]
fn the_last_of_two_equal_keys_counts_as_in_node() {
    let event = parsed(r#"{"type":"assistant","message":"a","message":"b"}"#);
    assert_eq!((&event["kind"], &event["text"]), (&"assistant".into(), &"b".into()));
}

#[test]
fn a_line_that_is_not_json_is_noise_with_a_reason() {
    assert_eq!(
        parsed("(node:1) Warning"),
        json!({"kind":"noise","reason":"not_json","text":"(node:1) Warning"})
    );
    assert_eq!(
        parsed(b"caf\xe9"),
        json!({"kind":"noise","reason":"invalid_utf8","text":"caf\u{fffd}","repaired":"invalid_utf8"})
    );
    assert_eq!(parsed("  \r"), json!({"kind":"blank"}));
    let mut parser = LineParser::default();
    let event = parser.parse(RawLine::Unterminated(br#"{"type":"assis"#));
    assert!(matches!(event.kind, EventKind::Noise { reason: NoiseReason::CutOff, .. }));
}

#[test]
fn json_with_invalid_utf8_or_half_an_emoji_is_read_and_marked() {
    let event = parsed(b"{\"type\":\"thinking\",\"subtype\":\"delta\",\"text\":\"a\xffb\"}");
    assert_eq!(
        event,
        json!({"kind":"thinking_delta","text":"a\u{fffd}b","repaired":"invalid_utf8"})
    );
    let event = parsed(r#"{"type":"thinking","subtype":"delta","text":"a\ud83d"}"#);
    assert_eq!(
        event,
        json!({"kind":"thinking_delta","text":"a\u{fffd}","repaired":"lone_surrogate"})
    );
}

#[test]
fn a_value_that_no_type_can_hold_does_not_lose_the_line() {
    let event = parsed(
        r#"{"type":"result","subtype":"success","is_error":false,"duration_ms":1e999,"result":"ok","usage":{"inputTokens":1,"inputTokens":2}}"#,
    );
    assert_eq!(
        (&event["kind"], &event["text"], &event["duration_ms"]),
        (&"result".into(), &"ok".into(), &Value::Null)
    );
    let event = parsed(b"{\"type\":\"thinking\",\"subtype\":\"delta\",\"text\":\"\xff\\ud83d\"}");
    assert_eq!(
        (&event["kind"], &event["text"]),
        (&"thinking_delta".into(), &"\u{fffd}\u{fffd}".into())
    );
}

#[test]
fn a_byte_order_mark_and_a_carriage_return_do_no_harm() {
    assert_eq!(
        parsed(b"\xef\xbb\xbf{\"type\":\"thinking\",\"subtype\":\"completed\"}\r"),
        json!({"kind":"thinking_completed"})
    );
}

#[test]
fn plain_strings_are_borrowed_from_the_line() {
    let line = br#"{"type":"thinking","subtype":"delta","text":"plain","session_id":"s"}"#;
    let mut parser = LineParser::default();
    let event = parser.parse(RawLine::Whole(line));
    assert!(matches!(event.session_id, Some(Cow::Borrowed("s"))));
    assert!(matches!(event.kind, EventKind::ThinkingDelta { text: Cow::Borrowed("plain") }));
}

#[test]
fn deep_nesting_is_survived() {
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (line, kind) in [
        (
            format!(
                r#"{{"type":"tool_call","subtype":"started","tool_call":{{"mcpToolCall":{{"args":{nested}}}}}}}"#
            ),
            EventName::ToolStarted,
        ),
        (format!(r#"{{"type":"assistant","message":{nested}}}"#), EventName::Assistant),
    ] {
        let mut parser = LineParser::default();
        assert_eq!(parser.parse(RawLine::Whole(line.as_bytes())).kind.name(), kind);
    }
}

/// Bytes that resemble a stream often enough to reach every branch.
fn stream_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..30),
        Just(b"\n".to_vec()),
        Just(br#"{"type":"assistant","message":{"content":[{"text":"x"}]}}"#.to_vec()),
        Just(br#"{"type":"tool_call","subtype":"completed","tool_call":{"shellToolCall":{"result":{"success":{}}}}}"#.to_vec()),
        Just(br#"{"type":"result","result":"\ud800"#.to_vec()),
        Just(b"\"}".to_vec()),
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic_and_never_lose_a_line(stream in stream_bytes(), chunk in 1usize..50, ceiling in 1usize..200) {
        let mut reader = AgentStream::with_line_ceiling(ceiling);
        let mut numbers = Vec::new();
        let mut summary = crate::StreamSummary::default();
        for chunk in stream.chunks(chunk) {
            reader.feed(chunk, |line| {
                serde_json::to_string(&line.event).unwrap();
                summary.observe(&line, &mut |_| {});
                numbers.push(line.number);
            });
        }
        reader.finish(|line| numbers.push(line.number));
        let feeds = stream.iter().filter(|byte| **byte == b'\n').count();
        let unterminated = stream.last().is_some_and(|byte| *byte != b'\n');
        prop_assert_eq!(numbers, (1..=(feeds + usize::from(unterminated)) as u64).collect::<Vec<_>>());
    }
}
