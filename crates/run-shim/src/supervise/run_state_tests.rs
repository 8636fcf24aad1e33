use pretty_assertions::assert_eq;
use proptest::option;
use proptest::prelude::*;
use run_protocol::{OnLoop, StopLadder};

use super::*;
use crate::supervise::finished_call;

fn limits() -> RunLimits {
    RunLimits {
        startup_ms: 100,
        idle_ms: 1000,
        tool_ms: 5000,
        settle_ms: 200,
        tool_calls: 0,
        tokens: 0,
        journal_bytes: 0,
        r#loop: OnLoop::Warn,
        wall_ms: 0,
        linger_ms: 50,
        drain_ms: 10,
        ladder: StopLadder { term_after_ms: 20, kill_after_ms: 30 },
    }
}

/// A run whose agent printed its first line at moment 0.
fn running() -> RunState {
    let (state, _) = RunState::new(limits(), 0).step(Input::Released, 0);
    let (state, effects) =
        state.step(Input::Agent(AgentSign::Init { is_the_asked_session: true }), 0);
    assert_eq!(effects, []);
    state
}

fn tool(call_id: &str, declared_ms: Option<u64>) -> Input {
    let (call_id, name) = (call_id.to_owned(), "shell".to_owned());
    Input::Agent(AgentSign::ToolStarted { call_id, name, declared_ms })
}

/// Lets time pass, like the main loop, until no deadline is left before `until`.
fn wait(mut state: RunState, until: Moment) -> (RunState, Vec<(Moment, Effect)>) {
    let mut happened = Vec::new();
    while let Some(at) = state.next_deadline().filter(|at| *at <= until) {
        let (next, effects) = state.step(Input::Tick, at);
        happened.extend(effects.into_iter().map(|effect| (at, effect)));
        state = next;
    }
    (state, happened)
}

fn signals(happened: &[(Moment, Effect)]) -> Vec<(Moment, &'static str)> {
    happened
        .iter()
        .filter_map(|(at, effect)| match effect {
            Effect::SignalAgent(SignalName::Int) => Some((*at, "int")),
            Effect::SignalAgent(SignalName::Term) => Some((*at, "term")),
            Effect::SignalAgent(SignalName::Kill) => Some((*at, "kill")),
            Effect::KillSandbox => Some((*at, "sandbox")),
            _ => None,
        })
        .collect()
}

#[track_caller]
fn check_end(state: RunState, exit_code: Option<i32>, expected: Ending) {
    let (state, _) = state.step(Input::StdoutClosed, 9_000);
    let (state, effects) = state.step(Input::Exited { exit_code }, 9_001);
    assert_eq!(effects, [Effect::End(expected)]);
    assert!(state.has_ended());
}

#[test]
fn one_tool_call_too_many_stops_the_run_gently() {
    let state = RunState::new(RunLimits { tool_calls: 2, ..limits() }, 0);
    let (mut state, _) = state.step(Input::Released, 0);
    let call = |number: u64| {
        Input::Agent(AgentSign::ToolStarted {
            call_id: number.to_string(),
            name: "shell".to_owned(),
            declared_ms: None,
        })
    };
    for number in 1..=2 {
        let (next, effects) = state.step(call(number), number);
        state = next;
        assert_eq!(effects, []);
    }
    let (state, effects) = state.step(call(3), 3);
    let limit = LimitKind::ToolCalls { most: 2 };
    assert_eq!(
        effects,
        [
            Effect::Record(RunEvent::LimitReached { limit: limit.clone(), after_ms: 3 }),
            Effect::Record(RunEvent::StopRequested { reason: StopReason::Limit }),
            Effect::SignalAgent(SignalName::Int),
        ]
    );
    let (state, _) = state.step(Input::StdoutClosed, 4);
    let (state, effects) = state.step(Input::Exited { exit_code: Some(130) }, 5);
    assert_eq!(effects, [Effect::End(Ending::Decided(RunOutcome::QuotaExceeded { limit }))]);
    assert_eq!(state.n_tool_calls(), 3);
}

