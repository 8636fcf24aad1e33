use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::supervise::finished_call::tests::numbered;

/// The events after these calls: the number of calls that came before each, the round, and the number in a row.
fn events(calls: impl IntoIterator<Item = Option<u64>>) -> Vec<(u64, usize, u64)> {
    let mut repetition = Repetition::default();
    let mut found = Vec::new();
    for (place, call) in (1..).zip(calls) {
        if let Some(event) = repetition.note(call.map(numbered)) {
            let RunEvent::Looping { calls, in_a_row } = event else { panic!("{event:?}") };
            found.push((place, calls.len(), in_a_row));
        }
        assert!(repetition.last.len() <= LONGEST_ROUND);
    }
    found
}

/// The same rule over the whole history: how many calls at the end are one call, or two or three in turn.
fn looks_back(history: &[Option<u64>]) -> Option<(usize, u64)> {
    let own = history.iter().rev().take_while(|call| call.is_some()).count();
    let calls = &history[history.len() - own..];
    (1..=LONGEST_ROUND)
        .map(|round| {
            let equal = (round..calls.len()).rev().take_while(|at| calls[*at] == calls[at - round]);
            (round, (equal.count() + round) as u64)
        })
        .find(|(_, in_a_row)| *in_a_row >= ENOUGH)
}

#[test]
fn the_same_call_again_and_again_is_reported_each_time_the_number_has_doubled() {
    let same = std::iter::repeat_n(Some(7), 100);
    assert_eq!(events(same), [(12, 1, 12), (24, 1, 24), (48, 1, 48), (96, 1, 96)]);
}

#[test]
fn the_event_names_the_calls_in_the_order_in_which_the_agent_makes_them() {
    let mut repetition = Repetition::default();
    let found = (0..12).filter_map(|at| repetition.note(Some(numbered(at % 3)))).last();
    let Some(RunEvent::Looping { calls, in_a_row: 12 }) = found else { panic!("{found:?}") };
    let subjects: Vec<&str> = calls.iter().map(|call| call.subject.as_str()).collect();
    assert_eq!(subjects, ["call 0", "call 1", "call 2"]);
}

proptest! {
    #[test]
    fn calls_that_do_not_repeat_are_never_a_loop(calls in vec(0u64..5, 0..200)) {
        // Leave out each call that equals one of the three before it.
        let mut different: Vec<Option<u64>> = Vec::new();
        for call in calls {
            if !different.iter().rev().take(LONGEST_ROUND).any(|earlier| *earlier == Some(call)) {
                different.push(Some(call));
            }
        }
        prop_assert_eq!(events(different), []);
    }

    #[test]
    fn one_to_three_calls_in_turn_are_always_a_loop(before in vec(option::of(0u64..3), 0..40), round in 1u64..=3) {
        let n_before = before.len() as u64;
        // They differ from the calls before them, so the loop begins with them.
        let turns = (0..ENOUGH).map(|at| Some(100 + at % round));
        let found = events(before.into_iter().chain(turns));
        prop_assert_eq!(found.last(), Some(&(n_before + ENOUGH, usize::try_from(round).unwrap(), ENOUGH)));
    }

    #[test]
    fn a_call_that_waits_ends_the_repetition(at in 1usize..12, call in 0u64..3) {
        let calls = (0..20).map(|place| (place % at != 0).then_some(call));
        prop_assert_eq!(events(calls), []);
    }

    #[test]
    fn the_last_three_calls_are_enough_to_decide(calls in vec(prop_oneof![9 => (0u64..2).prop_map(Some), 1 => Just(None)], 0..30), n_rounds in 0usize..20) {
        // Few different calls, and a part that repeats, so that loops are common.
        let part: Vec<Option<u64>> = calls.iter().copied().take(3).collect();
        let calls: Vec<Option<u64>> = part.iter().copied().cycle().take(part.len() * n_rounds).chain(calls).collect();
        let is_due = |in_a_row: u64| in_a_row.is_multiple_of(ENOUGH) && (in_a_row / ENOUGH).is_power_of_two();
        let expected: Vec<(u64, usize, u64)> = (1..=calls.len())
            .filter_map(|n| looks_back(&calls[..n]).map(|(round, in_a_row)| (n as u64, round, in_a_row)))
            .filter(|(_, _, in_a_row)| is_due(*in_a_row))
            .collect();
        prop_assert_eq!(events(calls), expected);
    }
}
