//! Decides about every attempt to reach a host, counts it and logs it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use egress::{ConnectTarget, Decision, DecisionLog, HostName, Listed};
use run_protocol::{LimitKind, NetRefusal, NetVia, RunEvent};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use super::NetworkPolicy;

/// The most lookups at the same time. Each takes a thread until the host's resolver answers.
const MOST_LOOKUPS: usize = 16;

/// After this many refused connections the shim ends the run. No honest program tries that often.
const FLOOD: u64 = 1_000;

/// Why the shim refused an attempt.
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

/// The host and port of an attempt, as the journal shows them.
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

pub(super) struct EgressControl {
    pub(super) policy: NetworkPolicy,
    places: Arc<Semaphore>,
    pub(super) lookups: Semaphore,
    transferred: AtomicU64,
    n_turned_away: AtomicU64,
    exceeded: mpsc::Sender<LimitKind>,
    log: Mutex<DecisionLog>,
    noted: Notify,
    began: Instant,
}

impl EgressControl {
    pub(super) fn new(policy: NetworkPolicy, exceeded: mpsc::Sender<LimitKind>) -> Self {
        let n_places = usize::try_from(policy.limits.connections).unwrap_or(usize::MAX);
        Self {
            places: Arc::new(Semaphore::new(n_places.min(Semaphore::MAX_PERMITS))),
            lookups: Semaphore::new(MOST_LOOKUPS),
            transferred: AtomicU64::new(0),
            n_turned_away: AtomicU64::new(0),
            exceeded,
            log: Mutex::default(),
            noted: Notify::new(),
            began: Instant::now(),
            policy,
        }
    }

    /// Takes one of the connection slots, if one is free.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// Decides whether a name resolves inside the sandbox.
    pub(super) fn knows(&self, name: &HostName) -> Result<(), Refused> {
        match self.policy.allow.knows(name) {
            true => Ok(()),
            false => Err(self.not_listed(name)),
        }
    }

    /// Decides about a connection.
    pub(super) fn admits(&self, target: &ConnectTarget) -> Result<(), Refused> {
        match self.policy.allow.decide(&target.host, target.port) {
            Listed::No => Err(self.not_listed(&target.host)),
            Listed::AtOtherPorts => Err(Refused::plainly(NetRefusal::PortNotListed)),
            Listed::Yes if self.is_spent() => Err(Refused::plainly(NetRefusal::TooMuchData)),
            Listed::Yes => Ok(()),
        }
    }

    fn not_listed(&self, name: &HostName) -> Refused {
        Refused::plainly(match self.policy.registries.knows(name) {
            true => NetRefusal::RegistryNotListed,
            false => NetRefusal::NotListed,
        })
    }

    /// Counts transferred bytes. Returns `false` once there are too many.
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
            // A full channel means that the shim already knows of another exceeded limit.
            self.exceeded.try_send(limit).ok();
        }
        self.note(via, asked, Some(refused));
    }

    fn note(&self, via: NetVia, Asked { host, port }: Asked, refused: Option<Refused>) {
        let (refusal, detail) = match refused {
            Some(Refused { reason, detail }) => (Some(reason), detail),
            None => (None, None),
        };
        self.with_log(|log| log.note(Decision { host, port, via, refusal, detail }));
        self.noted.notify_one();
    }

    pub(super) fn unreported(&self) -> Vec<RunEvent> {
        self.with_log(DecisionLog::rest)
    }

    fn with_log<T>(&self, work: impl FnOnce(&mut DecisionLog) -> T) -> T {
        work(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Sends events for the decisions, until it is dropped. Unsent events stay in the log.
pub(super) async fn report_decisions(control: Arc<EgressControl>, events: mpsc::Sender<RunEvent>) {
    loop {
        // Reserve space first, then take the event, so that no event is lost if this future is dropped.
        let Ok(room) = events.reserve().await else { return };
        if let Some(event) = control.with_log(|log| log.take_due(control.now())) {
            room.send(event);
            continue;
        }
        drop(room);
        match control.with_log(|log| log.next_due()) {
            Some(at) => {
                let pause = tokio::time::sleep_until(control.began + Duration::from_millis(at));
                tokio::select! {
                    () = pause => {}
                    () = control.noted.notified() => {}
                }
            }
            None => control.noted.notified().await,
        }
    }
}
