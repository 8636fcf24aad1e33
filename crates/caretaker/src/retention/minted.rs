//! Unused session ids from `sessions new`.

use std::fs;

use run_journal::{KernelLock, RunOverview, StateRoot};
use run_shim::minted_session;
use uuid::Uuid;

use super::needs::newcomers;

/// Ids older than this that no run uses. Checking session records is not enough: a queued run has none yet.
pub(crate) fn unused(
    state: &StateRoot,
    runs: &[RunOverview],
    older_than_ms: u64,
    now_ms: u64,
) -> Vec<Uuid> {
    let entries = fs::read_dir(state.sessions()).into_iter().flatten().flatten();
    let sessions = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_unused = |session: &Uuid| {
        let minted = minted_session(state, session);
        minted.is_some_and(|minted| now_ms.saturating_sub(minted.at) > older_than_ms)
            && !state.session_record(session).exists()
            && !is_used_by(runs, session)
    };
    let mut unused: Vec<Uuid> = sessions.filter(is_unused).collect();
    unused.sort();
    unused
}

/// Deletes one id, unless a run has begun to use it since `known` was listed. Returns true if it is gone.
pub(crate) fn forget(state: &StateRoot, known: &[RunOverview], session: &Uuid) -> bool {
    let Ok(_removal) = KernelLock::take_waiting(&state.removal_lock()) else { return false };
    let Ok(Some(_lease)) = KernelLock::try_take(&state.session_lease(session)) else {
        return false;
    };
    let Ok(newcomers) = newcomers(state, known) else { return false };
    !state.session_record(session).exists()
        && newcomers.iter().all(|run| run.session != *session)
        && fs::remove_dir_all(state.session_dir(session)).is_ok()
}

fn is_used_by(runs: &[RunOverview], session: &Uuid) -> bool {
    let session = session.to_string();
    runs.iter().any(|run| run.session == session)
}
