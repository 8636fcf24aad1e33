//! Failures before the first line: exit 1, a message on stderr, nothing on stdout.

use std::fs;

use pretty_assertions::assert_eq;

use crate::sandbox::{FORCED, NORMAL, Sandbox, finish};

const NOT_LOGGED_IN: &str = "Error: Authentication required. Please run 'agent login' first, or set \
                             CURSOR_API_KEY environment variable.\n";

/// Runs the arguments with a prompt and returns stderr.
fn failure(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let finished = finish(sandbox.agent(arguments), "hello");
    assert_eq!(finished.code(), Some(1), "{arguments:?}");
    assert_eq!(finished.stdout, "", "{arguments:?}");
    finished.stderr
}

#[test]
fn the_login_is_the_first_check() {
    let sandbox = Sandbox::new();
    for arguments in
        [NORMAL, &["-p", "--output-format", "xml"], &["-p", "--model", "none"], &["models"]]
    {
        let finished = finish(sandbox.stranger(arguments), "");
        assert_eq!((finished.code(), finished.stderr.as_str()), (Some(1), NOT_LOGGED_IN));
        assert_eq!(finished.stdout, "");
    }
}

#[test]
fn a_bad_key_is_yellow() {
    let sandbox = Sandbox::new();
    let stderr = failure(&sandbox, &["-p", "--api-key", "invalid_key", "--trust"]);
    assert_eq!(stderr, "\u{1b}[33m⚠ Warning: The provided API key is invalid.\u{1b}[39m\n");
}

