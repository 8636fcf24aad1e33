//! Workspace files that git on the host obeys because a configuration names them.

use std::path::Path;

use super::Planner;
use super::git::config_named;
use crate::host_path::{self, FileKind};
use crate::mount_points::PointKind;
use crate::origin::Origin;
use crate::plan::PlanError;
use crate::profile::Access;
use crate::step::Step;
use crate::workspace::Workspace;
use crate::workspace::git_config::{self, Named};

/// One configuration may include at most this many files, directly or indirectly. Git itself stops at ten.
const MOST_INCLUDES: usize = 10;

impl Planner<'_> {
    /// Protects the workspace files that the user's own git configuration names.
    pub(super) fn keep_named_by_user(&mut self, workspace: &Workspace) -> Result<(), PlanError> {
        for name in [".gitconfig", ".config/git/config"] {
            // This file belongs to the user and is often a link, so this follows symlinks.
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

    /// Protects the workspace files that a configuration names: hooks, more configuration, programs.
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
                // The programs in Husky's directory `_` start the programs in the directory above it.
                if matches!(named, Named::Hooks(_)) && path.ends_with("_") {
                    path.pop();
                }
                let Ok(relative) = path.strip_prefix(workspace.path()) else { continue };
                self.keep_if_obeyed(workspace, relative, kind)?;
                if matches!(named, Named::Include(_)) && n_read < MOST_INCLUDES {
                    n_read += 1;
                    let text = config_named(workspace.tree(), relative);
                    pending.push((text, path.parent().unwrap_or(&path).to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Protects a workspace path, whether it exists or not. Without a kind, the path is a word in a command that may be
    /// a program, so it counts only if it is a file.
    fn keep_if_obeyed(
        &mut self,
        workspace: &Workspace,
        relative: &Path,
        kind: Option<PointKind>,
    ) -> Result<(), PlanError> {
        let tree = workspace.tree();
        // The workspace itself must stay writable, and `.cursor` is the run's own.
        if relative.as_os_str().is_empty() || relative.starts_with(".cursor") {
            return Ok(());
        }
        let found = match (tree.look(relative), kind) {
            (Err(_), None) => return Ok(()),
            (looked, _) => looked?,
        };
        let access = &self.rules.workspace.access;
        let Some(found) = found else {
            let parent = relative.parent().unwrap_or(relative);
            let has_parent = tree.look(parent)?.is_some();
            return match kind.filter(|_| has_parent) {
                Some(kind) => self.put_placeholder(tree, relative, kind, access, &Origin::Always),
                None => Ok(()),
            };
        };
        let is_no_program = kind.is_none() && found.kind != FileKind::File;
        if is_no_program || self.is_kept(&workspace.path().join(relative)) {
            return Ok(());
        }
        self.pin_way_to(tree, relative, access)?;
        self.keep(tree, relative, &Origin::Always)
    }

    /// Returns true if a mount makes exactly this path read-only.
    fn is_kept(&self, path: &Path) -> bool {
        self.steps.iter().any(|planned| {
            matches!(&planned.step, Step::Bind { dest, access: Access::ReadOnly, .. } if dest == path)
        })
    }
}
