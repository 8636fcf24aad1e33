//! The workspace's repository. Commits work, but the agent cannot change files that git on the host obeys.

use std::path::{Path, PathBuf};

use super::Planner;
use crate::host_path::{self, FileKind};
use crate::mount_points::{MountPoint, PointKind};
use crate::origin::{Origin, Sourced};
use crate::plan::{PlanError, PlanWarning};
use crate::profile::{Access, ProtectedKind};
use crate::request::OWN_COMMON_DIR;
use crate::workspace::git_config;
use crate::workspace::git_layout::GitLayout;
use crate::workspace::nested_repositories::{self, NestedKind, ORDINARY};
use crate::workspace::{SMALL_FILE, Tree, Workspace, WorkspaceError};

/// The file that names the directory with the rest of a repository, including its configuration and hooks.
const COMMON_DIR: &str = "commondir";
/// The directories of a repository that a commit in a linked worktree writes.
const OF_COMMITS: [&str; 5] = ["objects", "refs", "logs", "reftable", "lfs"];
/// Commits work in at most this many submodules. Each takes several mounts.
const MOST_MODULES: usize = 16;
/// The longest configuration file. It may list hundreds of branches.
const MOST_CONFIG: u64 = 1 << 20;

/// A git directory to protect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repository<'a> {
    pub(super) git_dir: &'a Path,
    pub(super) work_tree: &'a Path,
}

