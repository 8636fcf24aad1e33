//! The history of one workspace, below our state directory.
//!
//! ```text
//!   checkpoints/<hash of the workspace's path>/
//!     workspace            the workspace's path
//!     store.git/           contents: one commit without parents per snapshot, refs/caretaker/<run>/<moment>
//!     <run>.before.jsonl   a snapshot: names, modes, links, ignore rules, ids of contents
//!     <run>.after.jsonl    the workspace as the run left it
//!     <run>.marked-1.jsonl     the workspace when the agent asked for a checkpoint
//!     <run>.replaced-1.jsonl   the workspace before an undo
//!     <run>.restored-1.jsonl   the workspace after it; its contents are in the other snapshots, except for merged files
//!     <run>.refs.json      the refs of all repositories in the workspace, before and after the run
//!     latest               the name of the newest snapshot, which tells which files are unchanged
//!     operations.jsonl     every undo, redo, apply and revert
//!     restoring.json       exists while a restore is under way
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

use crate::git::contents::ContentReader;
use crate::git::import::{Content, Import};
use crate::git::{Git, GitError, run_git};
use crate::repository::RefsKept;
use crate::snapshot::{EntryKind, Snapshot};
use crate::tree_path::TreePath;

/// The whole configuration of our own repository.
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
/// The time limit for freeing space.
const TIDYING: Duration = Duration::from_secs(600);
/// Exists while forgotten snapshots still take up space.
const UNTIDY: &str = "untidy";
/// The suffix of the file with refs.
const REFS: &str = ".refs.json";
/// How long to keep the history of a deleted workspace after its last snapshot.
const KEPT_WITHOUT_WORKSPACE: Duration = Duration::from_secs(30 * 24 * 3600);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SnapshotName(String);

impl SnapshotName {
    /// The workspace as the run found it.
    pub fn before(run: RunId) -> Self {
        Self(format!("{run}.before"))
    }

    /// The workspace as the run left it.
    pub fn after(run: RunId) -> Self {
        Self(format!("{run}.after"))
    }

    /// The workspace when the run's agent asked for checkpoint `number`, counted from one.
    pub fn marked(run: RunId, number: u32) -> Self {
        Self(format!("{run}.marked-{number}"))
    }

    /// The workspace without contents.
    pub fn seen(run: RunId) -> Self {
        Self(format!("{run}.seen"))
    }

    /// The workspace before a restore.
    pub fn replaced(run: RunId, number: usize) -> Self {
        Self(format!("{run}.replaced-{number}"))
    }

    /// The workspace after the restore that replaced `self`.
    pub fn restored(&self) -> Self {
        Self(self.0.replacen(".replaced-", ".restored-", 1))
    }

    /// A worktree as it was created. Caretaker keeps this snapshot as long as the worktree exists.
    pub fn base() -> Self {
        Self("base".to_owned())
    }

    /// The part of a worktree that the user's checkout received last.
    pub fn applied() -> Self {
        Self("applied".to_owned())
    }

    /// The files read before the time was up. The next attempt does not have to read them again.
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

/// A change that a command made to the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    pub at: u64,
    pub run: RunId,
    pub kind: OperationKind,
    /// The workspace before.
    pub replaced: SnapshotName,
    /// The workspace after.
    pub restored: SnapshotName,
    /// For an undo: the snapshot before the run, or the checkpoint. `None` in old files, where `restored` has this
    /// meaning.
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
    /// Brought the changes of a worktree into a checkout.
    Apply,
    /// Reverted an apply.
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

/// Adds the path to an I/O error.
trait AtPath<T> {
    fn at(self, path: &Path) -> Result<T, HistoryError>;
}

impl<T> AtPath<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, HistoryError> {
        self.map_err(|source| HistoryError::Io { path: path.to_owned(), source })
    }
}

#[derive(Debug, Clone)]
pub struct History {
    pub(crate) directory: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) git: Git,
}

impl History {
    /// `checkpoints` is the directory of all histories. Creates nothing.
    pub fn of(checkpoints: &Path, workspace: &Path, git: Git) -> Self {
        let digest = Sha256::digest(workspace.as_os_str().as_bytes());
        let mut name = hex::encode(digest);
        name.truncate(32);
        Self { directory: checkpoints.join(name), workspace: workspace.to_owned(), git }
    }

    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Our git repository for this workspace.
    pub fn store(&self) -> PathBuf {
        self.directory.join("store.git")
    }

    pub fn git(&self) -> &Git {
        &self.git
    }

    fn file_of(&self, name: &SnapshotName) -> PathBuf {
        self.directory.join(format!("{name}.jsonl"))
    }

