//! The events of a run that are not the agent's own lines.

use serde::{Deserialize, Serialize};

use crate::{
    Audit, BytesPath, HandOver, LimitKind, LimitsInForce, LoginDrop, NetRefusal, NetVia,
    NetworkMode, QuestionAbout, RunId, RunOutcome, Spend, Widening,
};

/// The first line of a journal, and of each later epoch in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalHeader {
    /// The format's version.
    pub journal: u32,
    /// The run that the journal belongs to.
    pub run: RunId,
    /// Numbers are unique within an epoch. A new epoch begins when a process opens the journal again after its writer
    /// died.
    pub epoch: Epoch,
    /// Milliseconds since the epoch.
    pub at: u64,
    /// The kernel's id of this boot. A power failure may have lost lines from an earlier boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
}

/// Counted from one.
pub type Epoch = u32;

/// Something that happened in a run, as Caretaker records it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunEvent {
    /// The run was accepted: its directory exists, but no process yet.
    Created {
        /// Cursor's session.
        session: String,
        /// The workspace's physical path.
        workspace: BytesPath,
        /// The sandbox profile.
        profile: String,
        /// The agent's program.
        agent: BytesPath,
        /// The version that the program reports.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_version: Option<String>,
        /// The model that the user asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The run's name, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The length of the prompt in bytes.
        prompt_length: u64,
        /// The prompt's first line, shortened.
        prompt_start: String,
    },
    /// The run continues a session and may do more than the session's last run, because the user allowed it. Written
    /// together with `created`.
    Widened {
        /// The bounds that are wider now.
        bounds: Vec<Widening>,
    },
    /// The run is waiting in the daemon's queue. Written together with `created`; the daemon knows what the run is
    /// waiting for.
    Queued {
        /// Runs with a higher priority start first.
        priority: i32,
    },
    /// A shim took the run from the queue, under the run's lock: from here on no other process starts it.
    Attempt {
        /// Counted from one.
        number: u32,
    },
    /// The run is waiting for a lock that another run holds.
    Waiting {
        /// Why the run is waiting, in one sentence.
        reason: String,
    },
    /// The shim checked the session under its lease: it can be resumed from this point.
    Resuming {
        /// The latest root, in hex.
        root: String,
        /// The number of messages in the model's next prompt.
        messages: u64,
        /// Tool calls that were under way when the agent stopped. Cursor tells the agent that they were interrupted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pending: Vec<PendingTool>,
    },
    /// The shim saved the workspace, so that the run can be undone.
    WorkspaceSaved {
        /// The number of saved files and links.
        files: u64,
        /// Bytes that the shim had to read; the rest had not changed since it was last saved.
        new_bytes: u64,
        /// How long it took.
        ms: u64,
        /// The first few paths that the shim did not save: unreadable files, and repositories within the workspace.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left_out: Vec<BytesPath>,
    },
    /// The shim did not save the workspace: the run cannot be undone.
    WorkspaceNotSaved {
        /// Why, in one sentence.
        reason: String,
    },
    /// The sandbox is set up and verified; the agent is about to run.
    SandboxReady {
        /// The profile.
        profile: String,
        /// The process id, on the host, of the namespace's pid 1.
        sandbox_pid: u32,
        /// The number of mounts that the shim verified.
        mounts: u32,
        /// The network that the sandbox has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        network: Option<NetworkMode>,
        /// The run's limits on the machine, and the mechanism that enforces them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<LimitsInForce>,
        /// The tools whose dependency caches the run has.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        caches: Vec<String>,
        /// Warnings for the user: a protection that is off, a version with known holes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    },
    /// The shim let the agent start.
    Released,
    /// A line of the command that prepares a new worktree. It runs in the sandbox, before the agent.
    SetupOutput {
        /// The line, shortened.
        text: String,
    },
    /// The shim wrote the prompt and closed the agent's stdin.
    PromptSent {
        /// The length in bytes.
        length: u64,
    },
    /// The agent has been silent for a while. This is not an error.
    Slow {
        /// How long it has been silent.
        silent_ms: u64,
        /// The tool call that is under way, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
    },
    /// The agent repeats the same tool calls, and their results do not change. Written again each time the number has
    /// doubled.
    Looping {
        /// The calls that it repeats: one, or two or three in turn.
        calls: Vec<RepeatedCall>,
        /// How many calls in a row repeat them.
        in_a_row: u64,
    },
    /// The agent printed a kind of event that this build does not know. Written once per kind.
    ProtocolDrift {
        /// `type/subtype`.
        event: String,
    },
    /// The run reached a limit.
    LimitReached {
        /// The limit.
        #[serde(flatten)]
        limit: LimitKind,
        /// The time since the run began.
        after_ms: u64,
    },
    /// The agent gave its final answer, but no result.
    SettledWithoutResult {
        /// How long the agent was silent after it.
        silent_ms: u64,
    },
    /// The agent closed its stdout while its process was still alive.
    StreamClosed,
    /// The agent's process was still alive some time after its result.
    Lingered {
        /// How long the shim waited for it to end.
        ms: u64,
    },
    /// The shim must stop the run.
    StopRequested {
        /// Who or what asked for it.
        reason: StopReason,
    },
    /// The shim sent a signal.
    Signalled {
        /// The signal.
        signal: SignalName,
        /// The process that got it.
        target: String,
    },
    /// The agent called one of Caretaker's tools.
    McpCall {
        /// The tool.
        tool: String,
        /// The answer.
        outcome: McpCallOutcome,
        /// Why the call did not succeed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The agent's socket received something that is not a call.
    McpRefused {
        /// The reason.
        reason: McpRefusal,
        /// How many times this has happened since the last such event.
        count: u64,
    },
    /// The user changed which MCP servers the agent gets, and the shim wrote its `mcp.json` again. A running agent may
    /// or may not read it again; the session's next run starts with it.
    McpChanged {
        /// The servers that the user switched on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        enabled: Vec<String>,
        /// The servers that the user switched off.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        disabled: Vec<String>,
        /// All servers that the file names now.
        servers: Vec<String>,
    },
    /// The agent asks a person a question. The answer goes to the session's inbox.
    NeedsHuman {
        /// The question's id.
        question: String,
        /// The subject.
        about: QuestionAbout,
        /// The question, in the agent's words.
        text: String,
        /// Answers that the agent suggests.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        options: Vec<String>,
        /// The host that the agent wants to reach.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// The agent sent a message to its parent, a child or a sibling.
    MessageSent {
        /// The receiving run.
        to: RunId,
        /// The message's id.
        message: String,
        /// The text, shortened.
        text: String,
    },
    /// Messages reached the agent, as its own output shows.
    MessagesDelivered {
        /// How they reached it.
        by: HandOver,
        /// The messages' ids.
        messages: Vec<String>,
        /// The questions that the messages answer.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        answers: Vec<String>,
    },
    /// The agent started a child run.
    ChildQueued {
        /// The child.
        run: RunId,
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// The agent stopped one of its child runs.
    ChildStopped {
        /// The child.
        run: RunId,
    },
    /// The shim saved the workspace because the agent asked for it.
    WorkspaceMarked {
        /// The agent's name for this state.
        label: String,
        /// Counted from one.
        number: u32,
        /// The number of saved files and links.
        files: u64,
        /// How long it took.
        ms: u64,
    },
    /// The agent reports its progress.
    Progress {
        /// In the agent's words.
        text: String,
        /// 0 to 100.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        percent: Option<f64>,
    },
    /// The agent reports the result of its work.
    Reported {
        /// The agent's own verdict, which is not the run's outcome.
        status: ReportedStatus,
        /// In the agent's words.
        summary: String,
        /// Files or links that the agent names.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        artifacts: Vec<String>,
    },
    /// The shim let the run reach a host: it resolved a name, or made a connection.
    #[serde(rename = "net.allowed")]
    NetAllowed {
        /// The host; missing if there were too many to name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// The port; missing for a name lookup.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// How the run asked for the host.
        via: NetVia,
        /// How many times this has happened since the last such event.
        count: u64,
    },
    /// The shim refused an attempt to use the network.
    #[serde(rename = "net.denied")]
    NetDenied {
        /// The host that the run wanted; missing if it named none, or if there were too many to name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// The port; missing for a name lookup.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// How the run asked for the host.
        via: NetVia,
        /// The reason.
        reason: NetRefusal,
        /// More about the reason, as text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        /// How many times this has happened since the last such event.
        count: u64,
    },
    /// A process on the host removed or replaced a path that a protection was mounted over. The protection is gone.
    ProtectionLost {
        /// The path.
        path: BytesPath,
    },
    /// A process on the host replaced a file that a protection was mounted over, and the shim protected the new one.
    /// The agent was frozen meanwhile.
    ProtectionRestored {
        /// The path.
        path: BytesPath,
    },
    /// The agent renewed its login, and the user's login file now has the new tokens. Caretaker keeps the old login.
    LoginCarriedBack {
        /// The kept login, as `caretaker login restore` names it.
        kept: String,
    },
    /// The agent changed its copy of the login, and the change did not reach the user's login file.
    LoginDropped {
        /// The reason.
        reason: LoginDrop,
        /// How many times this has happened since the last such event.
        count: u64,
    },
    /// The disk is full.
    DiskFull,
    /// The agent had forgotten the conversation; the shim made the store point to it again.
    RootPutBack {
        /// The root of the empty conversation that the agent began, in hex.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// The root from before the run, in hex.
        to: String,
    },
    /// The agent keeps its session in a bucket that the user's chats do not have, so Caretaker keeps it. The user's own
    /// cursor-agent does not see it.
    BucketDrift {
        /// The bucket's name.
        bucket: String,
        /// The session's directory.
        directory: BytesPath,
    },
    /// The changes to the workspace that a careful user wants to know about.
    Audit(Audit),
    /// The agent's usage: tool calls, time, tokens. The shim writes it once the agent has ended.
    Spent(Spend),
    /// The state of the session in Cursor's store.
    Checkpoint(Checkpoint),
    /// The run is over. Always the last event.
    Ended {
        /// The outcome.
        #[serde(flatten)]
        outcome: RunOutcome,
        /// Why, in one sentence.
        why: String,
        /// The agent's own exit code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// The time from the run's creation to its end.
        duration_ms: u64,
        /// The last part of the agent's stderr.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        stderr_tail: String,
    },
}

/// Why a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// `caretaker kill`, or a signal to a foreground run.
    Cancelled,
    /// `caretaker kill --now`.
    CancelledNow,
    /// `caretaker suspend`.
    Suspended,
    /// A signal to the run's supervisor.
    Interrupted,
    /// The agent has forgotten the conversation.
    Amnesia,
    /// A limit.
    Limit,
    /// The agent repeats itself.
    Looping,
    /// The agent gave its result, but its process is still alive.
    Lingering,
    /// No result will come.
    NoResult,
    /// The shim cannot write the journal.
    JournalFailed,
    /// The run lost the session's lease.
    LeaseLost,
    /// The agent does not continue the session that it was told to continue.
    SessionMismatch,
    /// A process on the host removed a protection of the sandbox.
    ProtectionLost,
}

/// The signals that stop an agent, in the order of the stop ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum SignalName {
    /// SIGINT.
    Int,
    /// SIGTERM.
    Term,
    /// SIGKILL.
    Kill,
}

/// The answer to a call to one of Caretaker's tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpCallOutcome {
    /// Done.
    Ok,
    /// The agent made too many calls.
    RateLimited,
    /// The arguments were invalid, or the agent may not do this.
    Refused,
    /// Caretaker failed, or a part of it is missing.
    Failed,
}

