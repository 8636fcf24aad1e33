//! Clients on loopback that have not shown the token yet.
//!
//! Any process on the machine can connect. There are few slots for clients without the token: the newest client
//! displaces the oldest, so that silent clients cannot lock the user out. A client that shows the token leaves its slot
//! and takes one of the many slots for known clients.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};

use ground::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// The command line sends its request immediately, so few clients are waiting at any moment.
const MOST_WAITING: usize = 32;

#[derive(Debug)]
pub(crate) struct UnknownClients {
    waiting: Mutex<Waiting>,
    places: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// Oldest connection first.
    clients: VecDeque<(u64, AbortHandle)>,
}

impl UnknownClients {
    pub(crate) fn new(n_places: usize) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(n_places));
        Arc::new(Self { waiting: Mutex::default(), places })
    }

    /// Serves a client that has not shown the token yet, in its own task. If no slot is free, it disconnects the oldest
    /// such client.
    pub(crate) fn serve<F>(self: &Arc<Self>, serve: impl FnOnce(Arc<LoopbackClient>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut waiting = lock(&self.waiting);
        if waiting.clients.len() == MOST_WAITING
            && let Some((_, oldest)) = waiting.clients.pop_front()
        {
            oldest.abort();
        }
        let number = waiting.next;
        waiting.next += 1;
        let client = LoopbackClient { number, unknown: Arc::clone(self), place: OnceLock::new() };
        // The task cannot remove itself before this adds it: both need the lock.
        let task = tokio::spawn(serve(Arc::new(client)));
        waiting.clients.push_back((number, task.abort_handle()));
    }

    /// The number of clients that have not shown the token.
    #[cfg(test)]
    pub(crate) fn n_waiting(&self) -> usize {
        lock(&self.waiting).clients.len()
    }

    fn leave(&self, number: u64) {
        let mut waiting = lock(&self.waiting);
        waiting.clients.retain(|(waiting, _)| *waiting != number);
    }
}

/// One client's connection.
#[derive(Debug)]
pub(crate) struct LoopbackClient {
    number: u64,
    unknown: Arc<UnknownClients>,
    place: OnceLock<OwnedSemaphorePermit>,
}

impl LoopbackClient {
    /// Takes a slot for known clients, now that the client has shown the token. It keeps the slot until it disconnects.
    /// `false` if no slot is free.
    pub(crate) fn take_place(&self) -> bool {
        if self.place.get().is_some() {
            return true;
        }
        let Ok(place) = Arc::clone(&self.unknown.places).try_acquire_owned() else { return false };
        self.unknown.leave(self.number);
        self.place.set(place).ok();
        true
    }
}

impl Drop for LoopbackClient {
    fn drop(&mut self) {
        self.unknown.leave(self.number);
    }
}

#[cfg(test)]
#[path = "unknown_clients_tests.rs"]
mod tests;
