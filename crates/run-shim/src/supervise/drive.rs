//! The one task that owns a run under way: waits for exactly one thing, decides by [`RunState`], acts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_stream::{AgentStream, AssistantForm, EventKind, ShellArgs, StreamLine};
use run_protocol::{LimitKind, RunEvent, RunSpec, SignalName, Spend, StopManner};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::agent_tools::agent_desk::{Arrived, Handover};
use crate::agent_tools::live_servers::LiveServers;
use crate::control::control_socket::{AskedChange, Order};
use crate::limits::DiskAccount;
use crate::record::run_record::{AppendError, RunRecord};
use crate::record::stderr_keeper::StderrKeeper;
use crate::sandbox::mount_watch::{self, MountWatch};
use crate::sandbox::{Sandbox, was_killed_on_order};
use crate::supervise::run_state::{AgentSign, Effect, Ending, Input, Moment, RunState};
use crate::supervise::token_count::all_tokens;

/// What is read of the agent's output at once: a batch of the journal.
const CHUNK: usize = 256 * 1024;
/// How often a run in which nothing happens looks whether it still has its session and its journal.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What is kept of a name or an id that the agent gives: it may be as long as a line.
const LONGEST_NAME: usize = 256;
/// A delay below this is what a busy machine does to everybody.
const NOTICED: Duration = Duration::from_millis(100);
/// Kinds of unknown events that are reported by name.
const MOST_DRIFT: usize = 32;

/// What the agent must say in its first line, to be the one that was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    pub(crate) session: String,
    pub(crate) workspace: String,
}

/// What the agent may make us write, looked at after each batch.
#[derive(Debug)]
pub(crate) struct RecordLimits {
    account: DiskAccount,
    journal_bytes: u64,
    disk_bytes: u64,
    /// It is told once: after that the run is ending.
    is_told: bool,
}

impl RecordLimits {
    pub(crate) fn new(account: DiskAccount, spec: &RunSpec) -> Self {
        let (journal_bytes, disk_bytes) = (spec.limits.journal_bytes, spec.resources.disk_bytes);
        Self { account, journal_bytes, disk_bytes, is_told: false }
    }

    fn newly_met(&mut self) -> Option<LimitKind> {
        if self.is_told {
            return None;
        }
        let met = self.account.met(self.journal_bytes, self.disk_bytes);
        self.is_told = met.is_some();
        met
    }
}

/// Everything that a run under way consists of.
pub(crate) struct Drive<'a> {
    pub(crate) state: RunState,
    pub(crate) began: Instant,
    pub(crate) sandbox: Sandbox,
    pub(crate) run_dir: &'a Path,
    pub(crate) record: RunRecord,
    pub(crate) stderr: StderrKeeper,
    pub(crate) records: RecordLimits,
    pub(crate) expected: Expected,
    pub(crate) orders: mpsc::Receiver<Order>,
    /// What the agent told us through its tools.
    pub(crate) tool_events: mpsc::Receiver<RunEvent>,
    /// Events of helpers of ours, such as the one that writes the prompt.
    pub(crate) own_events: &'a mut mpsc::Receiver<RunEvent>,
    /// Hears of it if the agent does not continue the conversation that it was to continue.
    pub(crate) forgotten: mpsc::Receiver<()>,
    /// Hears of it if the sandbox takes more of the machine than it may.
    pub(crate) exceeded: mpsc::Receiver<LimitKind>,
    /// Hears of it if something that is protected from the agent is not any more.
    pub(crate) mounts: Option<MountWatch>,
    /// Messages on their way to the agent.
    pub(crate) handover: Arc<Handover>,
    /// Those that it has, as the lines of this batch show.
    pub(crate) arrived: Vec<Arrived>,
    /// Which MCP servers the agent has. `None` where we do not say.
    pub(crate) servers: Option<LiveServers>,
    /// Changes of them that somebody asked for before the agent was let go.
    pub(crate) changes: Vec<AskedChange>,
}