#[test]
fn an_agent_that_repeats_itself_is_only_reported_unless_the_user_wants_it_to_end() {
    for on_loop in [OnLoop::Warn, OnLoop::End] {
        let state = RunState::new(RunLimits { r#loop: on_loop, ..limits() }, 0);
        let (mut state, _) = state.step(Input::Released, 0);
        let mut happened = Vec::new();
        for number in 1..=30 {
            let (call_id, call) = (String::new(), Some(finished_call::tests::numbered(7)));
            let call = Input::Agent(AgentSign::ToolCompleted { call_id, call });
            let (next, effects) = state.step(call, number);
            state = next;
            happened.extend(effects.into_iter().map(|effect| (number, effect)));
        }
        let is_loop = |it: &Effect| matches!(it, Effect::Record(RunEvent::Looping { .. }));
        let reported: Vec<Moment> =
            happened.iter().filter(|(_, it)| is_loop(it)).map(|(at, _)| *at).collect();
        let stopped = Effect::Record(RunEvent::StopRequested { reason: StopReason::Looping });
        match on_loop {
            OnLoop::Warn => {
                assert_eq!((reported, signals(&happened)), (vec![12, 24], Vec::new()));
            }
            OnLoop::End => {
                assert_eq!((reported, signals(&happened)), (vec![12], vec![(12, "int")]));
                assert!(happened.contains(&(12, stopped)));
                // The agent may still answer.
                let result = Input::Agent(AgentSign::Result { is_error: false, tokens: None });
                let (answered, _) = state.clone().step(result, 31);
                check_end(answered, Some(0), Ending::Decided(RunOutcome::Succeeded));
                check_end(state, Some(130), Ending::Decided(RunOutcome::Looping));
            }
        }
    }
}

#[test]
fn a_run_that_reported_too_many_tokens_exceeds_its_quota_and_unreported_tokens_do_not_count() {
    let limit = |taken| LimitKind::Tokens { most: 100, taken };
    let exceeded = |taken| RunOutcome::QuotaExceeded { limit: limit(taken) };
    let cases = [
        (vec![Some(100)], false, RunOutcome::Succeeded, Some(100)),
        (vec![None], false, RunOutcome::Succeeded, None),
        (vec![Some(101)], false, exceeded(101), Some(101)),
        (vec![Some(101)], true, exceeded(101), Some(101)),
        (vec![Some(60), Some(60)], false, exceeded(120), Some(120)),
        // The reported tokens alone already exceed the limit.
        (vec![Some(101), None], false, exceeded(101), None),
    ];
    for (results, is_error, outcome, total) in cases {
        let state = RunState::new(RunLimits { tokens: 100, ..limits() }, 0);
        let (mut state, _) = state.step(Input::Released, 0);
        let mut recorded = Vec::new();
        for tokens in results {
            let result = Input::Agent(AgentSign::Result { is_error, tokens });
            let (next, effects) = state.step(result, 7);
            state = next;
            // The turn is over, so there is no signal.
            assert!(effects.iter().all(|it| matches!(it, Effect::Record(_) | Effect::Sync)));
            recorded.extend(effects.into_iter().filter(|it| matches!(it, Effect::Record(_))));
        }
        let is_exceeded = matches!(outcome, RunOutcome::QuotaExceeded { .. });
        assert_eq!(recorded.len(), usize::from(is_exceeded), "{recorded:?}");
        assert_eq!(state.tokens(), total);
        check_end(state, Some(0), Ending::Decided(outcome));
    }
}

#[test]
fn a_result_fixes_the_outcome_and_a_process_that_lives_on_is_ended_after_the_grace_time() {
    let (state, effects) =
        running().step(Input::Agent(AgentSign::Result { is_error: false, tokens: None }), 10);
    assert_eq!(effects, [Effect::Sync]);
    let (state, happened) = wait(state, 10_000);
    assert_eq!(signals(&happened), [(60, "term"), (90, "sandbox")]);
    assert_eq!(happened[0].1, Effect::Record(RunEvent::Lingered { ms: 50 }));
    check_end(state, Some(137), Ending::Decided(RunOutcome::Succeeded));
}

#[test]
fn repeated_requests_to_suspend_climb_the_ladder_only_once() {
    let (state, effects) = running().step(Input::Suspend, 10);
    let reason = StopReason::Suspended;
    let expected =
        [Effect::Record(RunEvent::StopRequested { reason }), Effect::SignalAgent(SignalName::Int)];
    assert_eq!(effects, expected);
    let (state, effects) = state.step(Input::Suspend, 11);
    assert_eq!(effects, []);
    let (state, happened) = wait(state, 10_000);
    assert_eq!(signals(&happened), [(30, "term"), (60, "sandbox")]);
    check_end(state, Some(137), Ending::Decided(RunOutcome::Suspended));

    // A result decides the outcome, whether it comes after the request or before it.
    let (state, _) = running().step(Input::Suspend, 10);
    let (state, _) =
        state.step(Input::Agent(AgentSign::Result { is_error: false, tokens: None }), 11);
    check_end(state, Some(0), Ending::Decided(RunOutcome::Succeeded));
    let (state, _) =
        running().step(Input::Agent(AgentSign::Result { is_error: false, tokens: None }), 10);
    let (state, _) = state.step(Input::Suspend, 11);
    check_end(state, Some(0), Ending::Decided(RunOutcome::Succeeded));

    let (state, effects) = RunState::new(limits(), 0).step(Input::Suspend, 1);
    assert_eq!(effects.last(), Some(&Effect::KillSandbox), "there is no agent to signal");
    check_end(state, None, Ending::Decided(RunOutcome::Suspended));
}

#[test]
fn the_first_interrupt_stops_gently_and_the_second_one_kills() {
    let (state, effects) = running().step(Input::Interrupt, 10);
    let reason = StopReason::Interrupted;
    let expected =
        [Effect::Record(RunEvent::StopRequested { reason }), Effect::SignalAgent(SignalName::Int)];
    assert_eq!(effects, expected);
    let (state, effects) = state.step(Input::Interrupt, 11);
    assert_eq!(effects, [Effect::Record(RunEvent::StopRequested { reason }), Effect::KillSandbox]);
    let (state, effects) = state.step(Input::Interrupt, 12);
    assert_eq!(effects, []);
    check_end(state, Some(137), Ending::Decided(RunOutcome::Interrupted));
    let (state, _) = running().step(Input::Stop(StopManner::Ladder), 10);
    let (state, _) = state.step(Input::Interrupt, 11);
    check_end(state, Some(137), Ending::Decided(RunOutcome::Cancelled));
}

#[test]
fn a_run_that_lost_its_lease_is_killed_at_once_whatever_it_was_doing() {
    for before in [
        None,
        Some(Input::Suspend),
        Some(Input::Agent(AgentSign::Result { is_error: false, tokens: None })),
    ] {
        let mut state = running();
        if let Some(before) = before {
            state = state.step(before, 5).0;
        }
        let (state, effects) = state.step(Input::LeaseLost, 10);
        let reason = StopReason::LeaseLost;
        let expected = [Effect::Record(RunEvent::StopRequested { reason }), Effect::KillSandbox];
        assert_eq!(effects, expected);
        check_end(state, Some(137), Ending::Decided(RunOutcome::LeaseLost));
    }
    let (state, effects) = RunState::new(limits(), 0).step(Input::LeaseLost, 1);
    assert_eq!(effects.last(), Some(&Effect::KillSandbox));
    check_end(state, None, Ending::Decided(RunOutcome::LeaseLost));
}

#[test]
fn an_agent_that_forgot_is_killed_at_once_and_its_result_does_not_count() {
    let (state, effects) = running().step(Input::Forgotten, 10);
    let reason = StopReason::Amnesia;
    assert_eq!(effects, [Effect::Record(RunEvent::StopRequested { reason }), Effect::KillSandbox]);
    let (state, effects) =
        state.step(Input::Agent(AgentSign::Result { is_error: false, tokens: None }), 11);
    assert_eq!(effects, []);
    check_end(state, Some(137), Ending::Decided(RunOutcome::Amnesia));
    let (state, _) =
        running().step(Input::Agent(AgentSign::Result { is_error: false, tokens: None }), 10);
    let (state, _) = state.step(Input::Forgotten, 11);
    check_end(state, Some(0), Ending::Decided(RunOutcome::Amnesia));
}

#[test]
fn an_error_result_is_an_agent_error_whatever_the_exit_code() {
    let (state, _) =
        running().step(Input::Agent(AgentSign::Result { is_error: true, tokens: None }), 10);
    check_end(state, Some(0), Ending::Decided(RunOutcome::AgentError));
}

#[test]
fn an_end_without_a_result_is_left_to_exit_code_and_stderr() {
    check_end(running(), Some(1), Ending::ByItself { exit_code: Some(1), was_released: true });
    check_end(running(), None, Ending::ByItself { exit_code: None, was_released: true });
    let never_released = RunState::new(limits(), 0);
    check_end(never_released, None, Ending::ByItself { exit_code: None, was_released: false });
}

#[test]
fn no_init_in_time_is_a_startup_timeout() {
    let (state, _) = RunState::new(limits(), 0).step(Input::Released, 0);
    let (state, happened) = wait(state, 10_000);
    assert_eq!(
        happened[0],
        (100, Effect::Record(RunEvent::LimitReached { limit: LimitKind::Startup, after_ms: 100 }))
    );
    assert_eq!(signals(&happened), [(100, "int"), (120, "term"), (150, "sandbox")]);
    check_end(
        state,
        Some(137),
        Ending::Decided(RunOutcome::TimedOut { limit: LimitKind::Startup }),
    );
}

#[test]
fn silence_without_a_tool_is_idle_and_with_one_is_not() {
    let (state, happened) = wait(running(), 1_100);
    assert_eq!(signals(&happened), [(1000, "int"), (1020, "term"), (1050, "sandbox")]);
    check_end(state, Some(137), Ending::Decided(RunOutcome::TimedOut { limit: LimitKind::Idle }));

    let (state, _) = running().step(tool("a", None), 0);
    let (state, happened) = wait(state, 4_999);
    assert_eq!(signals(&happened), []);
    let (state, _) = wait(state, 6_000);
    let limit = LimitKind::Tool { name: "shell".to_owned() };
    check_end(state, Some(137), Ending::Decided(RunOutcome::TimedOut { limit }));
}

#[test]
fn a_tool_that_declares_a_limit_gets_it_and_a_minute_but_not_more_than_the_run_allows() {
    let generous = RunLimits { tool_ms: 0, ..limits() };
    assert_eq!(deadlines::tool_limit(&generous, Some(30_000)), Some(90_000));
    assert_eq!(deadlines::tool_limit(&generous, None), None);
    assert_eq!(deadlines::tool_limit(&limits(), Some(30_000)), Some(5000));
}

#[test]
fn parallel_tools_are_closed_one_by_one() {
    let (state, _) = running().step(tool("a", None), 0);
    let (state, _) = state.step(tool("b", None), 0);
    let completed =
        |id: &str| Input::Agent(AgentSign::ToolCompleted { call_id: id.to_owned(), call: None });
    let (state, _) = state.step(completed("a"), 10);
    assert_eq!(state.next_deadline(), Some(5000), "b is still open");
    let (state, _) = state.step(completed("b"), 20);
    assert_eq!(state.next_deadline(), Some(1020), "now it is idle");
}

#[test]
fn a_final_answer_without_a_result_settles_as_unknown() {
    let (state, _) = running().step(Input::Agent(AgentSign::FinalText), 10);
    let (state, happened) = wait(state, 10_000);
    assert_eq!(
        happened[0],
        (210, Effect::Record(RunEvent::SettledWithoutResult { silent_ms: 200 }))
    );
    let outcome = RunOutcome::Unknown { why: NoResult::SettledWithoutResult };
    check_end(state, Some(130), Ending::Decided(outcome));
}

#[test]
fn a_closed_stdout_with_a_living_process_is_unknown() {
    let (state, _) = running().step(Input::StdoutClosed, 10);
    let (state, happened) = wait(state, 10_000);
    assert_eq!(happened[0], (60, Effect::Record(RunEvent::StreamClosed)));
    let (_, effects) = state.step(Input::Exited { exit_code: Some(137) }, 9_000);
    let outcome = RunOutcome::Unknown { why: NoResult::StreamClosed };
    assert_eq!(effects, [Effect::End(Ending::Decided(outcome))]);
}

#[test]
fn the_run_waits_briefly_for_output_that_stays_open_after_the_exit() {
    let (state, effects) = running().step(Input::Exited { exit_code: Some(0) }, 100);
    assert_eq!((effects, state.next_deadline()), (vec![], Some(110)));
    let (late, _) =
        state.clone().step(Input::Agent(AgentSign::Result { is_error: false, tokens: None }), 105);
    let (_, effects) = late.step(Input::StdoutClosed, 106);
    assert_eq!(effects, [Effect::End(Ending::Decided(RunOutcome::Succeeded))]);
    let (_, happened) = wait(state, 200);
    assert!(matches!(happened[..], [(110, Effect::End(Ending::ByItself { .. }))]));
}

#[test]
fn a_stop_climbs_the_ladder_and_a_second_one_goes_to_its_end() {
    let (state, effects) = running().step(Input::Stop(StopManner::Ladder), 10);
    assert_eq!(
        effects,
        [
            Effect::Record(RunEvent::StopRequested { reason: StopReason::Cancelled }),
            Effect::SignalAgent(SignalName::Int)
        ]
    );
    let (_, happened) = wait(state.clone(), 10_000);
    assert_eq!(signals(&happened), [(30, "term"), (60, "sandbox")]);
    let (state, effects) = state.step(Input::Stop(StopManner::Ladder), 11);
    assert_eq!(effects.last(), Some(&Effect::KillSandbox));
    check_end(state, Some(137), Ending::Decided(RunOutcome::Cancelled));
}

#[test]
fn a_stop_before_the_release_kills_at_once_and_nothing_runs() {
    let (state, effects) = RunState::new(limits(), 0).step(Input::Stop(StopManner::Ladder), 1);
    assert_eq!(effects.last(), Some(&Effect::KillSandbox));
    let (state, _) = state.step(Input::Released, 2);
    assert_eq!(state.next_deadline(), None);
    check_end(state, None, Ending::Decided(RunOutcome::Cancelled));
}

#[test]
fn an_agent_in_a_different_session_than_requested_is_killed_at_once() {
    let (state, _) = RunState::new(limits(), 0).step(Input::Released, 0);
    let (state, effects) =
        state.step(Input::Agent(AgentSign::Init { is_the_asked_session: false }), 1);
    assert_eq!(effects.last(), Some(&Effect::KillSandbox));
    check_end(state, Some(137), Ending::Decided(RunOutcome::SessionMismatch));
}

#[test]
fn a_run_whose_journal_fails_does_not_succeed_even_with_a_result() {
    let (state, _) =
        running().step(Input::Agent(AgentSign::Result { is_error: false, tokens: None }), 1);
    let (state, _) = state.step(Input::JournalFailed, 2);
    let (state, _) =
        state.step(Input::Agent(AgentSign::Result { is_error: false, tokens: None }), 3);
    check_end(state, Some(0), Ending::Decided(RunOutcome::JournalFailed));
}

#[test]
fn the_wall_clock_also_ends_a_run_that_was_never_released() {
    let state = RunState::new(RunLimits { wall_ms: 40, ..limits() }, 0);
    let (state, happened) = wait(state, 10_000);
    assert_eq!(signals(&happened), [(40, "sandbox")]);
    let outcome = RunOutcome::TimedOut { limit: LimitKind::WallClock };
    check_end(state, None, Ending::Decided(outcome));
}

#[test]
fn the_wall_clock_ends_a_process_that_may_linger_forever_and_keeps_the_outcome() {
    let limits = RunLimits { linger_ms: 0, wall_ms: 500, ..limits() };
    let (state, _) = RunState::new(limits, 0).step(Input::Released, 0);
    let (state, _) =
        state.step(Input::Agent(AgentSign::Result { is_error: false, tokens: None }), 10);
    let (state, happened) = wait(state, 10_000);
    assert_eq!(signals(&happened), [(500, "term"), (530, "sandbox")]);
    check_end(state, Some(137), Ending::Decided(RunOutcome::Succeeded));
}

#[test]
fn a_long_silence_is_reported_once_and_again_after_a_sign_of_life() {
    let patient = RunLimits { idle_ms: 0, startup_ms: 0, settle_ms: 0, ..limits() };
    let (state, _) = RunState::new(patient, 0).step(Input::Released, 0);
    let (state, happened) = wait(state, 500_000);
    assert_eq!(happened.len(), 1);
    let (state, _) = state.step(Input::SignOfLife, 500_000);
    let (_, happened) = wait(state, 900_000);
    assert_eq!(happened[0].0, 560_000);
}

#[test]
fn a_run_whose_protection_is_gone_is_killed_at_once_and_ends_as_suspended() {
    let lost = || Input::ProtectionLost("/w/.git/config".into());
    let (state, effects) = running().step(lost(), 10);
    assert_eq!(
        effects,
        [
            Effect::Record(RunEvent::ProtectionLost { path: "/w/.git/config".into() }),
            Effect::Record(RunEvent::StopRequested { reason: StopReason::ProtectionLost }),
            Effect::KillSandbox,
        ]
    );
    // More losses often follow the first.
    let (state, effects) = state.step(lost(), 11);
    assert_eq!(effects, []);
    let (state, _) = state.step(Input::StdoutClosed, 12);
    let (_, effects) = state.step(Input::Exited { exit_code: Some(137) }, 13);
    assert!(effects.contains(&Effect::End(Ending::Decided(RunOutcome::Suspended))), "{effects:?}");
}

fn inputs() -> impl Strategy<Value = Input> {
    let ids = || prop_oneof![Just("a".to_owned()), Just("b".to_owned())];
    let declared = proptest::option::of(0u64..10_000);
    prop_oneof![
        Just(Input::Released),
        any::<bool>()
            .prop_map(|asked| Input::Agent(AgentSign::Init { is_the_asked_session: asked })),
        (ids(), declared).prop_map(|(call_id, declared_ms)| {
            Input::Agent(AgentSign::ToolStarted { call_id, name: "x".to_owned(), declared_ms })
        }),
        (ids(), option::of(0u64..2)).prop_map(|(call_id, call)| {
            let call = call.map(finished_call::tests::numbered);
            Input::Agent(AgentSign::ToolCompleted { call_id, call })
        }),
        Just(Input::Agent(AgentSign::FinalText)),
        any::<(bool, Option<u64>)>()
            .prop_map(|(is_error, tokens)| Input::Agent(AgentSign::Result { is_error, tokens })),
        Just(Input::Agent(AgentSign::Other)),
        Just(Input::SignOfLife),
        Just(Input::StdoutClosed),
        proptest::option::of(0i32..256).prop_map(|exit_code| Input::Exited { exit_code }),
        prop_oneof![Just(StopManner::Ladder), Just(StopManner::Now)].prop_map(Input::Stop),
        Just(Input::Exceeded(LimitKind::Processes { most: 9 })),
        Just(Input::HadExceeded(LimitKind::Memory { bytes: 9 })),
        Just(Input::ProtectionLost(".cursor".into())),
        Just(Input::Suspend),
        Just(Input::Forgotten),
        Just(Input::JournalFailed),
        Just(Input::Tick),
    ]
}

proptest! {
    #[test]
    fn for_any_input_a_run_ends_at_most_once_and_succeeds_only_with_a_result(
        script in proptest::collection::vec((inputs(), 0u64..200), 0..60)
    ) {
        let mut state = RunState::new(limits(), 0);
        let (mut now, mut n_ends, mut saw_result) = (0, 0, false);
        for (input, pause) in script {
            now += pause;
            saw_result |= matches!(input, Input::Agent(AgentSign::Result { is_error: false, .. }));
            let had_ended = state.has_ended();
            let (next, effects) = state.step(input, now);
            for effect in effects {
                prop_assert!(!had_ended || !matches!(effect, Effect::End(_) | Effect::SignalAgent(_)));
                if let Effect::End(ending) = effect {
                    n_ends += 1;
                    prop_assert!(saw_result || ending != Ending::Decided(RunOutcome::Succeeded));
                }
            }
            state = next;
        }
        prop_assert!(n_ends <= 1);
        prop_assert_eq!(n_ends == 1, state.has_ended());
    }

    #[test]
    fn with_every_limit_set_an_agent_that_never_exits_is_killed_in_bounded_time(
        script in proptest::collection::vec((inputs(), 0u64..200), 0..30)
    ) {
        let mut state = RunState::new(RunLimits { wall_ms: 3_000, ..limits() }, 0);
        let mut now = 0;
        let mut killed = false;
        for (input, pause) in script {
            now += pause;
            if matches!(input, Input::Exited { .. }) {
                continue;
            }
            let (next, effects) = state.step(input, now);
            killed |= effects.contains(&Effect::KillSandbox);
            state = next;
        }
        let (_, happened) = wait(state, now + 20_000);
        prop_assert!(killed || happened.iter().any(|(_, effect)| *effect == Effect::KillSandbox));
    }
}

#[test]
fn a_run_that_exceeds_a_limit_is_ended_at_once_and_names_the_limit() {
    let limit = LimitKind::Memory { bytes: 1 << 30 };
    let (state, _) = RunState::new(RunLimits::default(), 0).step(Input::Released, 0);
    let (state, effects) = state.step(Input::Exceeded(limit.clone()), 700);
    assert_eq!(
        effects,
        [
            Effect::Record(RunEvent::LimitReached { limit: limit.clone(), after_ms: 700 }),
            Effect::Record(RunEvent::StopRequested { reason: StopReason::Limit }),
            Effect::KillSandbox,
        ]
    );
    // The kernel's counters report it again, but it is still one limit and one end.
    let (state, effects) = state.step(Input::HadExceeded(limit.clone()), 701);
    assert_eq!(effects, []);
    let (state, _) = state.step(Input::StdoutClosed, 702);
    let (_, effects) = state.step(Input::Exited { exit_code: Some(137) }, 703);
    let outcome = RunOutcome::QuotaExceeded { limit };
    assert_eq!(effects, [Effect::End(Ending::Decided(outcome))]);
}

#[test]
fn a_run_that_the_kernel_ended_for_taking_too_much_is_not_ended_again() {
    let limit = LimitKind::Processes { most: 64 };
    let (state, _) = RunState::new(RunLimits::default(), 0).step(Input::Released, 0);
    let (state, effects) = state.step(Input::HadExceeded(limit.clone()), 5);
    let reached = RunEvent::LimitReached { limit: limit.clone(), after_ms: 5 };
    assert_eq!(effects, [Effect::Record(reached)]);
    let (state, _) = state.step(Input::StdoutClosed, 6);
    let (_, effects) = state.step(Input::Exited { exit_code: None }, 6);
    let outcome = RunOutcome::QuotaExceeded { limit };
    assert_eq!(effects, [Effect::End(Ending::Decided(outcome))]);
}

#[test]
fn a_result_stays_even_if_the_run_exceeds_a_limit_afterwards() {
    let (state, _) = RunState::new(RunLimits::default(), 0).step(Input::Released, 0);
    let result = Input::Agent(AgentSign::Result { is_error: false, tokens: None });
    let (state, _) = state.step(result, 5);
    let (state, effects) = state.step(Input::Exceeded(LimitKind::Disk { bytes: 9 }), 6);
    assert!(effects.contains(&Effect::KillSandbox));
    let (state, _) = state.step(Input::StdoutClosed, 7);
    let (_, effects) = state.step(Input::Exited { exit_code: None }, 7);
    assert_eq!(effects, [Effect::End(Ending::Decided(RunOutcome::Succeeded))]);
}

/// The effects, without their times since the start.
fn decisions(effects: Vec<Effect>) -> Vec<Effect> {
    let timeless = |effect| match effect {
        Effect::Record(RunEvent::LimitReached { limit, .. }) => {
            Effect::Record(RunEvent::LimitReached { limit, after_ms: 0 })
        }
        other => other,
    };
    effects.into_iter().map(timeless).collect()
}

#[test]
fn time_in_which_the_shim_did_not_run_does_not_count_as_silence_but_counts_for_the_wall_clock() {
    let state = RunState::new(RunLimits { wall_ms: 7_000, ..limits() }, 0);
    let (state, _) = state.step(Input::Released, 0);
    let (state, _) = state.step(Input::Agent(AgentSign::Init { is_the_asked_session: true }), 0);
    let (state, _) = state.step(Input::Absent { ms: 5_000 }, 5_600);
    let (state, effects) = state.step(Input::Tick, 5_600);
    assert_eq!(effects, []);
    assert_eq!(state.next_deadline(), Some(6_000), "it was silent for 600 of 1000 ms");
    let (state, _) = state.step(Input::Absent { ms: 1_500 }, 7_100);
    let (_, effects) = state.step(Input::Tick, 7_100);
    let limit = LimitKind::WallClock;
    assert_eq!(effects[0], Effect::Record(RunEvent::LimitReached { limit, after_ms: 7_100 }));
}

proptest! {
    #[test]
    fn absences_at_any_moment_change_no_decision(
        script in proptest::collection::vec((inputs(), 0u64..400, 0u64..5_000), 0..60)
    ) {
        let (mut present, mut absent) = (RunState::new(limits(), 0), RunState::new(limits(), 0));
        let (mut now, mut away) = (0, 0);
        for (input, pause, ms) in script {
            now += pause;
            away += ms;
            absent = absent.step(Input::Absent { ms }, now + away).0;
            for input in [Input::Tick, input] {
                let (next_present, decided) = present.step(input.clone(), now);
                let (next_absent, decided_late) = absent.step(input, now + away);
                prop_assert_eq!(decisions(decided), decisions(decided_late));
                (present, absent) = (next_present, next_absent);
            }
        }
    }
}
