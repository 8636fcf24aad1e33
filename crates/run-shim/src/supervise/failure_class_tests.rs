use proptest::prelude::*;
use serde_json::json;
use simulated_agent::process::failures;
use simulated_agent::startup::{cli_config, models};

use super::*;

/// Every known text and its variants, with the expected class.
const KNOWN: [(&str, FailureClass); 51] = [
    (
        "Error: Authentication required. Please run 'agent login' first, or set CURSOR_API_KEY environment variable.",
        FailureClass::Auth,
    ),
    (
        "Error: Authentication required. Please run 'cursor-agent login' first, or set CURSOR_API_KEY environment variable.",
        FailureClass::Auth,
    ),
    ("⚠ Warning: The provided API key is invalid.", FailureClass::Auth),
    ("\u{1b}[33m⚠ Warning: The provided API key is invalid.\u{1b}[39m", FailureClass::Auth),
    ("\u{1b}[1;31mError: Authentication\u{1b}[0m required.", FailureClass::Auth),
    ("ConnectError: [unauthenticated] Error", FailureClass::Auth),
    ("Not logged in", FailureClass::Auth),
    (
        "\n⚠ Workspace Trust Required\n\n  Cursor Agent can execute code and access files in this directory.\n",
        FailureClass::Trust,
    ),
    ("Cannot use this model: gpt-9. Available models: auto, gpt-5.2", FailureClass::BadModel),
    (
        "Failed to claim persistent session for chat \"x\": it is claimed by process 12",
        FailureClass::SessionInUse,
    ),
    (
        "Failed to claim persistent session for chat \"x\": Persistent-session chat ID must be a UUID",
        FailureClass::Other,
    ),
    (
        "Error: Session ID \"6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11\" is already in use.",
        FailureClass::SessionInUse,
    ),
    ("RetriableError: [invalid_argument] Error", FailureClass::Other),
    ("ConnectError: [invalid_argument] Error", FailureClass::Other),
    ("ConnectError: [internal] Error", FailureClass::Other),
    ("RetriableError: [resource_exhausted] Error", FailureClass::RateLimited),
    ("[resource_exhausted] Error", FailureClass::RateLimited),
    ("T: [resource_exhausted] Error", FailureClass::RateLimited),
    ("Error: Too Many Requests", FailureClass::RateLimited),
    ("Error: Request failed with status code 429", FailureClass::RateLimited),
    ("Error: rate limit exceeded", FailureClass::RateLimited),
    ("[unavailable] getaddrinfo EAI_AGAIN api2.cursor.sh", FailureClass::Network),
    ("ConnectError: [unavailable] getaddrinfo ENOTFOUND api2.cursor.sh", FailureClass::Network),
    ("Error: getaddrinfo ENOTFOUND api2.cursor.sh", FailureClass::Network),
    ("[canceled] http/2 stream closed", FailureClass::Network),
    ("ConnectError: [canceled] http/2 stream closed", FailureClass::Network),
    ("T: [deadline_exceeded] Error", FailureClass::Network),
    ("b: [deadline_exceeded] Error", FailureClass::Network),
    ("ConnectError: something else entirely", FailureClass::Network),
    ("Error: connect ECONNREFUSED 127.0.0.1:443", FailureClass::Network),
    ("Error: read ECONNRESET", FailureClass::Network),
    ("ActionRequiredError: You've reached your usage limit", FailureClass::UsageLimit),
    ("You're out of usage. Switch to Auto.", FailureClass::UsageLimit),
    ("ActionRequiredError: You’ve hit something new", FailureClass::UsageLimit),
    (
        "RetriableError: [resource_exhausted] You've reached your usage limit",
        FailureClass::UsageLimit,
    ),
    (
        "Error: ENOENT: no such file or directory, rename '/home/me/.cursor/cli-config.json.tmp' -> '/home/me/.cursor/cli-config.json'",
        FailureClass::ConfigRace,
    ),
    (
        "Error: EBUSY: resource busy or locked, rename '/h/cli-config.json.tmp' -> '/h/cli-config.json'",
        FailureClass::Other,
    ),
    ("Error: the server said “rate limit”", FailureClass::RateLimited),
    ("Error: --system-prompt file not found: /nowhere", FailureClass::Other),
    ("error: unknown option '-X'", FailureClass::Other),
    // A model refusal names the error class of a spent plan.
    (
        "ActionRequiredError: Named models unavailable Free plans can only use Auto",
        FailureClass::BadModel,
    ),
    (
        "ActionRequiredError: Named models unavailable\nFree plans can only use Auto. Switch to Auto or upgrade plans to continue.",
        FailureClass::BadModel,
    ),
    ("b: Named models unavailable", FailureClass::BadModel),
    ("Free plans can only use Auto", FailureClass::BadModel),
    (
        "Chat 77b9863c-1111-4222-8333-444455556666 may still be running, but Cursor could not verify its persistent session: Persistent chat ownership is currently changing",
        FailureClass::SessionInUse,
    ),
    ("Error: invalid_grant", FailureClass::Auth),
    (
        "Connection lost, reconnecting to https://api2.cursor.sh (attempt 2)...",
        FailureClass::Network,
    ),
    ("Retry attempt 3...", FailureClass::Network),
    ("RetriableError: [unavailable] Error", FailureClass::Network),
    ("Error: Raw mode is not supported on the current process.stdin", FailureClass::Other),
    ("bash: line 1: dump_bash_state: command not found", FailureClass::Other),
];

