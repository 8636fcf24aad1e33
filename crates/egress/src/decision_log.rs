//! Turns decisions into events. Equal decisions share one event with a count, so a flood does not fill the journal.

use std::collections::BTreeMap;

use run_protocol::{NetRefusal, NetVia, RunEvent};

/// The log distinguishes at most this many decisions. Events about the others have no host and no port.
const MOST_KEPT: usize = 256;
/// The longest part of a host name in an event.
const LONGEST_HOST: usize = 253;
/// The pause between two events for equal decisions. It doubles each time.
const FIRST_PAUSE_MS: u64 = 5_000;
const LONGEST_PAUSE_MS: u64 = 10 * 60_000;

/// The decision about one attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decision {
    /// The host as the client named it.
    pub host: Option<String>,
    pub port: Option<u16>,
    pub via: NetVia,
    /// `None` if the attempt was allowed.
    pub refusal: Option<NetRefusal>,
    /// More about a refusal, as text.
    pub detail: Option<String>,
}

/// The decisions so far, with counts.
#[derive(Debug, Default)]
pub struct DecisionLog {
    tallies: BTreeMap<Decision, Tally>,
}

#[derive(Debug)]
struct Tally {
    /// The number of decisions without an event so far.
    unreported: u64,
    next_at: u64,
    pause: u64,
}

impl DecisionLog {
    /// Adds a decision.
    pub fn note(&mut self, mut decision: Decision) {
        if let Some(host) = &mut decision.host {
            cut(host, LONGEST_HOST);
        }
        if self.tallies.len() >= MOST_KEPT && !self.tallies.contains_key(&decision) {
            (decision.host, decision.port, decision.detail) = (None, None, None);
        }
        let fresh = Tally { unreported: 0, next_at: 0, pause: FIRST_PAUSE_MS };
        self.tallies.entry(decision).or_insert(fresh).unreported += 1;
    }

    /// Returns one event that is due. `now` is in milliseconds, on any clock that never goes backwards.
    pub fn take_due(&mut self, now: u64) -> Option<RunEvent> {
        let is_due = |tally: &Tally| tally.unreported > 0 && tally.next_at <= now;
        let (decision, tally) = self.tallies.iter_mut().find(|(_, tally)| is_due(tally))?;
        let event = decision.event(tally.unreported);
        tally.unreported = 0;
        tally.next_at = now.saturating_add(tally.pause);
        tally.pause = (tally.pause * 2).min(LONGEST_PAUSE_MS);
        Some(event)
    }

    /// Returns the events for all decisions that have none yet.
    pub fn rest(&mut self) -> Vec<RunEvent> {
        std::iter::from_fn(|| self.take_due(u64::MAX)).collect()
    }

    /// Returns the time when the next event is due.
    pub fn next_due(&self) -> Option<u64> {
        let unreported = self.tallies.values().filter(|tally| tally.unreported > 0);
        unreported.map(|tally| tally.next_at).min()
    }
}

impl Decision {
    fn event(&self, count: u64) -> RunEvent {
        let Self { host, port, via, refusal, detail } = self.clone();
        match refusal {
            None => RunEvent::NetAllowed { host, port, via, count },
            Some(reason) => RunEvent::NetDenied { host, port, via, reason, detail, count },
        }
    }
}

fn cut(text: &mut String, longest: usize) {
    if text.len() > longest {
        text.truncate(text.floor_char_boundary(longest));
    }
}

#[cfg(test)]
#[path = "decision_log_tests.rs"]
mod tests;
