use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::{ToolCall, ToolResult, ToolState};

fn texts(bubble: Json) -> Vec<Part> {
    decode_bubble(&bubble, None).parts
}

#[test]
fn the_users_text_comes_from_the_first_field_that_has_it() {
    let state =
        json!({"root": {"children": [{"type": "paragraph", "children": [{"text": "edited"}]}]}});
    let mut bubble = json!({
        "type": "user", "delegate": {"a": "typed"}, "text": "text",
        "initText": state.to_string(), "rawText": "raw",
    });
    for (name, expected) in
        [("delegate", "typed"), ("text", "text"), ("initText", "edited"), ("rawText", "raw")]
    {
        assert_eq!(texts(bubble.clone()), [Part::text(expected)], "{name}");
        bubble[name] = Json::Null;
    }
    assert_eq!(texts(bubble), []);
    assert_eq!(texts(json!({"type": "ai", "rawText": "raw", "text": "text"})), [Part::text("raw")]);
}

#[test]
fn a_tool_keeps_its_input_and_its_result() {
    let data = json!({
        "name": "read_file_v2", "params": "{\"path\":\"a\"}", "rawArgs": "", "result": "{\"contents\":\"x\"}",
        "status": "completed", "toolCallId": "call_1",
    });
    let mut call = ToolCall::new("read_file_v2", json!({"path": "a"}));
    call.id = Some("call_1".to_owned());
    call.state = ToolState::Succeeded;
    call.result =
        Some(ToolResult { output: json!({"contents": "x"}), error: None, is_truncated: false });
    let expected = vec![Part::ToolCall(call)];
    assert_eq!(texts(json!({"type": 2, "toolFormerData": data})), expected);
    let elsewhere = decode_bubble(&json!({"type": 2, "bubbleId": "b"}), Some(&data));
    assert_eq!(elsewhere.parts, expected);
}

#[test]
fn a_tool_without_a_name_still_tells_that_it_failed() {
    let data = json!({"additionalData": {"status": "error"}});
    let mut call = ToolCall::new("", Json::Null);
    call.state = ToolState::Failed;
    assert_eq!(texts(json!({"type": 2, "toolFormerData": data})), [Part::ToolCall(call)]);
    assert_eq!(texts(json!({"type": 2, "toolFormerData": {}})), []);
}

#[test]
fn thinking_text_code_and_attachments_keep_their_order() {
    let bubble = json!({
        "type": 2, "bubbleId": "b", "modelType": "gpt-4", "createdAt": 1_700_000_000_000_i64,
        "thinking": {"text": "hm"}, "text": "see `x`",
        "codeBlocks": [{"content": "x"}, {"content": "fn y() {}", "languageId": "rust", "uri": {"path": "/y.rs"}}],
        "selections": [{"text": "z", "uri": {"fsPath": "/z.rs"}}, {"lines": ["1", "2"]}],
        "images": [{"path": "/i.png"}],
    });
    let message = decode_bubble(&bubble, None);
    let attachment = |name: Option<&str>, text: &str| Part::Attachment {
        kind: "selection".to_owned(),
        name: name.map(str::to_owned),
        text: Some(text.to_owned()),
    };
    let expected = Message {
        id: Some("b".to_owned()),
        model: Some("gpt-4".to_owned()),
        at: Some(Moment::recorded(1_700_000_000_000)),
        ..Message::new(
            Role::Assistant,
            vec![
                Part::reasoning("hm"),
                Part::text("see `x`"),
                Part::Code {
                    language: Some("rust".to_owned()),
                    path: Some("/y.rs".to_owned()),
                    text: "fn y() {}".to_owned(),
                },
                attachment(Some("/z.rs"), "z"),
                attachment(None, "1\n2"),
                Part::Image { media_type: None, path: Some("/i.png".to_owned()), n_bytes: None },
            ],
        )
    };
    assert_eq!(message, expected);
}

#[test]
fn counters_that_start_at_zero_are_not_times() {
    for value in [json!(4_745_281.3), json!(-1), json!("x"), json!(1e300), json!(null), json!([])] {
        assert_eq!(moment(&value), None, "{value}");
    }
    assert_eq!(moment(&json!("1700000000000")), Some(Moment::recorded(1_700_000_000_000)));
}

proptest! {
    #[test]
    fn no_json_makes_it_fail(
        name in "type|text|delegate|initText|rawText|thinking|codeBlocks|toolFormerData|selections|image|images|context|timingInfo",
        value in prop_oneof![
            Just(json!(null)), Just(json!(7)), Just(json!(1e308)), Just(json!("{\"a\":[]}")), Just(json!([{}, 1, "x"])),
            Just(json!({"a": {}, "text": [], "params": "[", "result": [[]], "uri": 1, "clientStartTime": -1e300})),
        ],
    ) {
        let bubble = json!({name: value});
        for bubble in [bubble, value.clone()] {
            let _message = decode_bubble(&bubble, Some(&value));
        }
    }
}
