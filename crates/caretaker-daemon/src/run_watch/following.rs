//! The readers of event streams, and the journals that the daemon watches for them.

use std::sync::{Arc, Weak};

use ground::inotify::WatchFlags;
use run_journal::RunDirectory;
use run_protocol::RunId;

use super::{RunWatch, Table, Watched};
use crate::run_watch::subscriber::{Interest, Subscriber};

/// Watches one journal or all journals until it is dropped.
#[derive(Debug)]
pub(crate) struct Following {
    watch: RunWatch,
    subscriber: Arc<Subscriber>,
}

impl RunWatch {
    /// Adds a reader of one run, or of all runs.
    pub(crate) fn follow(&self, interest: Interest) -> Following {
        let subscriber = Arc::new(Subscriber::new(interest));
        let runs: Vec<RunId> = {
            let mut table = self.table();
            table.subscribers.push(Arc::downgrade(&subscriber));
            match interest {
                Interest::One(run) => vec![run],
                Interest::All => table.runs.keys().copied().collect(),
            }
        };
        for run in runs {
            self.watch_journal(run);
        }
        Following { watch: self.clone(), subscriber }
    }

    pub(super) fn watch_journal(&self, run: RunId) {
        let mut guard = self.table();
        let table = &mut *guard;
        let Some(tracked) = table.runs.get_mut(&run) else { return };
        if tracked.journal_watch.is_some() {
            return;
        }
        let Ok(directory) = RunDirectory::open(&self.0.state, run) else { return };
        if let Ok(watch) = self.0.inotify.watch(&directory.journal_path(), WatchFlags::MODIFY) {
            tracked.journal_watch = Some(watch);
            table.watched.insert(watch, (run, Watched::Journal));
        }
    }

    /// Stops watching journals that have no reader.
    fn unfollow(&self) {
        let mut guard = self.table();
        let table = &mut *guard;
        table.subscribers.retain(|subscriber| subscriber.strong_count() > 0);
        let idle: Vec<RunId> = table
            .runs
            .iter()
            .filter(|(run, tracked)| tracked.journal_watch.is_some() && !table.is_followed(**run))
            .map(|(run, _)| *run)
            .collect();
        for run in idle {
            let watch = table.runs.get_mut(&run).and_then(|tracked| tracked.journal_watch.take());
            if let Some(watch) = watch {
                table.watched.remove(&watch);
                self.0.inotify.forget(watch);
            }
        }
    }

    /// Wakes the readers of a run that has news.
    pub(super) fn tell(&self, run: RunId) {
        for subscriber in self.table().subscribers.iter().filter_map(Weak::upgrade) {
            subscriber.put(run);
        }
    }
}

impl Table {
    pub(super) fn is_followed(&self, run: RunId) -> bool {
        self.subscribers.iter().filter_map(Weak::upgrade).any(|subscriber| {
            match subscriber.interest() {
                Interest::All => true,
                Interest::One(one) => one == run,
            }
        })
    }
}

impl Following {
    pub(crate) fn subscriber(&self) -> &Subscriber {
        &self.subscriber
    }

    pub(crate) fn is_over(&self, run: RunId) -> bool {
        self.watch.is_over(run)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let watch = self.watch.clone();
        // The subscriber is dropped after this. Replace it, so that it does not count as a reader.
        self.subscriber = Arc::new(Subscriber::new(self.subscriber.interest()));
        watch.unfollow();
    }
}
