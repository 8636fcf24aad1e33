//! What all phases of a run have in hand: how the run stands, its journal, and the orders that come in.

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

/// How often a run in which nothing happens looks whether it still has its session and its journal.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// One run under supervision.
pub(crate) struct Supervisor {
    pub(crate) state: RunState,
    pub(crate) record: RunRecord,
    pub(crate) orders: mpsc::Receiver<Order>,
    /// Changes of the agent's servers that were asked for before the agent was let go.
    pub(crate) changes: Vec<AskedChange>,
    /// How the run came to its end, once it has.
    pub(crate) ending: Option<Ending>,
    began: Instant,
    /// Whether the run was to be killed before its agent was let go.
    is_called_off: bool,
}

/// The agent that a decision is carried out on; `None` until it is let go.
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

    /// The journal of a run that is over. Orders are refused from here on.
    pub(crate) fn into_record(self) -> RunRecord {
        self.record
    }

    /// Where the run is on its clock.
    pub(crate) fn now(&self) -> Moment {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// When the clock has to be looked at next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.state.next_deadline().map(|at| self.began + Duration::from_millis(at))
    }

    pub(crate) fn is_due(&self) -> bool {
        self.state.next_deadline().is_some_and(|at| at <= self.now())
    }

    /// Decides what an input means, and does it.
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
        // An agent that is gone needs no signal; the next rung of the ladder comes anyway.
        match agent.signal_agent(signal) {
            Ok(()) => self.note_signal(name, "the agent"),
            Err(error) => tracing::info!(%error, ?name, "the agent could not be signalled"),
        }
    }

    pub(crate) fn note_signal(&mut self, signal: SignalName, target: &str) {
        self.record.event(&RunEvent::Signalled { signal, target: target.to_owned() });
    }

    /// Hands what was recorded to the kernel. What cannot be written ends the run.
    pub(crate) fn flush(&mut self, agent: Agent<'_>) {
        if let Err(error) = self.record.flush() {
            self.cannot_append(&error, agent);
        }
    }

    /// Looks whether the run still has its session and its journal.
    pub(crate) fn look(&mut self, agent: Agent<'_>) {
        if let Err(error) = self.record.check() {
            self.cannot_append(&error, agent);
        }
    }

    fn cannot_append(&mut self, error: &AppendError, agent: Agent<'_>) {
        tracing::error!(%error, "nothing more is appended to the journal");
        if self.record.break_off(error) {
            self.step(error.as_input(), agent);
            // The reserve is meant for exactly this; if it fails too, the run ends all the same.
            self.record.flush().ok();
        }
    }
}

/// Until the agent is let go. What ends the run here is written down at once, and carried out when the step under way is
/// done.
impl Supervisor {
    /// Does something that must not be broken off, and listens meanwhile.
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

    /// Does something that may be broken off, and breaks it off when the run is to end.
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

    /// Waits for the next order, deadline or look. Cancel safe.
    async fn listen(&mut self) {
        let deadline = self.deadline();
        tokio::select! {
            biased;
            Some(order) = self.orders.recv() => self.hear(order),
            () = sleep_until(deadline) => self.step_and_flush(Input::Tick),
            () = tokio::time::sleep(LOOK_EVERY) => self.look(None),
        }
    }

    /// Hears what has come in by now, without waiting.
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
            // The files are made at this moment, so the change is made when the agent has them.
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

    /// Refuses to go on with a run that was called off, and says what it comes to.
    pub(crate) fn go_on(&self) -> Result<(), Ending> {
        match self.is_called_off {
            true => Err(self.state.ending(None)),
            false => Ok(()),
        }
    }
}

/// What an order is about.
pub(crate) enum Heard {
    /// The course of the run.
    Course(Input),
    /// The agent's servers.
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
