use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn writer(generation: Generation) -> EventWriter {
    EventWriter { session_id: "session".into(), request_id: "request".into(), generation }
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn prepared() -> PreparedCall {
    PreparedCall {
        key: "shellToolCall",
        tool_name: "Shell",
        args: json!({ "command": "ls" }),
        model_args: json!({ "command": "ls" }),
        description: Some("Lists".into()),
        query: None,
    }
}

fn run(args_kept: ArgsKept) -> ToolRun {
    ToolRun {
        args_kept,
        result: json!({ "success": {} }),
        for_model: String::new(),
        is_error: false,
    }
}

#[test]
fn the_forms_of_assistant_text_differ_in_two_keys() {
    let writer = writer(Generation::V2026_09);
    let keys_of = |flush| keys(&writer.assistant("a", flush)).join(" ");
    assert_eq!(keys_of(Flush::Delta), "type message session_id timestamp_ms");
    assert_eq!(keys_of(Flush::BeforeQuery), "type message session_id timestamp_ms");
    assert_eq!(
        keys_of(Flush::BeforeToolCall { model_call_id: "m" }),
        "type message session_id model_call_id timestamp_ms"
    );
    assert_eq!(keys_of(Flush::Final), "type message session_id");
}

#[test]
fn a_tool_call_has_siblings_in_the_later_generation_only() {
    let prepared = prepared();
    let call =
        StreamedCall { call_id: "c", model_call_id: "m", prepared: &prepared, started_at_ms: 7 };
    let early = writer(Generation::V2026_01).tool_completed(&call, &run(ArgsKept::Kept));
    assert_eq!(keys(&early["tool_call"]), ["shellToolCall"]);
    let late = writer(Generation::V2026_09).tool_started(&call);
    assert_eq!(
        keys(&late["tool_call"]),
        ["shellToolCall", "hookAdditionalContexts", "toolCallId", "startedAtMs"]
    );
    assert_eq!(late["tool_call"]["startedAtMs"], json!("7"));
    assert_eq!(keys(&late["tool_call"]["shellToolCall"]), ["args", "description"]);
    let completed = writer(Generation::V2026_09).tool_completed(&call, &run(ArgsKept::Kept));
    assert_eq!(keys(&completed["tool_call"]["shellToolCall"]), ["args", "result", "description"]);
}

#[test]
fn a_rejected_call_completes_without_its_arguments_and_its_description() {
    let prepared = prepared();
    let call =
        StreamedCall { call_id: "c", model_call_id: "m", prepared: &prepared, started_at_ms: 7 };
    let event = writer(Generation::V2026_09).tool_completed(&call, &run(ArgsKept::Dropped));
    assert_eq!(keys(&event["tool_call"]["shellToolCall"]), ["result"]);
}

#[test]
fn usage_came_with_the_later_generation() {
    let early = writer(Generation::V2026_01).result("a", 5, Usage::default());
    let late = writer(Generation::V2026_09).result("a", 5, Usage::default());
    assert!(early.get("usage").is_none());
    assert_eq!(
        keys(&late["usage"]),
        ["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"]
    );
}

#[test]
fn ids_have_the_form_of_real_ones() {
    let id = new_call_id();
    let (call, function) = id.split_once('\n').unwrap();
    assert_eq!((call.len(), function.len()), ("call_".len() + 24, "fc_".len() + 50));
    assert!(function[3..].bytes().all(|byte| byte.is_ascii_hexdigit()));
    let model_call_id = writer(Generation::V2026_09).model_call_id(2);
    let suffix = model_call_id.strip_prefix("request-2-").unwrap();
    assert!(suffix.len() == 4 && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    assert_ne!(new_call_id(), id);
}

#[test]
fn tokens_are_words_with_the_space_before_them() {
    assert_eq!(
        tokens("**Planning steps**\n\nI need `ls`."),
        ["**", "Planning", " steps", "**", "\n\nI", " need", " `", "ls", "`."]
    );
}

proptest! {
    #[test]
    fn the_joined_tokens_are_the_text(text in any::<String>()) {
        prop_assert_eq!(tokens(&text).concat(), text);
    }

    #[test]
    fn no_token_is_empty(text in any::<String>()) {
        prop_assert!(tokens(&text).iter().all(|token| !token.is_empty()));
    }
}
