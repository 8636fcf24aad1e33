//! Tries a run again, but only if the infrastructure failed before the agent could change anything.

use std::fmt;
use std::time::Duration;

use admission::command_error::CommandError;
use admission::config::Config;
use admission::words::units;
use agent_stream::{AgentStream, EventKind};
use public_events::as_raw_line;
use run_journal::{JournalEntry, Position, RunDirectory};
use run_protocol::{FailureClass, RunOutcome};
use uuid::Uuid;

use crate::running::following::{open_journal, read_to_end};
use crate::running::launching::Launched;

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// How many retries remain, and the pause before the next.
#[derive(Debug)]
pub(crate) struct Retries {
    left: u32,
    next_pause: Duration,
}

/// The pause before the next attempt, and how many more can follow.
#[derive(Debug)]
pub(crate) struct Pause {
    pub(crate) length: Duration,
    left: u32,
}

impl fmt::Display for Pause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = u64::try_from(self.length.as_millis()).unwrap_or(u64::MAX);
        write!(formatter, "trying again in {}; ", units::duration(length))?;
        match u64::from(self.left) {
            0 => formatter.write_str("last attempt"),
            left => {
                let left = units::counted(left, "attempt", "attempts");
                write!(formatter, "{left} left after it")
            }
        }
    }
}

impl Retries {
    pub(crate) fn new(config: &Config, asked: Option<u32>) -> Self {
        let first = config.retry_after.limit().unwrap_or(Duration::ZERO);
        Self { left: asked.unwrap_or(config.retries), next_pause: first }
    }

    /// How long to wait before the next try; `None` if there is no next try.
    pub(crate) fn pause_after(
        &mut self,
        launched: &Launched,
    ) -> Result<Option<Pause>, CommandError> {
        let is_worth_it = launched.outcome.as_ref().is_some_and(is_of_the_infrastructure);
        if self.left == 0 || !is_worth_it || has_called_a_tool(&launched.run)? {
            return Ok(None);
        }
        self.left -= 1;
        let length = jittered(self.next_pause, Uuid::new_v4().as_u128());
        self.next_pause = (self.next_pause * 2).min(LONGEST_PAUSE);
        Ok(Some(Pause { length, left: self.left }))
    }
}

fn is_of_the_infrastructure(outcome: &RunOutcome) -> bool {
    use FailureClass::{ConfigRace, Network, RateLimited};
    matches!(outcome, RunOutcome::Failed { class: Network | RateLimited | ConfigRace })
}

/// 50 % to 150 % of the pause, so that runs that failed together do not retry together.
fn jittered(pause: Duration, random: u128) -> Duration {
    let thousandths = u32::try_from(random % 1001).unwrap_or_default();
    pause / 2 + pause / 1000 * thousandths
}

fn has_called_a_tool(run: &RunDirectory) -> Result<bool, CommandError> {
    let mut reader = open_journal(run, Position::Start)?;
    let mut lines = AgentStream::default();
    let mut has_called = false;
    let mut on_entry = |entry: JournalEntry<'_>| {
        if let JournalEntry::Agent { line, ending, .. } = entry {
            let kind = &lines.read_line(as_raw_line(&line, ending)).event.kind;
            has_called |= matches!(kind, EventKind::ToolStarted(_) | EventKind::ToolCompleted(_));
        }
    };
    read_to_end(&mut reader, &mut on_entry)?;
    Ok(has_called)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread_between_half_and_one_and_a_half_times_their_length() {
        let pause = Duration::from_secs(10);
        assert_eq!(jittered(pause, 0), Duration::from_secs(5));
        assert_eq!(jittered(pause, 1000), Duration::from_secs(15));
        assert_eq!(jittered(pause, 1001), Duration::from_secs(5));
    }

    #[test]
    fn only_infrastructure_failures_are_retried() {
        let failed = |class| RunOutcome::Failed { class };
        for class in [FailureClass::Network, FailureClass::RateLimited, FailureClass::ConfigRace] {
            assert!(is_of_the_infrastructure(&failed(class)));
        }
        for outcome in [
            failed(FailureClass::Auth),
            failed(FailureClass::UsageLimit),
            failed(FailureClass::Killed),
            RunOutcome::AgentError,
            RunOutcome::Amnesia,
        ] {
            assert!(!is_of_the_infrastructure(&outcome));
        }
    }
}
