//! Turns a request into the steps of a plan, in bubblewrap's order.

mod caches;
mod certificates;
mod environment;
mod generated;
mod git;
mod git_locks;
mod git_named_files;
mod home;
mod nested_repositories;
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

/// Bubblewrap accepts at most this many arguments.
const MOST_ARGUMENTS: usize = 9000;

/// The path of the run's socket directory inside.
pub(crate) const SOCKETS_INSIDE: &str = "/run/caretaker";

pub use certificates::{CERTIFICATE_VARIABLES, CertificatesError};

/// An unfinished plan.
struct Planner<'a> {
    request: &'a SandboxRequest,
    rules: &'a Rules,
    network: PlannedNetwork,
    steps: Vec<PlannedStep>,
    data: Vec<DataFile>,
    /// The paths where a placeholder keeps the agent from creating a file.
    placeholders: Vec<MountPoint>,
    /// The configuration files of the repositories.
    git_configs: Vec<PathBuf>,
    warnings: Vec<PlanWarning>,
}

/// Makes a plan. Reads the file system and changes nothing.
pub fn plan(request: &SandboxRequest) -> Result<SandboxPlan, PlanError> {
    let rules = request.profile.rules().ok_or(PlanError::NoSandbox)?;
    if request.user.uid == 0 && rules.caller.root.value == RootCaller::Refuse {
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
    let (placeholders, git_configs) = (Vec::new(), Vec::new());
    let mut planner =
        Planner { request, rules, network, steps, data, placeholders, git_configs, warnings };
    planner.namespaces();
    planner.guards();
    planner.environment()?;
    planner.system()?;
    planner.certificates()?;
    planner.kernel()?;
    planner.private_directories_and_tools(&workspace)?;
    planner.home()?;
    planner.caches()?;
    planner.masks()?;
    planner.visible_shell()?;
    planner.store_links();
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
        git_configs: planner.git_configs,
        dot_cursor,
        warnings: planner.warnings,
        network: planner.network,
    })
}

/// Combines the profile's network rules with the run's own mode and hosts.
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
    let (tun, limits) = (rules.network.tun(), rules.network.limits());
    PlannedNetwork { mode, origin, allow, tun, limits }
}

/// Does the checks that need no file system.
fn check_request(request: &SandboxRequest) -> Result<(), PlanError> {
    let run_paths = [
        &request.workspace,
        &request.home,
        &request.placeholders.directory,
        &request.placeholders.file,
        &request.placeholders.common_dir,
        &request.placeholders.shadow_common_dir,
        &request.dot_cursor,
        &request.inside_sockets,
        &request.data_root,
        &request.chats.bucket,
    ];
    let in_bucket = request
        .chats
        .views
        .iter()
        .flat_map(|view| std::iter::once(&view.inside).chain(&view.sessions));
    let paths = run_paths
        .into_iter()
        .chain(in_bucket)
        .chain(&request.expose)
        .chain(request.stand_ins.values())
        .chain([&request.cache_directory])
        .chain(&request.ours);
    for path in paths {
        if host_path::has_nul(path.as_os_str()) {
            return Err(PlanError::NulByte(path.to_string_lossy().into_owned()));
        }
        // Bubblewrap would resolve a relative path from its own directory.
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
        for Sourced { value, origin } in &self.rules.namespaces.own {
            let (option, what) = match value {
                Namespace::User => ("--unshare-user", "its own users"),
                Namespace::Pid => ("--unshare-pid", "its own processes"),
                Namespace::Ipc => ("--unshare-ipc", "its own shared memory and message queues"),
                Namespace::Uts => ("--unshare-uts", "its own host name"),
                Namespace::Cgroup => ("--unshare-cgroup-try", "its own view of control groups"),
            };
            self.push(Step::Namespace { option, what }, origin.clone());
        }
        if self.rules.namespaces.own.iter().any(|own| own.value == Namespace::Uts) {
            let hostname = &self.rules.namespaces.hostname;
            self.push(Step::Hostname(hostname.value.0.clone()), hostname.origin.clone());
        }
        let what = match self.network.mode {
            NetworkMode::Host => return,
            NetworkMode::None => "no network except loopback",
            NetworkMode::Allowlist => "its own loopback, where the shim listens",
        };
        let step = Step::Namespace { option: "--unshare-net", what };
        self.push(step, self.network.origin.clone());
    }

    fn guards(&mut self) {
        let guards: [(&'static [&'static str], &'static str); 5] = [
            (&["--disable-userns"], "no further user namespaces"),
            (&["--cap-drop", "ALL"], "no capabilities"),
            (&["--new-session"], "no access to the shim's terminal"),
            (&["--die-with-parent"], "ends when the shim ends"),
            (&["--clearenv"], "the environment starts empty"),
        ];
        for (options, what) in guards {
            self.push(Step::Guard { options, what }, Origin::Always);
        }
    }

    fn filters(&mut self) -> Result<Vec<crate::SeccompProgram>, PlanError> {
        let mut filters = self.rules.seccomp.filters.clone();
        // If root runs the agent, a set-user-id file in the workspace would give everyone root's privileges.
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

    /// Refuses the run if a file stays unprotected and the profile says to refuse.
    fn check_unprotected(&self) -> Result<(), PlanError> {
        // In a read-only workspace the agent cannot change anything.
        let is_open = self.rules.workspace.access.value == Access::ReadWrite;
        let unprotected = self.warnings.iter().find(|warning| is_open && warning.is_unprotected());
        match (self.rules.workspace.unprotected.value, unprotected) {
            (Unprotected::Refuse, Some(what)) => Err(PlanError::Unprotected {
                profile: self.request.profile.name().to_owned(),
                what: what.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Checks that the program is visible inside. Bubblewrap would report a missing program only after everything else.
    fn check_program(&self) -> Result<(), PlanError> {
        let program = self.request.program.first().map(Path::new).unwrap_or(Path::new("/"));
        match self.has_path(program) {
            true => Ok(()),
            false => Err(PlanError::ProgramNotShown(program.to_owned())),
        }
    }

    /// Returns true if a step makes this path, or a directory above it, visible inside.
    fn has_path(&self, path: &Path) -> bool {
        let mut shown = self.steps.iter().filter_map(|planned| planned.step.shown_at());
        shown.any(|shown| path.starts_with(shown))
    }

    fn check_count(&self) -> Result<(), PlanError> {
        let fds = PlanFds { data: Vec::new(), seccomp: Vec::new(), json_status: -1, block: None };
        let mut arguments = Arguments::default();
        self.steps.iter().for_each(|planned| planned.step.write(&fds, &mut arguments));
        // The extra arguments are the status, the block and `--args` itself.
        let count = arguments.count + self.request.program.len() + 8;
        if count > MOST_ARGUMENTS { Err(PlanError::TooManyArguments(count)) } else { Ok(()) }
    }

    /// Examines one of the run's directories.
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

    /// Returns true if a host path is already inside, at the same path and read-only.
    fn is_shown(&self, path: &Path) -> bool {
        self.steps.iter().any(|planned| {
            matches!(&planned.step, Step::Bind { source, dest, access: Access::ReadOnly, .. }
                if source == dest && path.starts_with(dest))
        })
    }
}

/// Shows a host file at its own path.
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
