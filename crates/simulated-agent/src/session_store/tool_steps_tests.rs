use pretty_assertions::assert_eq;
use serde_json::json;

use super::super::test_bench::{shell_call, shell_result};
use super::*;

fn call(key: &str, args: Value) -> ToolCallRecord {
    ToolCallRecord { key: key.to_owned(), args, ..shell_call("call_1\nfc_1", "") }
}

/// Encodes and decodes the step, as a reader sees it.
fn step(call: &ToolCallRecord, result: &Value) -> ToolCall {
    let step = ToolCall::decode(tool_call(call, result).encode_to_vec().as_slice()).unwrap();
    assert_eq!(step.tool_call_id.as_deref(), Some("call_1\nfc_1"));
    step
}

#[test]
fn a_shell_call_keeps_its_command_and_its_output() {
    let record = shell_result("call_1\nfc_1", "echo hi", "hi\n");
    let step = step(&shell_call("call_1\nfc_1", "echo hi"), &record.result);
    let Some(Tool::Shell(shell)) = step.tool else { panic!("{step:?}") };
    let args = shell.args.unwrap();
    assert_eq!((args.command.as_str(), args.timeout), ("echo hi", 30_000));
    assert_eq!(args.file_output_threshold_bytes, Some(40_000));
    assert_eq!(args.simple_commands, ["echo"]);
    let result = shell.result.unwrap();
    assert_eq!(result.is_background, Some(false));
    let Some(ShellOutcome::Success(success)) = result.result else { panic!("{result:?}") };
    assert_eq!((success.stdout.as_str(), success.execution_time), ("hi\n", 12));
    assert_eq!(success.interleaved_output.as_deref(), Some("hi\n"));
}

#[test]
fn the_ways_a_shell_call_can_go_wrong_keep_their_numbers() {
    let outcome_of = |key: &str| {
        let result = json!({ "isBackground": false, key: { "command": "x", "exitCode": 3, "stderr": "no" } });
        let step = step(&shell_call("call_1\nfc_1", "x"), &result);
        let Some(Tool::Shell(shell)) = step.tool else { panic!("{step:?}") };
        shell.result.unwrap().result.unwrap()
    };
    let ShellOutcome::Failure(failure) = outcome_of("failure") else { panic!("not a failure") };
    let failure = ShellSuccess::decode(failure.as_slice()).unwrap();
    assert_eq!((failure.exit_code, failure.stderr.as_str()), (3, "no"));
    assert!(matches!(outcome_of("timeout"), ShellOutcome::Timeout(_)));
    assert!(matches!(outcome_of("rejected"), ShellOutcome::Rejected(_)));
    assert!(matches!(outcome_of("spawnError"), ShellOutcome::SpawnError(_)));
    assert!(matches!(outcome_of("permissionDenied"), ShellOutcome::PermissionDenied(_)));
}

#[test]
fn reads_edits_and_tasks_are_typed() {
    let success = json!({ "success": { "content": "first line\n", "totalLines": 2, "fileSize": 11, "path": "/n" } });
    let read = step(&call("readToolCall", json!({ "path": "/n", "limit": 5 })), &success);
    let Some(Tool::Read(read)) = read.tool else { panic!("{read:?}") };
    assert_eq!(read.args.unwrap().limit, Some(5));
    let Some(ReadOutcome::Success(success)) = read.result.unwrap().result else {
        panic!("not read")
    };
    assert_eq!(success.output, Some(ReadOutput::Content("first line\n".to_owned())));

    let success = json!({ "success": {
        "path": "/n", "linesAdded": 2, "linesRemoved": 0, "beforeFullFileContent": "", "afterFullFileContent": "x",
    } });
    let edit = step(&call("editToolCall", json!({ "path": "/n" })), &success);
    let Some(Tool::Edit(edit)) = edit.tool else { panic!("{edit:?}") };
    let Some(EditOutcome::Success(success)) = edit.result.unwrap().result else {
        panic!("not edited")
    };
    assert_eq!((success.lines_added, success.lines_removed), (Some(2), Some(0)));
    assert_eq!(success.before_full_file_content.as_deref(), Some(""));

    let success = json!({ "success": { "agentId": "a-1", "isBackground": true, "durationMs": "12",
        "conversationSteps": [{ "assistantMessage": { "text": "nothing here" } }] } });
    let task = step(
        &call("taskToolCall", json!({ "description": "look", "prompt": "look around" })),
        &success,
    );
    let Some(Tool::Task(task)) = task.tool else { panic!("{task:?}") };
    assert_eq!(task.args.unwrap().prompt, "look around");
    let Some(TaskOutcome::Success(success)) = task.result.unwrap().result else {
        panic!("not done")
    };
    assert_eq!((success.agent_id.as_deref(), success.is_background), (Some("a-1"), true));
    let [ConversationStep { message: Some(Step::AssistantMessage(said)) }] =
        &success.conversation_steps[..]
    else {
        panic!("{success:?}")
    };
    assert_eq!(said.text, "nothing here");
}

#[test]
fn the_arguments_of_an_mcp_call_keep_their_types() {
    let given = json!({ "n": 3, "deep": { "list": [true, null, "x"] } });
    let args = json!({ "name": "clock-now", "args": given, "providerIdentifier": "clock", "toolName": "now" });
    let mcp = step(&call("mcpToolCall", args), &json!({ "success": { "content": [] } }));
    let Some(Tool::Mcp(mcp)) = mcp.tool else { panic!("{mcp:?}") };
    let args = mcp.args.unwrap();
    assert_eq!((args.provider_identifier.as_str(), args.tool_name.as_str()), ("clock", "now"));
    let back: serde_json::Map<_, _> =
        args.args.into_iter().map(|(name, value)| (name, value.into())).collect();
    assert_eq!(Value::from(back), given);
}

#[test]
fn a_tool_of_unknown_shape_keeps_its_number_and_whether_it_succeeded() {
    let keys = [
        ("deleteToolCall", "delete"),
        ("globToolCall", "glob"),
        ("grepToolCall", "grep"),
        ("updateTodosToolCall", "update_todos"),
        ("readTodosToolCall", "read_todos"),
        ("lsToolCall", "ls"),
        ("readLintsToolCall", "read_lints"),
        ("semSearchToolCall", "sem_search"),
        ("createPlanToolCall", "create_plan"),
        ("webSearchToolCall", "web_search"),
        ("askQuestionToolCall", "ask_question"),
        ("webFetchToolCall", "web_fetch"),
        ("getMcpToolsToolCall", "get_mcp_tools"),
    ];
    for (key, name) in keys {
        let step = step(&call(key, json!({})), &json!({ "rejected": { "reason": "no" } }));
        assert_eq!(step.tool.unwrap().name(), name);
    }
    let step = step(&call("brandNewToolCall", json!({})), &json!({}));
    assert_eq!(step.tool, None);
}
