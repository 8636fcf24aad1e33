//! Where stores may be. Given, not found out: only the binary knows the environment.

use std::path::PathBuf;

/// The directories to look in. Those that are not there are passed over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorePlaces {
    /// Files and directories of Cursor's that belong to conversations and hold none, each with what it is, as a clause.
    pub others: Vec<(PathBuf, String)>,
    /// `chats`, below which are `<md5>/<uuid>/store.db`.
    pub chats: Vec<PathBuf>,
    /// `acp-sessions`, below which are `<uuid>/store.db`.
    pub acp_sessions: Vec<PathBuf>,
    /// `projects`, below which are `<slug>/agent-transcripts` and `<slug>/sdk-agent-store`.
    pub projects: Vec<PathBuf>,
    /// `Cursor/User`, below which are `globalStorage` and `workspaceStorage`.
    pub cursor_user_dirs: Vec<PathBuf>,
    /// Stores of the SDK that an application put elsewhere: directories with `index.db` or `agents.ndjson`.
    pub sdk_stores: Vec<PathBuf>,
    /// Files that `sessions export` wrote, and directories of such files.
    pub exports: Vec<PathBuf>,
}
