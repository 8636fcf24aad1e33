//! What is kept of a workspace, and what was found in it.

use serde::{Deserialize, Serialize};

use crate::BytesPath;

/// How the workspace is saved before a run, so that the run can be undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceSaving {
    /// The git that keeps the contents. `None`: there is none on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<BytesPath>,
    /// How long it may take.
    pub within_ms: u64,
    /// How many bytes it may add to what is kept.
    pub most_new_bytes: u64,
    /// Of how many runs in this workspace the history is kept.
    pub keep_runs: u32,
}

/// The repository that a worktree of ours was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorktreeOrigin {
    /// The user's own checkout.
    pub repository: BytesPath,
    /// The worktree's branch.
    pub branch: String,
    /// The commit that it began with.
    pub base: String,
}

/// How many files differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChangeCounts {
    /// New.
    pub added: u64,
    /// With another content, mode or kind.
    pub changed: u64,
    /// Gone.
    pub removed: u64,
}

/// What a run did to its workspace, as far as a careful person wants to know.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Audit {
    /// How many files differ from before. `None`: it could not be found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangeCounts>,
    /// What to look at, the gravest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// How many more there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
    /// Why not everything was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Something in a workspace that a careful person looks at before going on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Finding {
    /// What it is.
    pub what: FindingKind,
    /// Where, relative to the workspace; of a ref of the workspace's own repository its full name.
    pub path: BytesPath,
    /// Where a link leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<BytesPath>,
    /// The commit that a ref was before, or the ref that it led to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
}

/// Kinds of findings. All are new since the run began, or changed by it.
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
    /// A symlink in a `.git`, or in its place. The supervisor removed it.
    GitLink,
    /// A FIFO, a socket or a device in a `.git`, or in its place. The supervisor removed it.
    GitSpecial,
    /// A file in a `.git` that has another name outside of it. The supervisor made it a file of its own.
    GitHardLink,
    /// A directory of a `.git` that its owner could not read. The supervisor opened it up.
    GitClosed,
    /// A symlink that leaves the workspace.
    LinkOut,
    /// A program that git starts: a hook, or the configuration of a tool for hooks.
    Hook,
    /// git's own configuration, its attributes or its modules.
    GitConfig,
    /// A branch or another ref that is gone.
    RefDeleted,
    /// A branch or another ref, HEAD included, that leads elsewhere than before.
    RefMoved,
    /// A repository within the workspace.
    Repository,
    /// What a CI service runs.
    Ci,
    /// What an editor runs or obeys.
    Editor,
    /// What a shell or a tool manager reads on entering the directory.
    Environment,
    /// What an agent obeys: servers, rules, permissions.
    AgentConfig,
    /// A file that can be executed.
    Executable,
}
