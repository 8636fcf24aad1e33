//! The workspace, with what in it is ours and what must stay as it is.

use std::path::{Path, PathBuf};

use super::{Planner, bind};
use crate::host_path::{Directory, FileKind};
use crate::mount_points::{DotCursorMounts, MountPoint, PointKind};
use crate::origin::{Origin, Sourced};
use crate::plan::{PlanError, PlanWarning};
use crate::profile::{Access, MissingNames, ProtectedKind, ProtectedName};
use crate::step::Step;
use crate::workspace::{DotCursor, Workspace, WorkspaceError, look_below};

/// Each is a mount, and mounts cost time.
const MOST_THAT_FIT: usize = 32;

impl Planner<'_> {
    /// Returns what our `.cursor` must have, so that the repository's own can be shown in it.
    pub(super) fn workspace(
        &mut self,
        workspace: &Workspace,
    ) -> Result<DotCursorMounts, PlanError> {
        let access = &self.rules.workspace;
        let found = workspace
            .directory()
            .found()
            .map_err(|source| WorkspaceError::Look { path: workspace.path().to_owned(), source })?;
        self.push_bind(workspace.path(), found, access.value, &access.origin);
        let dot_cursor = workspace.path().join(".cursor");
        self.push_run_directory(
            &self.request.dot_cursor,
            dot_cursor,
            Access::ReadOnly,
            &self.rules.dot_cursor,
        )?;
        let shown = self.show_dot_cursor(workspace)?;
        self.git(workspace)?;
        self.keep_named_by_user(workspace)?;
        self.nested_repositories(workspace)?;
        let (root, directory) = (workspace.path(), workspace.directory());
        self.protect(root, directory, &self.rules.protect, &self.rules.workspace)?;
        self.hide_placeholders_from_git(root);
        Ok(shown)
    }

    fn show_dot_cursor(&mut self, workspace: &Workspace) -> Result<DotCursorMounts, PlanError> {
        let ours = self.request.dot_cursor.clone();
        let mut mounts = DotCursorMounts { ours, ..DotCursorMounts::default() };
        if workspace.dot_cursor() == DotCursor::Missing {
            return Ok(mounts);
        }
        for Sourced { value, origin } in &self.rules.show {
            let relative = Path::new(".cursor").join(value.as_path());
            let path = workspace.path().join(&relative);
            let found = match workspace.look(&relative) {
                Ok(None) => continue,
                Ok(found) => found,
                Err(WorkspaceError::ProtectedSymlink(_)) => None,
                Err(err) => return Err(err.into()),
            };
            let list = match found.map(|found| found.kind) {
                Some(FileKind::Directory) => &mut mounts.directories,
                Some(FileKind::File) => &mut mounts.files,
                _ => {
                    // A symlink may lead anywhere on the host. Less is shown then, which harms nobody.
                    self.warnings.push(PlanWarning::NotShown(path));
                    continue;
                }
            };
            list.push(value.as_path().to_owned());
            self.steps.extend(found.map(|found| bind(&path, found, Access::ReadOnly, origin)));
        }
        Ok(mounts)
    }

    /// Makes what exists of a list read-only, and pins the directories on the way to it. What does not exist is blocked if
    /// the profile says so.
    pub(super) fn protect(
        &mut self,
        root: &Path,
        directory: &Directory,
        names: &[Sourced<ProtectedName>],
        access: &Sourced<Access>,
    ) -> Result<(), PlanError> {
        for Sourced { value, origin } in names {
            let paths = value.paths_in(root);
            if value.has_star() && paths.len() > MOST_THAT_FIT {
                let (pattern, count) = (value.to_string(), paths.len());
                return Err(PlanError::TooManyProtected { pattern, count });
            }
            for relative in paths {
                // Ours is mounted there, read-only, and what was below is out of reach.
                if relative.starts_with(".cursor") {
                    continue;
                }
                if look_below(root, directory, &relative)?.is_none() {
                    self.block(root, directory, &relative, value.kind, access)?;
                    continue;
                }
                // What is protected must not be moved aside together with the directory that it is in.
                let mut on_the_way = parts(&relative);
                on_the_way.pop();
                for part in on_the_way {
                    self.pin(root, directory, &part, access)?;
                }
                self.keep(root, directory, &relative, origin)?;
            }
        }
        Ok(())
    }

    /// Puts something empty where nothing is, so that nothing can be made there, if the profile wants that.
    pub(super) fn block(
        &mut self,
        root: &Path,
        directory: &Directory,
        relative: &Path,
        kind: ProtectedKind,
        access: &Sourced<Access>,
    ) -> Result<(), PlanError> {
        let Sourced { value, origin } = &self.rules.missing;
        match value {
            MissingNames::Allowed => Ok(()),
            MissingNames::Blocked => {
                let point = match kind {
                    ProtectedKind::Directory => PointKind::Directory,
                    ProtectedKind::File => PointKind::File,
                };
                self.put_nothing(root, directory, relative, point, access, origin)
            }
        }
    }

    /// The same, whatever the profile wants. In a directory that cannot be written (`access`) nothing can be made anyway.
    pub(super) fn put_nothing(
        &mut self,
        root: &Path,
        directory: &Directory,
        relative: &Path,
        kind: PointKind,
        access: &Sourced<Access>,
        origin: &Origin,
    ) -> Result<(), PlanError> {
        if access.value == Access::ReadOnly {
            return Ok(());
        }
        for part in parts(relative) {
            if look_below(root, directory, &part)?.is_some() {
                if part.as_path() != relative {
                    self.pin(root, directory, &part, access)?;
                }
                continue;
            }
            // The first that is missing; what is below it is then blocked too.
            let kind = if part.as_path() == relative { kind } else { PointKind::Directory };
            let nothing = &self.request.nothing;
            let source = match kind {
                PointKind::Directory => &nothing.directory,
                PointKind::File => &nothing.file,
                PointKind::CommonDir => &nothing.common_dir,
            };
            let path = root.join(&part);
            if self.placeholders.iter().any(|placeholder| placeholder.path == path) {
                return Ok(());
            }
            let identity =
                crate::host_path::look(source).ok().flatten().map(|found| found.identity);
            let step = Step::Bind {
                source: source.clone(),
                dest: path.clone(),
                access: Access::ReadOnly,
                identity,
            };
            self.push(step, origin.clone());
            self.placeholders.push(MountPoint { path, kind });
            return Ok(());
        }
        Ok(())
    }

    /// Empty files that we put into the workspace must not be committed by `git add -A`.
    fn hide_placeholders_from_git(&mut self, root: &Path) {
        let ignore = self.request.home.join(".config/git/ignore");
        let Some(file) = self.data.iter_mut().find(|file| file.inside == ignore) else { return };
        for placeholder in &self.placeholders {
            if let Ok(relative) = placeholder.path.strip_prefix(root)
                // What is in there is never committed.
                && !relative.parent().is_some_and(|parent| parent.starts_with(".git"))
                && let Some(text) = relative.to_str()
            {
                file.contents.extend_from_slice(format!("/{text}\n").as_bytes());
            }
        }
    }

    /// Binds a directory over itself: as a mount point it cannot be renamed or removed.
    pub(super) fn pin(
        &mut self,
        root: &Path,
        directory: &Directory,
        part: &Path,
        access: &Sourced<Access>,
    ) -> Result<(), PlanError> {
        let path = joined(root, part);
        let is_pinned =
            |planned: &crate::step::PlannedStep| planned.step.mounted_at() == Some(&path);
        if self.steps.iter().any(is_pinned) {
            return Ok(());
        }
        let Some(found) = look_below(root, directory, part)? else { return Ok(()) };
        if found.kind == FileKind::Symlink {
            return Err(WorkspaceError::ProtectedSymlink(path).into());
        }
        self.push_bind(&path, found, access.value, &access.origin);
        Ok(())
    }

    /// Binds something over itself, read-only.
    pub(super) fn keep(
        &mut self,
        root: &Path,
        directory: &Directory,
        relative: &Path,
        origin: &Origin,
    ) -> Result<(), PlanError> {
        let Some(found) = look_below(root, directory, relative)? else { return Ok(()) };
        let path = joined(root, relative);
        match found.kind {
            FileKind::File if found.has_other_names => {
                self.warnings.push(PlanWarning::HardLinked(path.clone()));
            }
            FileKind::File | FileKind::Directory => {}
            FileKind::Symlink => return Err(WorkspaceError::ProtectedSymlink(path).into()),
            // Whoever reads it, editors and shells on the host, would wait for ever.
            kind => return Err(WorkspaceError::ProtectedKind { path, kind }.into()),
        }
        self.push_bind(&path, found, Access::ReadOnly, origin);
        Ok(())
    }
}

pub(super) fn open(path: &Path) -> Result<Directory, WorkspaceError> {
    Directory::open(path).map_err(|source| WorkspaceError::Look { path: path.to_owned(), source })
}

// Joining nothing would add a slash, and then the path is no longer the mount's.
fn joined(root: &Path, relative: &Path) -> PathBuf {
    if relative.as_os_str().is_empty() { root.to_owned() } else { root.join(relative) }
}

/// Returns `a`, `a/b`, `a/b/c`.
pub(super) fn parts(relative: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = relative
        .ancestors()
        .filter(|part| !part.as_os_str().is_empty())
        .map(Path::to_owned)
        .collect();
    parts.reverse();
    parts
}
