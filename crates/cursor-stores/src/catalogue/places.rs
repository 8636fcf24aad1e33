//! The places where stores may be. Only the binary knows the environment, so it passes them in.

use std::path::PathBuf;

/// The directories to look in. Missing directories are skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorePlaces {
    /// Cursor's files and directories that belong to conversations but hold none, each with a clause that says what it
    /// is.
    pub others: Vec<(PathBuf, String)>,
    /// `chats`, which holds `<md5>/<uuid>/store.db`.
    pub chats: Vec<PathBuf>,
    /// `acp-sessions`, which holds `<uuid>/store.db`.
    pub acp_sessions: Vec<PathBuf>,
    /// `projects`, which holds `<slug>/agent-transcripts` and `<slug>/sdk-agent-store`.
    pub projects: Vec<PathBuf>,
    /// `Cursor/User`, which holds `globalStorage` and `workspaceStorage`.
    pub cursor_user_dirs: Vec<PathBuf>,
    /// SDK stores that an application put elsewhere: directories with `index.db` or `agents.ndjson`.
    pub sdk_stores: Vec<PathBuf>,
    /// Files that `sessions export` wrote, and directories of such files.
    pub exports: Vec<PathBuf>,
}
