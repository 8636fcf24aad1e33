//! Notices an agent that repeats itself: it makes the same call again and again, or two or three calls in turn, and the
//! results do not change. A result that changes is progress.

use std::collections::VecDeque;

use run_protocol::{OnLoop, RunEvent, RunOutcome, StopReason};

use super::{Effect, Moment, Phase, RunState};
use crate::supervise::finished_call::FinishedCall;

/// This many calls in a row are a loop: the same call twelve times, a pair six times. Agents repeat a call a few times
/// for good reasons: the connection broke, they were told to try again, they forgot it in a summary.
const ENOUGH: u64 = 12;
/// The most calls in turn, as in "read, edit, test".
const LONGEST_ROUND: usize = 3;

/// Remembers the last few calls, so that its size does not grow with the run.
#[derive(Debug, Clone, Default)]
pub(super) struct Repetition {
    /// The last calls, latest first.
    last: VecDeque<FinishedCall>,
    /// For a round of one, two and three calls: how many calls in a row equal the call one round earlier.
    equal: [u64; LONGEST_ROUND],
}

impl Repetition {
    /// Takes the next call, and returns an event if the agent repeats itself, each time the number of calls has doubled.
    /// A call that says nothing (`None`) ends the repetition.
    pub(super) fn note(&mut self, call: Option<FinishedCall>) -> Option<RunEvent> {
        let Some(call) = call else {
            *self = Self::default();
            return None;
        };
        for (before, equal) in self.equal.iter_mut().enumerate() {
            *equal = if self.last.get(before) == Some(&call) { *equal + 1 } else { 0 };
        }
        self.last.push_front(call);
        self.last.truncate(LONGEST_ROUND);
        // The shortest round comes first: one call again and again is also a round of two.
        let rounds = (1..).zip(&self.equal).map(|(round, equal)| (round, round + *equal));
        let (round, in_a_row) = rounds.into_iter().find(|(_, in_a_row)| *in_a_row >= ENOUGH)?;
        let is_due = in_a_row.is_multiple_of(ENOUGH) && (in_a_row / ENOUGH).is_power_of_two();
        is_due.then(|| {
            let length = usize::try_from(round).unwrap_or(LONGEST_ROUND);
            let calls = self.last.iter().take(length).rev().map(|call| call.words.clone());
            RunEvent::Looping { calls: calls.collect(), in_a_row }
        })
    }
}

impl RunState {
    /// Records that the agent repeats itself, and ends the run if the user wants that.
    pub(super) fn looping(&mut self, event: RunEvent, now: Moment, effects: &mut Vec<Effect>) {
        effects.push(Effect::Record(event));
        if self.limits.r#loop == OnLoop::End && matches!(self.phase, Phase::Running(_)) {
            self.verdict.get_or_insert(RunOutcome::Looping);
            self.climb_from_int(StopReason::Looping, now, effects);
        }
    }
}

#[cfg(test)]
#[path = "repetition_tests.rs"]
mod tests;
