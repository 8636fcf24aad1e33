use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use run_protocol::RunOutcome;

use super::*;

pub(crate) fn overview(state: RunState) -> RunOverview {
    RunOverview {
        run: "0191d0f6-1111-7000-8000-0123456789ab".parse().unwrap(),
        created_ms: 1_000_000,
        name: Some("nightly".to_owned()),
        labels: BTreeMap::new(),
        session: "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11".to_owned(),
        workspace: "/home/ada/project".into(),
        worktree: None,
        profile: "default".to_owned(),
        agent: "/opt/cursor-agent".into(),
        agent_version: None,
        model: None,
        prompt_start: "fix the \u{1b}[2J tests".to_owned(),
        prompt_length: 13,
        retry_of: None,
        group: None,
        lineage: None,
        needs_human: None,
        state,
        last_event: None,
        last_event_ms: 1_000_000,
        checkpoint: None,
        reported: None,
        spent: None,
        journal_bytes: 0,
    }
}

fn running(progress: Option<&str>) -> RunState {
    let progress = progress.map(ToOwned::to_owned);
    RunState::Running { since_ms: 0, last_event_ms: 0, progress }
}

fn ended() -> RunState {
    RunState::Ended {
        outcome: RunOutcome::Succeeded,
        why: "the agent gave its result".to_owned(),
        exit_code: Some(0),
        duration_ms: 5,
    }
}

#[test]
fn a_table_shows_the_known_facts_of_each_run() {
    let runs = [overview(running(Some("half way"))), overview(running(None)), overview(ended())];
    assert_eq!(
        table(&runs, &BTreeMap::new(), 1_000_000 + 125_000, Width::Unlimited),
        "RUN           NAME     STATE      AGE    WORKSPACE          ABOUT\n\
         0123456789ab  nightly  running    2 min  /home/ada/project  half way\n\
         0123456789ab  nightly  running    2 min  /home/ada/project  fix the ␛[2J tests\n\
         0123456789ab  nightly  succeeded  2 min  /home/ada/project  fix the ␛[2J tests"
    );
}

#[test]
fn each_run_takes_one_line_that_fits_the_terminal() {
    let runs = [overview(ended()), overview(running(None))];
    let text = table(&runs, &BTreeMap::new(), 2_000_000, Width::Columns(60));
    assert_eq!(text.lines().count(), 3);
    for line in text.lines() {
        assert!(crate::view::width::columns(line) <= 60, "{line}");
    }
}

#[test]
fn an_ended_run_is_not_listed_and_a_lost_run_is_listed_for_a_day() {
    let now = 1_000_000 + INTERRUPTED_IS_NEWS_MS;
    let lost = overview(RunState::Lost { why: "killed".to_owned(), unreadable: false });
    assert!(is_news(&overview(running(None)), now));
    assert!(!is_news(&overview(ended()), now));
    assert!(is_news(&lost, now - 1));
    assert!(!is_news(&lost, now));
}
