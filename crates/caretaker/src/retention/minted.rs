//! Ids of sessions that were minted and never used.

use std::fs;

use run_journal::{KernelLock, StateRoot};
use run_shim::minted_session;
use uuid::Uuid;

/// Minted longer ago than this, and no run has had them.
pub(crate) fn unused(state: &StateRoot, older_than_ms: u64, now_ms: u64) -> Vec<Uuid> {
    let entries = fs::read_dir(state.sessions()).into_iter().flatten().flatten();
    let sessions = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_unused = |session: &Uuid| {
        let minted = minted_session(state, session);
        minted.is_some_and(|minted| now_ms.saturating_sub(minted.at) > older_than_ms)
            && !state.session_record(session).exists()
    };
    let mut unused: Vec<Uuid> = sessions.filter(is_unused).collect();
    unused.sort();
    unused
}

/// Forgets one, unless a run has come for it meanwhile.
pub(crate) fn forget(state: &StateRoot, session: &Uuid) {
    if let Ok(Some(lease)) = KernelLock::try_take(&state.session_lease(session)) {
        if !state.session_record(session).exists() {
            fs::remove_dir_all(state.session_dir(session)).ok();
        }
        drop(lease);
    }
}
