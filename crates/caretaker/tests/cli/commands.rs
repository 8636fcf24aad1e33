//! Commands that only read and print.

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::scene::Scene;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn without_runs_ps_lists_nothing_and_creates_nothing() {
    let scene = Scene::new();
    let before = scene.inventory();
    assert_eq!(
        json(scene.caretaker(["ps", "--json"]).stdout()),
        serde_json::json!({"v":1,"runs":[]})
    );
    assert_eq!(scene.caretaker(["ps", "-q"]).stdout(), "");
    assert_eq!(scene.caretaker(["ps"]).code(), 0);
    assert_eq!(scene.inventory(), before);
}

#[test]
fn the_doctor_reports_on_every_part_and_changes_nothing() {
    let scene = Scene::new();
    let before = scene.inventory();
    let answer = scene.caretaker(["doctor", "--json", "--agent", "simulated"]);
    let report = json(answer.stdout());
    assert_eq!(report["v"], 1);
    let checks = report["checks"].as_array().unwrap();
    let mut ids: Vec<&str> = checks.iter().map(|check| check["id"].as_str().unwrap()).collect();
    ids.dedup();
    assert_eq!(
        ids,
        [
            "config",
            "profile",
            "network",
            "bubblewrap",
            "sandbox",
            "files",
            "processes",
            "privileges",
            "beyond",
            "limits",
            "agent",
            "state",
            "sockets",
            "disk",
            "clock"
        ]
    );
    let mut is_ok = true;
    for check in checks {
        let status = check["status"].as_str().unwrap();
        assert!(["ok", "warning", "failure"].contains(&status), "{check}");
        assert!(!check["summary"].as_str().unwrap().is_empty());
        is_ok &= status != "failure";
    }
    assert_eq!((report["ok"].as_bool(), answer.code()), (Some(is_ok), i32::from(!is_ok)));
    assert_eq!(scene.inventory(), before);
}

#[test]
fn sandbox_explain_creates_nothing() {
    let scene = Scene::new();
    let before = scene.inventory();
    let answer = scene.caretaker(["sandbox", "explain", "--agent", "simulated", "--json"]);
    assert_eq!(answer.code(), 0, "{}", answer.stderr());
    assert_eq!(scene.inventory(), before);
}

#[test]
fn the_printed_configuration_can_be_used_as_it_is() {
    let scene = Scene::new();
    let printed = scene.caretaker(["config"]);
    scene.write("config/caretaker/config.toml", printed.stdout());
    let report = json(scene.caretaker(["doctor", "--json"]).stdout());
    assert_eq!(report["checks"][0]["status"], "ok");
}

#[test]
fn the_simulated_agent_is_built_in_and_needs_no_checkout() {
    let scene = Scene::new();
    let version = scene.caretaker(["simulated-agent", "--version"]);
    assert_eq!((version.code(), version.stdout()), (0, "2026.10.01-51m0000\n"));
}

#[test]
fn the_relay_without_a_socket_says_so() {
    let scene = Scene::new();
    let answer = scene.caretaker(["mcp-relay"]);
    assert_eq!(answer.code(), 1);
    assert!(answer.stderr().contains("CARETAKER_SOCKET"), "{}", answer.stderr());
}

#[test]
fn invalid_arguments_are_a_usage_error() {
    let scene = Scene::new();
    for args in [
        &["frobnicate"][..],
        &["run", "--detach", "--json", "x"],
        &["tail", "-", "--since", "x"],
        &["tail", "-", "--since", "1", "-n", "2"],
        &["tail", "-", "--json", "--raw"],
        &["kill"],
        &["wait", "-", "--timeout", "soon"],
        &["ps", "--json", "-q"],
        &["completions", "tcsh"],
    ] {
        let answer = scene.caretaker(args);
        assert_eq!((answer.code(), answer.stdout()), (2, ""), "{args:?}: {}", answer.stderr());
    }
}

#[test]
fn a_command_needs_only_the_variables_that_it_uses() {
    let mut scene = Scene::new();
    scene.write("config/caretaker/config.toml", "modle = 1\n");
    assert_eq!(scene.caretaker(["ps"]).code(), 0);
    assert_eq!(scene.caretaker(["gc", "--keep", "3"]).code(), 2);
    scene.set("HOME", "relative");
    assert_eq!(scene.caretaker(["completions", "bash"]).code(), 0);
    assert_eq!(scene.caretaker(["man"]).code(), 0);
    assert_eq!(scene.caretaker(["ps"]).code(), 2);
}

#[test]
fn commands_that_look_for_runs_create_nothing_if_there_are_none() {
    let scene = Scene::new();
    let before = scene.inventory();
    for args in [&["ps"][..], &["group", "ls"], &["suspend", "--all"]] {
        let answer = scene.caretaker(args);
        assert_eq!(answer.code(), 0, "{args:?}: {}", answer.stderr());
        assert_eq!(scene.inventory(), before, "{args:?}");
    }
}

#[test]
fn runs_that_cannot_be_listed_are_an_error_not_an_empty_list() {
    let mut scene = Scene::new();
    scene.write("state/runs", "");
    scene.set("CARETAKER_HOME", scene.path("state"));
    for args in [&["ps"][..], &["group", "ls"], &["suspend", "--all"], &["resume", "--interrupted"]]
    {
        let answer = scene.caretaker(args);
        assert_eq!(answer.code(), 1, "{args:?}: {}{}", answer.stdout(), answer.stderr());
        let expected =
            "error: cannot list the runs\n  because the runs directory could not be read";
        assert!(answer.stderr().contains(expected), "{args:?}: {}", answer.stderr());
    }
}
