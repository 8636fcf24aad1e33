//! The private directories, the tools that the sandbox shows in them, and the run's files in the home directory.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::{Planner, SOCKETS_INSIDE, resolve};
use crate::host_path::{self, FileKind, Found};
use crate::origin::Origin;
use crate::plan::{DataFile, PlanError, PlanWarning};
use crate::profile::{Access, Size};
use crate::request::BucketView;
use crate::step::{Author, Step};
use crate::workspace::Workspace;

/// Paths where a sandbox has its own directories. It must not show a host directory at or above them.
const OWN_DIRECTORIES: [&str; 6] = ["/tmp", "/run", "/proc", "/dev", "/etc", "/usr"];

/// A host file or directory, read-only at its own path.
struct Exposure {
    path: PathBuf,
    physical: PathBuf,
    /// Where it is on the host: at `physical`, unless another directory stands in for it.
    source: PathBuf,
    found: Found,
    origin: Origin,
}

/// The reason for an exposure. It decides what happens if the path is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Program,
    Tool,
}

/// A directory in memory, empty at the start.
struct PrivateDirectory {
    path: PathBuf,
    size: Size,
    mode: u32,
    origin: Origin,
}

impl Planner<'_> {
    pub(super) fn private_directories_and_tools(
        &mut self,
        workspace: &Workspace,
    ) -> Result<(), PlanError> {
        self.check_home()?;
        let exposures = self.exposures(workspace.path())?;
        for directory in self.private_directories(workspace.path(), &exposures) {
            let PrivateDirectory { path, size, mode, origin } = directory;
            self.push(Step::Tmpfs { dest: path, size: size.0, mode }, origin);
        }
        for exposure in exposures {
            self.expose(exposure);
        }
        Ok(())
    }

    pub(super) fn home(&mut self) -> Result<(), PlanError> {
        let request = self.request;
        let sockets = &self.rules.run.sockets.origin;
        let sockets_inside = PathBuf::from(SOCKETS_INSIDE);
        self.push_run_directory(
            &request.inside_sockets,
            sockets_inside,
            Access::ReadOnly,
            sockets,
        )?;

        let mut taken = BTreeSet::new();
        for file in &request.private_home_files {
            let plain = file.path.components().all(|part| matches!(part, Component::Normal(_)));
            let dest = request.home.join(&file.path);
            if !plain || !host_path::is_plain(&dest) || host_path::has_nul(dest.as_os_str()) {
                return Err(PlanError::PrivateFile(file.path.clone()));
            }
            if !taken.insert(dest.clone()) {
                return Err(PlanError::PrivateFile(file.path.clone()));
            }
            self.check_reachable(&dest)?;
            let data = DataFile { inside: dest, contents: file.contents.clone() };
            self.push_file(data, file.mode & 0o777, Author::Caretaker, &Origin::Run);
        }

        let views = &request.chats.views;
        if let Some(outside) = views.iter().find(|view| !view.inside.starts_with(&request.home)) {
            return Err(PlanError::ChatsOutsideHome(outside.inside.clone()));
        }
        let projects = request.home.join(".cursor/projects");
        let bucket =
            |view: &BucketView| (&request.chats.bucket, view.inside.clone(), &self.rules.run.chats);
        let data = (&request.data_root, projects, &self.rules.run.data);
        for (source, dest, rule) in views.iter().map(bucket).chain([data]) {
            self.check_reachable(&dest)?;
            self.push_run_directory(source, dest, rule.value, &rule.origin)?;
        }
        for view in views {
            view.sessions.iter().try_for_each(|session| self.session(session, &view.inside))?;
        }
        if let Some(login) = &request.login {
            let dest = request.home.join(".config/cursor");
            self.check_reachable(&dest)?;
            self.push_run_directory(login, dest, Access::ReadWrite, &Origin::Run)?;
        }
        Ok(())
    }

    /// Mounts a session's own directory in the bucket. The agent cannot move a mount aside.
    fn session(&mut self, directory: &Path, bucket: &Path) -> Result<(), PlanError> {
        let unusable = || PlanError::NotPlain(directory.to_owned());
        let (Some(parent), Some(name)) = (directory.parent(), directory.file_name()) else {
            return Err(unusable());
        };
        // The path to the session belongs to the user. The last name may be a link that an agent made, so this does not
        // follow it.
        let source = resolve(parent)?.map_or_else(|| directory.to_owned(), |(at, _)| at.join(name));
        let found = host_path::look(&source).map_err(|error| super::look_error(&source, error))?;
        if let Some(Found { kind: kind @ FileKind::Symlink, .. }) = found {
            return Err(PlanError::RunDirectoryKind { path: source, kind });
        }
        let rule = &self.rules.run.chats;
        let dest = bucket.join(name);
        self.push_run_directory(&source, dest, rule.value, &rule.origin)
    }

    /// Refuses a home that is one of the sandbox's own directories, or whose path has a symlink.
    fn check_home(&self) -> Result<(), PlanError> {
        let home = &self.request.home;
        let in_system = ["/usr", "/proc", "/sys", "/dev", "/etc"];
        let is_own = OWN_DIRECTORIES.iter().any(|own| home == Path::new(own));
        if home.parent().is_none() || is_own || in_system.iter().any(|tree| home.starts_with(tree))
        {
            return Err(PlanError::HomeUnusable(home.clone()));
        }
        match resolve(home)? {
            Some((physical, _)) if physical != *home => {
                Err(PlanError::HomeNotPhysical { home: home.clone(), physical })
            }
            _ => Ok(()),
        }
    }

    /// Returns the paths that the run and the profile expose, shallow paths first.
    fn exposures(&mut self, workspace: &Path) -> Result<Vec<Exposure>, PlanError> {
        let (request, rules) = (self.request, self.rules);
        let programs = request
            .expose
            .iter()
            .map(|path| (path.clone(), Need::Program, &rules.run.program.origin));
        let tools = rules.tools.expose.iter().flat_map(|tool| {
            let paths = tool.value.paths(&request.home);
            paths.into_iter().map(|path| (path, Need::Tool, &tool.origin))
        });
        let mut exposures = Vec::new();
        for (path, need, origin) in programs.chain(tools) {
            exposures.extend(self.exposure(path, need, origin, workspace)?);
        }
        // A link must exist before anything below it. Everything below a shown directory is already inside.
        exposures.sort_by_key(|exposure| exposure.path.components().count());
        Ok(exposures)
    }

    fn exposure(
        &mut self,
        path: PathBuf,
        need: Need,
        origin: &Origin,
        workspace: &Path,
    ) -> Result<Option<Exposure>, PlanError> {
        let stand_in = self.request.stand_ins.get(&path);
        let Some((source, found)) = resolve(stand_in.unwrap_or(&path))? else {
            return match need {
                Need::Program => Err(PlanError::ExposedMissing(path)),
                Need::Tool => Ok(None),
            };
        };
        let physical = if stand_in.is_some() { path.clone() } else { source.clone() };
        if path.starts_with(workspace) || physical.starts_with(workspace) {
            return match need {
                // The agent can write the workspace, so it could replace the program for the next run.
                Need::Program => Err(PlanError::ExposedInWorkspace(path)),
                Need::Tool => {
                    self.warnings.push(PlanWarning::ToolInWorkspace(path));
                    Ok(None)
                }
            };
        }
        let own = OWN_DIRECTORIES.iter().map(Path::new);
        let ours = self.request.ours.iter().map(|ours| host_path::physical(ours));
        let private = ours.chain([self.request.home.clone()]);
        let hidden = own.map(Path::to_owned).chain(private).find(|inner| {
            let in_place = inner.starts_with(&path) && !self.is_shown(&path);
            let in_source = inner.starts_with(&physical) && !self.is_shown(&physical);
            in_place || in_source
        });
        if let Some(inner) = hidden {
            return Err(PlanError::ExposedTooWide { path, inner });
        }
        Ok(Some(Exposure { path, physical, source, found, origin: origin.clone() }))
    }

    fn expose(&mut self, exposure: Exposure) {
        let Exposure { path, physical, source, found, origin } = exposure;
        if !self.is_shown(&physical) {
            let (access, identity) = (Access::ReadOnly, Some(found.identity));
            self.push(
                Step::Bind { source, dest: physical.clone(), access, identity },
                origin.clone(),
            );
        }
        let is_reached = path == physical || self.is_shown(&path) || self.is_behind_link(&path);
        if !is_reached {
            self.push(Step::Symlink { target: physical, dest: path }, origin);
        }
    }

    /// Returns the directories in memory, shallow paths first.
    fn private_directories(
        &self,
        workspace: &Path,
        exposures: &[Exposure],
    ) -> Vec<PrivateDirectory> {
        let rules = self.rules;
        let bases = [
            (Path::new("/tmp"), 0o1777, &rules.temporary.tmp),
            (Path::new("/run"), 0o755, &rules.temporary.run),
            (self.request.home.as_path(), 0o700, &rules.home.size),
        ];
        let is_base = |path: &Path| bases.iter().any(|(base, ..)| *base == path);
        let is_in_base = |path: &Path| bases.iter().any(|(base, ..)| path.starts_with(base));
        let is_exposed =
            |path: &Path| exposures.iter().any(|exposure| path.starts_with(&exposure.physical));
        let parents = workspace
            .ancestors()
            .skip(1)
            .filter(|parent| is_in_base(parent) && !is_base(parent) && !is_exposed(parent))
            .map(|parent| (parent, 0o755, &rules.temporary.parents));
        let mut directories: Vec<PrivateDirectory> = bases
            .into_iter()
            .chain(parents)
            .map(|(path, mode, size)| PrivateDirectory {
                path: path.to_owned(),
                size: size.value,
                mode,
                origin: size.origin.clone(),
            })
            .collect();
        directories.sort_by_key(|directory| directory.path.components().count());
        directories
    }

    fn is_behind_link(&self, path: &Path) -> bool {
        self.steps.iter().any(
            |planned| matches!(&planned.step, Step::Symlink { dest, .. } if path.starts_with(dest)),
        )
    }

    /// Refuses a path in the home that the workspace or an exposed directory would cover.
    fn check_reachable(&self, dest: &Path) -> Result<(), PlanError> {
        let (dest, workspace) = (dest.to_owned(), &self.request.workspace);
        if dest.starts_with(workspace) {
            return Err(PlanError::Covered { dest, by: workspace.clone() });
        }
        let mut shown = self.steps.iter().filter_map(|planned| planned.step.shown_at());
        match shown.find(|shown| dest.starts_with(shown) || shown.starts_with(&dest)) {
            Some(by) => Err(PlanError::Covered { by: by.to_owned(), dest }),
            None => Ok(()),
        }
    }
}
