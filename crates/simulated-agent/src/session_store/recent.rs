//! The sessions that `--continue` and `--resume=-N` can select.

use std::cmp::Reverse;
use std::fs;
use std::path::Path;

use cursor_home::SessionDir;
use cursor_stores::chat::{ChatStore, LatestRoot};
use uuid::Uuid;

/// Returns the sessions in a bucket, most recently created first.
///
/// Cursor has no index and does not consider the last use of a session. It skips stores that are unreadable, that have
/// no root, or that belong to a subagent.
#[must_use]
pub fn recent_sessions(bucket: &Path) -> Vec<Uuid> {
    let entries = fs::read_dir(bucket).into_iter().flatten().filter_map(Result::ok);
    let mut sessions: Vec<_> = entries
        .filter_map(|entry| {
            let id = Uuid::try_parse(entry.file_name().to_str()?).ok()?;
            Some((created_at_ms(&SessionDir::at(entry.path()))?, id))
        })
        .collect();
    sessions.sort_by_key(|session| Reverse(*session));
    sessions.into_iter().map(|(_, id)| id).collect()
}

/// Returns when the session was created, or `None` if Cursor skips it.
fn created_at_ms(directory: &SessionDir) -> Option<i64> {
    let meta = ChatStore::open_read_only(&directory.store_db()).ok()?.meta().ok()??;
    let is_listed = meta.latest_root() != LatestRoot::Absent && meta.subagent_origin().is_none();
    is_listed.then(|| meta.created_at_ms().unwrap_or_default())
}

#[cfg(test)]
#[path = "recent_tests.rs"]
mod tests;
