//! The two locks of a run: its session's lease and its workspace's lock.

use std::fmt;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ground::now_ms;
use run_journal::{KernelLock, StateRoot};
use run_protocol::{RunId, RunSpec, SessionStart};
use tokio::task::JoinHandle;

use crate::control::sockets::{self, SocketPaths};
use crate::preparation::leftovers;
use crate::session::held_lock::{
    HeldLock, Holder, LockError, Patience, WorkspaceLockError, WorkspaceLocks, wait_until_free,
};

/// The locks that a run needs, and those that it has.
#[derive(Debug)]
pub(crate) struct RunLocks {
    wanted: Wanted,
    held: Option<Taken>,
}

#[derive(Debug, Clone)]
struct Wanted {
    lease: PathBuf,
    session: String,
    session_start: SessionStart,
    is_minted: bool,
    workspaces: PathBuf,
    workspace: PathBuf,
    holder: Holder,
}

/// Both locks. Dropping this releases them.
#[derive(Debug)]
pub(crate) struct Taken {
    lease: Arc<HeldLock>,
    workspace: HeldLock,
}

/// Why a run cannot take its locks. The message names the holder.
#[derive(Debug)]
pub(crate) enum LockRefusal {
    Session {
        session: String,
        holder: Option<Holder>,
    },
    Workspace {
        workspace: PathBuf,
        holder: Option<Holder>,
    },
    Nested {
        path: PathBuf,
        holder: Holder,
    },
    /// A process of an earlier run in the workspace is still alive.
    NotDead {
        run: RunId,
        why: String,
    },
    Io(String),
}

impl fmt::Display for LockRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = |holder: &Option<Holder>| match holder {
            Some(holder) => format!("run {} (pid {})", holder.run, holder.pid),
            None => "another run".to_owned(),
        };
        match self {
            Self::Session { session, holder } => {
                write!(formatter, "session {session} is held by {}", by(holder))
            }
            Self::Workspace { workspace, holder } => {
                write!(formatter, "workspace `{}` is in use by {}", workspace.display(), by(holder))
            }
            Self::Nested { path, holder } => write!(
                formatter,
                "workspace `{}`, which is inside or around this one, is in use by run {} (pid {})",
                path.display(),
                holder.run,
                holder.pid
            ),
            Self::NotDead { run, why } => {
                write!(formatter, "run {run}, which used the workspace before, is not dead: {why}")
            }
            Self::Io(problem) => formatter.write_str(problem),
        }
    }
}

impl LockRefusal {
    fn holder(&self) -> Option<RunId> {
        match self {
            Self::Session { holder, .. } | Self::Workspace { holder, .. } => {
                holder.as_ref().map(|holder| holder.run)
            }
            Self::Nested { holder, .. } => Some(holder.run),
            Self::NotDead { .. } | Self::Io(_) => None,
        }
    }

    pub(crate) fn hint(&self) -> String {
        if matches!(self, Self::NotDead { .. }) {
            return "wait until that process is gone".to_owned();
        }
        match self.holder() {
            Some(run) => format!("wait for it with --wait, or stop it: caretaker kill {run}"),
            None => "wait for it with --wait".to_owned(),
        }
    }
}

impl RunLocks {
    pub(crate) fn new(state: &StateRoot, spec: &RunSpec) -> Self {
        let holder = Holder {
            run: spec.run,
            pid: std::process::id(),
            since_ms: now_ms(),
            generation: 0,
            path: None,
            uncleaned: Vec::new(),
        };
        let wanted = Wanted {
            lease: state.session_lease(&spec.session),
            session: spec.session.to_string(),
            session_start: spec.session_start,
            is_minted: state.minted_session(&spec.session).exists(),
            workspaces: state.workspaces(),
            workspace: PathBuf::from(&spec.workspace),
            holder,
        };
        Self { wanted, held: None }
    }

    /// Takes both locks, or neither.
    pub(crate) fn try_take(&mut self) -> Result<(), LockRefusal> {
        self.held = Some(self.wanted.take(Patience::FailAtOnce)?);
        Ok(())
    }

    /// Waits for both locks on another thread.
    pub(crate) fn wait_elsewhere(&self) -> JoinHandle<Result<Taken, LockRefusal>> {
        let wanted = self.wanted.clone();
        tokio::task::spawn_blocking(move || wanted.take(Patience::Wait))
    }

    /// Stores the locks after the wait.
    pub(crate) fn put(&mut self, taken: Taken) {
        self.held = Some(taken);
    }

    /// How often runs have taken the session's lease, including this run.
    pub(crate) fn generation(&self) -> u64 {
        self.held.as_ref().map_or(0, |held| held.lease.generation())
    }

    /// The session's lease, once the run has it.
    pub(crate) fn lease(&self) -> Option<Arc<HeldLock>> {
        self.held.as_ref().map(|held| Arc::clone(&held.lease))
    }