#[test]
fn every_known_text_has_its_class() {
    for (stderr, class) in KNOWN {
        assert_eq!(classify(stderr, Some(1), None), class, "{stderr}");
        let among_others =
            format!("(node:7) Warning: rate limit\n{stderr}\n    at getaddrinfo (x.js:1)\n");
        assert_eq!(classify(&among_others, Some(1), None), class, "{among_others}");
    }
}

#[test]
fn every_kind_of_end_in_the_facts_has_its_class() {
    use FailureClass::{Killed, Other};
    // The agent's exit codes: 130 after SIGINT, 143 after SIGTERM.
    for (stderr, exit_code, class) in [
        ("Aborting operation...", Some(130), Killed),
        ("", Some(143), Killed),
        ("", Some(1), Other),
        ("(node:123) Warning: rate limit", Some(1), Other),
    ] {
        assert_eq!(classify(stderr, exit_code, None), class, "{stderr} {exit_code:?}");
    }
}

#[test]
fn the_simulated_agents_messages_are_classified() {
    for failure in &failures::FAILURES {
        let expected = match failure.name {
            "not-logged-in" | "bad-api-key" => FailureClass::Auth,
            "resource-exhausted" => FailureClass::RateLimited,
            "unavailable" | "deadline-exceeded" | "canceled" => FailureClass::Network,
            "usage-limit" | "out-of-usage" => FailureClass::UsageLimit,
            "named-models" => FailureClass::BadModel,
            "invalid-argument" => FailureClass::Other,
            other => panic!("no expectation for {other}"),
        };
        assert_eq!(classify(failure.stderr, Some(1), None), expected, "{}", failure.name);
    }
    let refusal = models::refusal("gpt-9");
    assert_eq!(classify(&refusal, Some(1), None), FailureClass::BadModel);
    assert_eq!(sentence(FailureClass::BadModel, &refusal), "the model `gpt-9` is not available");
    let lost_race = cli_config::lost_race("/h/.cursor/cli-config.json".as_ref());
    assert_eq!(classify(&lost_race.stderr, Some(1), None), FailureClass::ConfigRace);
}

#[test]
fn a_signal_counts_before_any_text() {
    let network = "ConnectError: [unavailable] Error";
    for (exit_code, signal) in
        [(None, Some(9)), (Some(130), None), (Some(143), None), (Some(137), None)]
    {
        assert_eq!(classify(network, exit_code, signal), FailureClass::Killed);
    }
    for exit_code in [None, Some(0), Some(1), Some(2), Some(126), Some(255), Some(-1)] {
        assert_eq!(classify(network, exit_code, None), FailureClass::Network);
    }
    assert_eq!(classify("", Some(1), None), FailureClass::Other);
}

#[test]
fn the_last_cause_counts_and_a_reconnection_only_if_there_is_no_other() {
    let notices = "Connection lost, reconnecting to https://api2.cursor.sh (attempt 1)...\nRetry attempt 1...\n";
    assert_eq!(classify(notices, Some(1), None), FailureClass::Network);
    let then_exhausted = format!("{notices}RetriableError: [resource_exhausted] Error\n");
    assert_eq!(classify(&then_exhausted, Some(1), None), FailureClass::RateLimited);
    let notices_last = format!("ActionRequiredError: You've reached your usage limit\n{notices}");
    assert_eq!(classify(&notices_last, Some(1), None), FailureClass::UsageLimit);
    let two_causes = "Error: read ECONNRESET\nError: Authentication required.\n";
    assert_eq!(classify(two_causes, Some(1), None), FailureClass::Auth);
}

