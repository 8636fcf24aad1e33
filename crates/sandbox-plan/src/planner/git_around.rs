//! What git on the host obeys beside the workspace's own repository: files that a configuration names, and repositories
//! within the workspace.

use std::path::Path;

use super::Planner;
use super::git::{Repository, config_named};
use super::workspace::parts;
use crate::git_config::{self, Named};
use crate::git_layout::{self, GitLayout};
use crate::host_path::{self, FileKind};
use crate::mount_points::PointKind;
use crate::nested_repositories::{self, Nested, NestedKind, ORDINARY, Search, THOROUGH};
use crate::origin::{Origin, Sourced};
use crate::plan::{PlanError, PlanWarning};
use crate::profile::{Access, Unprotected};
use crate::step::Step;
use crate::workspace::{SMALL_FILE, Workspace, WorkspaceError, look_below};

/// A configuration may include another, and that one more; git itself stops at ten.
const MOST_INCLUDES: usize = 10;
/// Repositories in which commits work; each takes several mounts.
const MOST_OPEN: usize = 16;

impl Planner<'_> {
    /// What the user's own configuration names in the workspace.
    pub(super) fn keep_named_by_user(&mut self, workspace: &Workspace) -> Result<(), PlanError> {
        for name in [".gitconfig", ".config/git/config"] {
            // The user's own, and often a link.
            let path = self.request.home.join(name);
            let is_file = std::fs::metadata(&path).is_ok_and(|found| found.is_file());
            if is_file && let Ok(text) = std::fs::read(&path) {
                let text = String::from_utf8_lossy(&text);
                let beside = path.parent().unwrap_or(&path);
                self.keep_named(workspace, &text, beside, workspace.path())?;
            }
        }
        Ok(())
    }

    /// Keeps what a configuration names in the workspace: hooks, more configuration, programs.
    pub(super) fn keep_named(
        &mut self,
        workspace: &Workspace,
        config: &str,
        beside: &Path,
        work_tree: &Path,
    ) -> Result<(), PlanError> {
        let mut pending = vec![(config.to_owned(), beside.to_owned())];
        let mut n_read = 0;
        while let Some((config, beside)) = pending.pop() {
            for named in git_config::named_by(&git_config::settings(&config), &beside, work_tree) {
                let (path, kind) = match &named {
                    Named::Include(path) => (path, Some(PointKind::File)),
                    Named::Hooks(path) => (path, Some(PointKind::Directory)),
                    Named::Program(path) => (path, None),
                };
                let mut path = host_path::plain(path);
                // Husky's directory is full of programs that start those beside it.
                if matches!(named, Named::Hooks(_)) && path.ends_with("_") {
                    path.pop();
                }
                let Ok(relative) = path.strip_prefix(workspace.path()) else { continue };
                self.keep_if_obeyed(workspace, relative, kind)?;
                if matches!(named, Named::Include(_)) && n_read < MOST_INCLUDES {
                    n_read += 1;
                    let text = config_named(workspace.directory(), relative);
                    pending.push((text, path.parent().unwrap_or(&path).to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Keeps something of the workspace, whether it exists (then with the way to it) or not. Without a kind it is a word
    /// that may be a program, and counts only if it is a file.
    fn keep_if_obeyed(
        &mut self,
        workspace: &Workspace,
        relative: &Path,
        kind: Option<PointKind>,
    ) -> Result<(), PlanError> {
        let (root, directory) = (workspace.path(), workspace.directory());
        // The whole workspace cannot be kept, and `.cursor` is ours.
        if relative.as_os_str().is_empty() || relative.starts_with(".cursor") {
            return Ok(());
        }
        let found = match (look_below(root, directory, relative), kind) {
            (Err(_), None) => return Ok(()),
            (looked, _) => looked?,
        };
        let access = &self.rules.workspace;
        let Some(found) = found else {
            let parent = relative.parent().unwrap_or(relative);
            let has_parent = look_below(root, directory, parent)?.is_some();
            return match kind.filter(|_| has_parent) {
                Some(kind) => {
                    let origin = &Origin::Always;
                    self.put_nothing(root, directory, relative, kind, access, origin)
                }
                None => Ok(()),
            };
        };
        if kind.is_none() && found.kind != FileKind::File || self.is_kept(&root.join(relative)) {
            return Ok(());
        }
        self.pin_way_to(workspace, relative)?;
        self.keep(root, directory, relative, &Origin::Always)
    }

    /// Whether something is read-only by itself already.
    fn is_kept(&self, path: &Path) -> bool {
        self.steps.iter().any(|planned| {
            matches!(&planned.step, Step::Bind { dest, access: Access::ReadOnly, .. } if dest == path)
        })
    }

    /// What is kept must not be moved aside together with the directory that it is in.
    fn pin_way_to(&mut self, workspace: &Workspace, relative: &Path) -> Result<(), PlanError> {
        let mut on_the_way = parts(relative);
        on_the_way.pop();
        for part in on_the_way {
            self.pin(workspace.path(), workspace.directory(), &part, &self.rules.workspace)?;
        }
        Ok(())
    }

    /// Protects the repositories within the workspace.
    pub(super) fn nested_repositories(&mut self, workspace: &Workspace) -> Result<(), PlanError> {
        // What is kept as a whole needs no look.
        let kept = self.rules.protect.iter().map(|name| name.value.path());
        let mut skip: Vec<&Path> = kept.chain([Path::new(".cursor")]).collect();
        if let GitLayout::InWorkspace { git_dir } = workspace.git() {
            skip.extend(git_dir.strip_prefix(workspace.path()).ok());
        }
        let patience = match self.rules.unprotected {
            Unprotected::Warn => ORDINARY,
            Unprotected::Refuse => THOROUGH,
        };
        let Search { found, cut_after } =
            nested_repositories::search(workspace.directory(), &skip, patience);
        for (index, nested) in found.iter().enumerate() {
            let before = (self.steps.len(), self.placeholders.len(), self.warnings.len());
            let reason = match self.nested(workspace, nested, index < MOST_OPEN) {
                Ok(()) => continue,
                Err(PlanError::Workspace(
                    WorkspaceError::ProtectedSymlink(_) | WorkspaceError::CommonDir(_),
                )) => "there are links in it",
                Err(error) => return Err(error),
            };
            // What cannot be kept piece by piece is kept as a whole.
            self.steps.truncate(before.0);
            self.placeholders.truncate(before.1);
            self.warnings.truncate(before.2);
            self.keep_whole(workspace, nested, reason)?;
        }
        if let Some(entries) = cut_after {
            self.warnings.push(PlanWarning::NestedUnseen { entries });
        }
        Ok(())
    }

    fn nested(
        &mut self,
        workspace: &Workspace,
        nested: &Nested,
        is_open: bool,
    ) -> Result<(), PlanError> {
        let (root, directory) = (workspace.path(), workspace.directory());
        let path = root.join(&nested.path);
        let work_tree = match nested.kind {
            NestedKind::Bare => path.as_path(),
            _ => path.parent().unwrap_or(root),
        };
        match nested.kind {
            NestedKind::Link => {
                self.warnings.push(PlanWarning::NestedLink(path));
                Ok(())
            }
            NestedKind::File => {
                self.pin_way_to(workspace, &nested.path)?;
                self.keep(root, directory, &nested.path, &Origin::Always)?;
                self.named_by_git_file(workspace, nested, work_tree)
            }
            NestedKind::Directory | NestedKind::Bare if !is_open => {
                self.keep_whole(workspace, nested, "there are many repositories in the workspace")
            }
            NestedKind::Directory | NestedKind::Bare => {
                self.pin_way_to(workspace, &nested.path)?;
                self.pin(root, directory, &nested.path, &self.git_access())?;
                self.protect_git(workspace, Repository { git_dir: &path, work_tree })
            }
        }
    }

    fn keep_whole(
        &mut self,
        workspace: &Workspace,
        nested: &Nested,
        reason: &'static str,
    ) -> Result<(), PlanError> {
        self.pin_way_to(workspace, &nested.path)?;
        let (root, directory) = (workspace.path(), workspace.directory());
        self.keep(root, directory, &nested.path, &Origin::Always)?;
        let path = root.join(&nested.path);
        self.warnings.push(PlanWarning::GitReadOnly { path, reason });
        Ok(())
    }

    /// Protects the repository that a `.git` file within the workspace names, if that is in the workspace too. What is
    /// elsewhere is not shown.
    fn named_by_git_file(
        &mut self,
        workspace: &Workspace,
        nested: &Nested,
        work_tree: &Path,
    ) -> Result<(), PlanError> {
        let (root, directory) = (workspace.path(), workspace.directory());
        let text = directory.read_small(&nested.path, SMALL_FILE).unwrap_or_default();
        let named = git_layout::named_directory(&text, work_tree);
        let Some(git_dir) = named.filter(|named| named.starts_with(root)) else { return Ok(()) };
        let relative = git_dir.strip_prefix(root).unwrap_or(&git_dir).to_owned();
        if relative.as_os_str().is_empty() || relative.starts_with(".cursor") {
            return Ok(());
        }
        let is_known = self.steps.iter().any(|planned| planned.step.mounted_at() == Some(&git_dir));
        match look_below(root, directory, &relative)? {
            _ if is_known => Ok(()),
            // Submodules and worktrees of a repository that is protected already.
            Some(_) if self.is_below_kept(&git_dir) => Ok(()),
            Some(_) => {
                let access = self.git_access();
                for part in parts(&relative) {
                    self.pin(root, directory, &part, &access)?;
                }
                self.protect_git(workspace, Repository { git_dir: &git_dir, work_tree })
            }
            None => {
                let access = Sourced { value: Access::ReadWrite, origin: Origin::Always };
                let kind = PointKind::Directory;
                let is_read_only = self.is_below_kept(&git_dir);
                match is_read_only {
                    true => Ok(()),
                    false => {
                        self.put_nothing(root, directory, &relative, kind, &access, &access.origin)
                    }
                }
            }
        }
    }

    /// Whether the innermost mount around a path is read-only.
    fn is_below_kept(&self, path: &Path) -> bool {
        let around = self.steps.iter().filter_map(|planned| match &planned.step {
            Step::Bind { dest, access, .. } if path.starts_with(dest) => Some((dest, *access)),
            _ => None,
        });
        let innermost = around.max_by_key(|(dest, _)| dest.components().count());
        innermost.is_some_and(|(_, access)| access == Access::ReadOnly)
    }
}