/// How the run came to its end.
pub(crate) struct Driven {
    pub(crate) ending: Ending,
    pub(crate) exit_code: Option<i32>,
    pub(crate) stderr_tail: String,
    /// How many tokens it took; `None` where nobody said.
    pub(crate) tokens: Option<u64>,
    pub(crate) record: RunRecord,
}

impl Driven {
    /// A run whose agent was never let go.
    pub(crate) fn unrun(ending: Ending, stderr_tail: String, record: RunRecord) -> Self {
        Self { ending, exit_code: None, stderr_tail, tokens: Some(0), record }
    }
}

/// The one thing that happened.
enum Happened {
    Stdout(usize),
    Stderr(usize),
    Exited,
    Order(Order),
    Tool(RunEvent),
    Own(RunEvent),
    Forgotten,
    Exceeded(LimitKind),
    ProtectionLost(PathBuf),
    Deadline,
    Look,
}

impl Drive<'_> {
    /// Runs until the end. Nothing of the sandbox is left when this returns.
    pub(crate) async fn run(mut self) -> Driven {
        let mut stream = AgentStream::default();
        let mut drift = BTreeSet::new();
        let mut chunk = vec![0; CHUNK];
        let mut stderr_chunk = vec![0; 16 * 1024];
        let (mut stdout_open, mut stderr_open, mut alive) = (true, true, true);
        let mut exit_code = None;
        let mut ending = None;
        let mut presence = Presence::new();
        for asked in std::mem::take(&mut self.changes) {
            self.change_servers(asked, &mut ending);
        }

        while ending.is_none() {
            // Phase one: wait for exactly one thing. Orders come first, or an agent that never stops printing could not
            // be stopped; output comes before the end of the process, so that what was printed is read.
            self.note_absence(&mut presence, &mut ending);
            let deadline =
                self.state.next_deadline().map(|at| self.began + Duration::from_millis(at));
            presence.expect_until(deadline);
            let happened = tokio::select! {
                biased;
                Some(order) = self.orders.recv() => Happened::Order(order),
                lost = mount_watch::lost(&mut self.mounts), if alive => Happened::ProtectionLost(lost),
                Some(limit) = self.exceeded.recv() => Happened::Exceeded(limit),
                read = self.sandbox.stdout.read(&mut chunk), if stdout_open => Happened::Stdout(read.unwrap_or(0)),
                read = self.sandbox.stderr.read(&mut stderr_chunk), if stderr_open => Happened::Stderr(read.unwrap_or(0)),
                Some(event) = self.own_events.recv() => Happened::Own(event),
                Some(event) = self.tool_events.recv() => Happened::Tool(event),
                Some(()) = self.forgotten.recv() => Happened::Forgotten,
                _ = self.sandbox.process.wait(), if alive => Happened::Exited,
                () = sleep_until(deadline) => Happened::Deadline,
                () = tokio::time::sleep(LOOK_EVERY) => Happened::Look,
            };

            self.note_absence(&mut presence, &mut ending);
            // A stop wakes us with the clock and without the pipes. They are looked at before the clock decides.
            if matches!(happened, Happened::Deadline) && stdout_open && self.has_output() {
                tokio::task::yield_now().await;
                continue;
            }

            // Phase two: decide, then act.
            let inputs = match happened {
                Happened::Stdout(0) => {
                    stdout_open = false;
                    let mut signs = Vec::new();
                    stream.finish(|line| self.agent_line(&line, &mut drift, &mut signs));
                    signs.push(Input::StdoutClosed);
                    signs
                }
                Happened::Stdout(length) => {
                    self.record.learn_new_tokens();
                    let mut signs = Vec::new();
                    stream.feed(&chunk[..length], |line| {
                        self.agent_line(&line, &mut drift, &mut signs);
                    });
                    signs
                }
                Happened::Stderr(0) => {
                    stderr_open = false;
                    Vec::new()
                }
                Happened::Stderr(length) => {
                    self.record.learn_new_tokens();
                    let record = &self.record;
                    self.stderr
                        .take(&stderr_chunk[..length], &|line| record.clean(line).into_owned());
                    Vec::new()
                }
                Happened::Exited => {
                    alive = false;
                    exit_code = self.sandbox.process.exit_code().await;
                    // The kernel may have ended it before we heard why.
                    let limits = self.sandbox.limits.as_ref();
                    let exceeded = limits.and_then(|limits| limits.look(exit_code));
                    let exceeded = exceeded.map(Input::HadExceeded);
                    // An order that we were too late for comes before everything that follows from it.
                    let order = was_killed_on_order(self.run_dir);
                    let order = order.then_some(Input::Stop(StopManner::Now));
                    let exited = Input::Exited { exit_code };
                    order.into_iter().chain(exceeded).chain([exited]).collect()
                }
                Happened::Order(Order::Stop(manner)) => vec![Input::Stop(manner)],
                Happened::Order(Order::Suspend) => vec![Input::Suspend],
                Happened::Order(Order::Interrupt) => vec![Input::Interrupt],
                Happened::Forgotten => vec![Input::Forgotten],
                Happened::Exceeded(limit) => vec![Input::Exceeded(limit)],
                Happened::ProtectionLost(path) => {
                    // It is the end; whatever else goes is not asked about.
                    self.mounts = None;
                    vec![Input::ProtectionLost(path.into())]
                }
                Happened::Order(Order::ChangeServers(asked)) => {
                    self.change_servers(asked, &mut ending);
                    Vec::new()
                }
                Happened::Own(event) => {
                    self.record.event(&event);
                    Vec::new()
                }
                Happened::Tool(event) => {
                    self.record.learn_new_tokens();
                    self.record.event_of_agent(&event);
                    vec![Input::SignOfLife]
                }
                Happened::Deadline => vec![Input::Tick],
                Happened::Look => {
                    if let Err(error) = self.record.check() {
                        self.cannot_append(&error, &mut ending);
                    }
                    continue;
                }
            };
            // The batch reaches the kernel before anything is decided on it.
            self.flush(&mut ending);
            self.confirm_arrivals().await;
            for input in inputs {
                self.step(input, &mut ending);
            }
            if let Some(limit) = self.records.newly_met() {
                self.step(Input::Exceeded(limit), &mut ending);
            }
            // For the same reason: with output always there, the wait above never comes to its deadline.
            if self.state.next_deadline().is_some_and(|at| at <= self.now()) {
                self.step(Input::Tick, &mut ending);
            }
            self.flush(&mut ending);
            // Nor does it come to the end of the process then.
            if alive {
                self.sandbox.process.end_if_unheld();
            }
            // Whoever brings an order has a turn after each batch: the agent may always have printed the next one.
            tokio::task::yield_now().await;
        }
        while let Ok(event) = self.own_events.try_recv() {
            self.record.event(&event);
        }
        self.drain_stderr(&mut stderr_chunk, stderr_open).await;
        self.record.event(&RunEvent::Spent(Spend {
            tool_calls: Some(self.state.n_tool_calls()),
            time_ms: Some(self.now()),
            tokens: self.state.tokens(),
        }));
        Driven {
            ending: ending.unwrap_or(Ending::ByItself { exit_code, was_released: true }),
            exit_code,
            stderr_tail: self.stderr.tail(),
            tokens: self.state.tokens(),
            record: self.record,
        }
    }

    /// Writes down which messages the agent has. What cannot be is passed on again by a later run, not lost.
    async fn confirm_arrivals(&mut self) {
        for arrived in std::mem::take(&mut self.arrived) {
            let handover = Arc::clone(&self.handover);
            let confirmed = tokio::task::spawn_blocking(move || handover.confirm(&arrived)).await;
            match confirmed {
                Ok(Ok(event)) => self.record.event(&event),
                Ok(Err(error)) => tracing::warn!(%error, "a delivery could not be written down"),
                Err(error) => tracing::warn!(%error, "a delivery could not be written down"),
            }
        }
    }

    fn change_servers(&mut self, (change, answer): AskedChange, ending: &mut Option<Ending>) {
        let changed = match &mut self.servers {
            Some(servers) => servers.change(&change),
            None => Err("it has no sandbox, so the agent goes by your own files".to_owned()),
        };
        self.record.keep_secret(self.servers.iter().flat_map(LiveServers::secrets));
        let done = changed.map(|event| self.record.event(&event));
        // In the journal before anybody hears of it.
        self.flush(ending);
        drop(answer.send(done));
    }

    fn now(&self) -> Moment {
        moment_since(self.began)
    }

    /// Time in which we did not run is no silence of the agent's.
    fn note_absence(&mut self, presence: &mut Presence, ending: &mut Option<Ending>) {
        if let Some(ms) = presence.absent_ms() {
            tracing::warn!(ms, "the supervisor did not run");
            self.step(Input::Absent { ms }, ending);
        }
    }

    /// Whether the kernel has something for us to read, whether we have heard of it or not.
    fn has_output(&self) -> bool {
        let mut fds = [PollFd::new(&self.sandbox.stdout, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|n_ready| n_ready > 0)
    }

    fn step(&mut self, input: Input, ending: &mut Option<Ending>) {
        let now = self.now();
        let (state, effects) = self.state.clone().step(input, now);
        self.state = state;
        for effect in effects {
            match effect {
                Effect::Record(event) => self.record.event(&event),
                Effect::Sync => {
                    if let Err(error) = self.record.sync() {
                        self.cannot_append(&error, ending);
                    }
                }
                Effect::SignalAgent(signal) => self.signal(signal),
                Effect::KillSandbox => {
                    self.note_signal(SignalName::Kill, "the sandbox");
                    self.sandbox.process.kill();
                }
                Effect::End(how) => *ending = Some(how),
            }
        }
    }

    fn signal(&mut self, name: SignalName) {
        let signal = match name {
            SignalName::Int => Signal::INT,
            SignalName::Term => Signal::TERM,
            SignalName::Kill => Signal::KILL,
        };
        // An agent that is gone needs no signal; the next rung of the ladder comes anyway.
        match self.sandbox.process.signal_agent(signal) {
            Ok(()) => self.note_signal(name, "the agent"),
            Err(error) => tracing::info!(%error, ?name, "the agent could not be signalled"),
        }
    }

    fn note_signal(&mut self, signal: SignalName, target: &str) {
        self.record.event(&RunEvent::Signalled { signal, target: target.to_owned() });
    }

    fn flush(&mut self, ending: &mut Option<Ending>) {
        if let Err(error) = self.record.flush() {
            self.cannot_append(&error, ending);
        }
    }

    fn cannot_append(&mut self, error: &AppendError, ending: &mut Option<Ending>) {
        tracing::error!(%error, "nothing more is appended to the journal");
        if self.record.break_off(error) {
            self.step(error.as_input(), ending);
            // The reserve is meant for exactly this; if it fails too, the run ends all the same.
            self.record.flush().ok();
        }
    }

    fn agent_line(
        &mut self,
        line: &StreamLine<'_>,
        drift: &mut BTreeSet<String>,
        inputs: &mut Vec<Input>,
    ) {
        self.record.agent_line(line);
        self.arrived.extend(self.handover.see(line));
        if let EventKind::Unknown { kind, subtype, .. } = &line.event.kind {
            let kind = kept(kind.as_deref().unwrap_or("(no type)"));
            let event = match subtype {
                Some(subtype) => format!("{kind}/{}", kept(subtype)),
                None => kind,
            };
            if drift.len() < MOST_DRIFT && drift.insert(event.clone()) {
                self.record.event(&RunEvent::ProtocolDrift { event });
            }
        }
        match sign_of(line, &self.expected) {
            // A flood of ordinary lines is one sign of life.
            AgentSign::Other => {
                if inputs.last() != Some(&Input::Agent(AgentSign::Other)) {
                    inputs.push(Input::Agent(AgentSign::Other));
                }
            }
            sign => inputs.push(Input::Agent(sign)),
        }
    }

    /// What is still in the pipe of a process that is gone; whoever holds it open is not waited for.
    async fn drain_stderr(&mut self, chunk: &mut [u8], is_open: bool) {
        let until = Instant::now() + Duration::from_millis(100);
        let record = &self.record;
        let clean = |line: &[u8]| record.clean(line).into_owned();
        if is_open {
            while let Ok(Ok(length @ 1..)) =
                tokio::time::timeout_at(until, self.sandbox.stderr.read(chunk)).await
            {
                self.stderr.take(&chunk[..length], &clean);
            }
        }
        self.stderr.finish(&clean);
    }
}

