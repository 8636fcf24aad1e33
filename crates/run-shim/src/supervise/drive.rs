//! Phase four: the run under way. Waits for exactly one thing, decides by [`RunState`](super::run_state::RunState), acts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_stream::{AgentStream, StreamLine};
use run_protocol::{LimitKind, RunEvent, RunSpec, Spend, StopManner};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::agent_tools::agent_desk::{Arrived, Handover};
use crate::agent_tools::live_servers::LiveServers;
use crate::control::control_socket::{AskedChange, Order};
use crate::limits::DiskAccount;
use crate::network::Network;
use crate::record::stderr_keeper::StderrKeeper;
use crate::sandbox::mount_watch::{self, MountWatch};
use crate::sandbox::{Launchable, Sandbox, was_killed_on_order};
use crate::session::session_memory;
use crate::supervise::agent_line::{Expected, drift, sign_of};
use crate::supervise::claim::Claim;
use crate::supervise::prepare::InPlace;
use crate::supervise::presence::Presence;
use crate::supervise::prompt;
use crate::supervise::run_state::{AgentSign, Ending, Input};
use crate::supervise::supervisor::{Heard, LOOK_EVERY, Supervisor, sleep_until};

/// What is read of the agent's output at once: a batch of the journal.
const CHUNK: usize = 256 * 1024;
/// The same for its stderr.
const STDERR_CHUNK: usize = 16 * 1024;
/// Kinds of unknown events that are reported by name.
const MOST_DRIFT: usize = 32;

/// How the run came to its end.
pub(crate) struct Driven {
    pub(crate) ending: Ending,
    pub(crate) exit_code: Option<i32>,
    pub(crate) stderr_tail: String,
    /// How many tokens it took; `None` where nobody said.
    pub(crate) tokens: Option<u64>,
    /// Whether the agent was let go.
    pub(crate) has_run: bool,
}

impl Driven {
    /// A run whose agent was never let go.
    pub(crate) fn unrun(ending: Ending, stderr_tail: String) -> Self {
        Self { ending, exit_code: None, stderr_tail, tokens: Some(0), has_run: false }
    }
}

/// Runs until the end. Nothing of the sandbox is left when this returns.
pub(crate) async fn drive(
    supervisor: &mut Supervisor,
    sandbox: Sandbox,
    claim: &Claim,
    in_place: &mut InPlace,
) -> Driven {
    let mut drive = Drive::begin(supervisor, sandbox, claim, in_place);
    drive.run().await;
    drive.finish().await
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
struct Drive<'a> {
    supervisor: &'a mut Supervisor,
    sandbox: Sandbox,
    run_dir: &'a Path,
    output: Output,
    stderr: StderrKeeper,
    records: RecordLimits,
    presence: Presence,
    exit_code: Option<i32>,
    /// What the agent told us through its tools.
    tool_events: &'a mut mpsc::Receiver<RunEvent>,
    /// What our own tasks have to say, such as the one that writes the prompt.
    own_events: &'a mut mpsc::Receiver<RunEvent>,
    /// Hears of it if the agent does not continue the conversation that it was to continue.
    forgotten: mpsc::Receiver<()>,
    /// Hears of it if the sandbox takes more of the machine than it may.
    exceeded: mpsc::Receiver<LimitKind>,
    /// Hears of it if something that is protected from the agent is not any more.
    mounts: Option<MountWatch>,
    network: Option<Network>,
    /// Messages on their way to the agent.
    handover: Arc<Handover>,
    /// Which MCP servers the agent has. `None` where we do not say.
    servers: Option<LiveServers>,
}

/// The agent's output, as far as it is read.
struct Output {
    chunk: Vec<u8>,
    stderr_chunk: Vec<u8>,
    stdout_open: bool,
    stderr_open: bool,
    /// Whether the sandbox lives that it comes from.
    alive: bool,
    stream: AgentStream,
    expected: Expected,
    /// Unknown events that were reported.
    drift: BTreeSet<String>,
}

/// What the lines of one batch come to.
#[derive(Default)]
struct Batch {
    inputs: Vec<Input>,
    /// Messages that the agent has, as the lines show.
    arrived: Vec<Arrived>,
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
}

