//! The agent's answer, from the last `result` line of a run's journal.
//!
//! The line is near the end of the journal, so the search begins there. It goes further back only if the outcome
//! implies that there is such a line.

use agent_stream::{AgentStream, EventKind, Usage};
use public_events::as_raw_line;
use run_journal::{JournalEntry, Position, Progress, RunDirectory, RunState};
use run_protocol::{LimitKind, RunOutcome};

use crate::running::following::open_journal;

/// After `result`, the journal gets only a few lines: the run's usage, its changes and its outcome.
const FIRST_LOOK: u64 = 64;
/// Each further search reads this many times more lines.
const WIDER: u64 = 32;

/// The agent's final answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Answer {
    /// `None`: the result has no text.
    pub(crate) text: Option<String>,
    /// `None`: the agent did not report it.
    pub(crate) usage: Option<Usage>,
}

impl Answer {
    /// Reads the answer of a run in this state; `None` if there is no answer, or if the journal cannot be read.
    pub(crate) fn read(run: &RunDirectory, state: &RunState) -> Option<Self> {
        let mut n_lines = FIRST_LOOK;
        loop {
            let look = last_result(run, n_lines)?;
            let is_all = look.n_lines < n_lines;
            if look.answer.is_some() || is_all || !has_result(state) {
                return look.answer;
            }
            n_lines = n_lines.saturating_mul(WIDER);
        }
    }
}

/// True if the journal of a run with this outcome must have a `result` line.
fn has_result(state: &RunState) -> bool {
    matches!(
        state.outcome(),
        Some(
            RunOutcome::Succeeded
                | RunOutcome::AgentError
                | RunOutcome::QuotaExceeded { limit: LimitKind::Tokens { .. } }
        )
    )
}

struct Look {
    answer: Option<Answer>,
    /// The number of events read.
    n_lines: u64,
}

/// Searches the last `n_lines` events.
fn last_result(run: &RunDirectory, n_lines: u64) -> Option<Look> {
    let mut reader = open_journal(run, Position::Tail(n_lines)).ok()?;
    let mut lines = AgentStream::default();
    let mut look = Look { answer: None, n_lines: 0 };
    let mut on_entry = |entry: JournalEntry<'_>| {
        look.n_lines += u64::from(!matches!(entry, JournalEntry::Header(_)));
        let JournalEntry::Agent { line, ending, .. } = entry else { return };
        if let EventKind::Result(result) = &lines.read_line(as_raw_line(&line, ending)).event.kind {
            let text = result.text.as_ref().map(ToString::to_string);
            look.answer = Some(Answer { text, usage: result.usage });
        }
    };
    while reader.next_batch(&mut on_entry).ok()? == Progress::Advanced {}
    Some(look)
}
