//! The state that all phases of a run share: the run's state machine, its journal and its incoming orders.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use run_protocol::{RunEvent, RunLimits, SignalName};
use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::control::control_socket::{AskedChange, Order};
use crate::record::run_record::{AppendError, RunRecord};
use crate::sandbox::SandboxProcess;
use crate::supervise::run_state::{Effect, Ending, Input, Moment, RunState};

/// The shortest interval at which an idle run checks that it still has its session and its journal.
const LOOK_SOONEST: Duration = Duration::from_secs(1);
/// The longest interval. The run also checks before each append.
const LOOK_LATEST: Duration = Duration::from_secs(5);
/// Near its deadline, a run checks again after a tenth of the remaining time. The less time is left, the sooner it must
/// notice that the shim itself did not run for a while.
const PART_OF_THE_REST: u32 = 10;

/// The interval until an idle run checks again.
pub(crate) fn look_after(deadline: Option<Instant>) -> Duration {
    let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    rest.map_or(LOOK_LATEST, |rest| (rest / PART_OF_THE_REST).clamp(LOOK_SOONEST, LOOK_LATEST))
}

/// One run under supervision.
pub(crate) struct Supervisor {
    pub(crate) state: RunState,
    pub(crate) record: RunRecord,
    pub(crate) orders: mpsc::Receiver<Order>,
    /// Changes to the agent's servers that the user asked for before the release.
    pub(crate) changes: Vec<AskedChange>,
    /// The run's ending, once it is known.
    pub(crate) ending: Option<Ending>,
    began: Instant,
    /// True if the run must end before its agent is released.
    is_called_off: bool,
}

/// The agent that effects act on. `None` until its release.
pub(crate) type Agent<'a> = Option<&'a mut SandboxProcess>;

impl Supervisor {
    pub(crate) fn new(
        limits: RunLimits,
        began: Instant,
        orders: mpsc::Receiver<Order>,
        record: RunRecord,
    ) -> Self {
        Self {
            state: RunState::new(limits, 0),
            record,
            orders,
            changes: Vec::new(),
            ending: None,
            began,
            is_called_off: false,
        }
    }

    /// Returns the journal of a run that is over. From now on the control socket refuses orders.
    pub(crate) fn into_record(self) -> RunRecord {
        self.record
    }

    /// The time since the run began.
    pub(crate) fn now(&self) -> Moment {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The time of the next deadline.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.state.next_deadline().map(|at| self.began + Duration::from_millis(at))
    }

    pub(crate) fn is_due(&self) -> bool {
        self.state.next_deadline().is_some_and(|at| at <= self.now())
    }

    /// Decides about an input, and carries out the decision.
    pub(crate) fn step(&mut self, input: Input, mut agent: Agent<'_>) {
        let (state, effects) = self.state.clone().step(input, self.now());
        self.state = state;
        for effect in effects {
            match effect {
                Effect::Record(event) => self.record.event(&event),
                Effect::Sync => {
                    if let Err(error) = self.record.sync() {
                        self.cannot_append(&error, agent.as_deref_mut());
                    }
                }
                Effect::SignalAgent(signal) => {
                    if let Some(agent) = &mut agent {
                        self.signal(signal, agent);
                    }
                }
                Effect::KillSandbox => match &mut agent {
                    Some(agent) => {
                        self.note_signal(SignalName::Kill, "the sandbox");
                        agent.kill();
                    }
                    None => self.is_called_off = true,
                },
                Effect::End(ending) => self.ending = Some(ending),
            }
        }
    }

    fn signal(&mut self, name: SignalName, agent: &SandboxProcess) {
        let signal = match name {
            SignalName::Int => Signal::INT,
            SignalName::Term => Signal::TERM,
            SignalName::Kill => Signal::KILL,
        };
        // A dead agent needs no signal. The next rung of the ladder follows anyway.
        match agent.signal_agent(signal) {
            Ok(()) => self.note_signal(name, "the agent"),
            Err(error) => tracing::info!(%error, ?name, "the agent could not be signalled"),
        }
    }

    pub(crate) fn note_signal(&mut self, signal: SignalName, target: &str) {
        self.record.event(&RunEvent::Signalled { signal, target: target.to_owned() });
    }

    /// Passes the recorded events to the kernel. If that fails, the run ends.
    pub(crate) fn flush(&mut self, agent: Agent<'_>) {
        if let Err(error) = self.record.flush() {
            self.cannot_append(&error, agent);
        }
    }

    /// Checks that the run still has its session and its journal.
    pub(crate) fn look(&mut self, agent: Agent<'_>) {
        if let Err(error) = self.record.check() {
            self.cannot_append(&error, agent);
        }
    }

    fn cannot_append(&mut self, error: &AppendError, agent: Agent<'_>) {
        tracing::error!(%error, "cannot append to the journal any more");
        if self.record.break_off(error) {
            self.step(error.as_input(), agent);
            // The journal's reserve exists for this event. If this write fails too, the run still ends.
            self.record.flush().ok();
        }
    }
}

/// For the phases before the agent's release. The journal immediately records why the run ends, and the run ends after
/// the current step.
impl Supervisor {
    /// Waits for work that must not be interrupted, and handles orders meanwhile.
    pub(crate) async fn attend<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                () = self.listen() => {}
                done = &mut work => return done,
            }
        }
    }

    /// Waits for work that may be interrupted. Interrupts it if the run must end.
    pub(crate) async fn attend_or_end<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, Ending> {
        let mut work = pin!(work);
        loop {
            self.go_on()?;
            tokio::select! {
                biased;
                () = self.listen() => {}
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Waits for the next order, deadline or check. Cancel safe.
    async fn listen(&mut self) {
        let deadline = self.deadline();
        tokio::select! {
            biased;
            Some(order) = self.orders.recv() => self.hear(order),
            () = sleep_until(deadline) => self.step_and_flush(Input::Tick),
            () = tokio::time::sleep(look_after(deadline)) => self.look(None),
        }
    }

    /// Handles all waiting orders and a passed deadline, without waiting.
    pub(crate) fn catch_up(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            self.hear(order);
        }
        if self.is_due() {
            self.step_and_flush(Input::Tick);
        }
    }

    fn hear(&mut self, order: Order) {
        match Heard::from(order) {
            Heard::Course(input) => self.step_and_flush(input),
            // The shim is still writing the files, so it makes the change after the release.
            Heard::Change(asked) if self.record.has_lease() => self.changes.push(asked),
            Heard::Change((_, answer)) => {
                let refusal = "it waits for its session, which another run has".to_owned();
                drop(answer.send(Err(refusal)));
            }
        }
    }

    fn step_and_flush(&mut self, input: Input) {
        self.step(input, None);
        self.flush(None);
    }

    /// Fails with the ending of a run that must not go on.
    pub(crate) fn go_on(&self) -> Result<(), Ending> {
        match self.is_called_off {
            true => Err(self.state.ending(None)),
            false => Ok(()),
        }
    }
}

/// An order, sorted by what it affects.
pub(crate) enum Heard {
    /// It affects the course of the run.
    Course(Input),
    /// It changes the agent's servers.
    Change(AskedChange),
}

impl From<Order> for Heard {
    fn from(order: Order) -> Self {
        match order {
            Order::Stop(manner) => Self::Course(Input::Stop(manner)),
            Order::Suspend => Self::Course(Input::Suspend),
            Order::Interrupt => Self::Course(Input::Interrupt),
            Order::ChangeServers(asked) => Self::Change(asked),
        }
    }
}

pub(crate) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
