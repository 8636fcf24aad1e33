//! MCP servers with a `url`: the agent can reach only hosts on the run's allow-list.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{KEY, latest_journal, repository_defines, stage_with, user_defines};
use crate::sandbox::network::network_events;
use crate::sandbox::network::outside::Outside;
use crate::stage::{Stage, assert_exit, stderr, stdout};

/// All these tests use this script: the agent calls a tool of the server `docs`.
const CALL: &str = "mcp docs tell {\"word\": \"hello\"}\nsay done";

/// A server in the test's outside network, whose certificate is valid for this host.
fn docs(path: &str) -> Value {
    let headers = json!({"Authorization": format!("Bearer {KEY}")});
    json!({"url": format!("https://allowed.test{path}"), "headers": headers})
}

/// Returns true if the tool answered in the latest run.
fn has_answered(stage: &Stage) -> bool {
    latest_journal(stage).contains("tell heard hello")
}

/// Returns the latest run's network decisions about the server's host.
fn decisions(stage: &Stage) -> Vec<Value> {
    let run = stage.run_ids().pop().unwrap();
    let events = network_events(&stage.journal(&run));
    events.into_iter().filter(|event| event["host"] == "allowed.test").collect()
}

#[test]
fn a_tool_of_a_remote_server_on_an_allowed_host_answers_in_the_stream() {
    let Some(outside) = Outside::new() else { return };
    let stage = &outside.stage;
    for (path, was_pinged) in [("/mcp", false), ("/mcp/stream", true)] {
        user_defines(stage, &json!({"docs": docs(path)}));
        let output = outside.play(CALL, &["--mcp", "docs", "--json"]);
        assert_exit(&output, 0);
        let answer = format!("tell heard hello from [redacted], pinged {was_pinged}");
        assert!(stdout(&output).contains(&answer), "{path}: {}", stdout(&output));
        assert!(latest_journal(stage).contains(&answer), "{path}");
        let decisions = decisions(stage);
        assert!(!decisions.is_empty(), "{path}");
        assert!(decisions.iter().all(|event| event["kind"] == "net.allowed"), "{decisions:#?}");
    }
}

#[test]
fn a_server_whose_host_is_not_on_the_list_is_refused_and_the_network_log_says_so() {
    let Some(outside) = Outside::new() else { return };
    let stage = &outside.stage;
    user_defines(stage, &json!({"docs": docs("/mcp")}));
    // A request for all of the user's servers does not allow any host.
    let output = outside.play(CALL, &["--user-mcp"]);
    assert_exit(&output, 0);
    assert!(stderr(&output).contains("the agent will not reach `docs`"), "{}", stderr(&output));
    assert!(!has_answered(stage));
    assert!(!outside.asked().contains("allowed.test"), "{}", outside.asked());
    let decisions = decisions(stage);
    assert!(!decisions.is_empty());
    let is_refused =
        |event: &Value| event["kind"] == "net.denied" && event["reason"] == "not_listed";
    assert!(decisions.iter().all(is_refused), "{decisions:#?}");
    let log = stage.output(&["sandbox", "net-log", "-"]);
    let log = stdout(&log);
    let line = log.lines().find(|line| line.contains("allowed.test")).unwrap();
    assert!(line.contains("denied") && line.contains("not on the allow-list"), "{line}");
}

#[test]
fn a_server_with_a_url_brings_its_host_along_only_if_the_user_named_it() {
    let Some(outside) = Outside::new() else { return };
    let stage = &outside.stage;
    user_defines(stage, &json!({"docs": docs("/mcp")}));
    let script = format!("shell curl -sS https://denied.test > got; true\n{CALL}");
    let output = outside.play(&script, &["--mcp", "docs"]);
    assert_exit(&output, 0);
    assert!(has_answered(stage));
    assert_eq!(std::fs::read_to_string(stage.workspace().join("got")).unwrap(), "");
    let first = stage.run_ids().pop().unwrap();
    let output = outside.play(CALL, &["--user-mcp"]);
    assert_eq!(
        (output.status.code(), has_answered(stage)),
        (Some(0), false),
        "{}",
        stderr(&output)
    );

    // A later run of the session does not get the host either, unless the user asks for it.
    let session = stage.session_of(&stage.run_ids().pop().unwrap());
    let continued = |flags: &[&str]| {
        outside.play(CALL, &[&["--session", &session, "--mcp", "docs"], flags].concat())
    };
    let refused = continued(&[]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("--widen user-mcp"), "{}", stderr(&refused));
    let output = continued(&["--widen", "user-mcp"]);
    assert_eq!((output.status.code(), has_answered(stage)), (Some(0), true), "{}", stderr(&output));

    // A server that is off for the session is not on the list of its next run.
    assert_eq!(stage.output(&["mcp", "disable", &first, "docs"]).status.code(), Some(0));
    let refused = outside.play(CALL, &["--session", &stage.session_of(&first), "--mcp", "docs"]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("was switched off for this session"), "{}", stderr(&refused));
}

#[test]
fn only_the_user_allows_the_host_of_a_repositorys_server() {
    let Some(outside) = Outside::new() else { return };
    let stage = &outside.stage;
    repository_defines(stage, &json!({"docs": docs("/mcp")}));
    let refused = outside.play(CALL, &["--mcp-from-repo", "docs"]);
    assert_exit(&refused, 2);
    let hint = "hint: allow the host: --allow-host allowed.test";
    assert!(stderr(&refused).contains(hint), "{}", stderr(&refused));
    let flags = ["--mcp-from-repo", "docs", "--allow-host", "allowed.test"];
    let output = outside.play(CALL, &flags);
    assert_eq!((output.status.code(), has_answered(stage)), (Some(0), true), "{}", stderr(&output));
}

#[test]
fn an_address_that_no_list_can_hold_is_refused_with_the_reason() {
    let stage = stage_with(json!({
        "plain": {"url": "http://docs.test/mcp"}, "here": {"url": "https://127.0.0.1:3000/mcp"},
        "docs": {"url": "https://docs.test/mcp"},
    }));
    for (flags, words) in [
        (&["--mcp", "plain"][..], "its address is not `https://` with a host name"),
        (&["--mcp", "here"], "its address is not `https://` with a host name"),
        (&["--mcp", "docs", "--network", "none"], "the run has no network"),
    ] {
        let output = stage.play("say done", flags);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{flags:?}: {}", stderr(&output));
    }
    assert!(stage.run_ids().is_empty());
}
