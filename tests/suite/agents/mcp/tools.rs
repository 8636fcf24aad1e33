//! The total number of tools across all servers.

use std::io::{BufRead, BufReader};
use std::process::{Child, Output, Stdio};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Gate, done, repository_defines, server, stage_with, user_defines};
use crate::sandbox::network::outside::Outside;
use crate::stage::{Stage, assert_exit, stderr, stdout};

#[test]
fn tools_are_counted_in_a_sandbox_and_more_than_forty_cause_a_warning() {
    let mut many = server("many");
    many["env"]["N_TOOLS"] = json!("30");
    let marker = json!({"command": "/bin/sh", "args": ["-c", "touch \"$HOME/../it-ran-on-the-host\"; exit 1"]});
    let listed = json!({"url": "https://docs.test/mcp", "enabledTools": ["a", "b"]});
    let stage = stage_with(json!({"many": many, "docs": listed, "notes": server("notes")}));
    repository_defines(&stage, &json!({"theirs": marker}));
    let counted = done(&stage.output(&[
        "mcp",
        "tools",
        "--mcp",
        "notes",
        "--mcp-from-repo",
        "theirs",
        "--json",
    ]));
    assert_eq!((&counted["total"], &counted["is_over"]), (&json!(13), &json!(false)));
    assert_eq!(counted["uncounted"], json!(["theirs"]));
    let names: Vec<&Value> =
        counted["servers"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["caretaker", "notes", "theirs"]);
    assert_eq!(counted["servers"][1]["tools"], json!(["tell"]));
    assert_eq!(counted["servers"][2]["state"], "failed");
    assert!(!stage.root().join("it-ran-on-the-host").exists());

    let output = stage.output(&["mcp", "tools", "--user-mcp"]);
    assert_exit(&output, 0);
    assert!(stdout(&output).contains("45 tools in all"), "{}", stdout(&output));
    assert!(
        stderr(&output).contains("have 45 tools; Cursor is said to use only 40"),
        "{}",
        stderr(&output)
    );
    // Counting tools leaves nothing behind.
    assert_eq!(stage.run_ids(), Vec::<String>::new());
    assert!(!stage.home().join(".cursor/chats").exists());
}

