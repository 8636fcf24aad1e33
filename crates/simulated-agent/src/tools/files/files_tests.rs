use pretty_assertions::assert_eq;
use serde_json::Value;

use super::*;
use crate::permissions::ApprovalPolicy;
use crate::tools::test_environment::TestEnvironment;
use crate::tools::{ArgsKept, ToolRequest};

fn read_request(path: &str) -> ToolRequest {
    ToolRequest::Read { path: path.into() }
}

fn edit_request(path: &str, old: &str, new: &str) -> ToolRequest {
    ToolRequest::Edit { path: path.into(), old: old.to_owned(), new: new.to_owned() }
}

fn write_request(path: &str, content: &str) -> ToolRequest {
    ToolRequest::Write { path: path.into(), content: content.to_owned() }
}

fn outcome(tool_run: &ToolRun) -> &str {
    tool_run.result.as_object().unwrap().keys().next().unwrap()
}

#[test]
fn reading_gives_the_content_as_in_the_capture() {
    let environment = TestEnvironment::new();
    let path = environment.file("notes.txt", "first line\n");
    let (prepared, tool_run) = environment.call(&read_request("notes.txt"));
    assert_eq!(prepared.args, json!({"path": path}));
    assert_eq!(
        tool_run.result,
        json!({"success": {
            "content": "first line\n", "isEmpty": false, "exceededLimit": false, "totalLines": 2, "fileSize": 11,
            "path": path, "readRange": {"startLine": 1, "endLine": 2},
            "relatedCursorRulePaths": [], "relatedCursorRules": [],
        }})
    );
    assert_eq!(tool_run.for_model, "first line\n");
}

#[test]
fn an_unreadable_file_is_an_error_and_never_a_hang() {
    let environment = TestEnvironment::new();
    nix::unistd::mkfifo(&environment.workspace.join("pipe"), nix::sys::stat::Mode::S_IRWXU)
        .unwrap();
    for path in ["missing", "pipe", ".", "/dev/zero"] {
        let (_, tool_run) = environment.call(&read_request(path));
        assert!(tool_run.result["error"]["errorMessage"].is_string(), "{path}");
        assert!(tool_run.is_error);
    }
}

#[test]
fn long_and_binary_files_are_marked() {
    let environment = TestEnvironment::new();
    environment.file("long", "é".repeat(READ_LIMIT as usize));
    let (_, long) = environment.call(&read_request("long"));
    assert_eq!(long.result["success"]["exceededLimit"], json!(true));
    assert_eq!(long.result["success"]["fileSize"], json!(2 * READ_LIMIT));
    assert_eq!(long.for_model.len() as u64, READ_LIMIT);
    environment.file("binary", [0, 255, 1]);
    let (_, binary) = environment.call(&read_request("binary"));
    assert_eq!(binary.result["success"]["data"], json!("AP8B"));
}

#[test]
fn an_edit_carries_both_versions_and_the_diff_as_in_the_capture() {
    let environment = TestEnvironment::new();
    let path = environment.file("notes.txt", "first line\n");
    let (prepared, tool_run) =
        environment.call(&edit_request("notes.txt", "first line\n", "first line\n\nadded"));
    let path = path.to_str().unwrap();
    assert_eq!(
        (prepared.key, prepared.tool_name, prepared.args),
        ("editToolCall", "StrReplace", json!({"path": path}))
    );
    assert_eq!(
        tool_run.result,
        json!({"success": {
            "path": path, "linesAdded": 2, "linesRemoved": 0,
            "diffString": format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1,3 @@\n first line\n+\n+added"),
            "beforeFullFileContent": "first line\n", "afterFullFileContent": "first line\n\nadded",
            "message": format!("The file {path} has been updated."),
        }})
    );
    assert_eq!(fs::read_to_string(path).unwrap(), "first line\n\nadded");
}

#[test]
fn the_older_agent_sends_no_message_with_an_edit() {
    let mut environment = TestEnvironment::new();
    environment.generation = Generation::V2026_01;
    environment.file("a", "x");
    let (_, tool_run) = environment.call(&edit_request("a", "x", "y"));
    assert_eq!(tool_run.result["success"].get("message"), None);
}

