//! A run until its agent is let go: it waits for its locks, its sandbox is started, held and verified.
//!
//! ```text
//!   orders, wall clock ─┐
//!   locks ─► start ─► verify ─► release
//!            └─ what ends the run here is written down at once, and carried out when the step under way is done ─┘
//! ```
//!
//! No step of a launch is broken off: half a sandbox could not be told from a whole one. Each has a limit of its own.
//!
//! **Invariant:** a run that was told to end before the release never runs its agent.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use run_protocol::{NetworkMode, RunEvent, RunLimits, SignalName};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::control::control_socket::{AskedChange, Order};
use crate::limits::PreparedLimits;
use crate::preparation::Prepared;
use crate::record::run_record::{AppendError, RunRecord};
use crate::sandbox::entry::{EntryError, EntryHelper, Made};
use crate::sandbox::launch_guard::LaunchGuard;
use crate::sandbox::{HeldSandbox, LaunchError, Launchable, Sandbox};
use crate::supervise::drive::{LOOK_EVERY, moment_since, sleep_until};
use crate::supervise::run_state::{Effect, Ending, Input, RunState};
use crate::supervise::workspace_watch::WorkspaceWatch;

/// A guard on its way to its post.
pub(crate) type PostedGuard = tokio::task::JoinHandle<io::Result<LaunchGuard>>;

/// A helper on its way, too.
type PostedEntryHelper = tokio::task::JoinHandle<Result<EntryHelper, EntryError>>;

/// A run whose agent has not been let go yet.
pub(crate) struct Starting {
    pub(crate) record: RunRecord,
    pub(crate) orders: mpsc::Receiver<Order>,
    pub(crate) state: RunState,
    /// Changes that somebody asked for before the agent was let go.
    pub(crate) changes: Vec<AskedChange>,
    began: Instant,
    is_to_end: bool,
}

/// Why there is no agent that runs.
pub(crate) enum NotLaunched {
    /// By an order, by the clock, or because the journal cannot be written.
    Ended(Ending),
    Failed(LaunchError),
}

impl From<LaunchError> for NotLaunched {
    fn from(error: LaunchError) -> Self {
        Self::Failed(error)
    }
}

impl Starting {
    pub(crate) fn new(
        limits: RunLimits,
        began: Instant,
        orders: mpsc::Receiver<Order>,
        record: RunRecord,
    ) -> Self {
        let state = RunState::new(limits, 0);
        Self { record, orders, state, changes: Vec::new(), began, is_to_end: false }
    }

