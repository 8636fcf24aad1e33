//! Repositories inside the workspace, besides the workspace's own. Git on the host obeys them too.

use std::path::Path;

use super::Planner;
use super::git::Repository;
use crate::mount_points::PointKind;
use crate::origin::{Origin, Sourced};
use crate::plan::{PlanError, PlanWarning};
use crate::profile::{Access, Unprotected};
use crate::step::Step;
use crate::workspace::git_layout::{self, GitLayout};
use crate::workspace::nested_repositories::{self, Nested, NestedKind, ORDINARY, Search, THOROUGH};
use crate::workspace::{SMALL_FILE, Workspace, WorkspaceError};

/// The agent can commit in at most this many nested repositories, because each needs several mounts.
const MOST_OPEN: usize = 16;

impl Planner<'_> {
    pub(super) fn nested_repositories(&mut self, workspace: &Workspace) -> Result<(), PlanError> {
        // Entirely read-only directories need no search.
        let kept = self.rules.workspace.protect.iter().map(|name| name.value.path());
        let mut skip: Vec<&Path> = kept.chain([Path::new(".cursor")]).collect();
        if let GitLayout::InWorkspace { git_dir } = workspace.git() {
            skip.extend(git_dir.strip_prefix(workspace.path()).ok());
        }
        let effort = match self.rules.workspace.unprotected.value {
            Unprotected::Warn => ORDINARY,
            Unprotected::Refuse => THOROUGH,
        };
        let Search { found, cut_after } =
            nested_repositories::search(workspace.tree().directory(), &skip, effort);
        for (index, nested) in found.iter().enumerate() {
            let before = (self.steps.len(), self.placeholders.len(), self.warnings.len());
            let reason = match self.nested(workspace, nested, index < MOST_OPEN) {
                Ok(()) => continue,
                Err(PlanError::Workspace(
                    WorkspaceError::ProtectedSymlink(_) | WorkspaceError::CommonDir(_),
                )) => "there are links in it",
                Err(error) => return Err(error),
            };
            // A repository that cannot be protected file by file becomes read-only as a whole.
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
        let (root, tree, rules) = (workspace.path(), workspace.tree(), self.rules);
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
                self.pin_way_to(tree, &nested.path, &rules.workspace.access)?;
                self.keep(tree, &nested.path, &Origin::Always)?;
                self.named_by_git_file(workspace, nested, work_tree)
            }
            NestedKind::Directory | NestedKind::Bare if !is_open => {
                self.keep_whole(workspace, nested, "there are many repositories in the workspace")
            }
            NestedKind::Directory | NestedKind::Bare => {
                self.pin_way_to(tree, &nested.path, &rules.workspace.access)?;
                self.pin(tree, &nested.path, &self.git_access())?;
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
        let tree = workspace.tree();
        self.pin_way_to(tree, &nested.path, &self.rules.workspace.access)?;
        self.keep(tree, &nested.path, &Origin::Always)?;
        let path = workspace.path().join(&nested.path);
        self.warnings.push(PlanWarning::GitReadOnly { path, reason });
        Ok(())
    }

    /// Protects the repository that a `.git` file names, if it is in the workspace too. The sandbox shows no other.
    fn named_by_git_file(
        &mut self,
        workspace: &Workspace,
        nested: &Nested,
        work_tree: &Path,
    ) -> Result<(), PlanError> {
        let (root, tree) = (workspace.path(), workspace.tree());
        let text = tree.read_small(&nested.path, SMALL_FILE).unwrap_or_default();
        let named = git_layout::named_directory(&text, work_tree);
        let Some(git_dir) = named.filter(|named| named.starts_with(root)) else { return Ok(()) };
        let relative = git_dir.strip_prefix(root).unwrap_or(&git_dir);
        if relative.as_os_str().is_empty() || relative.starts_with(".cursor") {
            return Ok(());
        }
        let exists = tree.look(relative)?.is_some();
        // Its own mount, or the protected repository around it, already protects it.
        if self.is_mounted(&git_dir) || self.is_below_kept(&git_dir) {
            return Ok(());
        }
        if exists {
            self.pin_all(tree, relative, &self.git_access())?;
            return self.protect_git(workspace, Repository { git_dir: &git_dir, work_tree });
        }
        let access = Sourced { value: Access::ReadWrite, origin: Origin::Always };
        self.put_placeholder(tree, relative, PointKind::Directory, &access, &access.origin)
    }

    /// Returns true if the innermost mount around a path is read-only.
    fn is_below_kept(&self, path: &Path) -> bool {
        let around = self.steps.iter().filter_map(|planned| match &planned.step {
            Step::Bind { dest, access, .. } if path.starts_with(dest) => Some((dest, *access)),
            _ => None,
        });
        let innermost = around.max_by_key(|(dest, _)| dest.components().count());
        innermost.is_some_and(|(_, access)| access == Access::ReadOnly)
    }
}
