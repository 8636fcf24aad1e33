//! The outcome of a run.

use serde::{Deserialize, Serialize};

use crate::{BytesPath, ExitCode};

/// The outcome of a run. The shim decides it once, at `result` or at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RunOutcome {
    /// The agent gave a result, and it is not an error.
    Succeeded,
    /// The agent gave a result that is an error.
    AgentError,
    /// The agent failed and gave no result.
    Failed {
        /// The kind of failure, taken from the agent's stderr and exit code.
        class: FailureClass,
    },
    /// The agent gave no result, so the outcome is not known. Never a success.
    Unknown {
        /// Why there is no result. The JSON key is not `why`, because `ended` already has a `why`.
        #[serde(rename = "no_result")]
        why: NoResult,
    },
    /// The run reached a time limit, and the shim stopped it.
    TimedOut {
        /// The limit.
        limit: LimitKind,
    },
    /// The run exceeded a limit on the machine, on tool calls or on tokens.
    QuotaExceeded {
        /// The limit.
        limit: LimitKind,
    },
    /// The agent repeated the same tool calls, their results did not change, and the shim stopped the run.
    Looping,
    /// The user stopped the run.
    Cancelled,
    /// The user suspended the run; its session can be resumed.
    Suspended,
    /// A run that had to succeed first did not. The agent did not run.
    DependencyFailed,
    /// A signal ended the run's shim, for example at a shutdown. The session can be resumed.
    Interrupted,
    /// The session could not be resumed when the run's turn came. The agent did not run.
    NotResumable,
    /// The agent began an empty conversation instead of continuing the session.
    Amnesia,
    /// Another run took the session's lease, or the lease's file was replaced. The run may no longer write to the
    /// session, so the shim stopped it.
    LeaseLost,
    /// The shim could not set up the sandbox, or the sandbox was not as planned. The agent did not run.
    SandboxFailed,
    /// A process on the host removed or replaced a path that a protection was mounted over, so the shim stopped the
    /// run.
    ProtectionLost {
        /// The path.
        path: BytesPath,
    },
    /// The agent's program did not start inside the sandbox.
    AgentNotStarted,
    /// The command that prepares a new worktree failed. The agent did not run.
    SetupFailed,
    /// The agent answered for a different session or directory.
    SessionMismatch,
    /// The shim could not write the journal, so it stopped the run: a run without a record is worthless.
    JournalFailed,
    /// The run's shim failed.
    SupervisorFailed,
}

/// Why an agent failed. Taken from its stderr and exit code, never from words in its stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The agent is not logged in, or the key is not valid.
    Auth,
    /// The workspace is not trusted.
    Trust,
    /// The model is not available.
    BadModel,
    /// Too many requests, or no capacity.
    RateLimited,
    /// The usage limit of the user's plan is reached.
    UsageLimit,
    /// The agent could not reach the server, or lost the connection.
    Network,
    /// Another agent wrote `cli-config.json` at the same moment.
    ConfigRace,
    /// Another agent uses the session, or its id is taken.
    SessionInUse,
    /// A signal that the shim did not send killed the process.
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
    /// The agent gave its final answer and only background shells were left, but no result came.
    SettledWithoutResult,
    /// The agent closed its stdout while its process was still alive.
    StreamClosed,
    /// The shim died, and the sandbox with it.
    Lost,
}

/// The limit that a run reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "limit", rename_all = "snake_case")]
pub enum LimitKind {
    /// The agent printed no `init` line in time.
    Startup,
    /// The agent was silent too long while no tool call was under way.
    Idle,
    /// A tool call took too long.
    Tool {
        /// The tool's name.
        name: String,
    },
    /// The whole run took too long.
    WallClock,
    /// All processes of the run together needed more memory than allowed.
    Memory {
        /// The limit in bytes.
        bytes: u64,
    },
    /// The run started more processes and threads than allowed.
    Processes {
        /// The limit.
        most: u64,
    },
    /// The run added more than allowed to the workspace, to other writable directories of the host, and to its own
    /// record.
    Disk {
        /// The limit in bytes.
        bytes: u64,
    },
    /// The run's journal became too large.
    Journal {
        /// The limit in bytes.
        bytes: u64,
    },
    /// The agent called more tools than allowed.
    ToolCalls {
        /// The limit.
        most: u64,
    },
    /// The agent used more tokens than allowed. It reports them at the end of its turn, so its work stays done.
    Tokens {
        /// The limit.
        most: u64,
        /// How many tokens the agent used.
        taken: u64,
    },
    /// The run kept opening more connections than allowed, although the shim refused them.
    Connections {
        /// The limit.
        most: u64,
    },
    /// The run wrote a file larger than allowed.
    FileSize {
        /// The limit in bytes.
        bytes: u64,
    },
    /// The run filled its `/tmp`.
    Tmp {
        /// Its size in bytes.
        bytes: u64,
    },
    /// The run filled its private home directory.
    Home {
        /// Its size in bytes.
        bytes: u64,
    },
    /// The run filled another of its directories in memory.
    Scratch {
        /// The directory's path inside the sandbox.
        path: BytesPath,
        /// Its size in bytes.
        bytes: u64,
    },
}

impl RunOutcome {
    /// The exit code of a command that waited for the run.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Succeeded => ExitCode::Success,
            Self::Failed { class: FailureClass::Auth } => ExitCode::AuthenticationMissing,
            Self::AgentError | Self::Failed { .. } | Self::DependencyFailed | Self::SetupFailed => {
                ExitCode::Failed
            }
            Self::Unknown { .. } => ExitCode::Unknown,
            Self::TimedOut { .. } | Self::Looping => ExitCode::TimedOut,
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
