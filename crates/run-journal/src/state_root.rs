//! Where things are under the state directory: path arithmetic only.

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

    /// What we remember of a session from run to run.
    pub fn session_record(&self, session: &Uuid) -> PathBuf {
        self.session_dir(session).join("session.json")
    }

    /// The spec of a session's last run, for a session whose runs are gone or that was copied from another.
    pub fn session_terms(&self, session: &Uuid) -> PathBuf {
        self.session_dir(session).join("terms.json")
    }

    /// Where a session is remembered that was minted before its first prompt.
    pub fn minted_session(&self, session: &Uuid) -> PathBuf {
        self.session_dir(session).join("minted.json")
    }

    /// The lease of a session.
    pub fn session_lease(&self, session: &Uuid) -> PathBuf {
        self.session_dir(session).join("lease.lock")
    }

    /// What is written to the agents of sessions, and what they ask.
    pub fn inboxes(&self) -> PathBuf {
        self.0.join("inbox")
    }

    /// Where the locks of workspaces are.
    pub fn workspaces(&self) -> PathBuf {
        self.0.join("workspaces")
    }

    /// The lock of one workspace, by device and inode: a path may have many names.
    pub fn workspace_lock(&self, device: u64, inode: u64) -> PathBuf {
        self.workspaces().join(format!("{device}-{inode}.lock"))
    }

    /// What workspaces were before runs.
    pub fn checkpoints(&self) -> PathBuf {
        self.0.join("checkpoints")
    }

    /// Worktrees that were made for runs.
    pub fn worktrees(&self) -> PathBuf {
        self.0.join("worktrees")
    }

    /// What is known of groups of runs beside the runs.
    pub fn groups(&self) -> PathBuf {
        self.0.join("groups")
    }

    /// Which hooks were called for which runs.
    pub fn hooks(&self) -> PathBuf {
        self.0.join("hooks")
    }

    /// Which runs are never to be removed.
    pub fn pins(&self) -> PathBuf {
        self.0.join("pins")
    }

    /// A process that removes runs takes this lock alone, over its last look and the removal. A process that comes to need
    /// a run (a pin, a new run) shares it, over its own look and what it writes.
    pub fn removal_lock(&self) -> PathBuf {
        self.0.join("removal.lock")
    }

    /// Where the simulated agents keep their conversations that only count the tools of MCP servers, one directory for
    /// each session.
    pub fn tool_counts(&self) -> PathBuf {
        self.0.join("mcp-tools")
    }

    pub fn index_db(&self) -> PathBuf {
        self.0.join("index.db")
    }
}