/// Knows when we should have run, and so for how long we did not: stopped, frozen, or without a processor.
struct Presence {
    expected: Instant,
}

impl Presence {
    fn new() -> Self {
        Self { expected: Instant::now() + LOOK_EVERY }
    }

    /// We wait, for the deadline at most, and never for longer than until the next look.
    fn expect_until(&mut self, deadline: Option<Instant>) {
        let now = Instant::now();
        let look = now + LOOK_EVERY;
        self.expected = deadline.map_or(look, |deadline| deadline.clamp(now, look));
    }

    /// For how long we did not run though we should have; what is not worth a word is `None`.
    fn absent_ms(&mut self) -> Option<u64> {
        let now = Instant::now();
        let late = now.saturating_duration_since(self.expected);
        self.expected = now + LOOK_EVERY;
        let ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
        (late >= NOTICED).then_some(ms)
    }
}

/// Where we are on the clock of a run.
pub(crate) fn moment_since(began: Instant) -> Moment {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

pub(crate) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn kept(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect()
}

/// What a line means for the course of the run.
fn sign_of(line: &StreamLine<'_>, expected: &Expected) -> AgentSign {
    let event = &line.event;
    match &event.kind {
        EventKind::Init { cwd, .. } => {
            let session = event.session_id.as_deref();
            let is_the_asked_session = session.is_none_or(|session| session == expected.session)
                && cwd.as_deref().is_none_or(|cwd| cwd == expected.workspace);
            AgentSign::Init { is_the_asked_session }
        }
        EventKind::ToolStarted(call) => AgentSign::ToolStarted {
            call_id: kept(call.call_id.as_deref().unwrap_or_default()),
            name: kept(call.name_or_unnamed()),
            declared_ms: call
                .args
                .filter(|_| call.name.as_deref() == Some("shell"))
                .and_then(|args| ShellArgs::read(args).timeout_ms)
                .and_then(|timeout| u64::try_from(timeout).ok()),
        },
        EventKind::ToolCompleted(call) => {
            AgentSign::ToolCompleted { call_id: kept(call.call_id.as_deref().unwrap_or_default()) }
        }
        EventKind::Oversized(oversized) if line.started.is_some() => AgentSign::ToolCompleted {
            call_id: kept(oversized.call_id.as_deref().unwrap_or_default()),
        },
        EventKind::Assistant { form: AssistantForm::Last, .. } => AgentSign::FinalText,
        EventKind::Result(result) => {
            let is_error = result.is_error.unwrap_or(result.subtype.as_deref() != Some("success"));
            AgentSign::Result { is_error, tokens: result.usage.as_ref().and_then(all_tokens) }
        }
        _ => AgentSign::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the lines mean, one after the other.
    fn signs(lines: &str) -> Vec<AgentSign> {
        let expected = Expected { session: String::new(), workspace: String::new() };
        let mut signs = Vec::new();
        AgentStream::default().feed(lines.as_bytes(), |line| signs.push(sign_of(&line, &expected)));
        signs
    }

    #[test]
    fn a_name_as_long_as_a_line_is_not_held_in_memory() {
        let id = "i".repeat(1 << 20);
        let line = |subtype: &str| {
            format!(
                r#"{{"type":"tool_call","subtype":"{subtype}","call_id":"{id}","tool_call":{{"{id}ToolCall":{{"args":{{}}}}}}}}"#
            )
        };
        let lines = format!("{}\n{}\n", line("started"), line("completed"));
        let signs = signs(&lines);
        let [
            AgentSign::ToolStarted { call_id, name, .. },
            AgentSign::ToolCompleted { call_id: completed },
        ] = signs.as_slice()
        else {
            panic!("not a call that began and ended")
        };
        assert!(call_id.len() == LONGEST_NAME && name.len() <= LONGEST_NAME);
        assert_eq!(call_id, completed, "the end of a call is still known by its id");
    }
}