    /// Returns whether the run still has the lease. If not, it must not write to the session.
    pub(crate) fn is_current(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.lease.is_current())
    }

    /// Removes the files of a new session whose run will not start. A minted session stays, because the user may try
    /// again.
    pub(crate) fn forget_new_session(&self) {
        if self.wanted.session_start == SessionStart::New
            && !self.wanted.is_minted
            && let Some(directory) = self.wanted.lease.parent()
        {
            std::fs::remove_dir_all(directory).ok();
        }
    }

    /// Cleans up after dead runs in this workspace. If one of their processes is still alive, releases the locks.
    pub(crate) fn clean_up_after_the_dead(
        &mut self,
        state: &StateRoot,
        socket_root: &Path,
    ) -> Result<(), LockRefusal> {
        let Some(mut held) = self.held.take() else { return Ok(()) };
        match clean_up(&mut held.workspace, state, socket_root) {
            Ok(()) => {
                self.held = Some(held);
                Ok(())
            }
            Err(refusal) => {
                held.workspace.give_back().ok();
                Err(refusal)
            }
        }
    }
}

/// Cleans up after earlier runs in a workspace. The caller holds its lock.
fn clean_up(lock: &mut HeldLock, state: &StateRoot, socket_root: &Path) -> Result<(), LockRefusal> {
    for run in lock.uncleaned() {
        leftovers::clean_up_after(run, state)
            .map_err(|error| LockRefusal::NotDead { run: *run, why: error.to_string() })?;
        sockets::remove_if_over(state, socket_root, *run);
    }
    // If this fails, the next holder cleans up again and finds nothing.
    lock.note_clean().ok();
    Ok(())
}

impl Wanted {
    /// Takes both locks, and holds neither while it waits for the other. Otherwise another run that finds this run's
    /// name in the workspace's lock would think that this run died.
    fn take(&self, patience: Patience) -> Result<Taken, LockRefusal> {
        loop {
            match self.take_at_once(patience) {
                Err(LockRefusal::Session { .. }) if patience == Patience::Wait => {
                    wait_until_free(&self.lease).map_err(|error| {
                        let lease = self.lease.display();
                        LockRefusal::Io(format!("the lock `{lease}` cannot be used: {error}"))
                    })?;
                }
                taken => return taken,
            }
        }
    }

    /// Takes the workspace first, so that a refused run leaves nothing of its session behind.
    fn take_at_once(&self, patience: Patience) -> Result<Taken, LockRefusal> {
        let failed = |path: &Path, error: &dyn std::error::Error| {
            let why = ground::with_causes(error);
            LockRefusal::Io(format!("the lock `{}` cannot be used: {why}", path.display()))
        };
        make_dir(&self.workspaces).map_err(|error| failed(&self.workspaces, &error))?;
        let locks = WorkspaceLocks { directory: &self.workspaces };
        let workspace = locks.acquire(&self.workspace, &self.holder, patience).map_err(
            |error| match error {
                WorkspaceLockError::Held(holder) => {
                    LockRefusal::Workspace { workspace: self.workspace.clone(), holder }
                }
                WorkspaceLockError::Nested { path, holder } => LockRefusal::Nested { path, holder },
                WorkspaceLockError::Io(_) => failed(&self.workspaces, &error),
            },
        )?;
        if let Some(directory) = self.lease.parent() {
            make_dir(directory).map_err(|error| failed(&self.lease, &error))?;
        }
        match HeldLock::acquire(&self.lease, &self.holder, Patience::FailAtOnce) {
            Ok(lease) => Ok(Taken { lease: Arc::new(lease), workspace }),
            Err(error) => {
                workspace.give_back().map_err(|error| failed(&self.workspaces, &error))?;
                Err(match error {
                    LockError::Held(holder) => {
                        LockRefusal::Session { session: self.session.clone(), holder }
                    }
                    LockError::Io { .. } => failed(&self.lease, &error),
                })
            }
        }
    }
}

/// Keeps runs from starting in a workspace until it is dropped.
#[derive(Debug)]
pub struct WorkspaceHold {
    _lock: HeldLock,
}

/// Why a workspace's lock cannot be taken.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WorkspaceBusy(LockRefusal);

impl WorkspaceBusy {
    /// True if a run works in it. False if its lock is unusable.
    pub fn is_held(&self) -> bool {
        !matches!(self.0, LockRefusal::Io(_))
    }

    /// The run that works in it.
    pub fn holder(&self) -> Option<RunId> {
        self.0.holder()
    }
}

