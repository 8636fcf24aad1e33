//! One reader's set of runs with news. However slow the reader is, the set has each run at most once.

use std::collections::BTreeSet;
use std::sync::Mutex;

use ground::lock;
use run_protocol::RunId;
use tokio::sync::Notify;

/// The runs that a reader wants to hear about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    One(RunId),
    All,
}

#[derive(Debug)]
pub(crate) struct Subscriber {
    interest: Interest,
    news: Mutex<BTreeSet<RunId>>,
    arrived: Notify,
}

impl Subscriber {
    pub(crate) fn new(interest: Interest) -> Self {
        Self { interest, news: Mutex::default(), arrived: Notify::new() }
    }

    pub(crate) fn interest(&self) -> Interest {
        self.interest
    }

    /// Adds a run, if the reader wants to hear about it.
    pub(crate) fn put(&self, run: RunId) {
        let wanted = match self.interest {
            Interest::One(one) => one == run,
            Interest::All => true,
        };
        if wanted && lock(&self.news).insert(run) {
            self.arrived.notify_one();
        }
    }

    /// Takes the runs with news, without waiting.
    pub(crate) fn take(&self) -> BTreeSet<RunId> {
        std::mem::take(&mut *lock(&self.news))
    }

    /// Waits until a run has news, and takes all runs with news.
    pub(crate) async fn next(&self) -> BTreeSet<RunId> {
        loop {
            let news = self.take();
            if !news.is_empty() {
                return news;
            }
            self.arrived.notified().await;
        }
    }
}
