//! Those who read along: who wants to hear of which run, and the journals that are watched for them and no longer.

use std::sync::{Arc, Weak};

use run_journal::RunDirectory;
use run_protocol::RunId;

use super::{RunWatch, Table, Watched};
use crate::mailbox::{Interest, Mailbox};

/// Keeps a journal, or all of them, watched for as long as it lives.
#[derive(Debug)]
pub(crate) struct Following {
    watch: RunWatch,
    mailbox: Arc<Mailbox>,
}

impl RunWatch {
    /// Begins to tell a reader of one run, or of all.
    pub(crate) fn follow(&self, interest: Interest) -> Following {
        let mailbox = Arc::new(Mailbox::new(interest));
        let runs: Vec<RunId> = {
            let mut table = self.table();
            table.mailboxes.push(Arc::downgrade(&mailbox));
            match interest {
                Interest::One(run) => vec![run],
                Interest::All => table.runs.keys().copied().collect(),
            }
        };
        for run in runs {
            self.watch_journal(run);
        }
        Following { watch: self.clone(), mailbox }
    }

    pub(super) fn watch_journal(&self, run: RunId) {
        let mut guard = self.table();
        let table = &mut *guard;
        let Some(tracked) = table.runs.get_mut(&run) else { return };
        if tracked.journal_watch.is_some() {
            return;
        }
        let Ok(directory) = RunDirectory::open(&self.0.state, run) else { return };
        if let Ok(watch) = self.0.inotify.watch_writes(&directory.journal_path()) {
            tracked.journal_watch = Some(watch);
            table.watched.insert(watch, (run, Watched::Journal));
        }
    }

    /// Lets journals go that nobody reads any more.
    fn unfollow(&self) {
        let mut guard = self.table();
        let table = &mut *guard;
        table.mailboxes.retain(|mailbox| mailbox.strong_count() > 0);
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

    /// Tells the readers.
    pub(super) fn tell(&self, run: RunId) {
        for mailbox in self.table().mailboxes.iter().filter_map(Weak::upgrade) {
            mailbox.put(run);
        }
    }
}

impl Table {
    pub(super) fn is_followed(&self, run: RunId) -> bool {
        self.mailboxes.iter().filter_map(Weak::upgrade).any(|mailbox| match mailbox.interest() {
            Interest::All => true,
            Interest::One(one) => one == run,
        })
    }
}

impl Following {
    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    pub(crate) fn is_over(&self, run: RunId) -> bool {
        self.watch.is_over(run)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let watch = self.watch.clone();
        // The mailbox itself goes after this; so that it does not count, it is replaced by one that nobody knows.
        self.mailbox = Arc::new(Mailbox::new(self.mailbox.interest()));
        watch.unfollow();
    }
}
