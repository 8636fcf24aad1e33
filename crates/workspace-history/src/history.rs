//! What is kept of one workspace, below our state directory.
//!
//! ```text
//!   checkpoints/<name of the workspace>/
//!     workspace            its path
//!     store.git/           contents: one commit without parents per snapshot, refs/caretaker/<run>/<moment>
//!     <run>.before.jsonl   a snapshot: names, modes, links, rules; which contents
//!     <run>.after.jsonl    as the run left it
//!     <run>.marked-1.jsonl     as it was when the agent asked for it
//!     <run>.replaced-1.jsonl   what an undo replaced
//!     <run>.restored-1.jsonl   what it made of it; contents are those of the others, and of merged files
//!     <run>.refs.json      what its repositories were, before and after: all refs
//!     latest               the name of the snapshot that was taken last, by which unchanged files are known
//!     operations.jsonl     what was put back when
//!     restoring.json       while something is put back
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ground::{Durable, replace_file};
use run_protocol::RunId;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::contents::ContentReader;
use crate::git::{Git, GitError, run_git};
use crate::import::{Content, Import};
use crate::repository::RefsKept;
use crate::snapshot::{EntryKind, Snapshot};
use crate::tree_path::TreePath;

/// Our own repository's whole configuration.
const STORE_CONFIG: &str = "\
[core]
\trepositoryformatversion = 0
\tbare = true
\tcompression = 1
\tlogAllRefUpdates = false
\thooksPath = /dev/null
\tprotectHFS = false
\tprotectNTFS = false
[fastimport]
\tunpackLimit = 0
[pack]
\tthreads = 1
[gc]
\tauto = 0
[maintenance]
\tauto = false
";
/// More than tidying up takes.
const TIDYING: Duration = Duration::from_secs(600);
/// Marks a history in which something was forgotten whose room was not given back yet.
const UNTIDY: &str = "untidy";
/// The end of the name of what is kept of repositories.
const REFS: &str = ".refs.json";
/// What is kept of a workspace that is gone, after its last snapshot.
const KEPT_WITHOUT_WORKSPACE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Which snapshot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SnapshotName(String);

impl SnapshotName {
    /// As a run found it.
    pub fn before(run: RunId) -> Self {
        Self(format!("{run}.before"))
    }

    /// As a run left it.
    pub fn after(run: RunId) -> Self {
        Self(format!("{run}.after"))
    }

    /// As it was when the agent of a run asked for it to be saved; counted from one.
    pub fn marked(run: RunId, number: u32) -> Self {
        Self(format!("{run}.marked-{number}"))
    }

    /// As it was only looked at.
    pub fn seen(run: RunId) -> Self {
        Self(format!("{run}.seen"))
    }

    /// As a restore found it.
    pub fn replaced(run: RunId, number: usize) -> Self {
        Self(format!("{run}.replaced-{number}"))
    }

    /// As a restore left it; `self` is what it replaced.
    pub fn restored(&self) -> Self {
        Self(self.0.replacen(".replaced-", ".restored-", 1))
    }

    /// As a worktree was made. Kept for as long as the worktree is.
    pub fn base() -> Self {
        Self("base".to_owned())
    }

    /// What of a worktree the user's checkout got last.
    pub fn applied() -> Self {
        Self("applied".to_owned())
    }

    /// What was read before the time was up; only for what is known by it.
    pub(crate) fn unfinished() -> Self {
        Self("unfinished".to_owned())
    }

    pub(crate) fn reference(&self) -> String {
        format!("refs/caretaker/{}", self.0.replacen('.', "/", 1))
    }