    /// Does something that must not be broken off, and listens meanwhile.
    async fn attend<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                () = self.listen() => {}
                done = &mut work => return done,
            }
        }
    }

    /// Does something that may be broken off, and breaks it off when the run is to end.
    pub(crate) async fn attend_or_end<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, Ending> {
        let mut work = pin!(work);
        loop {
            if let Some(ending) = self.ending() {
                return Err(ending);
            }
            tokio::select! {
                biased;
                () = self.listen() => {}
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Waits for the next order or deadline. Cancel safe.
    async fn listen(&mut self) {
        let deadline = self.state.next_deadline().map(|at| self.began + Duration::from_millis(at));
        tokio::select! {
            biased;
            Some(order) = self.orders.recv() => self.hear(order),
            () = sleep_until(deadline) => self.step(Input::Tick),
            () = tokio::time::sleep(LOOK_EVERY) => {
                if let Err(error) = self.record.check() {
                    self.cannot_append(&error);
                }
            }
        }
    }

    /// Hears what has come in by now, without waiting.
    fn catch_up(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            self.hear(order);
        }
        if self.state.next_deadline().is_some_and(|at| at <= moment_since(self.began)) {
            self.step(Input::Tick);
        }
    }

    fn hear(&mut self, order: Order) {
        match order {
            Order::Stop(manner) => self.step(Input::Stop(manner)),
            Order::Suspend => self.step(Input::Suspend),
            Order::Interrupt => self.step(Input::Interrupt),
            // The files are made at this moment, so the change is made when the agent has them.
            Order::ChangeServers(asked) if self.record.has_lease() => self.changes.push(asked),
            Order::ChangeServers((_, answer)) => {
                drop(
                    answer.send(Err("it waits for its session, which another run has".to_owned())),
                );
            }
        }
    }

    fn step(&mut self, input: Input) {
        let (state, effects) = self.state.clone().step(input, moment_since(self.began));
        self.state = state;
        for effect in effects {
            match effect {
                Effect::Record(event) => self.record.event(&event),
                Effect::KillSandbox => self.is_to_end = true,
                // Nobody is there to be signalled, and nothing has ended.
                Effect::SignalAgent(_) | Effect::Sync | Effect::End(_) => {}
            }
        }
        self.flush();
    }

    fn flush(&mut self) {
        if let Err(error) = self.record.flush() {
            self.cannot_append(&error);
        }
    }

    fn cannot_append(&mut self, error: &AppendError) {
        tracing::error!(%error, "nothing more is appended to the journal");
        if self.record.break_off(error) {
            self.step(error.as_input());
        }
    }

    /// What the run comes to if it is to end now.
    fn ending(&self) -> Option<Ending> {
        if !self.is_to_end {
            return None;
        }
        let now = moment_since(self.began);
        let (state, _) = self.state.clone().step(Input::StdoutClosed, now);
        let (_, effects) = state.step(Input::Exited { exit_code: None }, now);
        effects.into_iter().find_map(|effect| match effect {
            Effect::End(ending) => Some(ending),
            _ => None,
        })
    }

    /// Starts the sandbox, verifies it and lets the agent go.
    pub(crate) async fn launch(
        &mut self,
        prepared: &Prepared,
        limits: PreparedLimits,
        guard: Option<PostedGuard>,
        workspace: &mut WorkspaceWatch,
    ) -> Result<Sandbox, NotLaunched> {
        let guard = match guard {
            Some(posted) => posted.await.map_err(io::Error::other).flatten(),
            None => Err(io::Error::other("it was never sent")),
        };
        let guard = guard.map_err(LaunchError::Guard)?;
        tracing::debug!("the guard is posted");
        let held = self.hold(prepared, limits, workspace).await;
        // Whatever came of it: what was started is bound to our life, or gone.
        guard.dismiss().await;
        let sandbox = held?.release().await?;
        self.step(Input::Released);
        Ok(sandbox)
    }

    /// Brings a sandbox to the point where one word lets its agent go.
    async fn hold(
        &mut self,
        prepared: &Prepared,
        limits: PreparedLimits,
        workspace: &mut WorkspaceWatch,
    ) -> Result<HeldSandbox, NotLaunched> {
        self.catch_up();
        self.go_on()?;
        // Started elsewhere and before it is needed: it is there when there are namespaces to enter.
        let is_sandbox = matches!(prepared.launchable, Launchable::Sandbox { .. });
        let helper = is_sandbox.then(|| tokio::task::spawn_blocking(EntryHelper::post));
        let goes_by_us = prepared.network_mode() == NetworkMode::Allowlist;
        let mut held = self.attend(HeldSandbox::start(&prepared.launchable)).await?;
        tracing::debug!("bubblewrap has a child");
        if let Err(error) = held.write_down(prepared.run_dir()) {
            held.end().await;
            return Err(error.into());
        }
        // The disk is busy while bwrap is. If it fails here it fails again, loudly, with the first batch.
        self.record.begin_sync().ok();
        // All look at what bwrap is making, and none waits for another.
        let entering = enter(helper, &held, goes_by_us);
        let moving = held.begin_to_confine(limits);
        let working = async { tokio::join!(held.verify(&prepared.launchable), entering, moving) };
        let (verified, made, limits) = self.attend(working).await;
        let verified = verified.and_then(|mounts| {
            let Made { segments, doors } = made?;
            held.keep_doors(doors);
            Ok((mounts, segments))
        });
        let mounts = match verified {
            Ok((mounts, segments)) => match limits {
                Ok(limits) => {
                    let confining =
                        held.confine(limits, &prepared.launchable, prepared.home(), segments);
                    self.attend(confining).await.map(|()| mounts)
                }
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        // The agent touches nothing that was not saved; a run that is to end need not wait for that.
        if let Ok(Some(saved)) = self.attend_or_end(workspace.saved()).await {
            self.record.event(&saved);
        }
        match self.decide_on_release(prepared, &mut held, mounts) {
            Ok(()) => Ok(held),
            Err(why) => {
                held.end().await;
                let target = "the sandbox".to_owned();
                self.record.event(&RunEvent::Signalled { signal: SignalName::Kill, target });
                Err(why)
            }
        }
    }

    /// Says that the agent is let go, if it may be. What cannot be written down does not happen.
    fn decide_on_release(
        &mut self,
        prepared: &Prepared,
        held: &mut HeldSandbox,
        mounts: Result<u32, LaunchError>,
    ) -> Result<(), NotLaunched> {
        self.catch_up();
        self.go_on()?;
        let mounts = mounts?;
        let (sandbox_pid, confined) = (held.pid(), held.check_held()?);
        tracing::debug!("the agent is at the gate, the mounts are verified, the limits hold");
        let profile = prepared.profile.clone();
        let mut warnings = prepared.warnings();
        warnings.extend(confined.warnings.iter().cloned());
        self.record.event(&RunEvent::SandboxReady {
            profile,
            sandbox_pid,
            mounts,
            limits: Some(confined.in_force.clone()),
            network: Some(prepared.network_mode()),
            warnings,
        });
        self.record.event(&RunEvent::Released);
        self.flush();
        self.go_on()
    }

    fn go_on(&self) -> Result<(), NotLaunched> {
        self.ending().map_or(Ok(()), |ending| Err(NotLaunched::Ended(ending)))
    }
}

/// Has done what must be done inside the sandbox's namespaces; in its network only if its way out begins there.
fn enter(
    helper: Option<PostedEntryHelper>,
    held: &HeldSandbox,
    goes_by_us: bool,
) -> impl Future<Output = Result<Made, EntryError>> + use<> {
    let work = helper.map(|helper| (helper, held.namespaces(goes_by_us)));
    async move {
        let Some((helper, namespaces)) = work else { return Ok(Made::default()) };
        let entering = async {
            let helper = helper.await.map_err(|error| EntryError::Spawn(io::Error::other(error)));
            helper??.enter(namespaces?).await
        };
        match entering.await {
            // Without its network a run has less than it was given. Without the rest it is watched less closely.
            Err(error) if !goes_by_us => {
                tracing::warn!(%error, "the sandbox could not be entered");
                Ok(Made::default())
            }
            made => made,
        }
    }
}