impl<'a> Drive<'a> {
    /// Begins everything that goes on beside an agent: its prompt, its network, the watches over it.
    fn begin(
        supervisor: &'a mut Supervisor,
        mut sandbox: Sandbox,
        claim: &'a Claim,
        in_place: &'a mut InPlace,
    ) -> Self {
        let InPlace { prepared, workspace, own_events, own_sender, tool_events, .. } = in_place;
        let spec = &claim.spec;
        let account = supervisor.record.account().clone();
        workspace.tidy();
        let (tell_exceeded, exceeded) = mpsc::channel(4);
        let upstream = in_place.proxy.as_ref().and_then(|proxy| proxy.parse().ok());
        let doors = sandbox.doors.take();
        let network = doors.zip(prepared.network_policy(upstream)).map(|(doors, policy)| {
            Network::open(doors, policy, own_sender.clone(), tell_exceeded.clone())
        });
        if let Some(stdin) = sandbox.stdin.take() {
            let words = std::mem::take(&mut prepared.prompt);
            tokio::spawn(prompt::send(words, stdin, own_sender.clone()));
        }
        if let (Some(limits), Some(writable)) = (&mut sandbox.limits, prepared.writable_on_host()) {
            limits.watch(writable, account.clone(), tell_exceeded);
        }
        Self {
            mounts: watch_mounts(&sandbox, &prepared.launchable),
            run_dir: claim.run.path(),
            output: Output::new(Expected::of(spec)),
            stderr: StderrKeeper::new(&claim.run.stderr_log_path(), account.clone()),
            records: RecordLimits::new(account, spec),
            presence: Presence::new(),
            exit_code: None,
            tool_events,
            own_events,
            forgotten: session_memory::watch(&prepared.store_db, claim.before.as_ref()),
            exceeded,
            network,
            handover: Arc::clone(&claim.handover),
            servers: prepared.live_servers(&claim.state_root, spec),
            supervisor,
            sandbox,
        }
    }

    async fn run(&mut self) {
        for asked in std::mem::take(&mut self.supervisor.changes) {
            self.change_servers(asked);
        }
        while self.supervisor.ending.is_none() {
            // Phase one: wait for exactly one thing.
            self.note_absence();
            let deadline = self.supervisor.deadline();
            self.presence.expect_until(deadline);
            let happened = self.wait(deadline).await;
            self.note_absence();
            let Some(happened) = happened else {
                self.supervisor.look(Some(&mut self.sandbox.process));
                continue;
            };
            // A stop wakes us with the clock and without the pipes. They are looked at before the clock decides.
            if matches!(happened, Happened::Deadline)
                && self.output.stdout_open
                && self.has_output()
            {
                tokio::task::yield_now().await;
                continue;
            }

            // Phase two: decide, then act.
            let batch = self.take_in(happened).await;
            self.decide(batch).await;
            // The tasks that bring orders have a turn after each batch: the agent may always have printed the next one.
            tokio::task::yield_now().await;
        }
    }

    /// Orders come first, or an agent that never stops printing could not be stopped; output comes before the end of the
    /// process, so that what was printed is read. `None`: nothing happened for a while.
    async fn wait(&mut self, deadline: Option<Instant>) -> Option<Happened> {
        let (output, sandbox) = (&mut self.output, &mut self.sandbox);
        Some(tokio::select! {
            biased;
            Some(order) = self.supervisor.orders.recv() => Happened::Order(order),
            lost = mount_watch::lost(&mut self.mounts), if output.alive => Happened::ProtectionLost(lost),
            Some(limit) = self.exceeded.recv() => Happened::Exceeded(limit),
            read = sandbox.stdout.read(&mut output.chunk), if output.stdout_open => Happened::Stdout(read.unwrap_or(0)),
            read = sandbox.stderr.read(&mut output.stderr_chunk), if output.stderr_open => Happened::Stderr(read.unwrap_or(0)),
            Some(event) = self.own_events.recv() => Happened::Own(event),
            Some(event) = self.tool_events.recv() => Happened::Tool(event),
            Some(()) = self.forgotten.recv() => Happened::Forgotten,
            _ = sandbox.process.wait(), if output.alive => Happened::Exited,
            () = sleep_until(deadline) => Happened::Deadline,
            () = tokio::time::sleep(LOOK_EVERY) => return None,
        })
    }

