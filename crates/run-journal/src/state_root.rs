//! The paths below the state directory. No I/O.

use std::path::{Path, PathBuf};

use run_protocol::RunId;
use uuid::Uuid;

/// The state directory: `$CARETAKER_HOME`, or `caretaker` in `$XDG_STATE_HOME`. An absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRoot(PathBuf);

impl StateRoot {
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn runs(&self) -> PathBuf {
        self.0.join("runs")
    }

    pub fn run_dir(&self, run: &RunId) -> PathBuf {
        self.runs().join(run.to_string())
    }

    /// A run's journal.
    pub fn journal(&self, run: &RunId) -> PathBuf {
        self.run_dir(run).join("events.jsonl")
    }

    pub fn sessions(&self) -> PathBuf {
        self.0.join("sessions")
    }

    pub fn session_dir(&self, session: &Uuid) -> PathBuf {
        self.sessions().join(session.to_string())
    }

    /// The record of a session between its runs.
    pub fn session_record(&self, session: &Uuid) -> PathBuf {
        self.session_dir(session).join("session.json")
    }

    /// The spec of a session's last run, for a session that is a copy or whose runs were removed.
    pub fn session_terms(&self, session: &Uuid) -> PathBuf {
        self.session_dir(session).join("terms.json")
    }

    /// The record of a session that has an id but no prompt yet.
    pub fn minted_session(&self, session: &Uuid) -> PathBuf {
        self.session_dir(session).join("minted.json")
    }

    /// The lease of a session.
    pub fn session_lease(&self, session: &Uuid) -> PathBuf {
        self.session_dir(session).join("lease.lock")
    }

    /// The sessions in buckets that the user's chats do not have, in the same layout as Cursor's own `chats`.
    pub fn chats(&self) -> PathBuf {
        self.0.join("chats")
    }

    /// The inboxes of all sessions.
    pub fn inboxes(&self) -> PathBuf {
        self.0.join("inbox")
    }

    /// The workspace locks.
    pub fn workspaces(&self) -> PathBuf {
        self.0.join("workspaces")
    }

    /// The lock of one workspace, by device and inode: a directory may have many paths.
    pub fn workspace_lock(&self, device: u64, inode: u64) -> PathBuf {
        self.workspaces().join(format!("{device}-{inode}.lock"))
    }

    /// The saved states of workspaces.
    pub fn checkpoints(&self) -> PathBuf {
        self.0.join("checkpoints")
    }

    /// Empty files that the sandbox shows at paths where the agent must not create anything. All runs share them.
    pub fn placeholders(&self) -> PathBuf {
        self.0.join("placeholders")
    }

    /// The worktrees that Caretaker made for runs.
    pub fn worktrees(&self) -> PathBuf {
        self.0.join("worktrees")
    }

    /// The dependency caches of repositories.
    pub fn caches(&self) -> PathBuf {
        self.0.join("caches")
    }

    /// The kept versions of installed agents.
    pub fn agents(&self) -> PathBuf {
        self.0.join("agents")
    }

    /// The records of run groups.
    pub fn groups(&self) -> PathBuf {
        self.0.join("groups")
    }

    /// The records of the hooks that Caretaker called for runs.
    pub fn hooks(&self) -> PathBuf {
        self.0.join("hooks")
    }

    /// The runs that must not be removed.
    pub fn pins(&self) -> PathBuf {
        self.0.join("pins")
    }

    /// A process that removes runs holds this lock exclusively, from its last check to the removal. A process that adds
    /// a reason to keep a run (a pin, a new run) shares the lock, from its own check until that reason is on disk.
    pub fn removal_lock(&self) -> PathBuf {
        self.0.join("removal.lock")
    }

    /// The conversations of simulated agents that only count the tools of MCP servers, one directory per session.
    pub fn tool_counts(&self) -> PathBuf {
        self.0.join("mcp-tools")
    }

    pub fn index_db(&self) -> PathBuf {
        self.0.join("index.db")
    }
}