/// Why the shim refused what it received on the agent's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpRefusal {
    /// The line is longer than any request can be.
    Oversized,
    /// It is not a valid MCP request.
    Malformed,
    /// There are more connections than an agent needs.
    TooManyConnections,
}

/// The agent's own verdict on its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportedStatus {
    /// Done.
    Done,
    /// The agent needs something from a person. This is not a failure.
    Blocked,
    /// The agent could not do the work.
    Failed,
}

/// The state of the session in `store.db` after a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Checkpoint {
    /// The session.
    pub session: String,
    /// The latest root, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The number of messages in the model's next prompt.
    pub messages: u64,
    /// The number of turns in the conversation.
    pub turns: u64,
    /// Tool calls that were under way when the agent stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingTool>,
    /// Whether the session can be resumed.
    #[serde(flatten)]
    pub resumable: Resumable,
}

/// A tool call that was under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PendingTool {
    /// The tool's name, as the model knows it.
    pub tool: String,
    /// Its arguments in a few words.
    pub subject: String,
}

/// A tool call that the agent repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RepeatedCall {
    /// The tool's name.
    pub tool: String,
    /// Its arguments in a few words.
    pub subject: String,
}

/// Whether a session can be resumed, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "resumable", rename_all = "snake_case")]
pub enum Resumable {
    /// Yes.
    Yes,
    /// No.
    No {
        /// Why not, in one sentence.
        reason: String,
    },
}
