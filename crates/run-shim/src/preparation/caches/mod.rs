//! The private dependency caches of a repository, on disk.
//!
//! ```text
//!   caches/<key>.lock        the repository's path; its time: last use; live runs share it, a removal excludes them
//!   caches/<key>/<tool>/     what the agent can write: nothing in it is trusted, nothing in it is ever opened or run
//!   caches/<key>/<tool>.stamp   the state of the seed that the links were made for
//!   caches/<key>/refresh.lock   one shim at a time makes links
//! ```
//!
//! Runs of one repository share its caches, even at the same time. They rely on the tools' own locks.

mod links;
mod removal;
mod seed_stamp;

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use ground::make_private_dir;
use run_journal::{KernelLock, StateRoot};
use run_protocol::{BytesPath, RunSpec};
use sandbox_plan::ToolCache;
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;

/// The caches of one repository, in use until this is dropped.
#[derive(Debug)]
pub(crate) struct RepositoryCache {
    _in_use: KernelLock,
    /// Makes the links. `None` once they are made.
    linking: Option<JoinHandle<()>>,
}

#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error("the dependency cache `{}` cannot be prepared", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "another run of this repository is using the dependency cache, so it cannot be emptied"
    )]
    InUse,
}

/// A repository's caches on disk.
#[derive(Debug)]
pub struct StoredCache {
    pub directory: PathBuf,
    /// Unknown if the record is unreadable.
    pub repository: Option<PathBuf>,
    pub used_ms: u64,
}

impl RepositoryCache {
    /// The directory of a run's caches.
    pub(crate) fn directory(state: &StateRoot, spec: &RunSpec) -> PathBuf {
        let hash = Sha256::digest(repository(spec).as_os_str().as_bytes());
        let key: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        state.caches().join(key)
    }

    /// Makes the private parts of the caches. Another thread makes links to seeds that are new or have changed: even
    /// if nothing has changed, it looks at hundreds of directories. Call it in a runtime.
    pub(crate) fn prepare(
        state: &StateRoot,
        spec: &RunSpec,
        caches: &[ToolCache],
    ) -> Result<Self, CacheError> {
        let directory = Self::directory(state, spec);
        let failed = |source| CacheError::Io { path: directory.clone(), source };
        make_private_dir(state.caches()).map_err(failed)?;
        if spec.fresh_cache && !empty(&directory).map_err(failed)? {
            return Err(CacheError::InUse);
        }
        let in_use = share(&lock_of(&directory)).map_err(failed)?;
        in_use.set_note(&BytesPath::from(repository(spec).to_owned())).map_err(failed)?;
        make_private_dir(&directory).map_err(failed)?;
        for cache in caches {
            make_private_parts(&directory, cache).map_err(failed)?;
        }
        let caches = caches.to_vec();
        let linking = tokio::task::spawn_blocking(move || {
            // Links are harmless to other live runs. This lock only saves work.
            let alone = KernelLock::take_waiting(&directory.join("refresh.lock"));
            let link = |_alone| caches.iter().try_for_each(|cache| make_links(&directory, cache));
            if let Err(error) = alone.and_then(link) {
                tracing::warn!(%error, "the next run makes the links to the host's caches again");
            }
        });
        Ok(Self { _in_use: in_use, linking: Some(linking) })
    }

    /// Waits until the links are made. Cancel safe.
    pub(crate) async fn linked(&mut self) {
        if let Some(linking) = &mut self.linking {
            linking.await.ok();
            self.linking = None;
        }
    }
}

/// The repository that a run's caches belong to. All worktrees that Caretaker made for a repository share them.
fn repository(spec: &RunSpec) -> &Path {
    spec.worktree.as_ref().map_or(Path::new(&spec.workspace), |origin| &origin.repository.0)
}

fn lock_of(directory: &Path) -> PathBuf {
    directory.with_extension("lock")
}

/// Shares the lock. A removal deletes the lock's file too, so this checks that the file still exists.
fn share(path: &Path) -> io::Result<KernelLock> {
    loop {
        let lock = KernelLock::share_waiting(path)?;
        if lock.is_at(path)? {
            return Ok(lock);
        }
    }
}

/// Removes the caches in a directory. Returns `false` if a live run uses them.
fn empty(directory: &Path) -> io::Result<bool> {
    let path = lock_of(directory);
    let Some(lock) = KernelLock::try_take(&path)? else { return Ok(false) };
    if !lock.is_at(&path)? {
        return Ok(false);
    }
    removal::remove_tree(directory)?;
    fs::remove_file(path)?;
    Ok(true)
}

fn make_private_parts(directory: &Path, cache: &ToolCache) -> io::Result<()> {
    let home = directory.join(&cache.tool);
    for part in cache.private.iter().filter(|part| part.is_directory) {
        let path = home.join(&part.relative);
        make_private_dir(&path)?;
        // The agent owns the directory and may have changed its mode.
        fs::set_permissions(&path, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn make_links(directory: &Path, cache: &ToolCache) -> io::Result<()> {
    if cache.links == sandbox_plan::Links::None {
        return Ok(());
    }
    let stamp_path = directory.join(format!("{}.stamp", cache.tool));
    if fs::read_to_string(&stamp_path).is_ok_and(|stamp| seed_stamp::holds(&stamp, cache)) {
        return Ok(());
    }
    // Take the stamp before making the links, so that a change in between makes the stamp outdated.
    let stamp = seed_stamp::stamp(cache);
    links::refresh(&directory.join(&cache.tool), cache);
    fs::write(stamp_path, stamp)
}

/// Lists the caches of all repositories.
pub fn stored_caches(state: &StateRoot) -> Vec<StoredCache> {
    let entries = fs::read_dir(state.caches()).into_iter().flatten().flatten();
    let locks = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some());
    let caches = locks.filter_map(|lock| {
        let used = fs::symlink_metadata(&lock).ok()?.modified().ok()?;
        let used = used.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let repository = KernelLock::note::<BytesPath>(&lock).ok().flatten();
        Some(StoredCache {
            directory: lock.with_extension(""),
            repository: repository.map(|path| path.0),
            used_ms: u64::try_from(used).unwrap_or(u64::MAX),
        })
    });
    let mut caches: Vec<StoredCache> = caches.collect();
    caches.sort_by(|one, other| one.directory.cmp(&other.directory));
    caches
}

impl StoredCache {
    /// Removes the caches. Returns `false` if a live run uses them.
    pub fn remove(&self) -> io::Result<bool> {
        empty(&self.directory)
    }
}

#[cfg(test)]
#[path = "caches_tests.rs"]
mod tests;
