//! Counters since the daemon's start, for `/metrics`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ground::lock;

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: Counter,
    pub(crate) refused_connections: Counter,
    pub(crate) refused_requests: Counter,
    pub(crate) starts: Counter,
    pub(crate) failed_starts: Counter,
    pub(crate) decisions: Counter,
    /// Microseconds spent on decisions.
    pub(crate) decision_us: Counter,
    pub(crate) event_streams: Counter,
    ended: Mutex<BTreeMap<String, u64>>,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }

    pub(crate) fn one_less(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(crate) fn ended(&self, outcome: &str) {
        let mut ended = lock(&self.ended);
        *ended.entry(outcome.to_owned()).or_default() += 1;
    }

    pub(crate) fn by_outcome(&self) -> BTreeMap<String, u64> {
        lock(&self.ended).clone()
    }
}