    fn run(&self) -> Option<&str> {
        self.0.split_once('.').map(|(run, _)| run)
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Something that was put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Milliseconds since 1970.
    pub at: u64,
    pub run: RunId,
    pub kind: OperationKind,
    /// What the workspace was before.
    pub replaced: SnapshotName,
    /// What it became.
    pub restored: SnapshotName,
    /// Of an undo: before the run, or the checkpoint. `None` in old files, where `restored` is that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<SnapshotName>,
}

impl Operation {
    pub fn goal(&self) -> &SnapshotName {
        self.goal.as_ref().unwrap_or(&self.restored)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    Undo,
    Redo,
    /// Changes of a worktree came into a checkout.
    Apply,
    /// And went again.
    Revert,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    #[error("`{}` cannot be used", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Git(#[from] GitError),
}

/// The history of one workspace.
#[derive(Debug, Clone)]
pub struct History {
    pub(crate) directory: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) git: Git,
}

impl History {
    /// `checkpoints` is the directory of all histories. Nothing is made yet.
    pub fn of(checkpoints: &Path, workspace: &Path, git: Git) -> Self {
        let digest = Sha256::digest(workspace.as_os_str().as_bytes());
        let mut name = hex::encode(digest);
        name.truncate(32);
        Self { directory: checkpoints.join(name), workspace: workspace.to_owned(), git }
    }

    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Our repository.
    pub fn store(&self) -> PathBuf {
        self.directory.join("store.git")
    }

    pub fn git(&self) -> &Git {
        &self.git
    }

    fn file_of(&self, name: &SnapshotName) -> PathBuf {
        self.directory.join(format!("{name}.jsonl"))
    }

    /// A snapshot; `None` where there is none of that name.
    pub fn snapshot(&self, name: &SnapshotName) -> Result<Option<Snapshot>, HistoryError> {
        let path = self.file_of(name);
        match Snapshot::read(&path) {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(HistoryError::Io { path, source }),
        }
    }

    pub fn has(&self, name: &SnapshotName) -> bool {
        self.file_of(name).is_file()
    }

    /// Contents of this history.
    pub fn contents(&self) -> Result<ContentReader, HistoryError> {
        Ok(ContentReader::start(&self.git, &self.store())?)
    }

    /// Contents of this history and of another.
    pub(crate) fn contents_and(&self, other: &Self) -> Result<ContentReader, HistoryError> {
        Ok(ContentReader::start_with(&self.git, &self.store(), &other.store())?)
    }

    /// Gives a snapshot whose contents are kept already another name.
    pub fn also_known_as(
        &self,
        name: &SnapshotName,
        snapshot: &Snapshot,
    ) -> Result<(), HistoryError> {
        let _lock = self.open_for_writing()?;
        let path = self.file_of(name);
        self.keep(name, snapshot).map_err(|source| HistoryError::Io { path, source })
    }

    /// Gives the snapshot that was taken last another name.
    pub fn rename_latest(
        &self,
        from: &SnapshotName,
        to: &SnapshotName,
    ) -> Result<(), HistoryError> {
        let _lock = self.open_for_writing()?;
        let path = self.file_of(to);
        let renamed = || {
            let references = [from, to].map(|name| self.store().join(name.reference()));
            match fs::rename(&references[0], &references[1]) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => fs::rename(self.file_of(from), &path)?,
            }
            write_whole(&self.directory.join("latest"), to.0.as_bytes())
        };
        renamed().map_err(|source| HistoryError::Io { path: path.clone(), source })
    }

    /// Writes down what a workspace is about to become. Most of its contents are kept with other snapshots of the run;
    /// those of merged files are kept with this one.
    pub fn keep_result(
        &self,
        name: &SnapshotName,
        result: &Snapshot,
        merged: &[TreePath],
    ) -> Result<(), HistoryError> {
        let _lock = self.open_for_writing()?;
        if !merged.is_empty() {
            let files = merged.iter().filter_map(|path| match &result.entries.get(path)?.kind {
                EntryKind::File { id, .. } => Some((path, "100644", Content::Known(id))),
                _ => None,
            });
            let message = format!("{name} of {}\n", self.workspace.display());
            let mut import = Import::start(&self.git, &self.store())?;
            let committed = import.commit(&name.reference(), &message, 0, files);
            import.finish()?;
            let path = self.store();
            committed.map_err(|source| HistoryError::Io { path, source })?;
        }
        let path = self.file_of(name);
        result.write(&path).map_err(|source| HistoryError::Io { path, source })
    }

