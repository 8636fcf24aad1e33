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
    /// Whose journal it is.
    pub run: RunId,
    /// Numbers are unique within an epoch; a new one begins when a journal is opened again after its writer died.
    pub epoch: Epoch,
    /// Milliseconds since the epoch.
    pub at: u64,
    /// The kernel's id of the machine's start; what was written before another start may have been lost with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
}

/// Counted from one.
pub type Epoch = u32;

/// What happened in a run, in our words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunEvent {
    /// The run was accepted: its directory exists, no process does.
    Created {
        /// Cursor's session.
        session: String,
        /// The workspace's physical path.
        workspace: BytesPath,
        /// The sandbox profile.
        profile: String,
        /// The agent's program.
        agent: BytesPath,
        /// What the program says its version is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_version: Option<String>,
        /// The model asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The run's name, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Bytes of the prompt.
        prompt_length: u64,
        /// The prompt's first line, cut.
        prompt_start: String,
    },
    /// The run continues a session and may do more than the run before, because the user said so. Written together with
    /// `created`.
    Widened {
        /// In what.
        bounds: Vec<Widening>,
    },
    /// The run waits in the daemon's queue. Written together with `created`; what it waits for is for the daemon to say.
    Queued {
        /// Higher ones go first.
        priority: i32,
    },
    /// A supervisor took the run from the queue, under the run's lock: from here on nobody starts it again.
    Attempt {
        /// Counted from one.
        number: u32,
    },
    /// The run waits for a lock that another one holds.
    Waiting {
        /// What for, in a sentence.
        reason: String,
    },
    /// The session was looked at, under its lease, and can be resumed from here.
    Resuming {
        /// The latest root, in hex.
        root: String,
        /// Messages the model will be prompted with.
        messages: u64,
        /// Tool calls that were under way when the agent stopped; it will be told that they were interrupted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pending: Vec<PendingTool>,
    },
    /// The workspace was saved, so that the run can be undone.
    WorkspaceSaved {
        /// Files and links that are covered.
        files: u64,
        /// Bytes that had to be read; the others were known.
        new_bytes: u64,
        /// How long it took.
        ms: u64,
        /// Paths that are not covered, not more than a few: what cannot be read, and repositories within the workspace.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left_out: Vec<BytesPath>,
    },
    /// The workspace was not saved: the run cannot be undone.
    WorkspaceNotSaved {
        /// Why, in a sentence.
        reason: String,
    },
    /// The sandbox is set up and verified; the agent is about to run.
    SandboxReady {
        /// The profile.
        profile: String,
        /// The namespace's pid 1, as the host sees it.
        sandbox_pid: u32,
        /// How many mounts were verified.
        mounts: u32,
        /// What of the network is inside.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        network: Option<NetworkMode>,
        /// What it may take of the machine, and what holds it to that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<LimitsInForce>,
        /// What the user should know: a guard that is off, a version with known holes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    },
    /// The agent was let go.
    Released,
    /// The prompt was written and stdin closed.
    PromptSent {
        /// Bytes.
        length: u64,
    },
    /// Silence for a while, which is not an error.
    Slow {
        /// How long.
        silent_ms: u64,
        /// The tool that is open, if one is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
    },
    /// The agent printed a kind of event that this build does not know. Once per kind.
    ProtocolDrift {
        /// `type/subtype`.
        event: String,
    },
    /// A limit was reached.
    LimitReached {
        /// Which.
        #[serde(flatten)]
        limit: LimitKind,
        /// After how long.
        after_ms: u64,
    },
    /// The answer was final and no result followed.
    SettledWithoutResult {
        /// How long nothing came.
        silent_ms: u64,
    },
    /// Stdout was closed while the process lived.
    StreamClosed,
    /// The process lived on after its result.
    Lingered {
        /// For how long it was allowed to.
        ms: u64,
    },
    /// Somebody or something wants the run to stop.
    StopRequested {
        /// Who or what.
        reason: StopReason,
    },
    /// A signal was sent.
    Signalled {
        /// Which.
        signal: SignalName,
        /// To whom.
        target: String,
    },
    /// The agent called one of our tools.
    McpCall {
        /// The tool.
        tool: String,
        /// How it was answered.
        outcome: McpCallOutcome,
        /// Why it was not done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// Something that came over the agent's socket was not even a call.
    McpRefused {
        /// Why.
        reason: McpRefusal,
        /// How often, since the last event that says the same.
        count: u64,
    },
    /// The user changed which MCP servers the agent gets, and its `mcp.json` was written again. Whether an agent that
    /// runs reads it again is up to the agent; the session's next run starts with it.
    McpChanged {
        /// Switched on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        enabled: Vec<String>,
        /// Switched off.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        disabled: Vec<String>,
        /// All servers that the file names now.
        servers: Vec<String>,
    },
    /// The agent asks a person something. The answer comes by its inbox.
    NeedsHuman {
        /// The question's id.
        question: String,
        /// What it is about.
        about: QuestionAbout,
        /// In the agent's words.
        text: String,
        /// Answers that it suggests.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        options: Vec<String>,
        /// The host that it wants to reach.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// The agent wrote to another run of its family.
    MessageSent {
        /// To which run.
        to: RunId,
        /// The message's id.
        message: String,
        /// Its words, cut.
        text: String,
    },
    /// Messages reached the agent, as its own output shows.
    MessagesDelivered {
        /// How.
        by: HandOver,
        /// Their ids.
        messages: Vec<String>,
        /// The questions that they answer.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        answers: Vec<String>,
    },
    /// The agent has another run work for it.
    ChildQueued {
        /// The child.
        run: RunId,
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// The agent had a child of its own stopped.
    ChildStopped {
        /// The child.
        run: RunId,
    },
    /// The workspace was saved because the agent asked for it.
    WorkspaceMarked {
        /// What the agent calls it.
        label: String,
        /// Counted from one.
        number: u32,
        /// Files and links that are covered.
        files: u64,
        /// How long it took.
        ms: u64,
    },
    /// The agent says how far it is.
    Progress {
        /// In its words.
        text: String,
        /// 0 to 100.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        percent: Option<f64>,
    },
    /// The agent says how the work came out.
    Reported {
        /// Its own verdict; the run's outcome is another thing.
        status: ReportedStatus,
        /// In its words.
        summary: String,
        /// Files or links it names.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        artifacts: Vec<String>,
    },
    /// A host was let through to: its name answered, or a connection to it made.
    #[serde(rename = "net.allowed")]
    NetAllowed {
        /// The host; missing where there were too many to name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// The port; a name alone has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// How it was asked for.
        via: NetVia,
        /// How often, since the last event that says the same.
        count: u64,
    },
    /// Something of the network was refused.
    #[serde(rename = "net.denied")]
    NetDenied {
        /// What was asked for; missing where nothing was, or where there were too many to name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// The port; a name alone has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// How it was asked for.
        via: NetVia,
        /// Why not.
        reason: NetRefusal,
        /// More of the reason, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        /// How often, since the last event that says the same.
        count: u64,
    },
    /// What a protection was mounted over was removed or replaced on the host: it holds no more.
    ProtectionLost {
        /// What.
        path: BytesPath,
    },
    /// The agent renewed its login, and the user's login file now has the new tokens. The login before is kept.
    LoginCarriedBack {
        /// The kept login, as `caretaker login restore` names it.
        kept: String,
    },
    /// The agent changed its copy of the login, and the change did not reach the user's login file.
    LoginDropped {
        /// Why not.
        reason: LoginDrop,
        /// How often, since the last event that says the same.
        count: u64,
    },
    /// The disk is full.
    DiskFull,
    /// The agent had forgotten the conversation; the store leads to it again.
    RootPutBack {
        /// The root that the agent began with nothing, in hex.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// The root from before the run.
        to: String,
    },
    /// What the run did to the workspace, as far as a careful person wants to know.
    Audit(Audit),
    /// What the agent took, once it is gone.
    Spent(Spend),
    /// What Cursor's store holds of the session now.
    Checkpoint(Checkpoint),
    /// The run is over. Always the last event.
    Ended {
        /// How it came out.
        #[serde(flatten)]
        outcome: RunOutcome,
        /// Why, in one sentence.
        why: String,
        /// The agent's own exit code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// From creation to now.
        duration_ms: u64,
        /// The end of what the agent wrote to stderr.
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
    /// The result was given and the process lives.
    Lingering,
    /// No result will come.
    NoResult,
    /// The journal cannot be written.
    JournalFailed,
    /// The session's lease is not the run's any more.
    LeaseLost,
    /// The agent does not continue the session it was asked to.
    SessionMismatch,
    /// Something that is protected from the agent is not any more.
    ProtectionLost,
}

/// The signals of the ladder.
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

/// How a call of one of our tools was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpCallOutcome {
    /// Done.
    Ok,
    /// Too many calls.
    RateLimited,
    /// The arguments were not usable, or it may not be done.
    Refused,
    /// Something of ours failed, or is not there.
    Failed,
}

/// Why something that came over the agent's socket was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpRefusal {
    /// A line longer than any request.
    Oversized,
    /// No request of the protocol.
    Malformed,
    /// More connections than an agent needs.
    TooManyConnections,
}

/// What the agent says of its own work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportedStatus {
    /// Done.
    Done,
    /// It needs something from somebody; not a failure.
    Blocked,
    /// It could not do it.
    Failed,
}

/// What `store.db` says after a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Checkpoint {
    /// The session.
    pub session: String,
    /// The latest root, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Messages the model would be prompted with.
    pub messages: u64,
    /// Turns that the conversation has.
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
    /// The tool, by the name the model knows.
    pub tool: String,
    /// Its arguments in a few words.
    pub subject: String,
}

/// Whether a session can be resumed, or why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "resumable", rename_all = "snake_case")]
pub enum Resumable {
    /// Yes.
    Yes,
    /// No.
    No {
        /// In one sentence.
        reason: String,
    },
}
