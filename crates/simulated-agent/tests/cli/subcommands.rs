//! The subcommands.

use std::fs;
use std::io::{BufRead, Read};
use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::Signal;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::sandbox::{FORCED, Finished, NORMAL, Running, Sandbox, finish, name};

fn ask(sandbox: &Sandbox, arguments: &[&str]) -> Finished {
    finish(sandbox.agent(arguments), "")
}

#[test]
fn the_version_is_the_whole_output_and_the_help_mentions_cursor() {
    let sandbox = Sandbox::new();
    for flag in ["-v", "--version"] {
        let version = finish(sandbox.stranger(&[flag]), "").stdout;
        assert!(cursor_home::parse_version(&version).is_some(), "{version}");
    }
    let help = finish(sandbox.stranger(&["--help"]), "").stdout;
    assert!(help.contains("Cursor Agent") && help.contains("simulated"));
    let scenarios = finish(sandbox.stranger(&["--help-scenarios"]), "").stdout;
    assert!(scenarios.contains("kill-mid-tool") && scenarios.contains("mid-compaction"));
    let language = finish(sandbox.stranger(&["--help-script"]), "").stdout;
    assert!(language.contains("parallel") && language.contains("misbehave NAME"));
}

#[test]
fn a_command_group_without_a_subcommand_is_a_mistake() {
    let sandbox = Sandbox::new();
    let finished = finish(sandbox.stranger(&["mcp"]), "");
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(1), ""));
    assert!(finished.stderr.contains("Usage: agent mcp [OPTIONS] <COMMAND>\n"));
    assert!(finished.stderr.contains("  list-tools  List the tools"), "{}", finished.stderr);
}

#[test]
fn status_exits_zero_with_and_without_a_login() {
    let sandbox = Sandbox::new();
    let stranger = finish(sandbox.stranger(&["status"]), "");
    assert_eq!((stranger.code(), stranger.stdout.as_str()), (Some(0), "Not logged in\n"));
    let known = ask(&sandbox, &["whoami", "--format", "json"]).events();
    assert_eq!(known[0]["isAuthenticated"], json!(true));
    assert_eq!(known[0]["userInfo"]["email"], json!("simulated@example.com"));
}

#[test]
fn about_says_which_model_was_chosen() {
    let sandbox = Sandbox::new();
    sandbox.play(&["-p", "--trust", "--model", "gpt-5-mini"], "say ok");
    let about = &ask(&sandbox, &["about", "--format", "json"]).events()[0];
    assert_eq!(about["model"], json!("GPT-5 Mini"));
    assert_eq!(about["cliVersion"], json!("2026.10.01-51m0000"));
}

#[test]
fn models_are_listed_in_two_ways() {
    let sandbox = Sandbox::new();
    let listed = ask(&sandbox, &["models"]).stdout;
    assert!(listed.contains("\nauto - Auto\n") && listed.contains("\ngpt-5-mini - GPT-5 Mini\n"));
    assert_eq!(ask(&sandbox, &["--list-models"]).stdout, listed);
}

#[test]
fn a_created_chat_is_an_id_and_a_meta_file() {
    let sandbox = Sandbox::new();
    let id = ask(&sandbox, &["create-chat"]).stdout.trim().to_owned();
    let buckets = fs::read_dir(sandbox.home().join(".cursor/chats")).unwrap();
    let session = buckets.map(|bucket| bucket.unwrap().path().join(&id)).next().unwrap();
    assert!(session.join("meta.json").exists() && !session.join("store.db").exists());
    let resumed = sandbox.play(&[FORCED, &["--resume", &id]].concat(), "recall");
    assert_eq!(resumed.answer(), "I remember nothing before this.");
    assert_eq!(resumed.session_id(), id);
}

#[test]
fn create_chat_may_print_its_id_and_stay() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.agent(&["create-chat"]);
    command.env("SIMULATED_AGENT_MISBEHAVE", "create-chat-hangs");
    let mut running = Running::start(command);
    let mut id = String::new();
    running.stdout.read_line(&mut id).unwrap();
    assert_eq!(id.trim().len(), 36);
    assert!(running.child.try_wait().unwrap().is_none());
    running.signal(Signal::SIGTERM);
    running.child.wait().unwrap();
}

#[test]
fn ls_and_resume_need_a_terminal() {
    let sandbox = Sandbox::new();
    for command in ["ls", "resume"] {
        let finished = ask(&sandbox, &[command]);
        assert_eq!(finished.code(), Some(1));
        assert!(finished.stderr.contains("Raw mode is not supported"), "{}", finished.stderr);
    }
}

#[test]
fn a_command_that_is_not_simulated_says_so() {
    let sandbox = Sandbox::new();
    for arguments in [&["login"][..], &["acp"], &["-p", "--cloud", "hi"], &["-p", "-w", "x"]] {
        let finished = ask(&sandbox, arguments);
        assert_eq!(finished.code(), Some(1), "{arguments:?}");
        assert!(finished.stderr.contains("is not simulated"), "{}", finished.stderr);
    }
}

