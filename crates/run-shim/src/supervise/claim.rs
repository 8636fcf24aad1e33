//! Phase one: the shim claims the run. From here on no other process writes to its journal, its session or its
//! workspace.
//!
//! ```text
//!   open   directory, run lock, journal, sockets          the starter learns of a failure
//!   take   locks ─► clean up after dead runs ─► the session's state ─► messages to deliver
//! ```

use std::path::Path;
use std::sync::Arc;

use cursor_stores::chat::ResumePoint;
use ground::with_causes;
use run_journal::{JournalWriter, RunDirectory, RunLock, StateRoot};
use run_protocol::{RunEvent, RunId, RunOutcome, RunSpec};
use sandbox_plan::{Profile, ProfileError};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::agent_tools::agent_desk::Handover;
use crate::control::control_socket::{self, Order, Written};
use crate::control::sockets::Sockets;
use crate::control::start_shim::{ShimReport, report};
use crate::record::redaction::Redactor;
use crate::record::run_record::RunRecord;
use crate::record::shim_log;
use crate::session::lease_watch::LeaseWatch;
use crate::session::locks::{LockRefusal, RunLocks};
use crate::session::session_memory;
use crate::supervise::refusal::{NotBegun, ShimError};
use crate::supervise::supervisor::Supervisor;
use crate::supervise::{Environment, QUEUE, outcome_words};

/// A run that this shim claimed, and its locks. Dropping this releases them, the run's own lock last.
pub(crate) struct Claim {
    pub(crate) run: RunDirectory,
    pub(crate) state_root: StateRoot,
    pub(crate) spec: RunSpec,
    /// The conversation before the run. `None` for a new one.
    pub(crate) before: Option<ResumePoint>,
    /// The run's profile. Another thread reads it, because that takes as long as all locks together.
    pub(crate) profile: JoinHandle<Result<Profile, ProfileError>>,
    /// Delivers messages to the agent.
    pub(crate) handover: Arc<Handover>,
    pub(crate) locks: RunLocks,
    sockets: Sockets,
    _run_lock: RunLock,
    /// True once the starter has its report.
    has_reported: bool,
}

/// Opens the run's journal and its sockets.
pub(crate) fn open(
    run_dir: &Path,
    environment: &Environment,
) -> Result<(Supervisor, Claim), ShimError> {
    let began = Instant::now();
    let (run, state_root) = open_directory(run_dir)?;
    shim_log::write_to(&run.shim_log_path());
    let spec = run.spec().map_err(unusable)?;
    let (name, text) = (spec.profile.clone(), spec.profile_text.clone());
    let profile = tokio::task::spawn_blocking(move || Profile::parse(&name, &text));
    let run_lock = run.lock().map_err(unusable)?;
    // Check under the lock, because another shim may have started or ended the run before.
    if spec.queue.is_some() && !run.is_queued().map_err(unusable)? {
        return Err(ShimError::Begun);
    }
    let writer = JournalWriter::open(&run, &run_lock).map_err(unusable)?;
    let mut sockets = Sockets::new(&spec.socket_dir.0, spec.run)
        .map_err(|source| ShimError::Sockets { path: spec.socket_dir.0.clone(), source })?;
    let (written, seen) = watch::channel(Written::default());
    let (order_sender, orders) = mpsc::channel(QUEUE);
    if let Some(control) = sockets.control.take() {
        tokio::spawn(control_socket::serve(control, spec.run, seen, order_sender.clone()));
    }
    tokio::spawn(stop_on_signals(order_sender));
    let redactor = Redactor::new(environment.secrets.iter().map(|(_, value)| value.as_str()));
    let record = RunRecord::new(writer, redactor, written);
    let supervisor = Supervisor::new(spec.limits.clone(), began, orders, record);
    tracing::debug!("the journal is open, the sockets listen");
    let claim = Claim {
        before: None,
        profile,
        handover: Arc::new(Handover::new(&state_root, &spec)),
        locks: RunLocks::new(&state_root, &spec),
        run,
        state_root,
        spec,
        sockets,
        _run_lock: run_lock,
        has_reported: false,
    };
    Ok((supervisor, claim))
}

impl Claim {
    /// Takes the locks of the session and the workspace, and examines the session under its lease.
    pub(crate) async fn take(&mut self, supervisor: &mut Supervisor) -> Result<(), NotBegun> {
        self.take_locks(supervisor).await?;
        tracing::debug!("the locks are taken");
        if let Some(lease) = self.locks.lease() {
            supervisor.record.stand_on(LeaseWatch::new(lease));
        }
        let cleaned = self.locks.clean_up_after_the_dead(&self.state_root, &self.spec.socket_dir.0);
        cleaned.map_err(|refusal| self.refuse(ShimError::Locked(refusal)))?;
        let before = session_memory::look_before(&self.state_root, &self.spec);
        self.before = before.map_err(|refusal| self.refuse(refusal.into()))?;
        self.take_messages()
    }

