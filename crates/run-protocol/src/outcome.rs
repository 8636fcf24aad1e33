//! How a run came out.

use serde::{Deserialize, Serialize};

use crate::{BytesPath, ExitCode};

/// The outcome of a run: fixed once, at `result` or at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RunOutcome {
    /// The agent gave a result that is no error.
    Succeeded,
    /// The agent gave a result that is an error.
    AgentError,
    /// The agent ended with a failure and without a result.
    Failed {
        /// What kind of failure its stderr and exit code tell of.
        class: FailureClass,
    },
    /// Nobody can say: there was no result. Never success.
    Unknown {
        /// How it came to that. Named apart from the sentence `why` that stands beside it in `ended`.
        #[serde(rename = "no_result")]
        why: NoResult,
    },
    /// A limit was reached and the run was stopped.
    TimedOut {
        /// Which.
        limit: LimitKind,
    },
    /// The run took more than it may: of the machine, or of what is counted.
    QuotaExceeded {
        /// Of what.
        limit: LimitKind,
    },
    /// Stopped on request.
    Cancelled,
    /// Stopped on request, to be taken up again.
    Suspended,
    /// The run that it was to follow did not come out as asked. The agent did not run.
    DependencyFailed,
    /// The run's supervisor was told to end by a signal, as at a shutdown. To be taken up again.
    Interrupted,
    /// The session could not be resumed when its turn came. The agent did not run.
    NotResumable,
    /// The agent began an empty conversation in the place of the one it was to continue.
    Amnesia,
    /// The session's lease is another's, or its file is not the one that was locked: the session is not this run's to
    /// write to any more, and the run was stopped.
    LeaseLost,
    /// The sandbox could not be set up or was not as planned. The agent did not run.
    SandboxFailed,
    /// Somebody on the host removed or replaced what a protection was mounted over, and the run was ended.
    ProtectionLost {
        /// What.
        path: BytesPath,
    },
    /// The agent's program could not be started inside the sandbox.
    AgentNotStarted,
    /// The agent answered for another session or directory than it was asked to.
    SessionMismatch,
    /// The journal could not be written, so the run was stopped: the record is the product.
    JournalFailed,
    /// The supervisor of the run itself failed.
    SupervisorFailed,
}

/// Why an agent failed, from its stderr and exit code; never from words in its stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// Nobody is logged in, or the key is not valid.
    Auth,
    /// The workspace is not trusted.
    Trust,
    /// The model is not available.
    BadModel,
    /// Too many requests, or no capacity.
    RateLimited,
    /// The plan's usage is spent.
    UsageLimit,
    /// The server could not be reached or the connection was lost.
    Network,
    /// Another agent wrote `cli-config.json` at the same moment.
    ConfigRace,
    /// The session is held by another agent, or its id is taken.
    SessionInUse,
    /// The process was killed by a signal that was not ours.
    Killed,
    /// Anything else.
    Other,
}

/// How a run ended without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoResult {
    /// The process ended with exit code 0 and no result.
    ExitedWithoutResult,
    /// The answer was final, only background shells lived on, and no result came.
    SettledWithoutResult,
    /// Stdout was closed while the process lived on.
    StreamClosed,
    /// The supervisor died, and the sandbox with it.
    Lost,
}

/// Which limit was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "limit", rename_all = "snake_case")]
pub enum LimitKind {
    /// No `init` line in time.
    Startup,
    /// Silence with no tool open.
    Idle,
    /// A tool did not come back.
    Tool {
        /// Its name.
        name: String,
    },
    /// The whole run took too long.
    WallClock,
    /// All its processes together needed more memory.
    Memory {
        /// Than this.
        bytes: u64,
    },
    /// It started more processes and threads.
    Processes {
        /// Than this many.
        most: u64,
    },
    /// It added more to the workspace, to whatever else it can write on the host, and to our record of it.
    Disk {
        /// Than this.
        bytes: u64,
    },
    /// Its journal became longer.
    Journal {
        /// Than this.
        bytes: u64,
    },
    /// It called more tools.
    ToolCalls {
        /// Than this many.
        most: u64,
    },
    /// It took more tokens, as it said when its turn was over: its result is there, and what it did stays done.
    Tokens {
        /// Than this many.
        most: u64,
        /// So many.
        taken: u64,
    },
    /// It went on asking for more connections at once, although it was turned away.
    Connections {
        /// Than this many.
        most: u64,
    },
    /// It wrote a larger file.
    FileSize {
        /// Than this.
        bytes: u64,
    },
    /// It filled its `/tmp`.
    Tmp {
        /// Which has this much room.
        bytes: u64,
    },
    /// It filled its private home directory.
    Home {
        /// Which has this much room.
        bytes: u64,
    },
    /// It filled another of the directories that it has in memory.
    Scratch {
        /// Which one, as it is called inside.
        path: BytesPath,
        /// Which has this much room.
        bytes: u64,
    },
}

impl RunOutcome {
    /// The exit code of a command that waited for the run.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Succeeded => ExitCode::Success,
            Self::Failed { class: FailureClass::Auth } => ExitCode::AuthenticationMissing,
            Self::AgentError | Self::Failed { .. } | Self::DependencyFailed => ExitCode::Failed,
            Self::Unknown { .. } => ExitCode::Unknown,
            Self::TimedOut { .. } => ExitCode::TimedOut,
            Self::QuotaExceeded { .. } => ExitCode::QuotaExceeded,
            Self::Cancelled | Self::Suspended | Self::Interrupted => ExitCode::Cancelled,
            Self::NotResumable => ExitCode::NotResumable,
            Self::LeaseLost => ExitCode::Conflict,
            Self::AgentNotStarted => ExitCode::AgentNotExecutable,
            Self::SessionMismatch | Self::Amnesia => ExitCode::Amnesia,
            Self::SandboxFailed
            | Self::ProtectionLost { .. }
            | Self::JournalFailed
            | Self::SupervisorFailed => ExitCode::SupervisorFailed,
        }
    }
}
