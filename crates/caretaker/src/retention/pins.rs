//! Pinned runs: one empty file each, `pins/<run id>`. It is not in the run's directory, because only the shim writes there.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use ground::make_private_dir;
use run_journal::{KernelLock, StateRoot};
use run_protocol::RunId;

/// Returns false if the run is gone: `gc` may have just removed it.
pub(crate) fn pin(state: &StateRoot, run: RunId) -> io::Result<bool> {
    let _removal = KernelLock::share_waiting(&state.removal_lock())?;
    if !state.run_dir(&run).is_dir() {
        return Ok(false);
    }
    make_private_dir(state.pins())?;
    let path = state.pins().join(run.to_string());
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).map(|_| true)
}

/// Returns true if the run was pinned.
pub(crate) fn unpin(state: &StateRoot, run: RunId) -> io::Result<bool> {
    match fs::remove_file(state.pins().join(run.to_string())) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// All pinned runs. If this fails, no run may be removed.
pub(crate) fn all(state: &StateRoot) -> io::Result<BTreeSet<RunId>> {
    let entries = match fs::read_dir(state.pins()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(error),
    };
    let mut pinned = BTreeSet::new();
    for entry in entries {
        pinned.extend(entry?.file_name().to_str().and_then(|name| name.parse::<RunId>().ok()));
    }
    Ok(pinned)
}
