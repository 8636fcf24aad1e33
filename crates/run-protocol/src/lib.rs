//! The types that cross a process boundary or are stored on disk: ids, the spec of a run, its events, its outcome, the
//! messages on its control socket, and the table of exit codes.
//!
//! **Invariant:** only types and their serialisation. No I/O, and no logic that needs more than the value itself.
//!
//! **Invariant:** old files stay readable. A new field has a default; no field is renamed or reused.

mod bytes_path;
mod child;
mod control;
mod event;
mod exit_code;
#[cfg(test)]
mod format_tests;
mod hosts;
mod inbox;
mod limits;
mod login;
mod network;
mod outcome;
mod prompt;
mod queue_terms;
mod request;
mod run_id;
mod session_record;
mod spec;
mod workspace_history;
mod written;

pub use bytes_path::BytesPath;
pub use child::{ChildOrder, ChildRequest, Credentials, Lineage};
pub use control::{ControlReply, ControlRequest, ServerChange, StopManner};
pub use event::{
    Checkpoint, Epoch, JournalHeader, McpCallOutcome, McpRefusal, PendingTool, RepeatedCall,
    ReportedStatus, Resumable, RunEvent, SignalName, StopReason,
};
pub use exit_code::ExitCode;
pub use hosts::{AllowedHost, AllowedHostError, HTTPS_PORT, HostName, HostNameError};
pub use inbox::{HandOver, InboxEntry, Message, MessageSender, Question, QuestionAbout, Relation};
pub use limits::{
    Bound, LimitBackend, LimitsInForce, OnLoop, ResourceLimits, RunLimits, Spend, StopLadder,
    Widening,
};
pub use login::LoginDrop;
pub use network::{NetRefusal, NetVia, NetworkMode};
pub use outcome::{FailureClass, LimitKind, NoResult, RunOutcome};
pub use prompt::{LONGEST_PROMPT, PromptCheck, PromptProblem};
pub use queue_terms::QueueTerms;
pub use request::{Contradiction, Mode, NotAMode, NotARequest, QUEUE, RunRequest};
pub use run_id::{NotARunId, RunId};
pub use session_record::{McpChoice, MintedSession, SessionRecord};
pub use spec::{
    AgentKind, AgentMode, AgentPolicy, AgentProgram, RepositoryServer, RunSpec, SessionStart,
    ToolApproval, UserMcpFiles,
};
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
