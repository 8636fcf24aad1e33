//! The workspace's repository: commits work, and what git on the host would obey stays as it is.

use std::path::{Path, PathBuf};

use super::Planner;
use super::workspace::{open, parts};
use crate::git_config;
use crate::git_layout::GitLayout;
use crate::host_path::{self, Directory, FileKind};
use crate::mount_points::PointKind;
use crate::nested_repositories::{self, NestedKind, ORDINARY};
use crate::origin::{Origin, Sourced};
use crate::plan::{PlanError, PlanWarning};
use crate::profile::{Access, ProtectedKind};
use crate::request::OWN_COMMON_DIR;
use crate::workspace::{SMALL_FILE, Workspace, WorkspaceError, look_below};

/// Where a repository says that most of it is elsewhere, its configuration and hooks included.
const COMMON_DIR: &str = "commondir";
/// What of a repository the commits of its linked worktrees go to.
const OF_COMMITS: [&str; 5] = ["objects", "refs", "logs", "reftable", "lfs"];
/// Submodules in which commits work; each takes several mounts.
const MOST_MODULES: usize = 16;
/// Git's configuration may list hundreds of branches.
const MOST_CONFIG: u64 = 1 << 20;

/// A git directory that is to be protected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repository<'a> {
    pub(super) git_dir: &'a Path,
    pub(super) work_tree: &'a Path,
}

