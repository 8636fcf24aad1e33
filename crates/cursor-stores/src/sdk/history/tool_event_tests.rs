use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn opened(result: Json) -> (Json, Option<String>, ToolState) {
    let (result, state) = open_envelope(result, false);
    (result.output, result.error, state)
}

#[test]
fn results_come_out_of_their_envelopes() {
    let text = |text: &str| Some(text.to_owned());
    let table = [
        (
            json!({"status": "success", "value": {"a": 1}}),
            (json!({"a": 1}), None, ToolState::Succeeded),
        ),
        (json!({"status": "ok", "value": "v"}), (json!("v"), None, ToolState::Succeeded)),
        (json!({"status": "error", "error": "e"}), (Json::Null, text("e"), ToolState::Failed)),
        (
            json!({"status": "error", "error": {"message": "m", "code": 7}}),
            (json!({"message": "m", "code": 7}), text("m"), ToolState::Failed),
        ),
        (
            json!({"status": "rejected", "reason": "no"}),
            (Json::Null, text("no"), ToolState::Rejected),
        ),
        (json!({"status": "cancelled"}), (Json::Null, None, ToolState::Cancelled)),
        // No envelope: everything is kept.
        (json!("bare"), (json!("bare"), None, ToolState::Succeeded)),
        (json!([1, 2]), (json!([1, 2]), None, ToolState::Succeeded)),
        (
            json!({"status": "ok", "value": 1, "more": 2}),
            (json!({"status": "ok", "value": 1, "more": 2}), None, ToolState::Succeeded),
        ),
    ];
    for (result, expected) in table {
        assert_eq!(opened(result.clone()), expected, "{result}");
    }
}

#[test]
fn a_sub_agent_call_names_its_sub_agent() {
    let mut message = json!({
        "call_id": "1", "name": "task", "status": "completed", "args": {"prompt": "p"},
        "result": {"status": "success", "value": {"agentId": "agent-child", "isBackground": false}},
    });
    let call = new_call(CallEvent::from_message(&mut message), Some(1_790_000_000_000));
    assert_eq!(call.subagent.as_deref(), Some("agent-child"));
    assert_eq!((call.tool.as_str(), call.state), ("task", ToolState::Succeeded));
}

#[test]
fn every_published_name_is_known() {
    let table = [
        ("shell", "shell"),
        ("read", "read"),
        ("edit", "edit"),
        ("write", "write"),
        ("delete", "delete"),
        ("glob", "glob"),
        ("grep", "grep"),
        ("ls", "ls"),
        ("readLints", "read_lints"),
        ("mcp", "mcp"),
        ("semSearch", "semantic_search"),
        ("createPlan", "plan"),
        ("updateTodos", "todo"),
        ("task", "task"),
        ("generateImage", "image"),
        ("recordScreen", "record_screen"),
        // The older description.
        ("shell.execute", "shell"),
        ("file.read", "read"),
        ("file.write", "write"),
        ("file.edit", "edit"),
    ];
    for (name, tool) in table {
        assert_eq!(crate::model::canonical_tool(name), tool, "{name}");
    }
}

proptest! {
    #[test]
    fn a_result_with_any_text_survives(text in "\\PC{0,20}") {
        prop_assert_eq!(opened(json!({"status": "success", "value": text})), (json!(text), None, ToolState::Succeeded));
        prop_assert_eq!(opened(json!(text)), (json!(text), None, ToolState::Succeeded));
    }
}