fn terminate(child: &Child) {
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

#[test]
fn a_tool_count_that_a_signal_ends_leaves_nothing_behind() {
    // This server reaches the gate and never answers, so the count of its tools continues until its time is up.
    let server = json!({"command": "/bin/sh", "args": ["-c", "cat begun >&2; exec sleep 60"]});
    let stage = stage_with(json!({"silent": server}));
    let begun = Gate::new(&stage, "begun");
    let mut counting = stage.caretaker(&["mcp", "tools", "--user-mcp"]).spawn().unwrap();
    begun.open();
    terminate(&counting);
    assert_eq!(counting.wait().unwrap().code(), Some(130));
    assert_eq!(stage.run_ids(), Vec::<String>::new());
    let kept = std::fs::read_dir(stage.root().join("state/mcp-tools")).unwrap();
    assert_eq!(kept.count(), 0);
    stage.assert_no_survivors("a tool count ended by a signal");
}

#[test]
fn the_leftovers_of_a_killed_tool_count_are_removed() {
    let stage = Stage::new();
    let left = stage.root().join("state/mcp-tools/01234567-89ab-4cde-8f01-23456789abcd");
    std::fs::create_dir_all(left.join("chats")).unwrap();
    done(&stage.output(&["ps"]));
    assert!(!left.exists());
}

#[test]
fn the_number_of_tools_is_reported_once() {
    let tools: Vec<String> = (0..50).map(|n| format!("t{n}")).collect();
    let stage = stage_with(
        json!({"docs": {"url": "https://docs.test/mcp", "enabledTools": tools}, "notes": server("notes")}),
    );
    let output = stage.output(&["mcp", "tools", "--user-mcp"]);
    assert_exit(&output, 0);
    assert_eq!(stderr(&output).matches("Cursor is said to use").count(), 1, "{}", stderr(&output));
}

/// Returns a server's result: its state, its number of tools, and the reason.
fn found(counted: &Value, name: &str) -> (String, Value, String) {
    let servers = counted["servers"].as_array().unwrap();
    let server = servers.iter().find(|server| server["name"] == name).unwrap();
    let text = |field: &str| server[field].as_str().unwrap_or_default().to_owned();
    (text("state"), server["n_tools"].clone(), text("why"))
}

#[test]
fn the_tools_of_servers_with_a_url_are_counted_with_the_network_of_the_run() {
    let Some(outside) = Outside::new() else { return };
    user_defines(
        &outside.stage,
        &json!({
            "docs": {"url": "https://allowed.test/mcp?tools=20"},
            "wiki": {"url": "https://allowed.test/mcp/stream?tools=20"},
        }),
    );
    let count = |flags: &[&str]| outside.output(&[&["mcp", "tools", "--json"], flags].concat());
    let n_asked = || outside.asked().matches("http allowed.test").count();

    // A request for all of the user's servers does not allow any host.
    for flags in [&["--user-mcp"][..], &["--user-mcp", "--network", "none"]] {
        let output = count(flags);
        let counted = done(&output);
        assert_eq!(counted["uncounted"], json!(["docs", "wiki"]), "{flags:?}");
        let (state, n_tools, why) = found(&counted, "docs");
        assert_eq!((state.as_str(), n_tools), ("failed", Value::Null), "{flags:?}");
        assert!(why.starts_with("the server cannot be reached"), "{flags:?}: {why}");
        assert!(stderr(&output).contains("the agent will not reach `docs`"), "{}", stderr(&output));
    }
    assert_eq!(n_asked(), 0);

    for flags in
        [&["--mcp", "docs", "--mcp", "wiki"][..], &["--user-mcp", "--allow-host", "allowed.test"]]
    {
        let output = count(flags);
        let counted = done(&output);
        assert_eq!(
            (&counted["total"], &counted["uncounted"]),
            (&json!(52), &json!([])),
            "{flags:?}"
        );
        for name in ["docs", "wiki"] {
            let ready = ("ready".to_owned(), json!(20), String::new());
            assert_eq!(found(&counted, name), ready, "{flags:?}");
        }
        let warning = "have 52 tools; Cursor is said to use only 40";
        assert!(stderr(&output).contains(warning), "{flags:?}: {}", stderr(&output));
    }
    assert!(n_asked() > 0);
    assert_eq!(outside.stage.run_ids(), Vec::<String>::new());
}

#[test]
fn a_server_with_a_url_that_does_not_answer_is_reported_with_the_reason() {
    let Some(outside) = Outside::new() else { return };
    let server = |path: &str| json!({"url": format!("https://allowed.test/mcp{path}")});
    user_defines(
        &outside.stage,
        &json!({
            "login": server("/login"), "silent": server("/silent"), "endless": server("/endless"),
            "docs": server(""),
        }),
    );
    let flags = ["mcp", "tools", "--user-mcp", "--allow-host", "allowed.test", "--json"];
    let counted = done(&outside.output(&flags));
    assert_eq!(counted["uncounted"], json!(["login", "silent", "endless"]));
    for (name, state, why) in [
        ("login", "needs_login", "the server requires a login (HTTP 401)"),
        ("silent", "failed", "MCP error -32001: Request timed out"),
        ("endless", "failed", "the server's answer is not MCP: it is larger than 16 MiB"),
    ] {
        assert_eq!(found(&counted, name), (state.to_owned(), Value::Null, why.to_owned()));
    }
    assert_eq!(found(&counted, "docs").1, json!(1));
}

#[test]
fn a_tool_count_names_the_run_that_has_the_workspace_and_can_wait_for_it() {
    let stage = stage_with(json!({"notes": server("notes")}));
    let gate = Gate::new(&stage, "gate");
    let run = stage.detach("shell cat gate\nsay done", &[]);
    let flags = ["mcp", "tools", "--user-mcp", "--json"];
    let refused = stage.output(&flags);
    assert_exit(&refused, 4);
    let said = stderr(&refused);
    assert!(said.contains(&format!("is in use by run {run}")), "{said}");
    assert!(said.contains("hint: wait for it with --wait"), "{said}");

    // A signal stops a waiting count, and the count leaves nothing behind.
    let wait = || {
        let mut waiting = stage.caretaker(&[&flags[..], &["--wait"]].concat());
        let mut waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(waiting.stderr.take().unwrap()).lines();
        assert!(
            said.any(|line| line.unwrap().contains("waiting: workspace")),
            "the count is not waiting"
        );
        waiting
    };
    let mut stopped = wait();
    terminate(&stopped);
    assert_eq!(stopped.wait().unwrap().code(), Some(130));
    assert_eq!(stage.run_ids(), [run.as_str()]);

    let waiting = wait();
    gate.open();
    let Output { status, stdout, .. } = waiting.wait_with_output().unwrap();
    assert_eq!(status.code(), Some(0));
    let counted: Value = serde_json::from_slice(&stdout).unwrap();
    assert_eq!(found(&counted, "notes").1, json!(1));
    assert_eq!(stage.run_ids(), [run]);
}

#[test]
fn tools_are_not_counted_without_a_sandbox() {
    let marker =
        json!({"command": "/bin/sh", "args": ["-c", "touch \"$HOME/../it-ran-on-the-host\""]});
    let stage = stage_with(json!({"marker": marker}));
    let refused = stage.output(&["mcp", "tools", "--user-mcp", "--profile", "off"]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("the profile `off` has none"), "{}", stderr(&refused));
    assert!(!stage.root().join("it-ran-on-the-host").exists());
    assert_eq!(stage.run_ids(), Vec::<String>::new());
}
