//! From a request to the steps of a plan, in the order in which bubblewrap takes them.

mod environment;
mod generated;
mod git;
mod git_around;
mod home;
mod system;
mod workspace;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use run_protocol::NetworkMode;

use crate::host_path::{self, FileKind, Found};
use crate::mount_points::{MountPoint, MountPoints};
use crate::origin::{Origin, Sourced};
use crate::plan::{DataFile, PlanError, PlanWarning, PlannedNetwork, SandboxPlan};
use crate::profile::{Access, Namespace, RootCaller, Rules, Unprotected};
use crate::request::{RunDirectories, SandboxRequest};
use crate::seccomp::{self, Architecture, FilterName};
use crate::step::{Arguments, Author, PlanFds, PlannedStep, Step};
use crate::workspace::{Surroundings, Workspace, WorkspaceError};

/// Bubblewrap takes no more.
const MOST_ARGUMENTS: usize = 9000;

/// Where the run's socket directory is mounted.
pub(crate) const SOCKETS_INSIDE: &str = "/run/caretaker";

/// A plan in the making.
struct Planner<'a> {
    request: &'a SandboxRequest,
    rules: &'a Rules,
    network: PlannedNetwork,
    steps: Vec<PlannedStep>,
    data: Vec<DataFile>,
    /// Where something is mounted only so that nothing is created there.
    placeholders: Vec<MountPoint>,
    warnings: Vec<PlanWarning>,
}

/// Makes a plan. Looks at the file system, and changes nothing.
pub fn plan(request: &SandboxRequest) -> Result<SandboxPlan, PlanError> {
    let rules = request.profile.rules().ok_or(PlanError::NoSandbox)?;
    if request.user.uid == 0 && rules.root_caller.value == RootCaller::Refuse {
        return Err(PlanError::RootCaller { profile: request.profile.name().to_owned() });
    }
    check_request(request)?;
    let surroundings =
        Surroundings { uid: request.user.uid, home: &request.home, ours: &request.ours };
    let workspace = Workspace::inspect(&request.workspace, surroundings)?;
    if workspace.path().as_os_str() != request.workspace.as_os_str() {
        let (path, physical) = (request.workspace.clone(), workspace.path().to_owned());
        return Err(WorkspaceError::NotPhysical { path, physical }.into());
    }

    let network = network(request, rules);
    let (steps, data, warnings) = (Vec::new(), Vec::new(), Vec::new());
    let placeholders = Vec::new();
    let mut planner = Planner { request, rules, network, steps, data, placeholders, warnings };
    planner.namespaces();
    planner.guards();
    planner.environment()?;
    planner.system()?;
    planner.kernel()?;
    planner.private_directories_and_tools(&workspace)?;
    planner.home()?;
    let dot_cursor = planner.workspace(&workspace)?;
    planner.push(Step::RemountReadOnly("/".into()), Origin::Always);
    planner.push(Step::ChangeDirectory(workspace.path().to_owned()), Origin::Run);
    let programs = planner.filters()?;
    if request.user.uid == 0 {
        planner.warnings.push(PlanWarning::Root);
    }
    planner.check_unprotected()?;
    planner.check_program()?;
    planner.check_count()?;

    Ok(SandboxPlan {
        steps: planner.steps,
        data: planner.data,
        programs,
        program: request.program.clone(),
        workspace: workspace.identity(),
        mount_points: MountPoints::needed_by(&workspace, planner.placeholders),
        dot_cursor,
        warnings: planner.warnings,
        network: planner.network,
    })
}

/// What the profile says of the network, and what the run says in its place or beside it.
fn network(request: &SandboxRequest, rules: &Rules) -> PlannedNetwork {
    let (mode, origin) = match request.network {
        Some(mode) => (mode, Origin::Run),
        None => (rules.network.mode.value, rules.network.mode.origin.clone()),
    };
    let of_profile = rules.network.allow.iter();
    let mut allow: Vec<_> =
        of_profile.map(|entry| (entry.value.clone(), entry.origin.clone())).collect();
    for host in &request.allow_hosts {
        if allow.iter().all(|(known, _)| known != host) {
            allow.push((host.clone(), Origin::Run));
        }
    }
    PlannedNetwork { mode, origin, allow, limits: rules.network.limits() }
}

