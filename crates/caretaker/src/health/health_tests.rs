use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;
use crate::surroundings::tests::environment_of;

fn host() -> (TempDir, Host) {
    let root = tempfile::tempdir().unwrap();
    let state = root.path().join("state");
    let environment = environment_of(&[
        ("HOME", root.path()),
        ("CARETAKER_HOME", &state),
        ("XDG_RUNTIME_DIR", root.path()),
        ("PATH", Path::new("/usr/bin:/bin")),
    ]);
    (root, Host::new(environment))
}

/// The promises of a host that can make a sandbox.
const PROMISES: [&str; 4] = ["files", "processes", "privileges", "beyond"];

fn make(directory: &Path, mode: u32) {
    fs::create_dir_all(directory).unwrap();
    fs::set_permissions(directory, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn every_part_is_reported_on_a_fresh_host() {
    let (_root, host) = host();
    let findings = examine(&host, Ok(&Config::default()), Some(Path::new("simulated")));
    let ids: Vec<&str> = findings.iter().map(|finding| finding.id).collect();
    // If bubblewrap is missing or broken, one finding replaces both.
    let ids: Vec<&str> = ids
        .into_iter()
        .filter(|id| !matches!(*id, "bubblewrap" | "sandbox") && !PROMISES.contains(id))
        .collect();
    assert_eq!(
        ids,
        ["config", "profile", "network", "limits", "agent", "state", "sockets", "disk", "clock"]
    );
}

#[test]
fn a_state_directory_that_others_can_enter_is_a_warning() {
    let (_root, host) = host();
    assert_eq!(state_directory(&host).status, Status::Ok);
    make(&host.places.state, 0o755);
    assert_eq!(state_directory(&host).status, Status::Warning);
    make(&host.places.state, 0o777);
    assert_eq!(state_directory(&host).status, Status::Failure, "`run` refuses it");
    make(&host.places.state, 0o700);
    assert_eq!(state_directory(&host).status, Status::Ok);
}

#[test]
fn a_directory_of_sockets_that_others_can_enter_is_a_failure() {
    let (_root, host) = host();
    make(&host.places.sockets, 0o755);
    let findings = directories(&host);
    assert_eq!((findings[1].id, findings[1].status), ("sockets", Status::Failure));
}

#[test]
fn a_disk_with_too_little_room_is_a_failure() {
    let (_root, host) = host();
    let greedy = Config::parse("min_free = '4000000TiB'").unwrap();
    assert_eq!(disk_space(&host, &greedy).status, Status::Failure);
    let modest = Config::parse("min_free = '0'").unwrap();
    assert_eq!(disk_space(&host, &modest).status, Status::Ok);
}

#[test]
fn a_clock_that_went_back_or_was_never_set_is_reported() {
    let (_root, host) = host();
    assert_eq!(clock(&host, 1000).status, Status::Failure);
    assert_eq!(clock(&host, now_ms()).status, Status::Ok);
    fs::create_dir_all(host.state.runs().join(RunId::generate().to_string())).unwrap();
    assert_eq!(clock(&host, now_ms()).status, Status::Ok);
    assert_eq!(clock(&host, now_ms() - 3_600_000).status, Status::Warning);
}

#[test]
fn a_configuration_that_cannot_be_used_is_reported_and_the_rest_examined() {
    let (_root, host) = host();
    let error = CommandError::new(run_protocol::ExitCode::Usage, "broken")
        .because("line 3")
        .hint("mend it");
    let findings = examine(&host, Err(error), Some(Path::new("simulated")));
    assert_eq!(findings[0], Finding::failure("config", "broken: line 3", "mend it"));
    assert!(findings.len() > 5);
}

/// An agent that prints `answer` for `status`.
fn agent(host: &Host, answer: &str) -> AgentProgram {
    let program = host.environment.home.join("agent");
    fs::write(&program, format!("#!/bin/sh\necho '{answer}'\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    AgentProgram {
        kind: AgentKind::Cursor,
        program: program.into(),
        leading_arguments: vec![],
        expose: vec![],
        kept: None,
        version: None,
    }
}

#[test]
fn the_login_passes_only_if_the_agent_and_the_login_file_agree() {
    let (_root, host) = host();
    let yes = r#"{"status":"x","isAuthenticated":true,"userInfo":{"email":"ada@example.com"}}"#;
    for (answer, status) in [
        (yes, Status::Warning),
        (r#"{"isAuthenticated":false}"#, Status::Failure),
        ("Not logged in", Status::Warning),
    ] {
        assert_eq!(login(&host, &agent(&host, answer)).status, status, "{answer}");
    }
    let file = host.environment.home.join(".config/cursor/auth.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "{}").unwrap();
    assert_eq!(
        login(&host, &agent(&host, yes)).status,
        Status::Warning,
        "the file contains no token"
    );
    fs::write(&file, r#"{"accessToken":"a"}"#).unwrap();
    let finding = login(&host, &agent(&host, yes));
    assert_eq!(finding, Finding::ok("login", "logged in"));
}
