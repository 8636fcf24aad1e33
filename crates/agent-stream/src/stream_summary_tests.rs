use pretty_assertions::assert_eq;

use super::*;
use crate::AgentStream;

fn summarise(stream: &str) -> StreamSummary {
    let mut reader = AgentStream::with_line_ceiling(2000);
    let mut summary = StreamSummary::default();
    reader.feed(stream.as_bytes(), |line| summary.observe(&line, &mut |_| {}));
    reader.finish(|line| summary.observe(&line, &mut |_| {}));
    summary.finish(reader.open_calls(), &mut |_| {});
    summary
}

#[test]
fn a_stream_is_summed_up() {
    let summary = summarise(concat!(
        "(node:1) Warning: something\n",
        r#"{"type":"system","subtype":"init","session_id":"s1","model":"GPT-5 Mini","cwd":"/w"}"#,
        "\n\n",
        r#"{"type":"tool_call","subtype":"started","call_id":"a","tool_call":{"shellToolCall":{"args":{}}}}"#,
        "\n",
        r#"{"type":"tool_call","subtype":"started","call_id":"b","tool_call":{"readToolCall":{"args":{}}}}"#,
        "\n",
        r#"{"type":"tool_call","subtype":"completed","call_id":"a","tool_call":{"shellToolCall":{"result":{"failure":{}}}}}"#,
        "\n",
        r#"{"type":"tool_call","subtype":"completed","call_id":"z","tool_call":{"webSearchToolCall":{"result":{"success":{}}}}}"#,
        "\n",
        r#"{"type":"brand","subtype":"new"}"#,
        "\n",
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"hé"}]},"session_id":"s1"}"#,
        "\n",
        r#"{"type":"result","subtype":"success","is_error":false,"result":"hé","duration_ms":5,"usage":{"inputTokens":7,"outputTokens":"8"}}"#,
        "\n",
        r#"{"type":"assis"#,
    ));
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["session"], "s1");
    assert_eq!(json["model"], "GPT-5 Mini");
    assert_eq!(json["tools"], serde_json::json!({"shell":{"failure":1},"webSearch":{"success":1}}));
    assert_eq!(json["open_tools"], serde_json::json!(["read"]));
    assert_eq!(json["completed_without_started"], 1);
    assert_eq!(json["unknown_kinds"], serde_json::json!({"brand/new":1}));
    assert_eq!((&json["text_length"], &json["text_agrees"]), (&3.into(), &true.into()));
    assert_eq!(
        json["usage"],
        serde_json::json!({"input_tokens":7,"output_tokens":8,"cache_read_tokens":null,"cache_write_tokens":null})
    );
    assert_eq!(
        json["malformed_lines"],
        serde_json::json!([
            {"line":1,"reason":"not_json","text":"(node:1) Warning: something"},
            {"line":11,"reason":"cut_off","text":"{\"type\":\"assis"},
        ])
    );
    assert_eq!(json["events"]["blank"], 1);
}

#[test]
fn a_call_that_ends_in_a_line_over_the_ceiling_is_known_to_have_ended() {
    let long = "x".repeat(5000);
    let summary = summarise(&format!(
        "{}\n{}\n",
        r#"{"type":"tool_call","subtype":"started","call_id":"a\nb","tool_call":{"editToolCall":{"args":{}}}}"#,
        format_args!(
            r#"{{"type":"tool_call","subtype":"completed","call_id":"a\nb","tool_call":{{"editToolCall":{{"result":{{"success":{{"diffString":"{long}"}}}}}}}}}}"#
        )
    ));
    assert_eq!(summary.oversized_lines, 1);
    assert!(summary.open_tools.is_empty());
    assert_eq!(summary.tools["edit"]["(line too long)"], 1);
}

#[test]
fn names_that_never_repeat_are_counted_in_bounded_tables() {
    let stream: String =
        (0..5000).map(|number| format!("{{\"type\":\"new{number}\"}}\nnoise {number}\n")).collect();
    let summary = summarise(&stream);
    assert!(summary.unknown_kinds.len() <= MOST_NAMES + 1);
    assert_eq!(summary.unknown_kinds.values().sum::<u64>(), 5000);
    assert_eq!((summary.malformed_count, summary.malformed_lines.len()), (5000, MOST_MALFORMED));
}

#[test]
fn the_first_disagreement_says_where_the_texts_differ() {
    let summary = summarise(concat!(
        r#"{"type":"assistant","message":{"content":"one two"}}"#,
        "\n",
        r#"{"type":"result","subtype":"success","result":"one three"}"#,
        "\n"
    ));
    assert_eq!(summary.text_agrees, Some(false));
    let expected =
        TextDifference { line: 2, assembled_length: 7, result_length: 9, common_prefix: 5 };
    assert_eq!(summary.text_difference, Some(expected));
}

#[test]
fn numbers_at_the_edge_of_their_type_do_not_overflow() {
    let summary = summarise(&r#"{"type":"result","duration_ms":18446744073709551615,"usage":{"inputTokens":18446744073709551615}}
"#.repeat(2));
    assert_eq!(summary.duration_ms, Some(u64::MAX));
    assert_eq!(summary.usage.unwrap().input_tokens, Some(u64::MAX));
}

#[test]
fn names_are_cut_before_they_are_counted() {
    let long = "x".repeat(1500);
    let summary = summarise(&format!("{{\"type\":\"{long}\"}}\n"));
    assert_eq!(summary.unknown_kinds.keys().next().unwrap().len(), PREVIEW_CHARS);
}

#[test]
fn a_result_too_long_to_keep_is_a_result_that_was_not_compared() {
    let long = "x".repeat(5000);
    let summary = summarise(&format!(
        "{{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"{long}\"}}\n"
    ));
    assert_eq!((summary.results, summary.uncompared_results, summary.text_agrees), (1, 1, None));
}

#[test]
fn mcp_tools_are_counted_separately_and_a_servers_error_is_seen() {
    let summary = summarise(concat!(
        r#"{"type":"tool_call","subtype":"completed","call_id":"a","tool_call":{"mcpToolCall":{"args":{"providerIdentifier":"caretaker","toolName":"whoami"},"result":{"success":{"isError":false}}}}}"#,
        "\n",
        r#"{"type":"tool_call","subtype":"completed","call_id":"b","tool_call":{"mcpToolCall":{"args":{"providerIdentifier":"db","toolName":"query"},"result":{"success":{"isError":true}}}}}"#,
        "\n",
    ));
    assert_eq!(summary.tools["mcp caretaker: whoami"]["success"], 1);
    assert_eq!(summary.tools["mcp db: query"]["success, with an error from the server"], 1);
}
