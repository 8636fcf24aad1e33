//! Makes a worktree for a run, and removes it again if the run does not begin.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ground::{make_private_dir, now_ms};
use run_journal::RunDirectory;
use run_protocol::{BytesPath, ExitCode, RunId, RunName, WorktreeOrigin};
use workspace_history::{
    Git, GitAnswer, GitError, History, Repository, RepositoryError, Scope, SnapshotName, run_git,
};

use super::{GENEROUS, Record, include, write_record};
use crate::command_error::{CommandError, OrFail};
use crate::host::host_git;
use crate::host::{Host, short_id};
use crate::sandbox::workspace;
use crate::words::talk::note;
use crate::words::units::counted;

/// The checkout of a large repository takes a long time.
const CHECKOUT: Duration = Duration::from_secs(1800);
const QUESTION: Duration = Duration::from_secs(30);

/// The name of a new worktree's run, and the files that the configuration wants in it.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'w> {
    pub name: Option<&'w RunName>,
    pub include: &'w [String],
}

/// A worktree that no run has used yet. Dropping it removes the worktree.
pub struct Fresh<'a> {
    host: &'a Host,
    run: RunId,
    n_included: u64,
    git: Git,
    path: PathBuf,
    origin: WorktreeOrigin,
    is_kept: bool,
}

impl<'a> Fresh<'a> {
    /// Makes a worktree of the directory's repository, from its last commit, on a new branch.
    pub fn make(
        host: &'a Host,
        named: Option<&Path>,
        wanted: Wanted<'_>,
    ) -> Result<Self, CommandError> {
        let fresh = Self::make_quietly(host, named, wanted)?;
        let repository = &fresh.origin.repository.0;
        if *repository != workspace::check(host, named)?.as_path() {
            note(&format!("the worktree contains all of `{}`", repository.display()));
        }
        if fresh.n_included > 0 {
            let files = counted(fresh.n_included, "file", "files");
            note(&format!("the worktree has {files} that git does not track"));
        }
        Ok(fresh)
    }

    /// Checks that a worktree could be made, without making it.
    pub fn check(host: &Host, named: Option<&Path>) -> Result<(), CommandError> {
        let checkout = workspace::check(host, named)?;
        let git = host_git::find(host, Some(checkout.as_path()))?;
        let repository = repository_of(checkout.as_path())?;
        base_of(&git, &repository.root).map(drop)
    }

    /// Like `make`, but prints no note.
    pub fn make_quietly(
        host: &'a Host,
        named: Option<&Path>,
        wanted: Wanted<'_>,
    ) -> Result<Self, CommandError> {
        let checkout = workspace::check(host, named)?;
        let git = host_git::find(host, Some(checkout.as_path()))?;
        let repository = repository_of(checkout.as_path())?;
        Self::make_in(host, git, repository, wanted)
    }

    /// Like `make_quietly`, but the directory must be the root of its repository: an agent that sees only a part must
    /// not get the whole.
    pub(crate) fn make_of_whole(
        host: &'a Host,
        checkout: &Path,
        wanted: Wanted<'_>,
    ) -> Result<Self, CommandError> {
        let git = host_git::find(host, Some(checkout))?;
        let repository = repository_of(checkout)?;
        if repository.root != checkout {
            let what = "the workspace is only a part of its git repository, and a worktree would contain all of it";
            return Err(CommandError::new(ExitCode::Usage, what));
        }
        Self::make_in(host, git, repository, wanted)
    }

    fn make_in(
        host: &'a Host,
        git: Git,
        repository: Repository,
        wanted: Wanted<'_>,
    ) -> Result<Self, CommandError> {
        let base = base_of(&git, &repository.root)?;
        let run = RunId::generate();
        let name = match wanted.name {
            Some(name) => format!("{}-{}", name.as_str(), short_id(run)),
            None => short_id(run),
        };
        let home = host.state.worktrees();
        let made = make_private_dir(&home).and_then(|()| fs::canonicalize(&home));
        let home = made.or_fail_as(ExitCode::SupervisorFailed, || {
            format!("`{}` cannot be created", home.display())
        })?;
        let branch = format!("caretaker/{name}");
        let path = home.join(&name);
        let root = BytesPath::from(repository.root.as_path());
        let origin = WorktreeOrigin { repository: root, branch, base };
        // Before git creates anything, so that dropping this removes an incomplete worktree.
        let (n_included, is_kept) = (0, false);
        let mut fresh = Self { host, run, n_included, git, path, origin, is_kept };
        fresh.check_out(&repository)?;
        fresh.n_included =
            include::copy(&fresh.git, &repository.root, &fresh.path, wanted.include)?;
        fresh.write_down()?;
        Ok(fresh)
    }

