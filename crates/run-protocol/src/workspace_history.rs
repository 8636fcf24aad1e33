//! How a workspace is saved, and the findings of its audit.

use serde::{Deserialize, Serialize};

use crate::BytesPath;

/// How the shim saves the workspace before a run, so that the run can be undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceSaving {
    /// The git that stores the contents. `None`: this host has no git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<BytesPath>,
    /// The most time that saving may take.
    pub within_ms: u64,
    /// The most bytes that saving may add to the history.
    pub most_new_bytes: u64,
    /// Caretaker keeps the history of this many runs in this workspace.
    pub keep_runs: u32,
}

/// The repository from which Caretaker made a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorktreeOrigin {
    /// The user's own checkout.
    pub repository: BytesPath,
    /// The worktree's branch.
    pub branch: String,
    /// The commit that the worktree began with.
    pub base: String,
}

/// The number of files that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChangeCounts {
    /// New.
    pub added: u64,
    /// With different content, mode or kind.
    pub changed: u64,
    /// Gone.
    pub removed: u64,
}

/// The changes to a workspace that a careful user wants to know about.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Audit {
    /// The number of files that differ from before the run. `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangeCounts>,
    /// The findings, most serious first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The number of further findings.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
    /// Why the audit is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Something in a workspace that a careful user checks before going on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Finding {
    /// The kind of finding.
    pub what: FindingKind,
    /// The path relative to the workspace. For a ref of the workspace's own repository, its full name.
    pub path: BytesPath,
    /// The target of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<BytesPath>,
    /// The commit or the ref that a ref pointed to before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
}

/// The kinds of findings. All of them are new since the run began, or changed by it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A set-user-id or set-group-id file.
    SetId,
    /// A device.
    Device,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A symlink in a `.git`, or instead of it. The shim removed it.
    GitLink,
    /// A FIFO, a socket or a device in a `.git`, or instead of it. The shim removed it.
    GitSpecial,
    /// A file in a `.git` that has another hard link outside of it. The shim replaced it with a copy.
    GitHardLink,
    /// A directory in a `.git` that its owner could not read. The shim made it readable.
    GitClosed,
    /// A symlink that leaves the workspace.
    LinkOut,
    /// A program that git starts: a hook, or the configuration of a hook tool.
    Hook,
    /// git's own configuration, its attributes or its modules.
    GitConfig,
    /// A branch or another ref that was deleted.
    RefDeleted,
    /// A branch or another ref, including HEAD, that now points elsewhere.
    RefMoved,
    /// A repository within the workspace.
    Repository,
    /// A file that a CI service runs.
    Ci,
    /// A file that an editor runs or obeys.
    Editor,
    /// A file that a shell or a tool manager reads when it enters the directory.
    Environment,
    /// A file that an agent obeys: servers, rules, permissions.
    AgentConfig,
    /// An executable file.
    Executable,
}
