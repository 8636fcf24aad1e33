use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::{ToolResult, ToolState};

fn parse(json: Json) -> JsonMessage {
    JsonMessage::parse(json.to_string().as_bytes()).unwrap()
}

fn reasoning(text: &str, is_redacted: bool) -> Part {
    Part::Reasoning { text: text.to_owned(), duration_ms: None, is_redacted }
}

fn one_result(json: Json) -> CallResult {
    let [result] = <[CallResult; 1]>::try_from(parse(json).results).unwrap();
    result
}

#[test]
fn an_answer_keeps_the_order_of_thoughts_words_and_calls() {
    let message = parse(json!({
        "role": "assistant",
        "id": "1",
        "content": [
            {"type": "reasoning", "text": "hm", "signature": "s", "providerOptions": {"cursor": {"modelName": "gpt-5.2"}}},
            {"type": "redacted-reasoning", "data": "xxxx"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool-call", "toolCallId": "c\n1", "toolName": "Shell", "args": {"command": "ls"}},
        ],
    }));
    let mut call = ToolCall::new("Shell", json!({"command": "ls"}));
    call.id = Some("c\n1".to_owned());
    assert_eq!(message.model.as_deref(), Some("gpt-5.2"));
    assert_eq!(
        message.parts,
        [
            reasoning("hm", false),
            reasoning("", true),
            Part::text("Let me look."),
            Part::ToolCall(call)
        ]
    );
}

#[test]
fn raw_arguments_replace_missing_ones() {
    let block = |args: Json| {
        json!({"role": "assistant", "content": [{"type": "tool-call", "toolName": "T", "args": args,
        "providerOptions": {"cursor": {"rawToolCallArgs": "{\"a\":1}"}}}]})
    };
    for args in [Json::Null, json!({"a": 1}), json!("{\"a\":1}")] {
        let parts = parse(block(args)).parts;
        let [Part::ToolCall(call)] = parts.as_slice() else { panic!("{parts:?}") };
        assert_eq!(call.input, json!({"a": 1}));
    }
}

#[test]
fn calls_and_results_in_openais_format_are_read() {
    let message = parse(json!({
        "role": "assistant", "content": null, "reasoning_content": "hm",
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{\"path\":\".\"}"}}],
    }));
    let mut call = ToolCall::new("ls", json!({"path": "."}));
    call.id = Some("call_1".to_owned());
    assert_eq!(message.parts, [reasoning("hm", false), Part::ToolCall(call)]);
    let result = one_result(json!({"role": "tool", "tool_call_id": "call_1", "content": "a.rs"}));
    assert_eq!((result.call_id.as_deref(), result.result.output), (Some("call_1"), json!("a.rs")));
}

#[test]
fn thoughts_inside_a_text_are_separated_from_it() {
    let message =
        parse(json!({"role": "assistant", "content": "<think>\nfirst\n</think>\n\nThen this."}));
    assert_eq!(message.parts, [reasoning("first", false), Part::text("Then this.")]);
    let message = parse(json!({"role": "assistant", "content": "<think>cut off"}));
    assert_eq!(message.parts, [reasoning("cut off", false)]);
    let message = parse(json!({"role": "assistant", "content": "Use <think> tags."}));
    assert_eq!(message.parts, [Part::text("Use <think> tags.")]);
}

