//! Phase four: the agent runs. The shim waits for exactly one thing, lets [`RunState`](super::run_state::RunState)
//! decide, and acts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_stream::StreamLine;
use run_protocol::{LimitKind, RunEvent, RunOutcome, Spend, StopManner};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::agent_tools::agent_desk::{Arrived, Handover};
use crate::agent_tools::live_servers::LiveServers;
use crate::control::control_socket::{AskedChange, Order};
use crate::network::Network;
use crate::record::stderr_keeper::StderrKeeper;
use crate::sandbox::mount_watch::{self, MountWatch};
use crate::sandbox::repair::{self, NotRepaired};
use crate::sandbox::{Launchable, Sandbox, was_killed_on_order};
use crate::session::session_memory;
use crate::supervise::agent_line::{drift, sign_of};
use crate::supervise::agent_output::Output;
use crate::supervise::claim::Claim;
use crate::supervise::prepare::InPlace;
use crate::supervise::presence::Presence;
use crate::supervise::prompt;
use crate::supervise::record_limits::RecordLimits;
use crate::supervise::run_state::{AgentSign, Ending, Input};
use crate::supervise::supervisor::{Heard, Supervisor, look_after, sleep_until};

/// The most kinds of unknown events that the journal names.
const MOST_DRIFT: usize = 32;

/// The end of a run.
pub(crate) struct Driven {
    pub(crate) ending: Ending,
    pub(crate) exit_code: Option<i32>,
    pub(crate) stderr_tail: String,
    /// The tokens that the run used, if the agent reported them.
    pub(crate) tokens: Option<u64>,
    /// True if the shim released the agent.
    pub(crate) has_run: bool,
    /// Why the shim suspended the run, if it did.
    pub(crate) suspended_because: Option<String>,
}

impl Driven {
    /// A run whose agent was never released.
    pub(crate) fn unrun(ending: Ending, stderr_tail: String) -> Self {
        let (exit_code, tokens, suspended_because) = (None, Some(0), None);
        Self { ending, exit_code, stderr_tail, tokens, has_run: false, suspended_because }
    }
}

/// Runs the agent until it ends. After this, no part of the sandbox is left.
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

/// Everything that belongs to a running agent.
struct Drive<'a> {
    supervisor: &'a mut Supervisor,
    sandbox: Sandbox,
    run_dir: &'a Path,
    output: Output,
    stderr: StderrKeeper,
    records: RecordLimits,
    presence: Presence,
    exit_code: Option<i32>,
    /// The events of the agent's tool calls.
    tool_events: &'a mut mpsc::Receiver<RunEvent>,
    /// The events of the shim's own tasks, such as the one that writes the prompt.
    own_events: &'a mut mpsc::Receiver<RunEvent>,
    /// Receives a message if the agent does not continue the conversation.
    forgotten: mpsc::Receiver<()>,
    /// Receives a limit that the sandbox exceeded.
    exceeded: mpsc::Receiver<LimitKind>,
    /// Notices when a protection of the sandbox is lost.
    mounts: Option<MountWatch>,
    /// Why a lost protection could not be restored.
    not_repaired: Option<String>,
    network: Option<Network>,
    /// Delivers messages to the agent.
    handover: Arc<Handover>,
    /// The agent's MCP servers. `None` without a sandbox.
    servers: Option<LiveServers>,
}

/// The meaning of one batch of lines.
#[derive(Default)]
struct Batch {
    inputs: Vec<Input>,
    /// The messages that the lines prove were delivered.
    arrived: Vec<Arrived>,
}

