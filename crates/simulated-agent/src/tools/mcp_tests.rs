use std::fs;

use pretty_assertions::assert_eq;

use super::*;
use crate::permissions::ApprovalPolicy;
use crate::tools::test_environment::TestEnvironment;
use crate::tools::{ArgsKept, ToolRequest};

fn request() -> ToolRequest {
    let args = json!({"text": "hello"}).as_object().unwrap().clone();
    ToolRequest::Mcp { server: "notes".to_owned(), tool: "add".to_owned(), args }
}

#[test]
fn a_call_is_named_by_server_and_tool() {
    let (prepared, tool_run) = TestEnvironment::new().call(&request());
    assert_eq!(
        prepared.args,
        json!({
            "name": "notes-add", "args": {"text": "hello"}, "toolCallId": "call_1\nfc_1",
            "providerIdentifier": "notes", "toolName": "add",
        })
    );
    let error = "MCP server does not exist: notes. Available servers: none";
    assert_eq!(tool_run.result, json!({"error": {"error": error}}));
}

#[test]
fn an_absent_server_stays_absent_even_if_an_entry_allows_or_denies_it() {
    let mut environment = TestEnvironment::new();
    for (policy, allow, deny) in [
        (ApprovalPolicy::AllowList, &[][..], &[][..]),
        (ApprovalPolicy::AllowList, &["Mcp(notes:add)"], &[]),
        (ApprovalPolicy::Force, &[], &["Mcp(notes:*)"]),
    ] {
        environment.permit(policy, allow, deny);
        let (_, tool_run) = environment.call(&request());
        assert!(tool_run.result["error"].is_object(), "{}", tool_run.result);
        assert_eq!(tool_run.args_kept, ArgsKept::Kept);
    }
}

#[test]
fn answers_are_wrapped_as_cursor_wraps_them() {
    let environment = TestEnvironment::new();
    let answer = json!({
        "content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "x"}},
        ],
        "isError": true,
        "structuredContent": {"n": 1},
    });
    let tool_run = success(&answer, &environment);
    assert_eq!(
        tool_run.result["success"],
        json!({
            "content": [
                {"text": {"text": "one"}},
                {"image": {"data": "AAAA", "mimeType": "image/png"}},
                {"text": {"text": "{\"type\":\"resource\",\"resource\":{\"uri\":\"x\"}}"}},
            ],
            "isError": true,
            "structuredContent": {"n": 1},
        })
    );
    assert!(tool_run.is_error);
}

#[test]
fn a_file_holds_all_of_a_long_answer() {
    let environment = TestEnvironment::new();
    let text = "é".repeat(SPILL_THRESHOLD);
    let block = text_block(&text, &environment);
    assert_eq!(block["text"].as_str().unwrap().len(), SPILL_THRESHOLD);
    assert_eq!(
        fs::read_to_string(block["outputLocation"]["filePath"].as_str().unwrap()).unwrap(),
        text
    );
}