    /// The id of the run that the worktree is for. The names of the worktree and its branch contain it.
    pub fn run(&self) -> RunId {
        self.run
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the worktree if a run uses it. Even if the launch failed, a run may exist.
    pub fn settle(mut self, is_launched: bool) {
        self.is_kept = is_launched || self.is_used();
    }

    fn is_used(&self) -> bool {
        let runs = fs::read_dir(self.host.state.runs()).into_iter().flatten().flatten();
        runs.filter_map(|entry| entry.file_name().to_str()?.parse::<RunId>().ok())
            .filter_map(|run| RunDirectory::open(&self.host.state, run).ok()?.spec().ok())
            .any(|spec| Path::new(&spec.workspace) == self.path)
    }

    fn check_out(&self, repository: &Repository) -> Result<(), CommandError> {
        let what = || format!("no worktree of `{}` could be created", repository.root.display());
        let failed = |error: GitError| host_git::refused(what(), error);
        // In steps, because an agent may be working in the repository. Git writes only where no sandboxed agent can: to
        // the worktrees directory and to the worktree itself. Caretaker writes the branch itself, because git would
        // follow links to it.
        let add = ["worktree", "add", "--quiet", "--detach", "--no-checkout"].map(OsStr::new);
        let words = add.into_iter().chain([self.path.as_os_str(), self.origin.base.as_ref()]);
        let added = self.git.run_in(&repository.root, words, None, QUESTION);
        added.and_then(GitAnswer::checked).map_err(failed)?;
        let branch = format!("refs/heads/{}", self.origin.branch);
        let own = Repository::at(&self.path).map_err(|error| failed(error.into()))?;
        let not_written = |error: Box<dyn std::error::Error + Send + Sync>| {
            CommandError::new(ExitCode::Failed, what()).because(error)
        };
        let own = own.ok_or_else(|| not_written("git created no repository there".into()))?;
        repository
            .create_ref(&self.git, &branch, &self.origin.base)
            .and_then(|()| own.set_ref(&self.git, &"HEAD".into(), Some(&format!("ref: {branch}"))))
            .map_err(|error| not_written(error.into()))?;
        let mut command = self.git.command_as_user(&self.path).map_err(failed)?;
        command.args(["read-tree", "--reset", "-u", &self.origin.base]);
        run_git(&mut command, None, CHECKOUT).and_then(GitAnswer::checked).map_err(failed)?;
        Ok(())
    }

    /// Writes the record, and saves the first state.
    fn write_down(&self) -> Result<(), CommandError> {
        let record =
            Record { v: 1, origin: self.origin.clone(), created_ms: now_ms(), discarded_ms: None };
        write_record(self.host, &self.path, &record).or_fail_as(
            ExitCode::SupervisorFailed,
            || "the worktree's record could not be written",
        )?;
        let saved = self.history().save(&SnapshotName::base(), Scope::AsGitWould, &[], GENEROUS);
        saved.map(drop).or_fail(|| "the new worktree could not be saved")
    }

    fn history(&self) -> History {
        History::of(&self.host.state.checkpoints(), &self.path, self.git.clone())
    }
}

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        self.history().remove().ok();
        remove(&self.git, &self.path, &self.origin, Branch::Delete).ok();
        if let Some(record) = super::record_path(self.host, &self.path) {
            fs::remove_file(record).ok();
        }
    }
}

/// What to do with a worktree's branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Branch {
    Keep,
    Delete,
}

/// Removes a worktree and the repository's records of it.
pub fn remove(
    git: &Git,
    path: &Path,
    origin: &WorktreeOrigin,
    branch: Branch,
) -> Result<(), CommandError> {
    let failed = |what: &str, error: Box<dyn std::error::Error + Send + Sync>| {
        CommandError::new(ExitCode::Failed, what).because(error)
    };
    // Do not let git do this: it would read the repository's files about the worktree, which the agent could have
    // written.
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(failed("the worktree could not be removed", error.into()));
        }
        _ => {}
    }
    let repository = &origin.repository.0;
    if !repository.is_dir() {
        return Ok(());
    }
    let found = Repository::at(repository).map_err(|error| {
        host_git::refused(
            "the repository's record of the worktree could not be removed",
            error.into(),
        )
    })?;
    let Some(found) = found else { return Ok(()) };
    found.forget_worktree(path).map_err(|error| {
        failed("the repository's record of the worktree could not be removed", error.into())
    })?;
    if branch == Branch::Delete {
        let what = "the worktree's branch could not be removed";
        let words = ["update-ref", "-d", &format!("refs/heads/{}", origin.branch)];
        git.run_in(repository, words, None, QUESTION)
            .and_then(GitAnswer::checked)
            .map_err(|error| host_git::refused(what, error))?;
    }
    Ok(())
}

/// The repository that contains a directory. Checks that git may safely run in it.
fn repository_of(directory: &Path) -> Result<Repository, CommandError> {
    let what = || format!("no worktree of `{}` could be created", directory.display());
    let refused = |error: RepositoryError| host_git::refused(what(), error.into());
    let found = Repository::around(directory).map_err(refused)?.ok_or_else(|| {
        let what =
            format!("`{}` is not in a git repository, so it has no worktrees", directory.display());
        CommandError::new(ExitCode::Usage, what).hint(
            "run without --worktree, or create a repository with `git init` and a first commit",
        )
    })?;
    found.check_is_own().and_then(|()| found.check()).map_err(refused)?;
    Ok(found)
}

fn base_of(git: &Git, repository: &Path) -> Result<String, CommandError> {
    let head = git.head(repository).ok_or_else(|| {
        let what = format!("the repository `{}` has no commit yet", repository.display());
        CommandError::new(ExitCode::Usage, what).hint("commit something first")
    })?;
    Ok(head.commit)
}
