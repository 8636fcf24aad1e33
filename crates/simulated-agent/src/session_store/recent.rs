//! Which session `--continue` and `--resume=-N` mean.

use std::fs;

use cursor_home::{CursorRoots, SessionDir, WorkspacePath};
use cursor_stores::chat::LatestRoot;
use uuid::Uuid;

use super::database::Database;

/// A session of a workspace in which something was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentSession {
    pub id: Uuid,
    pub name: String,
    pub created_at_ms: i64,
}

/// Returns the session that `--continue` continues.
#[must_use]
pub fn most_recent(roots: &CursorRoots, workspace: &WorkspacePath) -> Option<Uuid> {
    recent_sessions(roots, workspace).first().map(|session| session.id)
}

/// Returns the sessions of this workspace alone, latest created first.
///
/// Cursor has no index and does not ask when a session was last used. Stores that cannot be read, that have no root or
/// that belong to a subagent are passed over.
#[must_use]
pub fn recent_sessions(roots: &CursorRoots, workspace: &WorkspacePath) -> Vec<RecentSession> {
    let entries =
        fs::read_dir(roots.chats_of(workspace)).into_iter().flatten().filter_map(Result::ok);
    let mut sessions: Vec<_> = entries
        .filter_map(|entry| {
            let id = Uuid::try_parse(entry.file_name().to_str()?).ok()?;
            session_at(id, &SessionDir::at(entry.path()))
        })
        .collect();
    sessions.sort_by_key(|session| std::cmp::Reverse((session.created_at_ms, session.id)));
    sessions
}

fn session_at(id: Uuid, directory: &SessionDir) -> Option<RecentSession> {
    let meta = Database::open_read_only(&directory.store_db()).ok()?.meta()?;
    if meta.latest_root() == LatestRoot::Absent || meta.subagent_origin().is_some() {
        return None;
    }
    let name = meta.name().unwrap_or_default().to_owned();
    Some(RecentSession { id, name, created_at_ms: meta.created_at_ms().unwrap_or_default() })
}

#[cfg(test)]
#[path = "recent_tests.rs"]
mod tests;
