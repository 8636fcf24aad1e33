//! Removes a run's files outside its journal: at the run's end or, if its shim died, at the start of the next run.

use std::path::Path;

use run_journal::{RunDirectory, StateRoot};
use run_protocol::{RunId, RunSpec};
use sandbox_plan::MountPoints;

use crate::login::LoginCopy;
use crate::preparation::private_roots::mcp_json_in;
use crate::sandbox;
use crate::session::session_bucket::SessionBucket;
use crate::session::session_places::SessionPlaces;

/// The file in the run's directory that lists the run's mount points in the workspace.
pub(crate) const MOUNT_POINTS_FILE: &str = "mount-points.json";

/// Cleans up after a dead run: ends its processes, removes its mount points and its copy of the login. The caller holds
/// the workspace's lock. Fails if one of the run's processes is still alive.
pub(crate) fn clean_up_after(run: &RunId, state: &StateRoot) -> std::io::Result<()> {
    let run_dir = &state.run_dir(run);
    sandbox::end_sandbox(run_dir)?;
    LoginCopy::recover(*run, state);
    let spec = RunDirectory::open(state, *run).ok().and_then(|run| run.spec().ok());
    if let Some(bucket) = spec.and_then(|spec| bucket_of(state, &spec)) {
        bucket.settle();
    }
    forget_servers(run_dir);
    let record = run_dir.join(MOUNT_POINTS_FILE);
    if record.exists() {
        remove_recorded(&record);
    }
    sandbox::forget_sandbox(run_dir);
    Ok(())
}

/// Returns whether a dead run has left something for [`clean_up_after`].
pub(crate) fn has_left_something(run: &RunId, state: &StateRoot) -> bool {
    let run_dir = &state.run_dir(run);
    sandbox::has_sandbox(run_dir)
        || run_dir.join(MOUNT_POINTS_FILE).exists()
        || LoginCopy::mounted_in(run_dir).exists()
}

/// Returns a run's session bucket, from its spec alone.
fn bucket_of(state: &StateRoot, spec: &RunSpec) -> Option<SessionBucket> {
    let places = SessionPlaces::of_run(state, spec)?;
    Some(SessionBucket::new(&state.session_dir(&spec.session), places))
}

/// Removes `mcp.json`, which may have keys of the user's servers.
pub(crate) fn forget_servers(run_dir: &Path) {
    match std::fs::remove_file(mcp_json_in(run_dir)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, "the run's mcp.json could not be removed");
        }
        _ => {}
    }
}

pub(crate) fn remove_recorded(record: &Path) {
    match MountPoints::remove_ours(record) {
        Ok(removals) => tracing::debug!(?removals, "mount points"),
        Err(error) => tracing::warn!(%error, "a mount point is left in the workspace"),
    }
}
