use pretty_assertions::assert_eq;

use super::turn::Init;
use super::*;

const SESSION: &str = "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11";

fn turn(answer: &str) -> Turn {
    Turn {
        init: Some(Init { session: Some(SESSION.to_owned()) }),
        has_called_tool: true,
        network: Some(NetworkMode::Allowlist),
        was_refused_host: true,
        answer: Some(answer.to_owned()),
        n_messages: 8,
        outcome: Some(RunOutcome::Succeeded),
        exit_code: Some(0),
        why: "why".to_owned(),
        ..Turn::default()
    }
}

/// A trial in which all went well.
fn evidence() -> Evidence {
    Evidence {
        word: "heron-3f2a".to_owned(),
        session: SESSION.to_owned(),
        first: turn("ready"),
        store: Store { is_in_bucket: true, n_messages: 8, damage: None },
        second: Second::Ended(turn("It was `heron-3f2a`.")),
        left: Vec::new(),
    }
}

/// The marks of all checks in their order.
fn marks(evidence: &Evidence) -> String {
    judge(evidence).iter().map(|finding| finding.status.mark()).collect()
}

/// The checks that failed, with what is wrong.
fn wrong(evidence: &Evidence) -> Vec<(&'static str, String)> {
    let failed = |finding: Finding| match finding.status {
        Status::Failure => Some((finding.id, finding.summary)),
        _ => None,
    };
    judge(evidence).into_iter().filter_map(failed).collect()
}

#[test]
fn a_trial_in_which_all_went_well_passes_every_check() {
    assert_eq!(marks(&evidence()), "✓✓✓✓✓✓✓✓✓");
}

#[test]
fn every_failure_says_what_it_means() {
    let nothing = Evidence {
        first: Turn { answer: Some(String::new()), init: turn("").init, ..Turn::default() },
        store: Store { is_in_bucket: false, n_messages: 0, damage: Some("empty".to_owned()) },
        second: Second::Refused("it is empty".to_owned()),
        left: vec!["process 1".to_owned()],
        ..evidence()
    };
    let findings = judge(&nothing);
    assert_eq!(marks(&nothing), "✓✓✗✗✗✗–✗✗");
    for finding in findings {
        assert_eq!(finding.fix.is_some(), finding.status == Status::Failure, "{}", finding.id);
    }
}

#[test]
fn what_cannot_be_checked_is_not_called_a_failure() {
    let silent = Evidence {
        first: Turn { why: "it hung".to_owned(), ..Turn::default() },
        store: Store::default(),
        second: Second::None,
        ..evidence()
    };
    assert_eq!(marks(&silent), "✗–––––––✓");
    // The agent died after its first call.
    let died = Turn { answer: None, was_refused_host: false, exit_code: Some(1), ..turn("") };
    let died =
        Evidence { first: died, store: Store::default(), second: Second::None, ..evidence() };
    assert_eq!(marks(&died), "✓✓✓–✗–––✓");
    assert_eq!(wrong(&died), [("exit", "the agent gave no result: why".to_owned())]);
}

#[test]
fn the_session_and_the_directory_must_be_those_that_caretaker_chose() {
    let first = |session: Option<&str>, outcome: RunOutcome| {
        let init = Some(Init { session: session.map(ToOwned::to_owned) });
        let first = Turn { init, answer: None, outcome: Some(outcome), ..turn("") };
        Evidence { first, store: Store::default(), second: Second::None, ..evidence() }
    };
    for (evidence, summary) in [
        (
            first(Some("another"), RunOutcome::SessionMismatch),
            "the agent began another session than it was asked to",
        ),
        (
            first(Some(SESSION), RunOutcome::SessionMismatch),
            "the agent works in another directory than it was asked to",
        ),
        (first(None, RunOutcome::Succeeded), "the agent's first line names no session"),
    ] {
        assert_eq!(wrong(&evidence), [("session", summary.to_owned())]);
        assert_eq!(marks(&evidence), "✓✗––––––✓");
    }
}

#[test]
fn a_network_that_refuses_nothing_is_a_failure() {
    let with = |network: NetworkMode, is_host_listed: bool| {
        let network = Some(network);
        let first = Turn { network, is_host_listed, was_refused_host: false, ..turn("ready") };
        wrong(&Evidence { first, ..evidence() })
    };
    for (found, summary) in [
        (
            with(NetworkMode::Allowlist, true),
            "your profile or configuration has example.com on the list, so nothing refuses it",
        ),
        (
            with(NetworkMode::Allowlist, false),
            "the agent did not try to reach example.com: it did not run the shell command, or the model ignored the \
             request",
        ),
        (
            with(NetworkMode::Host, false),
            "the profile gives runs the host's network, so nothing refuses example.com",
        ),
        (
            with(NetworkMode::None, false),
            "the profile gives runs no network, so nothing refuses example.com",
        ),
    ] {
        assert_eq!(found, [("network", summary.to_owned())]);
    }
}

#[test]
fn both_runs_must_end_well() {
    let ends = [
        (
            Turn { has_lingered: true, ..turn("") },
            "the agent gave its result, but its process did not end",
        ),
        (
            Turn { outcome: Some(RunOutcome::AgentError), ..turn("") },
            "the agent's result is an error: why",
        ),
        (
            Turn { exit_code: Some(3), ..turn("") },
            "the agent gave its result and then exited with code 3",
        ),
        (
            Turn { exit_code: None, ..turn("") },
            "a signal ended the agent after it had given its result",
        ),
    ];
    for (end, summary) in ends {
        let expected = [("exit", summary.to_owned())];
        assert_eq!(wrong(&Evidence { first: end.clone(), ..evidence() }), expected);
        let second = Turn { answer: Some("heron-3f2a".to_owned()), ..end };
        assert_eq!(wrong(&Evidence { second: Second::Ended(second), ..evidence() }), expected);
    }
}

#[test]
fn a_session_elsewhere_can_still_be_read_and_resumed() {
    let store = Store { is_in_bucket: false, ..evidence().store };
    assert_eq!(marks(&Evidence { store, ..evidence() }), "✓✓✓✓✓✗✓✓✓");
}

#[test]
fn an_agent_that_does_not_answer_the_second_prompt_has_not_shown_that_it_remembers() {
    let second = Turn { answer: None, exit_code: Some(1), ..turn("") };
    let evidence = Evidence { second: Second::Ended(second), ..evidence() };
    assert_eq!(wrong(&evidence), [("memory", "the second run gave no answer: why".to_owned())]);
}