    /// Records what happened, and says what it means for the course of the run.
    async fn take_in(&mut self, happened: Happened) -> Batch {
        let inputs = match happened {
            Happened::Stdout(length) => return self.read_stdout(length),
            Happened::Stderr(length) => {
                self.read_stderr(length);
                Vec::new()
            }
            Happened::Exited => self.note_exit().await,
            Happened::Order(order) => match Heard::from(order) {
                Heard::Course(input) => vec![input],
                Heard::Change(asked) => {
                    self.change_servers(asked);
                    Vec::new()
                }
            },
            Happened::Forgotten => vec![Input::Forgotten],
            Happened::Exceeded(limit) => vec![Input::Exceeded(limit)],
            Happened::ProtectionLost(path) => {
                // It is the end; whatever else goes is not asked about.
                self.mounts = None;
                vec![Input::ProtectionLost(path.into())]
            }
            Happened::Own(event) => {
                self.supervisor.record.event(&event);
                Vec::new()
            }
            Happened::Tool(event) => {
                self.supervisor.record.learn_new_tokens();
                self.supervisor.record.event_of_agent(&event);
                vec![Input::SignOfLife]
            }
            Happened::Deadline => vec![Input::Tick],
        };
        Batch { inputs, arrived: Vec::new() }
    }

    async fn decide(&mut self, batch: Batch) {
        // The batch reaches the kernel before anything is decided on it.
        self.flush();
        self.confirm(batch.arrived).await;
        for input in batch.inputs {
            self.step(input);
        }
        if let Some(limit) = self.records.newly_met() {
            self.step(Input::Exceeded(limit));
        }
        // With output always there, the wait never comes to its deadline.
        if self.supervisor.is_due() {
            self.step(Input::Tick);
        }
        self.flush();
        // Nor does it come to the end of the process then.
        if self.output.alive {
            self.sandbox.process.end_if_unheld();
        }
    }