/// The one thing that the loop waited for.
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
    /// Starts the tasks that run alongside an agent: its prompt, its network, the watches.
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
        let network = doors.zip(prepared.network_policy(spec, upstream)).map(|(doors, policy)| {
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
            not_repaired: None,
            run_dir: claim.run.path(),
            output: Output::new(spec),
            stderr: StderrKeeper::new(&claim.run.stderr_log_path(), account.clone()),
            records: RecordLimits::new(account, spec),
            presence: Presence::new(),
            exit_code: None,
            tool_events,
            own_events,
            forgotten: session_memory::watch(&prepared.store_db(), claim.before.as_ref()),
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
            // After the shim itself was stopped, the clock wakes it before the pipes do. So check the pipes before the
            // clock decides.
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
            // Let the tasks that receive orders run after each batch, even if the agent prints without end.
            tokio::task::yield_now().await;
        }
    }

    /// Orders come first, so that the user can stop an agent that prints without end. Output comes before the process's
    /// end, so that the shim reads all of it. `None` if nothing happened for a while.
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
            () = tokio::time::sleep(look_after(deadline)) => return None,
        })
    }

    /// Records what happened, and returns its inputs for the state machine.
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
            Happened::ProtectionLost(path) => self.repair(path).await,
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

    async fn repair(&mut self, path: PathBuf) -> Vec<Input> {
        match repair::repair(&mut self.sandbox.repair, path).await {
            Ok(repaired) => {
                for path in repaired {
                    let event = RunEvent::ProtectionRestored { path: path.into() };
                    self.supervisor.record.event(&event);
                }
                Vec::new()
            }
            Err(NotRepaired { path, why }) => {
                // The run ends now, so further losses do not matter.
                self.mounts = None;
                self.not_repaired = Some(why);
                vec![Input::ProtectionLost(path.into())]
            }
        }
    }

    async fn decide(&mut self, batch: Batch) {
        // The batch reaches the kernel before the shim decides about it.
        self.flush();
        self.confirm(batch.arrived).await;
        for input in batch.inputs {
            self.step(input);
        }
        if let Some(limit) = self.records.newly_met() {
            self.step(Input::Exceeded(limit));
        }
        // While output keeps coming, `wait` never reports its deadline.
        if self.supervisor.is_due() {
            self.step(Input::Tick);
        }
        self.flush();
        // While output keeps coming, `wait` never reports the process's end either.
        if self.output.alive {
            self.sandbox.process.end_if_unheld();
        }
    }

    fn read_stdout(&mut self, length: usize) -> Batch {
        let record = &mut self.supervisor.record;
        let Output { setup, stream, expected, drift: known, chunk, .. } = &mut self.output;
        let mut batch = Batch::default();
        let mut bytes = &chunk[..length];
        if length > 0 {
            record.learn_new_tokens();
            let tell = |text| record.event_of_agent(&RunEvent::SetupOutput { text });
            match setup.as_mut().map(|setup| setup.read(bytes, tell)) {
                None => {}
                Some(None) => return batch,
                Some(Some(begin)) => {
                    *setup = None;
                    bytes = &bytes[begin..];
                    batch.inputs.push(Input::Released);
                }
            }
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
            _ => stream.feed(bytes, take),
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
        // The kernel may have killed the agent before the shim learned of the limit.
        let exceeded = self.sandbox.limits.as_ref().and_then(|limits| limits.look(exit_code));
        // A user may have killed the sandbox without the shim. That order takes precedence.
        let order = was_killed_on_order(self.run_dir).then_some(Input::Stop(StopManner::Now));
        let exited = Input::Exited { exit_code };
        order.into_iter().chain(exceeded.map(Input::HadExceeded)).chain([exited]).collect()
    }

    /// Records which messages the agent has. If that fails, a later run delivers them again.
    async fn confirm(&mut self, arrived: Vec<Arrived>) {
        for arrived in arrived {
            let handover = Arc::clone(&self.handover);
            let confirmed = tokio::task::spawn_blocking(move || handover.confirm(&arrived)).await;
            match confirmed {
                Ok(Ok(event)) => self.supervisor.record.event(&event),
                Ok(Err(error)) => tracing::warn!(%error, "could not record a delivery"),
                Err(error) => tracing::warn!(%error, "could not record a delivery"),
            }
        }
    }

    fn change_servers(&mut self, (change, answer): AskedChange) {
        let changed = match &mut self.servers {
            Some(servers) => servers.change(&change),
            None => Err("it has no sandbox, so the agent uses your own files".to_owned()),
        };
        let record = &mut self.supervisor.record;
        record.keep_secret(self.servers.iter().flat_map(LiveServers::secrets));
        let done = changed.map(|event| record.event(&event));
        // The event is in the journal before the client gets its answer.
        self.flush();
        drop(answer.send(done));
    }

    /// Records how long the shim did not run. That time does not count as the agent's silence.
    fn note_absence(&mut self) {
        if let Some(ms) = self.presence.absent_ms() {
            tracing::warn!(ms, "the supervisor did not run");
            self.step(Input::Absent { ms });
        }
    }

    /// Returns whether the kernel has output to read, even if the runtime does not know it yet.
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
        let Self { supervisor, exit_code, stderr, network, sandbox, not_repaired, run_dir, .. } =
            self;
        let suspended_because =
            not_repaired.map(|why| repair::restored(sandbox.repair, run_dir, why));
        let tokens = supervisor.state.tokens();
        supervisor.record.event(&RunEvent::Spent(Spend {
            tool_calls: Some(supervisor.state.n_tool_calls()),
            time_ms: Some(supervisor.now()),
            tokens,
        }));
        for event in network.map(Network::close).into_iter().flatten() {
            supervisor.record.event(&event);
        }
        let ending = match supervisor.ending.take() {
            None => Ending::ByItself { exit_code, was_released: true },
            // The gate ended before it became the agent.
            Some(Ending::ByItself { was_released: false, .. }) => {
                Ending::Decided(RunOutcome::SetupFailed)
            }
            Some(ending) => ending,
        };
        Driven {
            ending,
            exit_code,
            stderr_tail: stderr.tail(),
            tokens,
            has_run: true,
            suspended_because,
        }
    }

    /// Reads the rest of stderr after the agent's end. It does not wait for a process that holds the pipe open.
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

fn add_sign(inputs: &mut Vec<Input>, sign: AgentSign) {
    let input = Input::Agent(sign);
    // Ordinary lines in a row count as one sign of life.
    if input != Input::Agent(AgentSign::Other) || inputs.last() != Some(&input) {
        inputs.push(input);
    }
}

fn watch_mounts(sandbox: &Sandbox, launchable: &Launchable) -> Option<MountWatch> {
    let Launchable::Sandbox { plan, .. } = launchable else { return None };
    let watch = sandbox.process.watch_mounts(plan);
    // This fails if the agent is already gone.
    watch.inspect_err(|error| tracing::warn!(%error, "cannot watch the sandbox's mounts")).ok()
}