    /// Returns the snapshot with this name, if it exists.
    pub fn snapshot(&self, name: &SnapshotName) -> Result<Option<Snapshot>, HistoryError> {
        let path = self.file_of(name);
        match Snapshot::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some).at(&path),
        }
    }

    pub fn has(&self, name: &SnapshotName) -> bool {
        self.file_of(name).is_file()
    }

    /// Returns a reader of this history's contents.
    pub fn contents(&self) -> Result<ContentReader, HistoryError> {
        Ok(ContentReader::start(&self.git, &self.store())?)
    }

    /// Returns a reader of the contents of this history and another one.
    pub(crate) fn contents_and(&self, other: &Self) -> Result<ContentReader, HistoryError> {
        Ok(ContentReader::start_with(&self.git, &self.store(), &other.store())?)
    }

    /// Gives another name to a snapshot whose contents are already in the store.
    pub fn also_known_as(
        &self,
        name: &SnapshotName,
        snapshot: &Snapshot,
    ) -> Result<(), HistoryError> {
        let _lock = self.open_for_writing()?;
        let path = self.file_of(name);
        self.keep(name, snapshot).at(&path)
    }

    /// Renames the newest snapshot.
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
        renamed().at(&path)
    }

    /// Records the state that the workspace is about to get. Other snapshots of the run already have most contents;
    /// this keeps those of merged files.
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
            committed.at(&self.store())?;
        }
        let path = self.file_of(name);
        result.write(&path).at(&path)
    }

    /// Returns the git command that compares the contents of two snapshots, or `None` if one of them has no contents.
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

    /// Creates the directory and our repository if they are missing, and locks the history for writing.
    pub(crate) fn open_for_writing(&self) -> Result<WriterLock, HistoryError> {
        make_dir(&self.directory).at(&self.directory)?;
        let path = self.directory.join("lock");
        let mut options = OpenOptions::new();
        let lock = options.create(true).append(true).mode(0o600).open(&path).at(&path)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(io::Error::from).at(&path)?;
        let store = self.store();
        make_store(&store).at(&store)?;
        let path = self.directory.join("workspace");
        if !path.exists() {
            fs::write(&path, self.workspace.as_os_str().as_bytes()).at(&path)?;
        }
        Ok(WriterLock { _lock: lock })
    }

    /// Returns the newest snapshot.
    pub(crate) fn latest(&self) -> Option<Snapshot> {
        let name = fs::read_to_string(self.directory.join("latest")).ok()?;
        self.snapshot(&SnapshotName(name)).ok().flatten()
    }

    /// Writes a snapshot whose contents are already in the store.
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

    /// Returns the refs of the workspace's repositories before and after a run, or `None` if they were not recorded.
    pub fn refs_kept(&self, run: RunId) -> Result<Option<RefsKept>, HistoryError> {
        let path = self.refs_file(run);
        RefsKept::read(&path).at(&path)
    }

    pub(crate) fn keep_refs(&self, run: RunId, kept: &RefsKept) -> Result<(), HistoryError> {
        let _lock = self.open_for_writing()?;
        let path = self.refs_file(run);
        let written = serde_json::to_vec(kept).map_err(io::Error::from);
        let written = written.and_then(|text| write_whole(&path, &text));
        written.at(&path)
    }

    /// Returns the next free name for the state that a restore replaces.
    pub fn next_replaced(&self, run: RunId) -> SnapshotName {
        (1..)
            .map(|number| SnapshotName::replaced(run, number))
            .find(|name| !self.has(name))
            .unwrap_or_else(|| SnapshotName::replaced(run, 0))
    }

    /// Returns all operations so far, newest last.
    pub fn operations(&self) -> Vec<Operation> {
        let text = fs::read_to_string(self.directory.join("operations.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Returns the operation that was under way when its process died.
    pub fn interrupted(&self) -> Option<Operation> {
        let text = fs::read(self.directory.join("restoring.json")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub fn begin(&self, operation: &Operation) -> Result<(), HistoryError> {
        let path = self.directory.join("restoring.json");
        let written = serde_json::to_vec(operation)
            .map_err(io::Error::from)
            .and_then(|text| write_whole(&path, &text));
        written.at(&path)
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
        written().at(&path)
    }

    /// Forgets an operation that changed nothing. If it stayed in the list, the next redo would reverse it instead of
    /// the operation before it.
    pub fn forget_begun(&self) -> Result<(), HistoryError> {
        let path = self.directory.join("restoring.json");
        fs::remove_file(&path).at(&path)
    }

    /// Deletes the whole history.
    pub fn remove(&self) -> Result<(), HistoryError> {
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.at(&self.directory),
        }
    }

    /// Forgets the snapshots of all but the newest `keep` runs, and returns how many runs it forgot. [`Self::tidy`]
    /// frees their space.
    pub fn forget_all_but(&self, keep: usize) -> Result<usize, HistoryError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory).at(&self.directory)? {
            let name = entry.at(&self.directory)?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
            names.extend(name.map(|name| SnapshotName(name.to_owned())));
        }
        // Run ids sort by time.
        let runs: BTreeSet<&str> = names.iter().filter_map(SnapshotName::run).collect();
        let surplus = runs.len().saturating_sub(keep);
        if surplus == 0 {
            return Ok(0);
        }
        let old: BTreeSet<&str> = runs.into_iter().take(surplus).collect();
        let _lock = self.open_for_writing()?;
        fs::write(self.directory.join(UNTIDY), "").at(&self.directory)?;
        for name in names.iter().filter(|name| name.run().is_some_and(|run| old.contains(run))) {
            fs::remove_file(self.store().join(name.reference())).ok();
            fs::remove_file(self.file_of(name)).ok();
        }
        for run in old {
            fs::remove_file(self.directory.join(format!("{run}{REFS}"))).ok();
        }
        Ok(surplus)
    }

    /// Frees the space of forgotten snapshots. This can take a long time.
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
        fs::remove_file(&untidy).at(&untidy)
    }
}

/// Deletes the histories of workspaces that no longer exist and were last saved long ago.
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

/// Locks a history for writing.
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
    // HEAD comes last, because it makes the directory a repository for git and for Caretaker.
    write_whole(&store.join("HEAD"), b"ref: refs/heads/none\n")
}

fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_file(path, bytes, Durable::No)
}
