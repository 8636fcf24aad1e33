//! Where every attempt is decided, counted and written down.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use egress::{ConnectTarget, Decision, HostName, Ledger, Listed};
use run_protocol::{LimitKind, NetRefusal, NetVia, RunEvent};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use super::NetworkPolicy;

/// Lookups at once: each takes a thread for as long as the host's resolver takes.
const MOST_LOOKUPS: usize = 16;

/// So many connections are turned away before it is a flood: no program that wants an answer goes on for so long.
const FLOOD: u64 = 1_000;

/// Why an attempt was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) reason: NetRefusal,
    pub(super) detail: Option<String>,
}

impl Refused {
    pub(super) fn plainly(reason: NetRefusal) -> Self {
        Self { reason, detail: None }
    }

    pub(super) fn because(reason: NetRefusal, detail: impl ToString) -> Self {
        Self { reason, detail: Some(detail.to_string()) }
    }
}

/// What was asked for, as it is written down.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
}

impl Asked {
    pub(super) fn nothing() -> Self {
        Self::default()
    }

    pub(super) fn host(host: impl ToString) -> Self {
        Self { host: Some(host.to_string()), port: None }
    }

    pub(super) fn target(target: &ConnectTarget) -> Self {
        Self { host: Some(target.host.to_string()), port: Some(target.port) }
    }
}

pub(super) struct Desk {
    pub(super) policy: NetworkPolicy,
    places: Arc<Semaphore>,
    pub(super) lookups: Semaphore,
    transferred: AtomicU64,
    n_turned_away: AtomicU64,
    exceeded: mpsc::Sender<LimitKind>,
    ledger: Mutex<Ledger>,
    noted: Notify,
    began: Instant,
}

impl Desk {
    pub(super) fn new(policy: NetworkPolicy, exceeded: mpsc::Sender<LimitKind>) -> Self {
        let n_places = usize::try_from(policy.limits.connections).unwrap_or(usize::MAX);
        Self {
            places: Arc::new(Semaphore::new(n_places.min(Semaphore::MAX_PERMITS))),
            lookups: Semaphore::new(MOST_LOOKUPS),
            transferred: AtomicU64::new(0),
            n_turned_away: AtomicU64::new(0),
            exceeded,
            ledger: Mutex::default(),
            noted: Notify::new(),
            began: Instant::now(),
            policy,
        }
    }

    /// A place for a connection, if there is one.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// Whether a name may be known inside.
    pub(super) fn knows(&self, name: &HostName) -> Result<(), Refused> {
        match self.policy.allow.knows(name) {
            true => Ok(()),
            false => Err(Refused::plainly(NetRefusal::NotListed)),
        }
    }

    /// Whether a connection may be made.
    pub(super) fn admits(&self, target: &ConnectTarget) -> Result<(), Refused> {
        match self.policy.allow.decide(&target.host, target.port) {
            Listed::No => Err(Refused::plainly(NetRefusal::NotListed)),
            Listed::AtOtherPorts => Err(Refused::plainly(NetRefusal::PortNotListed)),
            Listed::Yes if self.is_spent() => Err(Refused::plainly(NetRefusal::TooMuchData)),
            Listed::Yes => Ok(()),
        }
    }

    /// Counts bytes that were moved; `false` once there are too many.
    pub(super) fn spend(&self, n_bytes: usize) -> bool {
        let n_bytes = u64::try_from(n_bytes).unwrap_or(u64::MAX);
        self.transferred.fetch_add(n_bytes, Ordering::Relaxed);
        !self.is_spent()
    }

    fn is_spent(&self) -> bool {
        self.transferred.load(Ordering::Relaxed) > self.policy.limits.transfer
    }

    pub(super) fn allowed(&self, via: NetVia, asked: Asked) {
        self.note(via, asked, None);
    }

    pub(super) fn denied(&self, via: NetVia, asked: Asked, refused: Refused) {
        if refused.reason == NetRefusal::TooManyConnections
            && self.n_turned_away.fetch_add(1, Ordering::Relaxed) + 1 == FLOOD
        {
            let limit = LimitKind::Connections { most: self.policy.limits.connections.into() };
            // Whoever has no room for it is told of another limit already.
            self.exceeded.try_send(limit).ok();
        }
        self.note(via, asked, Some(refused));
    }

    fn note(&self, via: NetVia, Asked { host, port }: Asked, refused: Option<Refused>) {
        let (refusal, detail) = match refused {
            Some(Refused { reason, detail }) => (Some(reason), detail),
            None => (None, None),
        };
        self.with_ledger(|ledger| ledger.note(Decision { host, port, via, refusal, detail }));
        self.noted.notify_one();
    }

    pub(super) fn untold(&self) -> Vec<RunEvent> {
        self.with_ledger(Ledger::rest)
    }

    fn with_ledger<T>(&self, work: impl FnOnce(&mut Ledger) -> T) -> T {
        work(&mut self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Tells what was decided, for ever. What is not told yet stays in the ledger.
pub(super) async fn tell(desk: Arc<Desk>, events: mpsc::Sender<RunEvent>) {
    loop {
        // The room comes first, so that nothing is in our hands when we are dropped.
        let Ok(room) = events.reserve().await else { return };
        if let Some(event) = desk.with_ledger(|ledger| ledger.take_due(desk.now())) {
            room.send(event);
            continue;
        }
        drop(room);
        match desk.with_ledger(|ledger| ledger.next_due()) {
            Some(at) => {
                let pause = tokio::time::sleep_until(desk.began + Duration::from_millis(at));
                tokio::select! {
                    () = pause => {}
                    () = desk.noted.notified() => {}
                }
            }
            None => desk.noted.notified().await,
        }
    }
}