#[test]
fn words_inside_other_words_mean_nothing() {
    for stderr in [
        "Error: the grate limiting the fire is broken",
        "Error: cannot open usage_limits.rs",
        "Error: SOMEENOTFOUNDCODE",
        "Error: port 4291 is taken",
        "Error: überrate limit",
    ] {
        assert_eq!(classify(stderr, Some(1), None), FailureClass::Other, "{stderr}");
    }
}

#[test]
fn json_after_a_message_does_not_hide_the_message() {
    let stderr = r#"Error: Too Many Requests {"type":"error","message":"usage limit"}"#;
    assert_eq!(classify(stderr, Some(1), None), FailureClass::RateLimited);
    let stderr = r#"Error: something {"type":"error","message":"usage limit"}"#;
    assert_eq!(classify(stderr, Some(1), None), FailureClass::Other);
}

#[test]
fn a_sentence_is_for_people() {
    for (class, stderr, expected) in [
        (FailureClass::Other, "", "the agent failed without a message"),
        (
            FailureClass::Other,
            "Error: one\nError: \u{1b}[31mtwo\u{1b}[0m.\n    at x (y.js:1)\n\nNode.js v22\n",
            "the agent failed: Error: two",
        ),
        (FailureClass::Other, "only talk", "the agent failed: only talk"),
        (
            FailureClass::Auth,
            "⚠ Warning: The provided API key is invalid.",
            "the agent's API key is not valid",
        ),
        (
            FailureClass::UsageLimit,
            "You're out of usage. Switch to Auto.",
            "the plan's usage limit is reached: You're out of usage. Switch to Auto",
        ),
        (
            FailureClass::BadModel,
            "ActionRequiredError: Named models unavailable Free plans can only use Auto",
            "the model is not available: ActionRequiredError: Named models unavailable Free plans can only use Auto",
        ),
        (
            FailureClass::Network,
            "T: [deadline_exceeded] Error",
            "the agent could not reach the service, or lost the connection: T: [deadline_exceeded] Error",
        ),
        (
            FailureClass::Killed,
            "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
            "the agent ran out of memory and was aborted",
        ),
        (
            FailureClass::Killed,
            "Aborting operation...",
            "the agent was killed by a signal that Caretaker did not send",
        ),
    ] {
        assert_eq!(sentence(class, stderr), expected);
    }
}

#[test]
fn a_long_line_is_quoted_in_part_and_an_endless_one_not_at_all() {
    let long = format!("Error: {}", "x".repeat(100_000));
    assert_eq!(sentence(FailureClass::Other, &long), "the agent failed without a message");
    let long = format!("Error: {}", "x".repeat(10_000));
    assert!(sentence(FailureClass::Other, &long).chars().count() < 250);
}

/// A mirrored event whose text is full of words that name causes.
fn mirrored(text: &str) -> String {
    let line = json!({
        "type": "assistant",
        "message": {"role": "assistant", "content": [{"type": "text", "text": text}]},
        "session_id": "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11",
        "timestamp_ms": 1_790_000_000_000_u64,
    });
    line.to_string()
}

fn misleading_text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        prop::sample::select(KNOWN.to_vec()).prop_map(|(text, _)| text.to_owned()),
        prop::sample::select(vec![
            "rate limit",
            "Error: ENOTFOUND",
            "\n",
            "{\"",
            "\"}",
            "\\",
            "{",
            "[",
            "[{",
            "{}",
            ",",
            "\u{9b}",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    prop::collection::vec(word, 0..6).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(stderr in any::<String>(), exit_code in any::<Option<i32>>(), signal in any::<Option<i32>>()) {
        let class = classify(&stderr, exit_code, signal);
        let said = sentence(class, &stderr);
        prop_assert!(!said.is_empty() && !said.contains(char::is_control), "{said:?}");
    }

    #[test]
    fn words_in_mirrored_events_do_not_decide_the_class(texts in prop::collection::vec(misleading_text(), 1..4)) {
        let stderr: String = texts.iter().map(|text| mirrored(text) + "\n").collect();
        prop_assert_eq!(classify(&stderr, Some(1), None), FailureClass::Other, "{}", stderr);
        let behind = format!("stdout: {stderr}Error: Authentication required.\n");
        prop_assert_eq!(classify(&behind, Some(1), None), FailureClass::Auth);
    }

    #[test]
    fn a_mirrored_event_without_its_beginning_does_not_decide_the_class(text in misleading_text(), at in any::<prop::sample::Index>()) {
        let line = mirrored(&text);
        let start = at.index(line.len());
        if let Some(rest) = line.get(start..) {
            prop_assert_eq!(classify(rest, Some(1), None), FailureClass::Other, "{}", rest);
        }
    }
}