#[test]
fn an_unknown_format_comes_before_a_missing_prompt() {
    let sandbox = Sandbox::new();
    let finished = finish(sandbox.agent(&["-p", "--output-format", "xml"]), "");
    assert!(
        finished.stderr.starts_with("Error: Invalid output format: xml."),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_missing_prompt_comes_before_an_unknown_model() {
    let sandbox = Sandbox::new();
    let finished = finish(sandbox.agent(&["-p", "--model", "none"]), " \n");
    assert_eq!(finished.stderr, "Error: No prompt provided for print mode\n");
    assert_eq!(finished.code(), Some(1));
}

#[test]
fn an_error_about_an_unknown_model_lists_all_models_on_one_line() {
    let sandbox = Sandbox::new();
    let stderr = failure(&sandbox, &["-p", "--model", "gpt-9"]);
    assert!(stderr.starts_with("Cannot use this model: gpt-9. Available models: auto, "));
    assert!(stderr.lines().count() == 1 && stderr.len() > 8_000);
}

#[test]
fn an_untrusted_workspace_is_refused_until_the_user_trusts_it() {
    let sandbox = Sandbox::new();
    let stderr = failure(&sandbox, &["-p", "--resume", "not-a-uuid"]);
    assert!(stderr.starts_with("\n⚠ Workspace Trust Required\n"), "{stderr}");
    assert!(stderr.contains(&format!("\n    {}\n", sandbox.workspace().display())));
    assert!(stderr.ends_with("Pass --trust, --yolo, or -f if you trust this directory\n"));

    let marker = sandbox.project().join(".workspace-trusted");
    for passing in ["--force", "--yolo", "-f"] {
        assert_eq!(sandbox.play(&["-p", passing], "say ok").code(), Some(0));
        assert!(!marker.exists(), "{passing} applies to one run only");
    }
    assert_eq!(sandbox.play(&["-p", "--trust"], "say ok").code(), Some(0));
    let written = fs::read_to_string(&marker).unwrap();
    assert!(written.contains("\"trustMethod\": \"cli-flag\""), "{written}");
    assert_eq!(sandbox.play(&["-p"], "say ok").stdout, "ok\n");
}

#[test]
fn a_session_is_named_by_a_uuid() {
    let sandbox = Sandbox::new();
    assert_eq!(
        failure(&sandbox, &["-p", "--trust", "--resume", "not-a-uuid"]),
        "Failed to claim persistent session for chat \"not-a-uuid\": Persistent-session chat ID must be a UUID\n"
    );
    let version_one = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
    let stderr = failure(&sandbox, &["-p", "--new-session-id", version_one]);
    assert_eq!(stderr, "Error: --new-session-id must be a UUIDv4.\n");
    assert_eq!(failure(&sandbox, &["-p", "--resume=-3"]), "Error: No chat found for -3.\n");
}

#[test]
fn a_new_session_id_works_once() {
    let sandbox = Sandbox::new();
    let id = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
    let arguments = [FORCED, &["--new-session-id", id]].concat();
    assert_eq!(sandbox.play(&arguments, "say hello").session_id(), id);
    let again = format!("Error: Session ID \"{id}\" is already in use.\n");
    assert_eq!(failure(&sandbox, &arguments), again);
}

#[test]
fn options_the_service_refuses_fail_after_three_attempts() {
    let sandbox = Sandbox::new();
    let stderr = failure(&sandbox, &["-p", "--trust", "--system-prompt", "missing.txt"]);
    assert_eq!(stderr, "Error: --system-prompt file not found: missing.txt\n");
    fs::write(sandbox.workspace().join("system.txt"), "Be kind.").unwrap();
    let arguments = [NORMAL, &["--system-prompt", "system.txt"]].concat();
    let finished = finish(sandbox.agent(&arguments), "hello");
    assert_eq!(finished.code(), Some(1));
    let notice = |attempt| {
        format!(
            "Connection lost, reconnecting to https://agentn.global.api5.cursor.sh (attempt \
             {attempt})...\nRetry attempt {attempt}...\n"
        )
    };
    assert_eq!(
        finished.stderr,
        [1, 2, 3].map(notice).concat()
            + "RetriableError: [invalid_argument] unknown option '--system-prompt'\n"
    );
    let attempt = ["connection/reconnecting", "retry/starting", "connection/reconnected"];
    assert_eq!(finished.names(), [&["system/init", "user"][..], &attempt.repeat(3)].concat());
}

#[test]
fn a_wrong_command_line_is_answered_as_commander_does() {
    let sandbox = Sandbox::new();
    assert_eq!(
        failure(&sandbox, &["--prnt"]),
        "error: unknown option '--prnt'\n(Did you mean --print?)\n"
    );
    assert_eq!(failure(&sandbox, &["--model"]), "error: option '--model <id>' argument missing\n");
    let stderr = failure(&sandbox, &["-p", "--workspace", "nowhere", "hello"]);
    assert_eq!(stderr, "Error: Workspace not found: nowhere\n");
}

#[test]
fn every_failed_turn_prints_a_text_on_stderr_and_no_result() {
    let sandbox = Sandbox::new();
    for (kind, text) in [
        ("unavailable", "ConnectError: [unavailable] getaddrinfo EAI_AGAIN api2.cursor.sh\n"),
        ("resource-exhausted", "RetriableError: [resource_exhausted] Error\n"),
        ("usage-limit", "ActionRequiredError: You've reached your usage limit\n"),
        ("not-logged-in", NOT_LOGGED_IN),
    ] {
        let finished = sandbox.play(NORMAL, &format!("say Working on it.\nfail {kind}"));
        assert_eq!((finished.code(), finished.stderr.as_str()), (Some(1), text));
        assert!(!finished.has_result());
    }
    assert_eq!(sandbox.play(NORMAL, "exit 7").code(), Some(7));
}

#[test]
fn a_mistake_in_the_script_names_its_line() {
    let sandbox = Sandbox::new();
    let finished = sandbox.play(NORMAL, "say one\nsya two");
    assert_eq!(finished.code(), Some(1));
    assert_eq!(
        finished.stderr,
        "simulated agent: the script in the prompt, line 2: unknown order `sya`; did you mean `say`?\n"
    );
    let mut command = sandbox.agent(NORMAL);
    command.env("SIMULATED_AGENT_MISBEHAVE", "lingr");
    let finished = finish(command, "hello");
    assert!(finished.stderr.contains("unknown misbehaviour `lingr`"), "{}", finished.stderr);
    assert_eq!(finished.code(), Some(1));
}
