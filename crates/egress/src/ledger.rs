//! Every decision is told, and a flood of them does not fill a journal: what is alike is told together, with its number.

use std::collections::BTreeMap;

use run_protocol::{NetRefusal, NetVia, RunEvent};

/// Different decisions that are kept apart; the rest is told by its kind alone.
const MOST_KEPT: usize = 256;
/// What is kept of a name that somebody made up.
const LONGEST_HOST: usize = 253;
/// From the first of a kind to the next telling of it; twice as long each time.
const FIRST_PAUSE_MS: u64 = 5_000;
const LONGEST_PAUSE_MS: u64 = 10 * 60_000;

/// What was decided about one attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decision {
    /// As it was asked for; `None` where nothing was.
    pub host: Option<String>,
    pub port: Option<u16>,
    pub via: NetVia,
    /// `None`: it was let through.
    pub refusal: Option<NetRefusal>,
    /// What more there is to say of a refusal.
    pub detail: Option<String>,
}

/// Decisions that are to be told.
#[derive(Debug, Default)]
pub struct Ledger {
    tallies: BTreeMap<Decision, Tally>,
}

#[derive(Debug)]
struct Tally {
    /// Not told yet.
    untold: u64,
    next_at: u64,
    pause: u64,
}

impl Ledger {
    /// Takes note of a decision.
    pub fn note(&mut self, mut decision: Decision) {
        if let Some(host) = &mut decision.host {
            cut(host, LONGEST_HOST);
        }
        if self.tallies.len() >= MOST_KEPT && !self.tallies.contains_key(&decision) {
            (decision.host, decision.port, decision.detail) = (None, None, None);
        }
        let fresh = Tally { untold: 0, next_at: 0, pause: FIRST_PAUSE_MS };
        self.tallies.entry(decision).or_insert(fresh).untold += 1;
    }

    /// One thing that is to be told now, in milliseconds of any clock that does not go back.
    pub fn take_due(&mut self, now: u64) -> Option<RunEvent> {
        let is_due = |tally: &Tally| tally.untold > 0 && tally.next_at <= now;
        let (decision, tally) = self.tallies.iter_mut().find(|(_, tally)| is_due(tally))?;
        let event = decision.event(tally.untold);
        tally.untold = 0;
        tally.next_at = now.saturating_add(tally.pause);
        tally.pause = (tally.pause * 2).min(LONGEST_PAUSE_MS);
        Some(event)
    }

    /// What was not told, before it is too late.
    pub fn rest(&mut self) -> Vec<RunEvent> {
        std::iter::from_fn(|| self.take_due(u64::MAX)).collect()
    }

    /// When there is something to tell.
    pub fn next_due(&self) -> Option<u64> {
        let untold = self.tallies.values().filter(|tally| tally.untold > 0);
        untold.map(|tally| tally.next_at).min()
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
#[path = "ledger_tests.rs"]
mod tests;