impl Planner<'_> {
    pub(super) fn git(&mut self, workspace: &Workspace) -> Result<(), PlanError> {
        let (root, directory) = (workspace.path(), workspace.directory());
        let dot_git = Path::new(".git");
        let access = &self.git_access();
        match workspace.git() {
            // A repository that the agent makes would have hooks and a configuration of its making.
            GitLayout::None => {
                let (kind, access) = (ProtectedKind::Directory, &self.rules.workspace);
                self.block(root, directory, dot_git, kind, access)
            }
            GitLayout::Directory => {
                self.pin(root, directory, dot_git, access)?;
                let git_dir = &root.join(dot_git);
                self.protect_git(workspace, Repository { git_dir, work_tree: root })
            }
            GitLayout::InWorkspace { git_dir } => {
                self.keep(root, directory, dot_git, &access.origin)?;
                let relative = git_dir.strip_prefix(root).unwrap_or(git_dir);
                for part in parts(relative) {
                    self.pin(root, directory, &part, access)?;
                }
                self.protect_git(workspace, Repository { git_dir, work_tree: root })
            }
            GitLayout::Worktree { git_dir, common_dir } => {
                self.keep(root, directory, dot_git, &access.origin)?;
                self.worktree(workspace, git_dir, common_dir)
            }
            GitLayout::Hidden { reason } => {
                self.keep(root, directory, dot_git, &access.origin)?;
                self.warnings.push(PlanWarning::GitHidden { reason: reason.clone() });
                Ok(())
            }
        }
    }

    /// Of the repository of a linked worktree only what commits go to can be written: the user's own checkout, its index
    /// and its configuration are none of the agent's business.
    fn worktree(
        &mut self,
        workspace: &Workspace,
        git_dir: &Path,
        common_dir: &Path,
    ) -> Result<(), PlanError> {
        let (access, common) = (&self.git_access(), &open(common_dir)?);
        let read_only = Sourced { value: Access::ReadOnly, origin: access.origin.clone() };
        self.pin(common_dir, common, Path::new(""), &read_only)?;
        let relative = git_dir.strip_prefix(common_dir).unwrap_or(git_dir);
        if access.value == Access::ReadWrite {
            for name in OF_COMMITS {
                self.pin(common_dir, common, Path::new(name), access)?;
            }
            self.pin(common_dir, common, relative, access)?;
            if look_below(common_dir, common, Path::new("logs"))?.is_none() {
                let reason = "the repository has no directory `logs`; make one";
                let path = workspace.path().to_owned();
                self.warnings.push(PlanWarning::GitReadOnly { path, reason });
            }
        }
        // They say where the repository and its worktree are; git believes them.
        for name in ["gitdir", COMMON_DIR] {
            self.keep(common_dir, common, &relative.join(name), &access.origin)?;
        }
        let config = config_in(common);
        self.protect_names(git_dir, &open(git_dir)?, &config)?;
        self.modules(workspace, git_dir)?;
        self.keep_named(workspace, &config, common_dir, workspace.path())?;
        let own = config_named(&open(git_dir)?, Path::new("config.worktree"));
        self.keep_named(workspace, &own, git_dir, workspace.path())
    }

    /// Protects a git directory that is whole, unlike that of a linked worktree.
    pub(super) fn protect_git(
        &mut self,
        workspace: &Workspace,
        repository: Repository<'_>,
    ) -> Result<(), PlanError> {
        let Repository { git_dir, work_tree } = repository;
        // A `.git` file may name what is not there.
        if host_path::look(git_dir).is_ok_and(|found| found.is_none()) {
            return Ok(());
        }
        let (directory, access) = (open(git_dir)?, self.git_access());
        let config = config_in(&directory);
        self.protect_names(git_dir, &directory, &config)?;
        // Git makes one where its template has none, and then it would be the agent's.
        let (hooks, kind) = (Path::new("hooks"), PointKind::Directory);
        self.put_nothing(git_dir, &directory, hooks, kind, &access, &Origin::Always)?;
        self.keep_common_dir(git_dir, &directory, &access)?;
        // Where other worktrees have their repository, and which branch: to each of them its own.
        // None are made from inside; and one that somebody makes meanwhile is none of the agent's.
        let (worktrees, kind) = (Path::new("worktrees"), PointKind::Directory);
        self.keep(git_dir, &directory, worktrees, &Origin::Always)?;
        self.put_nothing(git_dir, &directory, worktrees, kind, &access, &Origin::Always)?;
        self.modules(workspace, git_dir)?;
        self.keep_named(workspace, &config, git_dir, work_tree)?;
        let of_worktree = config_named(&directory, Path::new("config.worktree"));
        self.keep_named(workspace, &of_worktree, git_dir, work_tree)
    }

    /// What the profile names. The configuration of a worktree counts only where the configuration says so, and then it
    /// must not appear either.
    fn protect_names(
        &mut self,
        git_dir: &Path,
        directory: &Directory,
        config: &str,
    ) -> Result<(), PlanError> {
        let access = self.git_access();
        self.protect(git_dir, directory, &self.rules.git_protect, &access)?;
        if config.to_lowercase().contains("worktreeconfig") {
            let (name, kind) = (Path::new("config.worktree"), PointKind::File);
            self.put_nothing(git_dir, directory, name, kind, &access, &Origin::Always)?;
        }
        Ok(())
    }

    /// Nobody may say that the configuration and the hooks are elsewhere.
    fn keep_common_dir(
        &mut self,
        git_dir: &Path,
        directory: &Directory,
        access: &Sourced<Access>,
    ) -> Result<(), PlanError> {
        let (name, origin) = (Path::new(COMMON_DIR), &Origin::Always);
        let Some(found) = look_below(git_dir, directory, name)? else {
            let kind = PointKind::CommonDir;
            return self.put_nothing(git_dir, directory, name, kind, access, origin);
        };
        // One of ours may be left from a run that was killed.
        let is_harmless = found.kind == FileKind::File
            && directory.read_small(name, SMALL_FILE).is_ok_and(|text| text == OWN_COMMON_DIR);
        if !is_harmless {
            return Err(WorkspaceError::CommonDir(git_dir.join(name)).into());
        }
        self.keep(git_dir, directory, name, origin)
    }

    /// The repositories of submodules: git looks into each when it is asked about the workspace.
    fn modules(&mut self, workspace: &Workspace, git_dir: &Path) -> Result<(), PlanError> {
        let (access, modules) = (self.git_access(), git_dir.join("modules"));
        let directory = open(git_dir)?;
        if look_below(git_dir, &directory, Path::new("modules"))?.is_none() {
            return Ok(());
        }
        self.keep(git_dir, &directory, Path::new("modules"), &Origin::Always)?;
        if access.value == Access::ReadOnly {
            return Ok(());
        }
        let directory = open(&modules)?;
        let found = nested_repositories::search(&directory, &[], ORDINARY).found;
        let bare: Vec<PathBuf> = found
            .into_iter()
            .filter(|nested| nested.kind == NestedKind::Bare)
            .map(|nested| nested.path)
            .collect();
        for relative in bare.iter().take(MOST_MODULES) {
            self.pin(&modules, &directory, relative, &access)?;
            let git_dir = &modules.join(relative);
            let work_tree = &work_tree_of(git_dir, &config_in(&open(git_dir)?));
            self.protect_git(workspace, Repository { git_dir, work_tree })?;
        }
        for relative in bare.iter().skip(MOST_MODULES) {
            let (path, reason) = (modules.join(relative), "there are many submodules");
            self.warnings.push(PlanWarning::GitReadOnly { path, reason });
        }
        Ok(())
    }

    /// What is in the workspace is never more open than the workspace.
    pub(super) fn git_access(&self) -> Sourced<Access> {
        let (git, workspace) = (&self.rules.git, &self.rules.workspace);
        if git.value <= workspace.value { git.clone() } else { workspace.clone() }
    }
}

/// The configuration of a repository; empty where it cannot be read, and then git cannot either.
pub(super) fn config_in(git_dir: &Directory) -> String {
    config_named(git_dir, Path::new("config"))
}

pub(super) fn config_named(directory: &Directory, name: &Path) -> String {
    let bytes = directory.read_small(name, MOST_CONFIG).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Where the files of a repository are that says so.
fn work_tree_of(git_dir: &Path, config: &str) -> PathBuf {
    let settings = git_config::settings(config);
    let said = settings.iter().rev().find(|setting| setting.name == "core.worktree");
    host_path::plain(&git_dir.join(said.map_or(".", |setting| setting.value.as_str())))
}
