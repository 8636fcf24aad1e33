//! The files of a session that can be copied, and the lease that is needed to change them.

use std::path::{Path, PathBuf};

use admission::command_error::CommandError;
use admission::host::Host;
use admission::words::talk::note;
use cursor_home::WorkspacePath;
use cursor_stores::Catalogue;
use cursor_stores::chat::BlobId;
use cursor_stores::model::{Head, StoreKind, WorkspacePlace};
use cursor_stores::session_copy::NewSession;
use ground::{make_private_dir, now_ms};
use run_journal::{KernelLock, LockHolder};
use run_protocol::ExitCode;
use run_shim::{SessionPlaces, read_session_record, renew_session_record};
use uuid::Uuid;

/// The place of a command line or ACP session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChatPlace {
    pub(super) kind: StoreKind,
    /// The name of its directory, which is its id.
    pub(super) id: String,
    pub(super) directory: PathBuf,
    /// The directory of all buckets, or of all ACP sessions.
    pub(super) root: PathBuf,
}

impl ChatPlace {
    pub(super) fn database(&self) -> PathBuf {
        self.directory.join("store.db")
    }

    /// All places of a conversation with a database.
    pub(super) fn all_of(head: &Head) -> Vec<Self> {
        let origins = head.origins.iter().filter(|origin| {
            matches!(origin.store, StoreKind::Cli | StoreKind::Acp)
                && origin.path.0.file_name().is_some_and(|name| name == "store.db")
        });
        origins
            .filter_map(|origin| Self::of_directory(origin.store, origin.path.0.parent()?))
            .collect()
    }

    /// The place of a session's directory.
    pub(super) fn of_directory(kind: StoreKind, directory: &Path) -> Option<Self> {
        let n_levels = if kind == StoreKind::Cli { 2 } else { 1 };
        Some(Self {
            kind,
            id: directory.file_name()?.to_str()?.to_owned(),
            root: directory.ancestors().nth(n_levels)?.to_owned(),
            directory: directory.to_owned(),
        })
    }

    /// The place to copy a conversation from.
    pub(super) fn to_copy(head: &Head) -> Result<Self, CommandError> {
        Self::all_of(head).into_iter().next().ok_or_else(|| {
            let kinds: Vec<&str> =
                head.origins.iter().map(|origin| origin.store.as_str()).collect();
            let what = format!("cannot copy {}", head.id);
            CommandError::new(ExitCode::NotResumable, what)
                .because(format!(
                    "only command-line and ACP sessions have a store.db; this one is in: {}",
                    kinds.join(", ")
                ))
                .hint(format!("caretaker sessions export {}", head.id))
        })
    }

    /// The checkpoint that the last run left. `resume` expects to find it.
    pub(super) fn recorded_root(&self, host: &Host) -> Option<BlobId> {
        if self.kind != StoreKind::Cli {
            return None;
        }
        let record = read_session_record(&host.state, &self.id.parse().ok()?)?;
        record.checkpoint?.root?.parse().ok()
    }

    /// Records the contents of the changed store. The caller holds the lease.
    pub(super) fn renew_record(&self, host: &Host) {
        let Ok(session) = self.id.parse() else { return };
        if let Err(error) = renew_session_record(&host.state, &session, &self.database()) {
            let what = format!("cannot update the record of {}", self.id);
            let error = CommandError::new(ExitCode::Failed, what).because(error);
            note(&error.message_with_causes());
        }
    }

    /// Where to put the original when a copy replaces it.
    pub(super) fn backup(&self, host: &Host) -> PathBuf {
        host.places.state.join("backups").join(format!("{}-{}", self.id, now_ms()))
    }

    /// Takes the lease of the session, so that no run of it can begin.
    pub(super) fn lease(&self, host: &Host) -> Result<Option<KernelLock>, CommandError> {
        match self.id.parse() {
            Ok(session) => take_lease(host, session).map(Some),
            // No run can hold a session whose id is not a UUID.
            Err(_) => Ok(None),
        }
    }
}

/// Takes the lease of a session, or names the run that has it.
pub(crate) fn take_lease(host: &Host, session: Uuid) -> Result<KernelLock, CommandError> {
    let path = host.state.session_lease(&session);
    let failed = |error: std::io::Error| {
        let what = format!("cannot use the lock `{}`", path.display());
        CommandError::new(ExitCode::Failed, what).because(error)
    };
    make_private_dir(host.state.session_dir(&session)).map_err(failed)?;
    if let Some(lease) = KernelLock::try_take(&path).map_err(failed)? {
        return Ok(lease);
    }
    let holder: Option<LockHolder> = KernelLock::note(&path).map_err(failed)?;
    let error = CommandError::new(
        ExitCode::Conflict,
        match &holder {
            Some(holder) => {
                format!("session {session} in use by run {} (pid {})", holder.run, holder.pid)
            }
            None => format!("session {session} in use by a run"),
        },
    );
    let hint = holder.map(|holder| format!("stop it first: caretaker kill {}", holder.run));
    Err(error.hint_if_any(hint))
}

/// The workspace of a copy. The directory must exist.
pub(super) fn physical_workspace(host: &Host, named: &Path) -> Result<WorkspacePath, CommandError> {
    let path = host.environment.absolute(named);
    let refused = |code, why: String| {
        CommandError::new(code, format!("`{}` cannot be a workspace", path.display())).because(why)
    };
    let real = std::fs::canonicalize(&path)
        .map_err(|error| refused(ExitCode::NotFound, error.to_string()))?;
    if !real.is_dir() {
        return Err(refused(ExitCode::Usage, "it is not a directory".to_owned()));
    }
    let workspace =
        WorkspacePath::new(&real).map_err(|error| refused(ExitCode::Usage, error.to_string()))?;
    workspace.as_utf8().map_err(|error| refused(ExitCode::Usage, error.to_string()))?;
    Ok(workspace)
}

/// The place of a new session, or of an existing one that is to be extended.
pub(super) fn place_in(
    host: &Host,
    workspace: &WorkspacePath,
    session: Uuid,
) -> Result<NewSession, CommandError> {
    let roots = host.environment.cursor_roots()?;
    let places = SessionPlaces::new(&host.state, roots.config(), workspace, session);
    let (chats, bucket) = places.for_copy();
    Ok(NewSession {
        chats,
        bucket,
        id: session.to_string(),
        workspace: workspace.as_utf8().unwrap_or_default().to_owned(),
        now_ms: i64::try_from(now_ms()).unwrap_or(i64::MAX),
    })
}

/// The workspace of a session, if it is known and on this machine.
pub(super) fn known_workspace(catalogue: &Catalogue, head: &Head) -> Option<PathBuf> {
    let mut heads = [head.clone()];
    catalogue.complete(&mut heads);
    let [head] = heads;
    let workspace = head.workspace.filter(|known| known.place == WorkspacePlace::Here)?;
    Some(PathBuf::from(workspace.path))
}

/// Every session with this id, except the one at `except`.
pub(super) fn others_with_id(catalogue: &Catalogue, id: &str, except: &Path) -> Vec<ChatPlace> {
    let heads = catalogue.list().heads;
    heads
        .iter()
        .flat_map(ChatPlace::all_of)
        .filter(|place| place.id == id && place.kind == StoreKind::Cli && place.directory != except)
        .collect()
}