#[test]
fn a_result_is_a_text_an_array_or_an_object() {
    let result = |result: Json| {
        one_result(json!({"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "result": result}]})).result.output
    };
    assert_eq!(result(json!("text")), json!("text"));
    assert_eq!(
        result(json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])),
        json!("a\nb")
    );
    let picture = json!([{"type": "image", "data": {"__type": "Uint8Array", "hex": "00ff00"}}]);
    assert_eq!(
        result(picture),
        json!([{"type": "image", "data": {"__type": "Uint8Array", "n_bytes": 3}}])
    );
    assert_eq!(result(json!({"success": {"lines": 3}})), json!({"success": {"lines": 3}}));
    assert_eq!(result(Json::Null), Json::Null);
}

#[test]
fn an_empty_result_is_filled_from_the_tools_return_value() {
    let output = |block: Json, options: Json| {
        let mut block = block;
        block["type"] = json!("tool-result");
        block["toolCallId"] = json!("c");
        let options = json!({"cursor": {"highLevelToolCallResult": options}});
        one_result(json!({"role": "tool", "content": [block], "providerOptions": options}))
            .result
            .output
    };
    let content = json!([{"type": "text", "text": "said in the content"}]);
    let success = json!({"output": {"success": {"stdout": "said by the tool", "exitCode": 0}}});
    for (block, options, expected) in [
        (
            json!({"result": "", "experimental_content": content}),
            json!(null),
            json!("said in the content"),
        ),
        (json!({"experimental_content": content}), json!(null), json!("said in the content")),
        (json!({"result": "said"}), success.clone(), json!("said")),
        (json!({"result": "said", "experimental_content": content}), json!(null), json!("said")),
        (json!({}), success.clone(), json!({"stdout": "said by the tool", "exitCode": 0})),
        (
            json!({"result": ""}),
            json!({"output": {"success": {"stdout": "", "exitCode": 0}}}),
            json!(""),
        ),
        (json!({}), json!({"output": {}}), json!(null)),
    ] {
        assert_eq!(output(block.clone(), options), expected, "{block}");
    }
}

#[test]
fn raw_arguments_are_shown_if_none_could_be_parsed() {
    let arguments = |args: Json, raw: Json| {
        let options = json!({"cursor": {"rawToolCallArgs": raw}});
        let block = json!({"type": "tool-call", "toolCallId": "c", "toolName": "Shell", "args": args,
                           "providerOptions": options});
        let message = parse(json!({"role": "assistant", "content": [block]}));
        match &message.parts[..] {
            [Part::ToolCall(call)] => call.input.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(arguments(json!({}), json!("{\"command\": \"ls")), json!("{\"command\": \"ls"));
    assert_eq!(arguments(json!({}), json!(null)), json!({}));
    assert_eq!(arguments(json!({"command": "ls"}), json!("{}")), json!({"command": "ls"}));
}

#[test]
fn flags_and_outcome_say_how_a_call_ended() {
    let state = |block: Json, high_level: Json| {
        let mut content = json!({"type": "tool-result", "toolCallId": "c", "result": "r"});
        content.as_object_mut().unwrap().extend(block.as_object().unwrap().clone());
        let message = json!({"role": "tool", "content": [content], "providerOptions": {"cursor": {"highLevelToolCallResult": high_level}}});
        one_result(message).state
    };
    assert_eq!(state(json!({}), Json::Null), ToolState::Succeeded);
    assert_eq!(state(json!({"isError": true}), Json::Null), ToolState::Failed);
    assert_eq!(state(json!({}), json!({"isError": true})), ToolState::Failed);
    assert_eq!(
        state(json!({}), json!({"isError": false, "output": {"success": {}}})),
        ToolState::Succeeded
    );
    assert_eq!(
        state(json!({}), json!({"isError": false, "output": {"failure": {}}})),
        ToolState::Failed
    );
    assert_eq!(
        state(json!({"isError": true}), json!({"output": {"rejected": {}}})),
        ToolState::Rejected
    );
    let interrupted = json!({"isError": true, "result": "Error: Shell command was interrupted by the user after 7 ms before it completed."});
    assert_eq!(state(interrupted, Json::Null), ToolState::Cancelled);
}

#[test]
fn an_error_is_shown_once() {
    let result = one_result(json!({
        "role": "tool",
        "content": [{"type": "tool-result", "toolCallId": "c", "result": "it broke", "isError": true}],
        "providerOptions": {"cursor": {"highLevelToolCallResult": {"isError": true, "rawErrorMessages": ["it broke"]}}},
    }));
    assert_eq!(
        result.result,
        ToolResult { output: json!("it broke"), error: None, is_truncated: false }
    );
    let result = one_result(
        json!({"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "error": "why"}]}),
    );
    assert_eq!(result.result.error.as_deref(), Some("why"));
}

#[test]
fn images_and_files_are_counted_not_copied() {
    let hex = json!({"__type": "Uint8Array", "hex": "ff".repeat(1000)});
    let message = parse(json!({"role": "user", "content": [
        {"type": "text", "text": "<user_query>\nlook\n</user_query>"},
        {"type": "image", "image": hex, "mimeType": "image/png"},
        {"type": "image", "image": {"data": "A".repeat(400), "mimeType": "image/jpeg"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "image", "image": format!("data:image/gif;base64,{}", "A".repeat(400))},
        {"type": "file", "filename": "a.pdf", "data": hex, "mimeType": "application/pdf"},
        {"type": "file", "filename": "a.txt", "data": "some words", "mimeType": "text/plain"},
    ]}));
    let image = |media_type: Option<&str>, path: Option<&str>, n_bytes| Part::Image {
        media_type: media_type.map(str::to_owned),
        path: path.map(str::to_owned),
        n_bytes,
    };
    let file = |name: &str, text: Option<&str>| Part::Attachment {
        kind: "file".to_owned(),
        name: Some(name.to_owned()),
        text: text.map(str::to_owned),
    };
    assert_eq!(
        message.parts,
        [
            Part::text("look"),
            image(Some("image/png"), None, Some(1000)),
            image(Some("image/jpeg"), None, Some(300)),
            image(None, Some("https://example.com/a.png"), None),
            image(Some("image/gif"), None, Some(300)),
            file("a.pdf", None),
            file("a.txt", Some("some words")),
        ]
    );
}

#[test]
fn context_and_summaries_are_marked() {
    let message = parse(json!({"role": "user", "content": "<user_info>\nx\n</user_info>"}));
    assert_eq!(message.kind, MessageKind::Context);
    assert_eq!(parse(json!({"role": "system", "content": "s"})).kind, MessageKind::Context);
    let summary = json!({"role": "user", "content": "<summary>s</summary>", "providerOptions": {"cursor": {"isSummary": true}}});
    assert_eq!(parse(summary).kind, MessageKind::Summary);
    let message = parse(json!({"role": "user", "content": [
        {"type": "text", "text": "<timestamp>Tuesday</timestamp><rules>r</rules>"}, {"type": "text", "text": "<user_query>\nq\n</user_query>"}]}));
    assert_eq!((message.kind, message.timestamp.as_deref()), (MessageKind::Said, Some("Tuesday")));
}

#[test]
fn unknown_blocks_are_kept() {
    let message =
        parse(json!({"role": "oracle", "content": [{"type": "hologram", "x": 1}, 7, "words"]}));
    assert_eq!(message.role, Role::Unknown);
    assert_eq!(
        message.parts,
        [
            Part::Unknown {
                kind: "hologram".to_owned(),
                value: json!({"type": "hologram", "x": 1})
            },
            Part::Unknown { kind: String::new(), value: json!(7) },
            Part::text("words"),
        ]
    );
    assert_eq!(JsonMessage::parse(b"[]"), None);
    assert_eq!(JsonMessage::parse(b"{"), None);
}

#[test]
fn the_order_of_keys_does_not_change_a_fingerprint() {
    let one = JsonMessage::parse(
        br#"{"id":"1","role":"assistant","content":[{"type":"text","text":"a"}]}"#,
    )
    .unwrap();
    let other = JsonMessage::parse(
        br#"{"role":"assistant","content":[{"text":"a","type":"text"}],"id":"msg_2"}"#,
    )
    .unwrap();
    assert_eq!(one.fingerprint(), other.fingerprint());
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        prop_oneof![
            Just("text"),
            Just("tool-call"),
            Just("tool-result"),
            Just("image"),
            Just("user"),
            Just("assistant"),
            Just("<think>"),
            Just("Uint8Array")
        ]
        .prop_map(Json::from),
        "\\PC{0,8}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let key = prop_oneof![
            Just("role"),
            Just("content"),
            Just("type"),
            Just("text"),
            Just("result"),
            Just("toolCallId"),
            Just("providerOptions"),
            Just("cursor"),
            Just("tool_calls"),
            Just("function"),
            Just("image"),
            Just("data"),
            Just("hex"),
            Just("__type"),
            Just("highLevelToolCallResult"),
            Just("isError"),
        ]
        .prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
            prop::collection::vec((key, inner), 0..6)
                .prop_map(|fields| Json::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_makes_it_fail(json in any_json()) {
        if let Some(message) = JsonMessage::parse(json.to_string().as_bytes()) {
            message.fingerprint();
        }
    }

    #[test]
    fn no_bytes_make_it_fail(bytes: Vec<u8>) {
        JsonMessage::parse(&bytes);
    }
}
