//! Clients on loopback that have not shown the token yet.
//!
//! Any process of the machine can connect. Such a client waits in the lobby, which is small: the newest client pushes the
//! oldest out, so that clients that say nothing cannot keep the owner out. A client that shows the token leaves the lobby
//! and takes one of the places for known clients.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// The command line sends its request at once, so few wait here at any moment.
const MOST_WAITING: usize = 32;

#[derive(Debug)]
pub(crate) struct Lobby {
    waiting: Mutex<Waiting>,
    places: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// In the order in which they came.
    clients: VecDeque<(u64, AbortHandle)>,
}

impl Lobby {
    pub(crate) fn new(n_places: usize) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(n_places));
        Arc::new(Self { waiting: Mutex::default(), places })
    }

    /// Serves a client that has shown nothing yet, in a task of its own. Pushes the oldest out if the lobby is full.
    pub(crate) fn enter<F>(self: &Arc<Self>, serve: impl FnOnce(Arc<Visitor>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.clients.len() == MOST_WAITING
            && let Some((_, oldest)) = waiting.clients.pop_front()
        {
            oldest.abort();
        }
        let number = waiting.next;
        waiting.next += 1;
        let visitor = Visitor { number, lobby: Arc::clone(self), place: OnceLock::new() };
        // The task cannot leave the lobby before it is in it: leaving takes the lock.
        let task = tokio::spawn(serve(Arc::new(visitor)));
        waiting.clients.push_back((number, task.abort_handle()));
    }

    /// How many clients wait that have shown nothing.
    #[cfg(test)]
    pub(crate) fn n_waiting(&self) -> usize {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clients.len()
    }

    fn leave(&self, number: u64) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.clients.retain(|(waiting, _)| *waiting != number);
    }
}

/// One client's connection.
#[derive(Debug)]
pub(crate) struct Visitor {
    number: u64,
    lobby: Arc<Lobby>,
    place: OnceLock<OwnedSemaphorePermit>,
}

impl Visitor {
    /// Says whether there is a place for the client, now that it has shown the token. It keeps the place until it goes.
    pub(crate) fn come_in(&self) -> bool {
        if self.place.get().is_some() {
            return true;
        }
        let Ok(place) = Arc::clone(&self.lobby.places).try_acquire_owned() else { return false };
        self.lobby.leave(self.number);
        self.place.set(place).ok();
        true
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.lobby.leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn the_newest_stranger_pushes_the_oldest_out_and_known_clients_stay() {
        let lobby = Lobby::new(1);
        let mut visitors = Vec::new();
        let enter = || {
            let mut entered = None;
            lobby.enter(|visitor| {
                entered = Some(Arc::downgrade(&visitor));
                async move {
                    pending::<()>().await;
                    drop(visitor);
                }
            });
            entered.unwrap()
        };
        let known = enter();
        assert!(known.upgrade().unwrap().come_in());
        visitors.extend((0..MOST_WAITING + 5).map(|_| enter()));
        // The tasks that were pushed out are dropped when they have their turn.
        tokio::task::yield_now().await;
        let is_here: Vec<bool> = visitors.iter().map(|it| it.upgrade().is_some()).collect();
        assert_eq!(is_here[..5], [false; 5]);
        assert_eq!(is_here[5..], [true; MOST_WAITING]);
        assert!(known.upgrade().is_some());
        assert!(!visitors[5].upgrade().unwrap().come_in(), "the only place is taken");
    }
}
