//! Runs that are to be kept whatever happens: an empty file each, `pins/<run id>`. Not in the run's own directory, which
//! only its supervisor writes to.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

use run_journal::{KernelLock, StateRoot};
use run_protocol::RunId;

/// Says whether the run was there to be pinned: `gc` may have removed it a moment ago.
pub(crate) fn pin(state: &StateRoot, run: RunId) -> io::Result<bool> {
    let _removal = KernelLock::share_waiting(&state.removal_lock())?;
    if !state.run_dir(&run).is_dir() {
        return Ok(false);
    }
    DirBuilder::new().recursive(true).mode(0o700).create(state.pins())?;
    let path = state.pins().join(run.to_string());
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).map(|_| true)
}

/// Says whether it was pinned.
pub(crate) fn unpin(state: &StateRoot, run: RunId) -> io::Result<bool> {
    match fs::remove_file(state.pins().join(run.to_string())) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// All that are pinned. An error where that cannot be found out: then nothing may go.
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