    fn read_stdout(&mut self, length: usize) -> Batch {
        let record = &mut self.supervisor.record;
        let Output { stream, expected, drift: known, chunk, .. } = &mut self.output;
        let mut batch = Batch::default();
        if length > 0 {
            record.learn_new_tokens();
        }
        let take = |line: StreamLine<'_>| {
            record.agent_line(&line);
            batch.arrived.extend(self.handover.see(&line));
            let unknown = drift(&line).filter(|_| known.len() < MOST_DRIFT);
            if let Some(event) = unknown.filter(|event| known.insert(event.clone())) {
                record.event(&RunEvent::ProtocolDrift { event });
            }
            add_sign(&mut batch.inputs, sign_of(&line, expected));
        };
        match length {
            0 => {
                stream.finish(take);
                self.output.stdout_open = false;
                batch.inputs.push(Input::StdoutClosed);
            }
            _ => stream.feed(&chunk[..length], take),
        }
        batch
    }

    fn read_stderr(&mut self, length: usize) {
        let record = &mut self.supervisor.record;
        if length == 0 {
            self.output.stderr_open = false;
            return;
        }
        record.learn_new_tokens();
        let clean = |line: &[u8]| record.clean(line).into_owned();
        self.stderr.take(&self.output.stderr_chunk[..length], &clean);
    }

    async fn note_exit(&mut self) -> Vec<Input> {
        self.output.alive = false;
        self.exit_code = self.sandbox.process.exit_code().await;
        let exit_code = self.exit_code;
        // The kernel may have ended it before we heard why.
        let exceeded = self.sandbox.limits.as_ref().and_then(|limits| limits.look(exit_code));
        // An order that we were too late for comes before everything that follows from it.
        let order = was_killed_on_order(self.run_dir).then_some(Input::Stop(StopManner::Now));
        let exited = Input::Exited { exit_code };
        order.into_iter().chain(exceeded.map(Input::HadExceeded)).chain([exited]).collect()
    }

    /// Writes down which messages the agent has. What cannot be is passed on again by a later run, not lost.
    async fn confirm(&mut self, arrived: Vec<Arrived>) {
        for arrived in arrived {
            let handover = Arc::clone(&self.handover);
            let confirmed = tokio::task::spawn_blocking(move || handover.confirm(&arrived)).await;
            match confirmed {
                Ok(Ok(event)) => self.supervisor.record.event(&event),
                Ok(Err(error)) => tracing::warn!(%error, "a delivery could not be written down"),
                Err(error) => tracing::warn!(%error, "a delivery could not be written down"),
            }
        }
    }

    fn change_servers(&mut self, (change, answer): AskedChange) {
        let changed = match &mut self.servers {
            Some(servers) => servers.change(&change),
            None => Err("it has no sandbox, so the agent goes by your own files".to_owned()),
        };
        let record = &mut self.supervisor.record;
        record.keep_secret(self.servers.iter().flat_map(LiveServers::secrets));
        let done = changed.map(|event| record.event(&event));
        // In the journal before anybody hears of it.
        self.flush();
        drop(answer.send(done));
    }

    /// Time in which we did not run is no silence of the agent's.
    fn note_absence(&mut self) {
        if let Some(ms) = self.presence.absent_ms() {
            tracing::warn!(ms, "the supervisor did not run");
            self.step(Input::Absent { ms });
        }
    }

    /// Whether the kernel has something for us to read, whether we have heard of it or not.
    fn has_output(&self) -> bool {
        let mut fds = [PollFd::new(&self.sandbox.stdout, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|n_ready| n_ready > 0)
    }

    fn step(&mut self, input: Input) {
        self.supervisor.step(input, Some(&mut self.sandbox.process));
    }

    fn flush(&mut self) {
        self.supervisor.flush(Some(&mut self.sandbox.process));
    }

    async fn finish(mut self) -> Driven {
        while let Ok(event) = self.own_events.try_recv() {
            self.supervisor.record.event(&event);
        }
        self.drain_stderr().await;
        let Self { supervisor, exit_code, stderr, network, .. } = self;
        let tokens = supervisor.state.tokens();
        supervisor.record.event(&RunEvent::Spent(Spend {
            tool_calls: Some(supervisor.state.n_tool_calls()),
            time_ms: Some(supervisor.now()),
            tokens,
        }));
        for event in network.map(Network::close).into_iter().flatten() {
            supervisor.record.event(&event);
        }
        let ending = supervisor.ending.take();
        Driven {
            ending: ending.unwrap_or(Ending::ByItself { exit_code, was_released: true }),
            exit_code,
            stderr_tail: stderr.tail(),
            tokens,
            has_run: true,
        }
    }

    /// What is still in the pipe of a process that is gone; a process that holds it open is not waited for.
    async fn drain_stderr(&mut self) {
        let until = Instant::now() + Duration::from_millis(100);
        let record = &self.supervisor.record;
        let clean = |line: &[u8]| record.clean(line).into_owned();
        let chunk = &mut self.output.stderr_chunk;
        if self.output.stderr_open {
            while let Ok(Ok(length @ 1..)) =
                tokio::time::timeout_at(until, self.sandbox.stderr.read(chunk)).await
            {
                self.stderr.take(&chunk[..length], &clean);
            }
        }
        self.stderr.finish(&clean);
    }
}

impl Output {
    fn new(expected: Expected) -> Self {
        Self {
            chunk: vec![0; CHUNK],
            stderr_chunk: vec![0; STDERR_CHUNK],
            stdout_open: true,
            stderr_open: true,
            alive: true,
            stream: AgentStream::default(),
            expected,
            drift: BTreeSet::new(),
        }
    }
}

fn add_sign(inputs: &mut Vec<Input>, sign: AgentSign) {
    let input = Input::Agent(sign);
    // A flood of ordinary lines is one sign of life.
    if input != Input::Agent(AgentSign::Other) || inputs.last() != Some(&input) {
        inputs.push(input);
    }
}

fn watch_mounts(sandbox: &Sandbox, launchable: &Launchable) -> Option<MountWatch> {
    let Launchable::Sandbox { plan, .. } = launchable else { return None };
    let watch = sandbox.process.watch_mounts(plan);
    // An agent that is gone already shows nothing.
    watch
        .inspect_err(|error| tracing::warn!(%error, "the mounts of the sandbox are not watched"))
        .ok()
}