/// A server with one tool, as a shell script.
const SERVER: &str = r#"#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"tools":[{"name":"greet","description":"","inputSchema":{"type":"object","properties":{"whom":{"type":"string"}}}}]}}' ;;
    *'"tools/call"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"content":[{"type":"text","text":"Good day."}]}}' ;;
  esac
done
"#;

fn with_server() -> Sandbox {
    let sandbox = Sandbox::new();
    let server = sandbox.home().join("server.sh");
    fs::write(&server, SERVER).unwrap();
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(sandbox.workspace().join(".cursor")).unwrap();
    let config = json!({ "mcpServers": { "hello": { "command": server } } });
    fs::write(sandbox.workspace().join(".cursor/mcp.json"), config.to_string()).unwrap();
    sandbox
}

#[test]
fn a_server_is_enabled_listed_and_disabled() {
    let sandbox = with_server();
    let listed = |sandbox: &Sandbox| ask(sandbox, &["mcp", "list"]).stdout;
    assert_eq!(listed(&sandbox), "hello: not loaded (needs approval)\n");
    let refused = ask(&sandbox, &["mcp", "list-tools", "hello"]);
    assert_eq!(refused.code(), Some(1));
    assert!(refused.stderr.contains("has not been approved"), "{}", refused.stderr);

    assert_eq!(ask(&sandbox, &["mcp", "enable", "hello"]).code(), Some(0));
    let approvals = fs::read_to_string(sandbox.project().join("mcp-approvals.json")).unwrap();
    let approvals: Vec<String> = serde_json::from_str(&approvals).unwrap();
    assert!(approvals.len() == 1 && approvals[0].starts_with("hello-"), "{approvals:?}");
    assert_eq!(listed(&sandbox), "hello: ready\n");
    assert_eq!(
        ask(&sandbox, &["mcp", "list-tools", "hello"]).stdout,
        "Tools for hello (1):\n- greet (whom)\n"
    );

    assert_eq!(ask(&sandbox, &["mcp", "disable", "hello"]).code(), Some(0));
    assert_eq!(listed(&sandbox), "hello: disabled\n");
    assert_eq!(ask(&sandbox, &["mcp", "enable", "hello"]).code(), Some(0));
    assert_eq!(listed(&sandbox), "hello: ready\n");
    assert_eq!(ask(&sandbox, &["mcp", "enable", "missing"]).code(), Some(1));
}

#[test]
fn a_tool_of_a_server_answers_in_a_turn() {
    let sandbox = with_server();
    let finished = sandbox.play(FORCED, "mcp hello greet {\"whom\": \"you\"}\nsay done");
    let events = finished.events();
    let completed = events.iter().find(|event| name(event) == "tool_call/completed").unwrap();
    let call: &Value = &completed["tool_call"]["mcpToolCall"];
    assert_eq!(call["args"]["name"], json!("hello-greet"));
    assert_eq!(call["result"]["success"]["content"][0]["text"]["text"], json!("Good day."));
}

#[test]
fn the_agent_asks_about_a_tool_only_if_its_server_is_there() {
    let sandbox = with_server();
    let call = |flags: &[&str]| {
        let finished = sandbox.play(flags, "mcp hello greet\nsay done");
        let events = finished.events();
        let completed = events.iter().find(|event| name(event) == "tool_call/completed").unwrap();
        completed["tool_call"]["mcpToolCall"].clone()
    };
    // Without approval, the server looks like one that is not configured.
    let absent = call(NORMAL);
    let error = "MCP server does not exist: hello. Available servers: none";
    assert_eq!(absent["result"], json!({ "error": { "error": error } }));
    assert!(absent.get("args").is_some());

    let approved = [NORMAL, &["--approve-mcps"]].concat();
    let reason = "MCP tool execution rejected by user: hello-greet";
    assert_eq!(
        call(&approved),
        json!({ "result": { "rejected": { "reason": reason, "isReadonly": false } } })
    );

    let permit = |permissions: Value| {
        let file = json!({ "permissions": permissions }).to_string();
        fs::write(sandbox.workspace().join(".cursor/cli.json"), file).unwrap();
    };
    permit(json!({ "allow": ["Mcp(hello:greet)"] }));
    assert!(call(&approved)["result"]["success"].is_object());
    assert!(call(NORMAL)["result"]["error"].is_object());
    permit(json!({ "deny": ["Mcp(hello:*)"] }));
    assert!(call(FORCED)["result"]["permissionDenied"].is_object());
}

#[test]
fn help_does_not_show_the_helpers() {
    let sandbox = Sandbox::new();
    let mut text = String::new();
    let mut running = Running::start(sandbox.stranger(&["--help"]));
    running.stdout.read_to_string(&mut text).unwrap();
    assert!(!text.contains("deaf-child") && !text.contains("worker-server"));
}