/// Checks what can be checked without looking at the host.
fn check_request(request: &SandboxRequest) -> Result<(), PlanError> {
    let run_paths = [
        &request.workspace,
        &request.home,
        &request.nothing.directory,
        &request.nothing.file,
        &request.nothing.common_dir,
        &request.dot_cursor,
        &request.inside_sockets,
        &request.data_root,
        &request.chats.bucket,
        &request.chats.inside,
    ];
    let paths = run_paths
        .into_iter()
        .chain(&request.chats.sessions)
        .chain(&request.expose)
        .chain(&request.ours);
    for path in paths {
        if host_path::has_nul(path.as_os_str()) {
            return Err(PlanError::NulByte(path.to_string_lossy().into_owned()));
        }
        // Bubblewrap would take a relative path and read it from where it happens to stand.
        if !host_path::is_plain(path) {
            return Err(PlanError::NotPlain(path.clone()));
        }
    }
    if let Some(word) = request.program.iter().find(|word| host_path::has_nul(word)) {
        return Err(PlanError::NulByte(word.to_string_lossy().into_owned()));
    }
    match request.program.first() {
        Some(program) if Path::new(program).is_absolute() => Ok(()),
        program => Err(PlanError::Program(program.cloned().unwrap_or_default())),
    }
}

impl Planner<'_> {
    fn push(&mut self, step: Step, origin: Origin) {
        self.steps.push(PlannedStep { step, origin });
    }

    fn push_bind(&mut self, path: &Path, found: Found, access: Access, origin: &Origin) {
        self.steps.push(bind(path, found, access, origin));
    }

    fn push_file(&mut self, file: DataFile, mode: u32, author: Author, origin: &Origin) {
        let (dest, index) = (file.inside.clone(), self.data.len());
        self.data.push(file);
        self.push(Step::File { dest, mode, index, author }, origin.clone());
    }

    fn namespaces(&mut self) {
        for Sourced { value, origin } in &self.rules.namespaces {
            let (option, what) = match value {
                Namespace::User => ("--unshare-user", "users of its own"),
                Namespace::Pid => ("--unshare-pid", "processes of its own"),
                Namespace::Ipc => ("--unshare-ipc", "shared memory and queues of its own"),
                Namespace::Uts => ("--unshare-uts", "a host name of its own"),
                Namespace::Cgroup => {
                    ("--unshare-cgroup-try", "a view of control groups of its own")
                }
            };
            self.push(Step::Namespace { option, what }, origin.clone());
        }
        if self.rules.namespaces.iter().any(|own| own.value == Namespace::Uts) {
            let hostname = &self.rules.hostname;
            self.push(Step::Hostname(hostname.value.0.clone()), hostname.origin.clone());
        }
        let what = match self.network.mode {
            NetworkMode::Host => return,
            NetworkMode::None => "no network but loopback",
            NetworkMode::Allowlist => "a loopback of its own, where the supervisor listens",
        };
        let step = Step::Namespace { option: "--unshare-net", what };
        self.push(step, self.network.origin.clone());
    }

    fn guards(&mut self) {
        let guards: [(&'static [&'static str], &'static str); 5] = [
            (&["--disable-userns"], "no further user namespaces"),
            (&["--cap-drop", "ALL"], "no capabilities"),
            (&["--new-session"], "no terminal of the supervisor's"),
            (&["--die-with-parent"], "ends with its supervisor"),
            (&["--clearenv"], "an empty environment to begin with"),
        ];
        for (options, what) in guards {
            self.push(Step::Guard { options, what }, Origin::Always);
        }
    }

    fn filters(&mut self) -> Result<Vec<crate::SeccompProgram>, PlanError> {
        let mut filters = self.rules.filters.clone();
        // For root a set-user-id file in the workspace would be root's.
        let has_nosuid = filters.iter().any(|filter| filter.value == FilterName::NoSuid);
        if self.request.user.uid == 0 && !has_nosuid {
            filters.push(Sourced { value: FilterName::NoSuid, origin: Origin::Always });
        }
        for (index, filter) in filters.iter().enumerate() {
            let step = Step::Filter { name: filter.value.name(), index };
            self.push(step, filter.origin.clone());
        }
        let names = filters.iter().map(|filter| filter.value);
        Ok(seccomp::programs(names, Architecture::of_this_machine()?)?)
    }

    /// Never weaker than asked: what cannot be protected is not run past by a profile that says so.
    fn check_unprotected(&self) -> Result<(), PlanError> {
        // Nothing can be changed in a workspace that cannot be written.
        let is_open = self.rules.workspace.value == Access::ReadWrite;
        let unprotected = self.warnings.iter().find(|warning| is_open && warning.is_unprotected());
        match (self.rules.unprotected, unprotected) {
            (Unprotected::Refuse, Some(what)) => Err(PlanError::Unprotected {
                profile: self.request.profile.name().to_owned(),
                what: what.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// What bubblewrap cannot find it reports only when everything else is done.
    fn check_program(&self) -> Result<(), PlanError> {
        let program = self.request.program.first().map(Path::new).unwrap_or(Path::new("/"));
        let mut shown = self.steps.iter().filter_map(|planned| planned.step.shown_at());
        match shown.any(|shown| program.starts_with(shown)) {
            true => Ok(()),
            false => Err(PlanError::ProgramNotShown(program.to_owned())),
        }
    }

    fn check_count(&self) -> Result<(), PlanError> {
        let fds = PlanFds { data: Vec::new(), seccomp: Vec::new(), json_status: -1, block: None };
        let mut arguments = Arguments::default();
        self.steps.iter().for_each(|planned| planned.step.write(&fds, &mut arguments));
        // Beside the steps there are the status, the block and `--args` itself.
        let count = arguments.count + self.request.program.len() + 8;
        if count > MOST_ARGUMENTS { Err(PlanError::TooManyArguments(count)) } else { Ok(()) }
    }

    /// Looks at a directory that the run brings along.
    fn run_directory(&self, path: &Path) -> Result<(PathBuf, Option<Found>), PlanError> {
        let Some((physical, found)) = resolve(path)? else {
            return match self.request.run_directories {
                RunDirectories::MustExist => Err(PlanError::RunDirectoryMissing(path.to_owned())),
                RunDirectories::MayBeMissing => Ok((path.to_owned(), None)),
            };
        };
        if found.kind != FileKind::Directory {
            return Err(PlanError::RunDirectoryKind { path: physical, kind: found.kind });
        }
        if found.uid != self.request.user.uid {
            return Err(PlanError::RunDirectoryOwner { path: physical, owner: found.uid });
        }
        Ok((physical, Some(found)))
    }

    fn push_run_directory(
        &mut self,
        path: &Path,
        dest: PathBuf,
        access: Access,
        origin: &Origin,
    ) -> Result<(), PlanError> {
        let (source, found) = self.run_directory(path)?;
        let identity = found.map(|found| found.identity);
        self.push(Step::Bind { source, dest, access, identity }, origin.clone());
        Ok(())
    }

    /// Tells whether a path of the host is already inside, at the same place and read-only.
    fn is_shown(&self, path: &Path) -> bool {
        self.steps.iter().any(|planned| {
            matches!(&planned.step, Step::Bind { source, dest, access: Access::ReadOnly, .. }
                if source == dest && path.starts_with(dest))
        })
    }
}

/// Something of the host at its own path.
fn bind(path: &Path, found: Found, access: Access, origin: &Origin) -> PlannedStep {
    let (source, dest) = (path.to_owned(), path.to_owned());
    let step = Step::Bind { source, dest, access, identity: Some(found.identity) };
    PlannedStep { step, origin: origin.clone() }
}

fn resolve(path: &Path) -> Result<Option<(PathBuf, Found)>, PlanError> {
    host_path::resolve(path).map_err(|source| look_error(path, source))
}

fn look_error(path: &Path, source: io::Error) -> PlanError {
    PlanError::Look { path: path.to_owned(), source }
}

fn name_of(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}