    async fn take_locks(&mut self, supervisor: &mut Supervisor) -> Result<(), NotBegun> {
        let Err(refusal) = self.locks.try_take() else { return Ok(()) };
        if !self.spec.wait_for_locks || matches!(refusal, LockRefusal::Io(_)) {
            return Err(self.refuse(ShimError::Locked(refusal)));
        }
        let reason = refusal.to_string();
        supervisor.record.event(&RunEvent::Waiting { reason: reason.clone() });
        supervisor.record.flush().map_err(|error| NotBegun::Refused(unusable(error)))?;
        self.report(&ShimReport::Waiting { reason });
        self.wait_for_locks(supervisor).await
    }

    /// Waits on another thread. An order to stop or the wall clock ends the wait.
    async fn wait_for_locks(&mut self, supervisor: &mut Supervisor) -> Result<(), NotBegun> {
        let failed = |why: String| NotBegun::Ended { outcome: RunOutcome::SupervisorFailed, why };
        match supervisor.attend_or_end(self.locks.wait_elsewhere()).await {
            Ok(taken) => {
                let taken = taken.map_err(|error| failed(error.to_string()))?;
                self.locks.put(taken.map_err(|refusal| failed(refusal.to_string()))?);
                Ok(())
            }
            Err(ending) => {
                let outcome = outcome_words::outcome_of(ending, "");
                let why = outcome_words::why(&outcome, None, "", &self.spec.limits);
                Err(NotBegun::Ended { outcome, why: format!("{why}, while it waited") })
            }
        }
    }

    /// Takes the messages that form the run's prompt. Does not deliver a message twice.
    fn take_messages(&mut self) -> Result<(), NotBegun> {
        if self.spec.delivers.is_empty() {
            return Ok(());
        }
        let why = match self.handover.offer_as_turn(&self.spec.delivers) {
            Ok(true) => return Ok(()),
            Ok(false) => "its messages were delivered before it began".to_owned(),
            Err(error) => with_causes(&error),
        };
        // Without its messages, the agent has nothing to do, so the shim does not start it. That is not a failure.
        self.report(&ShimReport::Ready);
        Err(NotBegun::Ended { outcome: RunOutcome::Cancelled, why })
    }

    /// Sends the starter its report, once.
    pub(crate) fn report(&mut self, how: &ShimReport) {
        if self.is_to_report() {
            report(how).ok();
        }
    }

    /// Returns true once, for the caller that sends the report.
    pub(crate) fn is_to_report(&mut self) -> bool {
        !std::mem::replace(&mut self.has_reported, true)
    }

    /// Refuses the run. The starter gets the reason. If the starter already has its report, the journal gets it
    /// instead.
    pub(crate) fn refuse(&self, error: ShimError) -> NotBegun {
        if self.has_reported {
            return error.ended();
        }
        if error.leaves_session_unbegun() {
            self.locks.forget_new_session();
        }
        NotBegun::Refused(error)
    }

    /// Takes the socket for the agent's tool calls.
    pub(crate) fn take_mcp_socket(&mut self) -> Option<UnixListener> {
        self.sockets.mcp.take()
    }
}

/// The error for an unusable run directory.
pub(crate) fn unusable(error: impl std::error::Error) -> ShimError {
    ShimError::Directory(with_causes(&error))
}

fn open_directory(run_dir: &Path) -> Result<(RunDirectory, StateRoot), ShimError> {
    let no_run =
        || ShimError::Directory(format!("`{}` is not a run's directory", run_dir.display()));
    let run: RunId = run_dir
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.parse().ok())
        .ok_or_else(no_run)?;
    let state_root = run_dir.parent().and_then(Path::parent).ok_or_else(no_run)?;
    let state_root = StateRoot::new(state_root.to_owned());
    let directory = RunDirectory::open(&state_root, run).map_err(unusable)?;
    Ok((directory, state_root))
}

/// Interrupts the run on SIGTERM and SIGINT. They come from a shutdown, or from a user who ends the shim directly. The
/// user can resume the session later.
async fn stop_on_signals(orders: mpsc::Sender<Order>) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if orders.send(Order::Interrupt).await.is_err() {
            return;
        }
    }
}