impl Planner<'_> {
    pub(super) fn git(&mut self, workspace: &Workspace) -> Result<(), PlanError> {
        let (root, tree) = (workspace.path(), workspace.tree());
        let dot_git = Path::new(".git");
        let access = &self.git_access();
        match workspace.git() {
            // If the agent could make a repository here, it would choose the hooks and the configuration.
            GitLayout::None => {
                let (kind, access) = (ProtectedKind::Directory, &self.rules.workspace.access);
                self.block(tree, dot_git, kind, access)
            }
            GitLayout::Directory => {
                self.pin(tree, dot_git, access)?;
                let git_dir = &root.join(dot_git);
                self.protect_git(workspace, Repository { git_dir, work_tree: root })
            }
            GitLayout::InWorkspace { git_dir } => {
                self.keep(tree, dot_git, &access.origin)?;
                self.pin_all(tree, git_dir.strip_prefix(root).unwrap_or(git_dir), access)?;
                self.protect_git(workspace, Repository { git_dir, work_tree: root })
            }
            GitLayout::Worktree { git_dir, common_dir } => {
                self.keep(tree, dot_git, &access.origin)?;
                self.worktree(workspace, git_dir, common_dir)
            }
            GitLayout::Hidden { reason } => {
                self.keep(tree, dot_git, &access.origin)?;
                self.warnings.push(PlanWarning::GitHidden { reason: reason.clone() });
                Ok(())
            }
        }
    }

    /// Makes only those parts of a worktree's repository writable that commits write. The user's own checkout, its
    /// index and its configuration stay read-only.
    fn worktree(
        &mut self,
        workspace: &Workspace,
        git_dir: &Path,
        common_dir: &Path,
    ) -> Result<(), PlanError> {
        let (access, common) = (&self.git_access(), &Tree::open(common_dir)?);
        let read_only = Sourced { value: Access::ReadOnly, origin: access.origin.clone() };
        self.pin(common, Path::new(""), &read_only)?;
        let relative = git_dir.strip_prefix(common_dir).unwrap_or(git_dir);
        if access.value == Access::ReadWrite {
            for name in OF_COMMITS {
                self.pin(common, Path::new(name), access)?;
            }
            self.pin(common, relative, access)?;
            if common.look(Path::new("logs"))?.is_none() {
                let reason = "the repository has no `logs` directory; make one";
                let path = workspace.path().to_owned();
                self.warnings.push(PlanWarning::GitReadOnly { path, reason });
            }
        }
        // Git trusts these files to find the repository and its worktree.
        self.keep(common, &relative.join("gitdir"), &access.origin)?;
        match access.value {
            Access::ReadOnly => self.keep(common, &relative.join(COMMON_DIR), &access.origin)?,
            Access::ReadWrite => self.git_locks(common_dir, git_dir.join(COMMON_DIR)),
        }
        let (config, tree) = (config_in(common), &Tree::open(git_dir)?);
        self.protect_names(tree, &config)?;
        self.modules(workspace, tree)?;
        self.keep_named(workspace, &config, common_dir, workspace.path())?;
        let own = config_named(tree, Path::new("config.worktree"));
        self.keep_named(workspace, &own, git_dir, workspace.path())
    }

    /// Protects a complete git directory. The git directory of a linked worktree is not complete.
    pub(super) fn protect_git(
        &mut self,
        workspace: &Workspace,
        repository: Repository<'_>,
    ) -> Result<(), PlanError> {
        let Repository { git_dir, work_tree } = repository;
        // A `.git` file may name a directory that does not exist.
        if host_path::look(git_dir).is_ok_and(|found| found.is_none()) {
            return Ok(());
        }
        let (tree, access) = (&Tree::open(git_dir)?, self.git_access());
        let (config, always) = (config_in(tree), &Origin::Always);
        self.protect_names(tree, &config)?;
        // If there were no hooks directory, the agent could make one.
        self.put_placeholder(tree, Path::new("hooks"), PointKind::Directory, &access, always)?;
        self.keep_common_dir(tree, &access)?;
        // `worktrees` records each worktree's repository and branch. The agent makes no worktrees, and worktrees that
        // other processes make meanwhile do not belong to the agent.
        let worktrees = Path::new("worktrees");
        self.keep(tree, worktrees, always)?;
        self.put_placeholder(tree, worktrees, PointKind::Directory, &access, always)?;
        self.fill_worktrees(tree, worktrees)?;
        self.modules(workspace, tree)?;
        self.keep_named(workspace, &config, git_dir, work_tree)?;
        let of_worktree = config_named(tree, Path::new("config.worktree"));
        self.keep_named(workspace, &of_worktree, git_dir, work_tree)
    }

    /// Keeps git on the host from removing `worktrees`, and the protection with it: `git gc` and `git worktree prune` remove
    /// it if it is empty. They leave a locked worktree alone.
    fn fill_worktrees(&mut self, tree: &Tree, worktrees: &Path) -> Result<(), PlanError> {
        let (path, ours) = (tree.path().join(worktrees), worktrees.join("caretaker"));
        let is_there = tree.look(worktrees)?.is_some()
            || self.placeholders.iter().any(|placeholder| placeholder.path == path);
        if !is_there || tree.look(&ours)?.is_some() {
            return Ok(());
        }
        let path = tree.path().join(&ours);
        let locked = MountPoint { path: path.join("locked"), kind: PointKind::File };
        let points = [MountPoint { path, kind: PointKind::Directory }, locked];
        let is_new = !self.placeholders.contains(&points[0]);
        self.placeholders.extend(points.into_iter().filter(|_| is_new));
        Ok(())
    }

    /// Protects the names in the profile. Git reads `config.worktree` only if the configuration says so. Then the agent must
    /// not create it either.
    fn protect_names(&mut self, tree: &Tree, config: &str) -> Result<(), PlanError> {
        let access = self.git_access();
        self.protect(tree, &self.rules.workspace.git_protect, &access)?;
        self.git_configs.extend(["config", "config.worktree"].map(|name| tree.path().join(name)));
        if config.to_lowercase().contains("worktreeconfig") {
            let (name, kind) = (Path::new("config.worktree"), PointKind::File);
            self.put_placeholder(tree, name, kind, &access, &Origin::Always)?;
        }
        Ok(())
    }

    /// Keeps the agent from telling git that the configuration and the hooks are elsewhere.
    fn keep_common_dir(&mut self, tree: &Tree, access: &Sourced<Access>) -> Result<(), PlanError> {
        let (name, origin) = (Path::new(COMMON_DIR), &Origin::Always);
        let Some(found) = tree.look(name)? else {
            return self.put_placeholder(tree, name, PointKind::CommonDir, access, origin);
        };
        // A killed run may have left its placeholder.
        let is_harmless = found.kind == FileKind::File
            && tree.read_small(name, SMALL_FILE).is_ok_and(|text| text == OWN_COMMON_DIR);
        if !is_harmless {
            return Err(WorkspaceError::CommonDir(tree.path().join(name)).into());
        }
        self.keep(tree, name, origin)
    }

    /// Protects the repositories of submodules. Git on the host reads each of them for a `git status` in the workspace.
    fn modules(&mut self, workspace: &Workspace, git_dir: &Tree) -> Result<(), PlanError> {
        let access = self.git_access();
        if git_dir.look(Path::new("modules"))?.is_none() {
            return Ok(());
        }
        self.keep(git_dir, Path::new("modules"), &Origin::Always)?;
        if access.value == Access::ReadOnly {
            return Ok(());
        }
        let modules = Tree::open(&git_dir.path().join("modules"))?;
        let found = nested_repositories::search(modules.directory(), &[], ORDINARY).found;
        let bare: Vec<PathBuf> = found
            .into_iter()
            .filter(|nested| nested.kind == NestedKind::Bare)
            .map(|nested| nested.path)
            .collect();
        for relative in bare.iter().take(MOST_MODULES) {
            self.pin(&modules, relative, &access)?;
            let git_dir = &modules.path().join(relative);
            let work_tree = &work_tree_of(git_dir, &config_in(&Tree::open(git_dir)?));
            self.protect_git(workspace, Repository { git_dir, work_tree })?;
        }
        for relative in bare.iter().skip(MOST_MODULES) {
            let (path, reason) = (modules.path().join(relative), "there are many submodules");
            self.warnings.push(PlanWarning::GitReadOnly { path, reason });
        }
        Ok(())
    }

    /// Returns the access to repositories. They are never more open than the workspace.
    pub(super) fn git_access(&self) -> Sourced<Access> {
        let (git, workspace) = (&self.rules.workspace.git, &self.rules.workspace.access);
        if git.value <= workspace.value { git.clone() } else { workspace.clone() }
    }
}

/// Returns the configuration of a repository. It is empty if this user cannot read it; then git cannot read it either.
fn config_in(git_dir: &Tree) -> String {
    config_named(git_dir, Path::new("config"))
}

pub(super) fn config_named(tree: &Tree, name: &Path) -> String {
    let bytes = tree.read_small(name, MOST_CONFIG).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the directory with a repository's working files, as its configuration names it, or else the git directory.
fn work_tree_of(git_dir: &Path, config: &str) -> PathBuf {
    let settings = git_config::settings(config);
    let said = settings.iter().rev().find(|setting| setting.name == "core.worktree");
    host_path::plain(&git_dir.join(said.map_or(".", |setting| setting.value.as_str())))
}
