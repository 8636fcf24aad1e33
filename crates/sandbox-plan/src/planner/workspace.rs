//! The workspace, the run's `.cursor` in it, and the files in it that the agent must not change.

use std::path::{Path, PathBuf};

use super::{Planner, bind};
use crate::host_path::{self, FileKind};
use crate::mount_points::{DotCursorMounts, MountPoint, PointKind};
use crate::origin::{Origin, Sourced};
use crate::plan::{PlanError, PlanWarning};
use crate::profile::{Access, MissingNames, ProtectedKind, ProtectedName};
use crate::step::Step;
use crate::workspace::{DotCursor, Tree, Workspace, WorkspaceError};

/// At most this many files may match one pattern with a `*`. Each is a mount, and mounts cost time.
const MOST_THAT_FIT: usize = 32;

impl Planner<'_> {
    /// Returns the mount points that the run's `.cursor` needs for parts of the repository's own `.cursor`.
    pub(super) fn workspace(
        &mut self,
        workspace: &Workspace,
    ) -> Result<DotCursorMounts, PlanError> {
        let (rules, tree) = (self.rules, workspace.tree());
        let access = &rules.workspace.access;
        self.push_bind(workspace.path(), workspace.found(), access.value, &access.origin);
        let dot_cursor = workspace.path().join(".cursor");
        let origin = &rules.run.dot_cursor.origin;
        self.push_run_directory(&self.request.dot_cursor, dot_cursor, Access::ReadOnly, origin)?;
        let shown = self.show_dot_cursor(workspace)?;
        self.git(workspace)?;
        self.keep_named_by_user(workspace)?;
        self.nested_repositories(workspace)?;
        self.protect(tree, &rules.workspace.protect, access)?;
        self.store_links(tree)?;
        self.hide_placeholders_from_git(workspace.path());
        Ok(shown)
    }

    fn show_dot_cursor(&mut self, workspace: &Workspace) -> Result<DotCursorMounts, PlanError> {
        let ours = self.request.dot_cursor.clone();
        let mut mounts = DotCursorMounts { ours, ..DotCursorMounts::default() };
        if workspace.dot_cursor() == DotCursor::Missing {
            return Ok(mounts);
        }
        for Sourced { value, origin } in &self.rules.workspace.show {
            let relative = Path::new(".cursor").join(value.as_path());
            let path = workspace.path().join(&relative);
            let found = match workspace.tree().look(&relative) {
                Ok(None) => continue,
                Ok(found) => found,
                Err(WorkspaceError::ProtectedSymlink(_)) => None,
                Err(err) => return Err(err.into()),
            };
            let list = match found.map(|found| found.kind) {
                Some(FileKind::Directory) => &mut mounts.directories,
                Some(FileKind::File) => &mut mounts.files,
                _ => {
                    // A symlink may lead anywhere on the host. Not showing it is harmless.
                    self.warnings.push(PlanWarning::NotShown(path));
                    continue;
                }
            };
            list.push(value.as_path().to_owned());
            self.steps.extend(found.map(|found| bind(&path, found, Access::ReadOnly, origin)));
        }
        Ok(mounts)
    }

    /// Makes the files in a list read-only, and pins their parent directories. Blocks names that do not exist, if the
    /// profile says so.
    pub(super) fn protect(
        &mut self,
        tree: &Tree,
        names: &[Sourced<ProtectedName>],
        access: &Sourced<Access>,
    ) -> Result<(), PlanError> {
        for Sourced { value, origin } in names {
            let paths = value.paths_in(tree.path());
            if value.has_star() && paths.len() > MOST_THAT_FIT {
                let (pattern, count) = (value.to_string(), paths.len());
                return Err(PlanError::TooManyProtected { pattern, count });
            }
            for relative in paths {
                // The run's own `.cursor` is mounted there, read-only.
                if relative.starts_with(".cursor") {
                    continue;
                }
                if tree.look(&relative)?.is_none() {
                    self.block(tree, &relative, value.kind, access)?;
                    continue;
                }
                self.pin_way_to(tree, &relative, access)?;
                self.keep(tree, &relative, origin)?;
            }
        }
        Ok(())
    }

    /// Puts a placeholder where no file exists, if the profile says so. Then the agent cannot create the file.
    pub(super) fn block(
        &mut self,
        tree: &Tree,
        relative: &Path,
        kind: ProtectedKind,
        access: &Sourced<Access>,
    ) -> Result<(), PlanError> {
        let Sourced { value, origin } = &self.rules.workspace.missing;
        match value {
            MissingNames::Allowed => Ok(()),
            MissingNames::Blocked => {
                let point = match kind {
                    ProtectedKind::Directory => PointKind::Directory,
                    ProtectedKind::File => PointKind::File,
                };
                self.put_placeholder(tree, relative, point, access, origin)
            }
        }
    }

    /// Puts a placeholder where no file exists, under every profile. In a read-only directory (`access`) the agent cannot
    /// create the file anyway.
    pub(super) fn put_placeholder(
        &mut self,
        tree: &Tree,
        relative: &Path,
        kind: PointKind,
        access: &Sourced<Access>,
        origin: &Origin,
    ) -> Result<(), PlanError> {
        if access.value == Access::ReadOnly {
            return Ok(());
        }
        for part in parts(relative) {
            if tree.look(&part)?.is_some() {
                if part.as_path() != relative {
                    self.pin(tree, &part, access)?;
                }
                continue;
            }
            // A placeholder for the first missing name blocks everything below it too.
            let kind = if part.as_path() == relative { kind } else { PointKind::Directory };
            let source = match kind {
                PointKind::Directory => &self.request.placeholders.directory,
                PointKind::File => &self.request.placeholders.file,
                PointKind::CommonDir => &self.request.placeholders.common_dir,
            };
            let path = tree.path().join(&part);
            if self.placeholders.iter().any(|placeholder| placeholder.path == path) {
                return Ok(());
            }
            self.cover(source, path.clone(), origin);
            self.placeholders.push(MountPoint { path, kind });
            return Ok(());
        }
        Ok(())
    }

    /// Mounts a placeholder.
    pub(super) fn cover(&mut self, source: &Path, dest: PathBuf, origin: &Origin) {
        let identity = host_path::look(source).ok().flatten().map(|found| found.identity);
        let (source, access) = (source.to_owned(), Access::ReadOnly);
        self.push(Step::Bind { source, dest, access, identity }, origin.clone());
    }

    /// Keeps `git add -A` from committing the placeholders.
    fn hide_placeholders_from_git(&mut self, root: &Path) {
        let ignore = self.request.home.join(".config/git/ignore");
        let Some(file) = self.data.iter_mut().find(|file| file.inside == ignore) else { return };
        for placeholder in &self.placeholders {
            if let Ok(relative) = placeholder.path.strip_prefix(root)
                // Git never commits files in `.git`.
                && !relative.parent().is_some_and(|parent| parent.starts_with(".git"))
                && let Some(text) = relative.to_str()
            {
                file.contents.extend_from_slice(format!("/{text}\n").as_bytes());
            }
        }
    }

    /// Binds a directory over itself. The agent cannot rename or remove a mount point.
    pub(super) fn pin(
        &mut self,
        tree: &Tree,
        part: &Path,
        access: &Sourced<Access>,
    ) -> Result<(), PlanError> {
        let path = joined(tree.path(), part);
        if self.is_mounted(&path) {
            return Ok(());
        }
        let Some(found) = tree.look(part)? else { return Ok(()) };
        if found.kind == FileKind::Symlink {
            return Err(WorkspaceError::ProtectedSymlink(path).into());
        }
        self.push_bind(&path, found, access.value, &access.origin);
        Ok(())
    }

    /// Pins the directories above a protected file, so that the agent cannot move the file aside with its directory.
    pub(super) fn pin_way_to(
        &mut self,
        tree: &Tree,
        relative: &Path,
        access: &Sourced<Access>,
    ) -> Result<(), PlanError> {
        self.pin_all(tree, relative.parent().unwrap_or(relative), access)
    }

    /// Pins `a`, `a/b` and `a/b/c`.
    pub(super) fn pin_all(
        &mut self,
        tree: &Tree,
        relative: &Path,
        access: &Sourced<Access>,
    ) -> Result<(), PlanError> {
        parts(relative).iter().try_for_each(|part| self.pin(tree, part, access))
    }

    /// Binds a file or directory over itself, read-only.
    pub(super) fn keep(
        &mut self,
        tree: &Tree,
        relative: &Path,
        origin: &Origin,
    ) -> Result<(), PlanError> {
        let Some(found) = tree.look(relative)? else { return Ok(()) };
        let path = joined(tree.path(), relative);
        match found.kind {
            FileKind::File if found.has_other_names => {
                self.warnings.push(PlanWarning::HardLinked(path.clone()));
            }
            FileKind::File | FileKind::Directory => {}
            FileKind::Symlink => return Err(WorkspaceError::ProtectedSymlink(path).into()),
            // Editors and shells on the host that read a FIFO would wait forever.
            kind => return Err(WorkspaceError::ProtectedKind { path, kind }.into()),
        }
        self.push_bind(&path, found, Access::ReadOnly, origin);
        Ok(())
    }

    pub(super) fn is_mounted(&self, path: &Path) -> bool {
        self.steps.iter().any(|planned| planned.step.mounted_at() == Some(path))
    }
}

// Joining an empty path would add a slash, and then the path differs from the mount's.
fn joined(root: &Path, relative: &Path) -> PathBuf {
    if relative.as_os_str().is_empty() { root.to_owned() } else { root.join(relative) }
}

/// Returns `a`, `a/b`, `a/b/c`.
fn parts(relative: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = relative
        .ancestors()
        .filter(|part| !part.as_os_str().is_empty())
        .map(Path::to_owned)
        .collect();
    parts.reverse();
    parts
}