    /// A comparison of what two snapshots hold, as git makes it; `None` where one of them holds no contents.
    pub fn diff_command(
        &self,
        from: &Snapshot,
        to: &Snapshot,
        options: &[&str],
    ) -> Option<std::process::Command> {
        let mut command = self.git.command_for_store(&self.store());
        command
            .args(["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames"])
            .args(options)
            .args([from.commit.as_deref()?, to.commit.as_deref()?, "--"]);
        Some(command)
    }

    /// Makes the directory and our repository where they are missing, and keeps everybody else out while this is held.
    pub(crate) fn open_for_writing(&self) -> Result<WriterLock, HistoryError> {
        let failed = |path: &Path, source| HistoryError::Io { path: path.to_owned(), source };
        make_dir(&self.directory).map_err(|source| failed(&self.directory, source))?;
        let path = self.directory.join("lock");
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let lock = lock.map_err(|source| failed(&path, source))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|errno| failed(&path, errno.into()))?;
        let store = self.store();
        make_store(&store).map_err(|source| failed(&store, source))?;
        let path = self.directory.join("workspace");
        if !path.exists() {
            fs::write(&path, self.workspace.as_os_str().as_bytes())
                .map_err(|source| failed(&path, source))?;
        }
        Ok(WriterLock { _lock: lock })
    }

    /// The snapshot that was taken last.
    pub(crate) fn latest(&self) -> Option<Snapshot> {
        let name = fs::read_to_string(self.directory.join("latest")).ok()?;
        self.snapshot(&SnapshotName(name)).ok().flatten()
    }

    /// Writes a snapshot down whose contents are kept already.
    pub(crate) fn keep(&self, name: &SnapshotName, snapshot: &Snapshot) -> io::Result<()> {
        if let Some(commit) = &snapshot.commit {
            let reference = self.store().join(name.reference());
            if let Some(parent) = reference.parent() {
                make_dir(parent)?;
            }
            write_whole(&reference, format!("{commit}\n").as_bytes())?;
        }
        snapshot.write(&self.file_of(name))?;
        write_whole(&self.directory.join("latest"), name.0.as_bytes())
    }

    fn refs_file(&self, run: RunId) -> PathBuf {
        self.directory.join(format!("{run}{REFS}"))
    }

    /// What the repositories of the workspace were around a run; `None` where it is not kept.
    pub fn refs_kept(&self, run: RunId) -> Result<Option<RefsKept>, HistoryError> {
        let path = self.refs_file(run);
        RefsKept::read(&path).map_err(|source| HistoryError::Io { path, source })
    }

    pub(crate) fn keep_refs(&self, run: RunId, kept: &RefsKept) -> Result<(), HistoryError> {
        let _lock = self.open_for_writing()?;
        let path = self.refs_file(run);
        let written = serde_json::to_vec(kept).map_err(io::Error::from);
        let written = written.and_then(|text| write_whole(&path, &text));
        written.map_err(|source| HistoryError::Io { path, source })
    }

    /// The next free name for what a restore replaces.
    pub fn next_replaced(&self, run: RunId) -> SnapshotName {
        (1..)
            .map(|number| SnapshotName::replaced(run, number))
            .find(|name| !self.has(name))
            .unwrap_or_else(|| SnapshotName::replaced(run, 0))
    }

    /// What was put back so far, the latest last.
    pub fn operations(&self) -> Vec<Operation> {
        let text = fs::read_to_string(self.directory.join("operations.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// What was being put back when somebody died over it.
    pub fn interrupted(&self) -> Option<Operation> {
        let text = fs::read(self.directory.join("restoring.json")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub fn begin(&self, operation: &Operation) -> Result<(), HistoryError> {
        let path = self.directory.join("restoring.json");
        let written = serde_json::to_vec(operation)
            .map_err(io::Error::from)
            .and_then(|text| write_whole(&path, &text));
        written.map_err(|source| HistoryError::Io { path, source })
    }

    pub fn end(&self, operation: &Operation) -> Result<(), HistoryError> {
        let path = self.directory.join("operations.jsonl");
        let written = || {
            let mut line = serde_json::to_vec(operation)?;
            line.push(b'\n');
            let mut options = OpenOptions::new();
            options.create(true).append(true).mode(0o600).open(&path)?.write_all(&line)?;
            fs::remove_file(self.directory.join("restoring.json"))
        };
        written().map_err(|source| HistoryError::Io { path: path.clone(), source })
    }

    /// Forgets an operation that began and then had nothing to change. Recorded, it would stand between the operation
    /// before it and a redo.
    pub fn forget_begun(&self) -> Result<(), HistoryError> {
        let path = self.directory.join("restoring.json");
        fs::remove_file(&path).map_err(|source| HistoryError::Io { path, source })
    }

    /// Forgets everything.
    pub fn remove(&self) -> Result<(), HistoryError> {
        match fs::remove_dir_all(&self.directory) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(HistoryError::Io { path: self.directory.clone(), source })
            }
            _ => Ok(()),
        }
    }

    /// Forgets the snapshots of all but the latest `keep` runs; the room they take is given back by [`Self::tidy`]. Says
    /// how many runs went.
    pub fn forget_all_but(&self, keep: usize) -> Result<usize, HistoryError> {
        let failed = |source| HistoryError::Io { path: self.directory.clone(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
            names.extend(name.map(|name| SnapshotName(name.to_owned())));
        }
        // Ids of runs sort by time.
        let runs: BTreeSet<&str> = names.iter().filter_map(SnapshotName::run).collect();
        let surplus = runs.len().saturating_sub(keep);
        if surplus == 0 {
            return Ok(0);
        }
        let old: BTreeSet<&str> = runs.into_iter().take(surplus).collect();
        let _lock = self.open_for_writing()?;
        fs::write(self.directory.join(UNTIDY), "").map_err(failed)?;
        for name in names.iter().filter(|name| name.run().is_some_and(|run| old.contains(run))) {
            fs::remove_file(self.store().join(name.reference())).ok();
            fs::remove_file(self.file_of(name)).ok();
        }
        for run in old {
            fs::remove_file(self.directory.join(format!("{run}{REFS}"))).ok();
        }
        Ok(surplus)
    }

    /// Gives the room back that forgotten snapshots take. Takes its time where there is much.
    pub fn tidy(&self) -> Result<(), HistoryError> {
        let untidy = self.directory.join(UNTIDY);
        if !untidy.exists() {
            return Ok(());
        }
        let _lock = self.open_for_writing()?;
        let store = self.store();
        for arguments in [&["repack", "-a", "-d", "-q"][..], &["prune", "--expire=now"]] {
            let mut command = self.git.command_for_store(&store);
            command.args(arguments);
            run_git(&mut command, None, TIDYING)?.checked()?;
        }
        fs::remove_file(&untidy).map_err(|source| HistoryError::Io { path: untidy, source })
    }
}

/// Removes the histories of workspaces that are gone for long.
pub fn forget_the_gone(checkpoints: &Path) {
    for entry in fs::read_dir(checkpoints).into_iter().flatten().flatten() {
        let directory = entry.path();
        let Ok(path) = fs::read(directory.join("workspace")) else { continue };
        let workspace = Path::new(std::ffi::OsStr::from_bytes(&path));
        let latest = fs::metadata(directory.join("latest")).and_then(|found| found.modified());
        let is_old = latest.is_ok_and(|latest| {
            latest.elapsed().is_ok_and(|elapsed| elapsed > KEPT_WITHOUT_WORKSPACE)
        });
        if is_old && workspace.symlink_metadata().is_err() {
            fs::remove_dir_all(&directory).ok();
        }
    }
}

/// Held while a history is written to.
#[derive(Debug)]
pub(crate) struct WriterLock {
    _lock: File,
}

fn make_store(store: &Path) -> io::Result<()> {
    if store.join("HEAD").is_file() {
        return Ok(());
    }
    for directory in ["objects/pack", "objects/info", "refs/heads"] {
        make_dir(&store.join(directory))?;
    }
    fs::write(store.join("config"), STORE_CONFIG)?;
    // Last, because by it git and we know a repository.
    write_whole(&store.join("HEAD"), b"ref: refs/heads/none\n")
}

fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_file(path, bytes, Durable::No)
}