/// Keeps runs out of a workspace, and cleans up after dead runs in it. Refused runs see `on_behalf_of` as the holder.
pub fn hold_workspace(
    state: &StateRoot,
    socket_root: &Path,
    workspace: &Path,
    on_behalf_of: RunId,
) -> Result<WorkspaceHold, WorkspaceBusy> {
    let io = |error: &dyn std::error::Error| {
        LockRefusal::Io(format!(
            "the workspace locks cannot be used: {}",
            ground::with_causes(error)
        ))
    };
    let directory = state.workspaces();
    make_dir(&directory).map_err(|error| WorkspaceBusy(io(&error)))?;
    let (pid, since_ms) = (std::process::id(), now_ms());
    let holder = Holder {
        run: on_behalf_of,
        pid,
        since_ms,
        generation: 0,
        path: None,
        uncleaned: Vec::new(),
    };
    let locks = WorkspaceLocks { directory: &directory };
    let mut lock = locks.acquire(workspace, &holder, Patience::FailAtOnce).map_err(|error| {
        WorkspaceBusy(match error {
            WorkspaceLockError::Held(holder) => {
                LockRefusal::Workspace { workspace: workspace.to_owned(), holder }
            }
            WorkspaceLockError::Nested { path, holder } => LockRefusal::Nested { path, holder },
            WorkspaceLockError::Io(_) => io(&error),
        })
    })?;
    match clean_up(&mut lock, state, socket_root) {
        Ok(()) => Ok(WorkspaceHold { _lock: lock }),
        Err(refusal) => {
            lock.give_back().ok();
            Err(WorkspaceBusy(refusal))
        }
    }
}

/// Cleans up after dead runs in all unused workspaces. Returns their number.
pub fn clean_up_after_the_dead(state: &StateRoot, socket_root: &Path) -> usize {
    let directory = state.workspaces();
    let locks = WorkspaceLocks { directory: &directory };
    let in_workspaces = locks
        .of_the_dead(|run| {
            leftovers::has_left_something(&run, state) || SocketPaths::new(socket_root, run).exist()
        })
        .unwrap_or_default()
        .into_iter()
        .filter_map(|lock| locks.clean(&lock, |lock| clean_up(lock, state, socket_root)));
    let n_dead = in_workspaces.sum::<usize>() + sockets::sweep(state, socket_root);
    sweep_tool_counts(state);
    n_dead
}

/// Removes directories that killed processes left, if no run holds the session.
fn sweep_tool_counts(state: &StateRoot) {
    let places = std::fs::read_dir(state.tool_counts()).into_iter().flatten().flatten();
    for place in places {
        let session = place.file_name().to_str().and_then(|name| name.parse().ok());
        let is_held = |session| KernelLock::is_held(&state.session_lease(&session));
        if session.is_some_and(|session| matches!(is_held(session), Ok(false))) {
            std::fs::remove_dir_all(place.path()).ok();
        }
    }
}

fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace for sessions and their runs.
    struct Place {
        root: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let place = Self { root: tempfile::tempdir().unwrap() };
            make_dir(&place.root.path().join("workspace")).unwrap();
            place
        }

        fn wanted(&self, session: &str) -> Wanted {
            let root = self.root.path();
            Wanted {
                lease: root.join("sessions").join(session).join("lease.lock"),
                session: session.to_owned(),
                session_start: SessionStart::Resume,
                is_minted: false,
                workspaces: root.join("workspaces"),
                workspace: root.join("workspace"),
                holder: Holder {
                    run: RunId::generate(),
                    pid: std::process::id(),
                    since_ms: 5,
                    generation: 0,
                    path: None,
                    uncleaned: Vec::new(),
                },
            }
        }

        fn lease(&self, wanted: &Wanted) -> HeldLock {
            make_dir(wanted.lease.parent().unwrap()).unwrap();
            HeldLock::acquire(&wanted.lease, &wanted.holder, Patience::FailAtOnce).unwrap()
        }
    }

    fn previous(taken: &Taken) -> Option<RunId> {
        taken.workspace.previous.as_ref().map(|holder| holder.run)
    }

    #[test]
    fn a_run_whose_session_is_in_use_does_not_hide_the_dead_holder_of_the_workspace() {
        let place = Place::new();
        let (dead, refused) = (place.wanted("a"), place.wanted("b"));
        drop(dead.take(Patience::FailAtOnce).unwrap());
        let holder = place.lease(&place.wanted("b"));
        let error = refused.take(Patience::FailAtOnce).unwrap_err();
        assert!(matches!(error, LockRefusal::Session { .. }), "{error:?}");
        let next = place.wanted("c").take(Patience::FailAtOnce).unwrap();
        assert_eq!(previous(&next), Some(dead.holder.run));
        drop(holder);
    }

    #[test]
    fn a_run_whose_session_is_in_use_does_not_count_as_a_previous_holder() {
        let place = Place::new();
        let _holder = place.lease(&place.wanted("b"));
        place.wanted("b").take(Patience::FailAtOnce).unwrap_err();
        let next = place.wanted("c").take(Patience::FailAtOnce).unwrap();
        assert_eq!(previous(&next), None);
    }

    #[test]
    fn a_run_that_waits_for_a_session_leaves_its_workspace_to_others() {
        let place = Place::new();
        let holder = place.lease(&place.wanted("b"));
        let waiting = place.wanted("b");
        let run = waiting.holder.run;
        let waiter = std::thread::spawn(move || waiting.take(Patience::Wait).map(|_| ()));
        // Wait here too, because the waiter may hold the workspace for a moment.
        let other = place.wanted("c");
        let taken = other.take(Patience::Wait).unwrap();
        assert_ne!(previous(&taken), Some(run), "it is alive");
        drop(holder);
        drop(taken);
        waiter.join().unwrap().unwrap();
    }
}
