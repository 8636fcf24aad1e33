//! Waits, with inotify, for changes to the user's login and to the agent's copy of it.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ground::inotify::{Inotify, WatchFlags};
use run_protocol::RunEvent;
use tokio::sync::mpsc;

use super::copy::{Exchange, Look, lock};

/// Starts a thread that keeps both files in sync. It ends when the copy is gone. The run does not wait for it.
pub(super) fn start(exchange: Arc<Mutex<Exchange>>, events: mpsc::Sender<RunEvent>) {
    let watch = Watch::of(&lock(&exchange));
    let started = watch.and_then(|watch| {
        let thread = std::thread::Builder::new().name("login".to_owned());
        thread.spawn(move || watch.keep_the_same(&exchange, &events))
    });
    if let Err(error) = started {
        // Then the shim checks the agent's copy only after the agent's end.
        tracing::warn!(%error, "cannot watch the login");
    }
}

struct Watch {
    inotify: Inotify,
    host_name: std::ffi::OsString,
    inside: ground::inotify::Watch,
}

impl Watch {
    // Watches the directories, because programs often replace these files with a rename.
    fn of(exchange: &Exchange) -> io::Result<Self> {
        let host_file = exchange.host_file()?;
        let parent = host_file.parent().unwrap_or(Path::new("/"));
        let inotify = Inotify::new()?;
        let changes = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO;
        inotify.add(parent, changes)?;
        let inside = exchange.directory().join("inside");
        let inside = inotify.add(&inside, changes | WatchFlags::DELETE_SELF)?;
        let host_name = host_file.file_name().unwrap_or_default().to_owned();
        Ok(Self { inotify, host_name, inside })
    }

    fn keep_the_same(&self, exchange: &Mutex<Exchange>, events: &mpsc::Sender<RunEvent>) {
        // The agent may have written before the watch began.
        let mut look = Look::AnyTime;
        loop {
            {
                let mut exchange = lock(exchange);
                if !exchange.directory().exists() {
                    return;
                }
                let new_events = exchange.look(look);
                exchange.send(new_events, events);
            }
            look = match self.next_change() {
                Some(look) => look,
                None => return,
            };
        }
    }

    /// Waits for a change to one of the two files. `None` if the watch failed.
    fn next_change(&self) -> Option<Look> {
        loop {
            let events = self.inotify.wait(None).and_then(|_| self.inotify.read()).ok()?;
            if events.iter().any(|event| {
                event.watch == self.inside
                    && event.name.as_ref().is_none_or(|name| name == "auth.json")
            }) {
                return Some(Look::Settled);
            }
            if events
                .iter()
                .any(|event| event.name.as_ref().is_none_or(|name| *name == self.host_name))
            {
                return Some(Look::AnyTime);
            }
        }
    }
}