#[test]
fn an_edit_that_is_not_unique_or_finds_nothing_changes_nothing() {
    let environment = TestEnvironment::new();
    let path = environment.file("a", "x x");
    for (old, expected) in [("x", "found 2 times"), ("z", "not found"), ("", "is empty")] {
        let (_, tool_run) = environment.call(&edit_request("a", old, "y"));
        let error = tool_run.result["error"]["error"].as_str().unwrap();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(fs::read_to_string(path).unwrap(), "x x");
    let (_, missing) = environment.call(&edit_request("missing", "a", "b"));
    assert_eq!(outcome(&missing), "fileNotFound");
    environment.file("binary", [0xff]);
    assert_eq!(outcome(&environment.call(&edit_request("binary", "a", "b")).1), "error");
    environment.file("large", vec![b'x'; EDIT_LIMIT as usize + 1]);
    assert_eq!(outcome(&environment.call(&edit_request("large", "a", "b")).1), "error");
}

#[test]
fn writing_creates_directories_and_shows_that_a_file_is_new() {
    let environment = TestEnvironment::new();
    let (prepared, tool_run) = environment.call(&write_request("deep/er/new.txt", "a\nb\n"));
    assert_eq!((prepared.tool_name, &prepared.args["streamContent"]), ("Write", &json!("a\nb\n")));
    let success = &tool_run.result["success"];
    assert_eq!(success.get("beforeFullFileContent"), None);
    assert_eq!((&success["linesAdded"], &success["linesRemoved"]), (&json!(2), &json!(0)));
    assert!(success["diffString"].as_str().unwrap().starts_with("--- /dev/null\n"));
    assert_eq!(
        fs::read_to_string(environment.workspace.join("deep/er/new.txt")).unwrap(),
        "a\nb\n"
    );
    let (_, again) = environment.call(&write_request("deep/er/new.txt", "a\nc\n"));
    assert_eq!(again.result["success"]["beforeFullFileContent"], json!("a\nb\n"));
    environment.file("file", "");
    assert_eq!(outcome(&environment.call(&write_request("file/below", "x")).1), "error");
}

#[test]
fn deleting_returns_the_lost_content() {
    let environment = TestEnvironment::new();
    let path = environment.file("a", "content");
    let delete = |path: &str| environment.call(&ToolRequest::Delete { path: path.into() }).1;
    let expected =
        json!({"path": path, "deletedFile": path, "fileSize": "7", "prevContent": "content"});
    assert_eq!(delete("a").result["success"], expected);
    assert!(!path.exists());
    assert_eq!(outcome(&delete("a")), "fileNotFound");
    assert_eq!(outcome(&delete(".")), "notFile");
}

#[test]
fn denied_files_are_neither_read_nor_changed() {
    let mut environment = TestEnvironment::new();
    let path = environment.file("secret.txt", "x");
    environment.permit(ApprovalPolicy::Force, &[], &["Read(secret*)", "Write(secret*)"]);
    assert_eq!(outcome(&environment.call(&read_request("secret.txt")).1), "error");
    assert_eq!(
        outcome(&environment.call(&write_request("secret.txt", "y")).1),
        "writePermissionDenied"
    );
    assert_eq!(
        outcome(&environment.call(&ToolRequest::Delete { path: path.clone() }).1),
        "permissionDenied"
    );
    assert_eq!(
        outcome(&environment.call(&write_request(".cursorignore", "")).1),
        "writePermissionDenied"
    );
    assert_eq!(fs::read_to_string(path).unwrap(), "x");
}

#[test]
fn edits_run_without_force_but_not_in_a_read_only_mode() {
    let mut environment = TestEnvironment::new();
    environment.permit(ApprovalPolicy::AllowList, &[], &[]);
    assert!(!environment.call(&write_request("a", "x")).1.is_error);
    environment.permit(ApprovalPolicy::ReadOnly, &[], &[]);
    let (_, rejected) = environment.call(&write_request("a", "y"));
    assert_eq!((outcome(&rejected), rejected.args_kept), ("rejected", ArgsKept::Dropped));
    assert_eq!(rejected.result["rejected"]["path"], Value::from(environment.shown(Path::new("a"))));
    assert_eq!(fs::read_to_string(environment.workspace.join("a")).unwrap(), "x");
}
