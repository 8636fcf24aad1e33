//! What crosses a process boundary or stays on disk, in our own words: ids, the spec of a run, its events, its outcome,
//! the messages of its control socket, and the table of exit codes.
//!
//! **Invariant:** types and their serialisation only. No I/O, no logic beyond what a value says of itself.
//!
//! **Invariant:** what was once written stays readable. Fields are added with a default, never renamed or reused.

#![warn(missing_docs)]

mod bytes_path;
mod control;
mod correspondence;
mod event;
mod exit_code;
#[cfg(test)]
mod format_tests;
mod hosts;
mod limit_words;
mod limits;
mod login;
mod network;
mod outcome;
mod prompt;
mod queue_terms;
mod request;
mod resources;
mod run_id;
mod session_record;
mod spec;
mod spend;
mod widening;
mod workspace_history;
mod written;

pub use bytes_path::BytesPath;
pub use control::{ControlReply, ControlRequest, ServerChange, StopManner};
pub use correspondence::{
    ChildRequest, Correspondent, HandOver, InboxEntry, Lineage, Message, Question, QuestionAbout,
    Relation,
};
pub use event::{
    Checkpoint, Epoch, JournalHeader, McpCallOutcome, McpRefusal, PendingTool, ReportedStatus,
    Resumable, RunEvent, SignalName, StopReason,
};
pub use exit_code::ExitCode;
pub use hosts::{AllowedHost, AllowedHostError, HTTPS_PORT, HostName, HostNameError};
pub use limits::{RunLimits, StopLadder};
pub use login::LoginDrop;
pub use network::{NetRefusal, NetVia, NetworkMode};
pub use outcome::{FailureClass, LimitKind, NoResult, RunOutcome};
pub use prompt::{LONGEST_PROMPT, PromptCheck, PromptProblem};
pub use queue_terms::QueueTerms;
pub use request::{Contradiction, Mode, NotAMode, NotARequest, QUEUE, RunRequest};
pub use resources::{LimitBackend, LimitsInForce, ResourceLimits};
pub use run_id::{NotARunId, RunId};
pub use session_record::{McpChoice, MintedSession, SessionRecord};
pub use spec::{
    AgentKind, AgentMode, AgentProgram, RepositoryServer, RunSpec, SessionStart, ToolApproval,
    UserMcpFiles,
};
pub use spend::Spend;
pub use widening::{Bound, Widening};
pub use workspace_history::{
    Audit, ChangeCounts, Finding, FindingKind, WorkspaceSaving, WorktreeOrigin,
};
pub use written::{
    Budget, ByteSize, CountLimit, CpuLimit, HumanDuration, Label, MarkError, MemoryLimit,
    NotABudget, NotACount, NotADuration, NotALimit, NotASize, ProcessLimit, Reserved, RunName,
    SizeLimit, Variable, WrittenBudget, is_variable_name, reserved,
};

/// The version of the journal's format and of the events in it.
pub const JOURNAL_VERSION: u32 = 1;
