//! From the spec of a run to a sandbox that is planned, with everything in place that it is made of.

mod agent_invocation;
mod agents_directory;
pub(crate) mod error;
pub(crate) mod private_roots;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cursor_home::WorkspacePath;
use egress::{AllowedHost, AllowedHostError};
use run_journal::{RunDirectory, StateRoot};
use run_protocol::{NetworkMode, RunEvent, RunId, RunSpec};
use sandbox_plan::{
    ChatsBind, Confinement, MountPoints, PlanError, PrivateFile, Profile, RunDirectories,
    SandboxPlan, SandboxRequest, SandboxUser, Surroundings, Workspace,
};
use tokio::sync::mpsc;

use crate::agent_tools::agent_servers::{Reach, RunServers, choice_of};
use crate::agent_tools::live_servers::{LiveServers, ServerFiles};
use crate::control::sockets::SocketPaths;
use crate::login::{LoginCopy, LoginWatch};
use crate::network::{NetworkPolicy, UpstreamProxy};
use crate::preparation::agent_invocation::{arguments, environment};
use crate::preparation::error::PrepareError;
use crate::preparation::private_roots::{PrivateRoots, mcp_json_in};
use crate::sandbox::unconfined::UnconfinedPlan;
use crate::sandbox::{self, Launchable};
use crate::session::session_bucket::SessionBucket;

/// In the run's directory: the mount points that we made in the workspace.
const MOUNT_POINTS_FILE: &str = "mount-points.json";

/// A run that is ready to be launched.
pub(crate) struct Prepared {
    pub(crate) launchable: Launchable,
    pub(crate) profile: String,
    /// Read before anything is started: an agent without its prompt would be asked nothing.
    pub(crate) prompt: Vec<u8>,
    login: Option<LoginCopy>,
    /// Of a login that is used where it is.
    tokens: Vec<String>,
    bucket: SessionBucket,
    /// Where Cursor keeps the session on the host.
    pub(crate) store_db: PathBuf,
    /// The record of the mount points that we made in the workspace.
    mount_points: PathBuf,
    mcp: ServerFiles,
    reach: Reach,
}

/// Checks, before anything is created, what a stranger or a typing error could have made wrong: the profile, the flags,
/// the workspace and what is in it, what is to be shown. The shim makes the whole plan, and a run that it refuses for
/// another reason leaves nothing behind either; making the plan twice would double what a launch costs us.
pub fn check_run(state: &StateRoot, spec: &RunSpec) -> Result<(), PrepareError> {
    let outline = Outline::new(state, spec)?;
    let uid = nix::unistd::geteuid().as_raw();
    if uid == 0 && outline.profile.refuses_root() {
        return Err(PlanError::RootCaller { profile: spec.profile.clone() }.into());
    }
    let surroundings = Surroundings { uid, home: &spec.home.0, ours: &outline.ours };
    let workspace =
        Workspace::inspect(outline.workspace.as_path(), surroundings).map_err(PlanError::from)?;
    for shown in spec.agent.expose.iter().chain(&spec.expose) {
        if shown.0.starts_with(workspace.path()) {
            return Err(PlanError::ExposedInWorkspace(shown.0.clone()).into());
        }
        if !shown.0.exists() {
            return Err(PlanError::ExposedMissing(shown.0.clone()).into());
        }
    }
    Ok(())
}

/// Plans the sandbox of a run without creating anything, to be explained.
pub fn plan_run(state: &StateRoot, spec: &RunSpec) -> Result<SandboxPlan, PrepareError> {
    let outline = Outline::new(state, spec)?;
    let expected = outline.expected_roots();
    outline.plan(spec, expected, &[], RunDirectories::MayBeMissing)
}

impl Prepared {
    pub(crate) fn new(
        run: &RunDirectory,
        state: &StateRoot,
        spec: &RunSpec,
        secrets: &[(String, String)],
    ) -> Result<Self, PrepareError> {
        let outline = Outline::new(state, spec)?;
        let path = run.prompt_path();
        let prompt =
            std::fs::read(&path).map_err(|source| PrepareError::Prompt { path, source })?;
        if outline.profile.confinement() == Confinement::None {
            return Ok(outline.unconfined(run, spec, secrets, prompt));
        }
        let roots = outline.mcp.build()?;
        let login_file = spec.login_file.as_ref();
        let login = login_file.map(|file| LoginCopy::make(state, spec.run, &file.0)).transpose()?;
        let bucket = outline.bucket(spec);
        let mount_points = run.path().join(MOUNT_POINTS_FILE);
        let planned = bucket.prepare().map_err(PrepareError::Bucket).and_then(|()| {
            let plan = outline.plan(spec, roots, secrets, RunDirectories::MustExist)?;
            plan.dot_cursor_mounts().create()?;
            plan.mount_points_to_create().create(&mount_points)?;
            Ok(plan)
        });
        // A run that is refused leaves no empty session behind.
        let plan = planned.inspect_err(|_| bucket.settle())?;
        Ok(Self {
            launchable: Launchable::Sandbox { plan: Arc::new(plan), bwrap: spec.bwrap.0.clone() },
            profile: spec.profile.clone(),
            prompt,
            login,
            tokens: Vec::new(),
            store_db: bucket.store_db(),
            bucket,
            mount_points,
            mcp: outline.mcp,
            reach: outline.reach,
        })
    }

    /// Leaves nothing of a run that does not happen.
    pub(crate) fn take_back(&self) {
        self.remove_mount_points();
        self.settle_session();
    }

    /// Puts the session in order once the agent is dead.
    pub(crate) fn settle_session(&self) {
        if matches!(self.launchable, Launchable::Sandbox { .. }) {
            self.bucket.settle();
        }
    }

    /// What the user should know.
    pub(crate) fn warnings(&self) -> Vec<String> {
        match &self.launchable {
            Launchable::Sandbox { plan, .. } => {
                plan.warnings().iter().map(ToString::to_string).collect()
            }
            Launchable::Unconfined(_) => vec![UnconfinedPlan::warning()],
        }
    }

    pub(crate) fn run_dir(&self) -> &Path {
        &self.mcp.run_dir
    }

    /// The home directory, which has the same path inside.
    pub(crate) fn home(&self) -> &Path {
        &self.mcp.home
    }

    /// Where the agent can write; `None` if that is wherever the user can, which nobody could watch.
    pub(crate) fn writable_on_host(&self) -> Option<Vec<PathBuf>> {
        match &self.launchable {
            Launchable::Sandbox { plan, .. } => {
                Some(plan.writable_on_host().map(Path::to_owned).collect())
            }
            Launchable::Unconfined(_) => None,
        }
    }

    /// Ends what an agent without a sandbox left behind, should it have got rid of its keeper. The keeper must be gone.
    pub(crate) fn end_what_is_left(&self) {
        if matches!(self.launchable, Launchable::Unconfined(_)) {
            crate::sandbox::descendants::end_all();
        }
    }

    /// From now on the agent's copy of the login and the user's own are kept the same.
    pub(crate) fn keep_logins_the_same(&self, events: &mpsc::Sender<RunEvent>) {
        self.login.iter().for_each(|login| login.keep_the_same(events.clone()));
    }

    /// What the run may reach by way of us, and how much of it; `None` where nothing goes by way of us.
    pub(crate) fn network_policy(&self, upstream: Option<UpstreamProxy>) -> Option<NetworkPolicy> {
        let Launchable::Sandbox { plan, .. } = &self.launchable else { return None };
        let network = plan.network();
        let allow = network.allow.iter().map(|(host, _)| host.clone()).collect();
        Some(NetworkPolicy { allow, limits: network.limits, upstream })
    }

    pub(crate) fn network_mode(&self) -> NetworkMode {
        match &self.launchable {
            Launchable::Sandbox { plan, .. } => plan.network().mode,
            Launchable::Unconfined(_) => NetworkMode::Host,
        }
    }

    /// What we made in the workspace, to be taken away again.
    pub(crate) fn own_mount_points(&self) -> Vec<PathBuf> {
        match &self.launchable {
            Launchable::Sandbox { plan, .. } => {
                plan.mount_points_to_create().paths().map(Path::to_owned).collect()
            }
            Launchable::Unconfined(_) => Vec::new(),
        }
    }

    /// What of the login and of the user's MCP servers must not be written down.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let of_servers = self.mcp.servers.secrets();
        let of_login = self.login.iter().flat_map(LoginCopy::tokens);
        of_login.chain(self.tokens.iter().map(String::as_str)).chain(of_servers)
    }

    /// Takes what the user's own servers know out of the run's directory. The agent must be gone.
    pub(crate) fn forget_servers(&self) {
        forget_servers(&self.mcp.run_dir);
    }

    /// Sees what the agent puts into its copy of the login.
    pub(crate) fn login_watch(&self) -> Option<LoginWatch> {
        self.login.as_ref().map(LoginCopy::watch)
    }

    /// Gives the user what the agent renewed of the login, and says what came of it. The agent must be gone.
    pub(crate) fn give_login_back(&mut self) -> Vec<RunEvent> {
        self.login.take().map(LoginCopy::give_back).unwrap_or_default()
    }

    /// Takes our mount points out of the workspace again, if they are still ours.
    pub(crate) fn remove_mount_points(&self) {
        remove_recorded(&self.mount_points);
    }

    /// What changes the agent's servers while it runs. `None` without a sandbox, where it finds the user's own files.
    pub(crate) fn live_servers(&self, state: &StateRoot, spec: &RunSpec) -> Option<LiveServers> {
        match &self.launchable {
            Launchable::Sandbox { .. } => Some(LiveServers {
                files: self.mcp.clone(),
                reach: self.reach.clone(),
                state: state.clone(),
                session: spec.session,
            }),
            Launchable::Unconfined(_) => None,
        }
    }

    /// Says how the servers differ from what the run asked for, where the user changed that for the session.
    pub(crate) fn changed_servers(&self) -> Option<RunEvent> {
        self.mcp.changed_before()
    }
}

/// Ends what a run that died may have left alive, removes what it left in its workspace, and ends what it had of the
/// login. The workspace's lock must be held. `Err`: something of it lives.
pub(crate) fn clean_up_after(run: &RunId, state: &StateRoot) -> std::io::Result<()> {
    let run_dir = &state.run_dir(run);
    sandbox::end_sandbox(run_dir)?;
    LoginCopy::recover(*run, state);
    let spec = RunDirectory::open(state, *run).ok().and_then(|run| run.spec().ok());
    if let Some(bucket) = spec.and_then(|spec| bucket_of(state, &spec)) {
        bucket.settle();
    }
    forget_servers(run_dir);
    let record = run_dir.join(MOUNT_POINTS_FILE);
    if record.exists() {
        remove_recorded(&record);
    }
    sandbox::forget_sandbox(run_dir);
    Ok(())
}

/// Whether a run that is dead has left something that [`clean_up_after`] takes away.
pub(crate) fn has_left_something(run: &RunId, state: &StateRoot) -> bool {
    let run_dir = &state.run_dir(run);
    sandbox::has_sandbox(run_dir)
        || run_dir.join(MOUNT_POINTS_FILE).exists()
        || LoginCopy::mounted_in(run_dir).exists()
}

/// The session's bucket of a run, whatever else of the run cannot be made any more.
fn bucket_of(state: &StateRoot, spec: &RunSpec) -> Option<SessionBucket> {
    let workspace = WorkspacePath::new(Path::new(&spec.workspace)).ok()?;
    let on_host = spec.host_config_root.0.join("chats").join(workspace.bucket());
    let session_dir = state.session_dir(&spec.session);
    Some(SessionBucket::new(&session_dir, on_host, &spec.session.to_string()))
}

/// The file may hold keys of the user's servers, and nobody reads it any more.
fn forget_servers(run_dir: &Path) {
    match std::fs::remove_file(mcp_json_in(run_dir)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, "the run's mcp.json could not be removed");
        }
        _ => {}
    }
}

fn remove_recorded(record: &Path) {
    match MountPoints::remove_ours(record) {
        Ok(removals) => tracing::debug!(?removals, "mount points"),
        Err(error) => tracing::warn!(%error, "a mount point stays in the workspace"),
    }
}

/// What is decided about a run before anything is created for it.
struct Outline {
    profile: Profile,
    workspace: WorkspacePath,
    arguments: Vec<OsString>,
    allow_hosts: Vec<AllowedHost>,
    ours: Vec<PathBuf>,
    sockets: SocketPaths,
    mcp: ServerFiles,
    reach: Reach,
}

impl Outline {
    fn new(state: &StateRoot, spec: &RunSpec) -> Result<Self, PrepareError> {
        let profile = Profile::parse(&spec.profile, &spec.profile_text)?;
        let workspace = WorkspacePath::new(Path::new(&spec.workspace))?;
        let relay = own_program().map_err(PrepareError::OwnProgram)?;
        let allow_hosts = spec.allow_hosts.iter().map(|host| host.parse());
        let mut allow_hosts: Vec<AllowedHost> =
            allow_hosts.collect::<Result<_, AllowedHostError>>()?;
        let servers = RunServers::gather(&relay, spec, choice_of(state, spec))?;
        let mode = spec.network.unwrap_or(profile.network_mode());
        let on_list = profile.allowed_hosts().cloned().chain(allow_hosts.clone()).collect();
        let reach = match profile.confinement() {
            Confinement::Bubblewrap => Reach::new(mode, on_list, &servers),
            Confinement::None => Reach::new(NetworkMode::Host, on_list, &servers),
        };
        reach.check(&servers)?;
        allow_hosts.extend(servers.hosts_of_named());
        let mcp = ServerFiles {
            run_dir: state.run_dir(&spec.run),
            session_dir: state.session_dir(&spec.session),
            workspace: workspace.clone(),
            home: spec.home.0.clone(),
            host_config_root: spec.host_config_root.0.clone(),
            servers,
            relay,
        };
        Ok(Self {
            arguments: arguments(spec, &workspace, profile.confinement())?,
            profile,
            allow_hosts,
            ours: vec![state.path().to_owned(), spec.socket_dir.0.clone()],
            sockets: SocketPaths::new(&spec.socket_dir.0, spec.run),
            workspace,
            mcp,
            reach,
        })
    }

    /// A run without a sandbox: the agent finds everything where the user's own would, and nothing of ours but its gate.
    fn unconfined(
        self,
        run: &RunDirectory,
        spec: &RunSpec,
        secrets: &[(String, String)],
        prompt: Vec<u8>,
    ) -> Prepared {
        let login = spec.login_file.as_ref().and_then(|file| LoginCopy::read_tokens(&file.0));
        let bucket = self.bucket(spec);
        let agent = spec.agent.program.0.clone().into_os_string();
        let plan = UnconfinedPlan {
            program: self.mcp.relay.clone(),
            agent: std::iter::once(agent).chain(self.arguments).collect(),
            directory: self.workspace.as_path().to_owned(),
            environment: environment(spec, &self.mcp.home, NetworkMode::Host, secrets)
                .into_iter()
                // There may be a keychain, and the user's own agent knows.
                .filter(|variable| variable.name != "AGENT_CLI_CREDENTIAL_STORE")
                .map(|variable| match variable.name.to_str() {
                    Some("CURSOR_CONFIG_DIR") => {
                        (variable.name, spec.host_config_root.0.clone().into_os_string())
                    }
                    _ => (variable.name, variable.value),
                })
                .collect(),
        };
        Prepared {
            launchable: Launchable::Unconfined(plan),
            profile: spec.profile.clone(),
            prompt,
            login: None,
            tokens: login.unwrap_or_default(),
            store_db: bucket.store_db(),
            bucket,
            mount_points: run.path().join(MOUNT_POINTS_FILE),
            mcp: self.mcp,
            reach: self.reach,
        }
    }

    fn bucket(&self, spec: &RunSpec) -> SessionBucket {
        let on_host = self.expected_roots().chats_on_host;
        SessionBucket::new(&self.mcp.session_dir, on_host, &spec.session.to_string())
    }

    /// The private roots as they will be, for a plan that creates nothing.
    fn expected_roots(&self) -> PrivateRoots {
        self.mcp.expected_roots()
    }

    fn network_mode(&self, spec: &RunSpec) -> NetworkMode {
        spec.network.unwrap_or(self.profile.network_mode())
    }

    fn plan(
        &self,
        spec: &RunSpec,
        roots: PrivateRoots,
        secrets: &[(String, String)],
        run_directories: RunDirectories,
    ) -> Result<SandboxPlan, PrepareError> {
        let home = &self.mcp.home;
        let bucket = self.bucket(spec);
        let mut expose: Vec<PathBuf> =
            spec.agent.expose.iter().chain(&spec.expose).map(|path| path.0.clone()).collect();
        expose.push(self.mcp.relay.clone());
        let gate = [self.mcp.relay.clone().into_os_string(), "gate".into()];
        let agent = spec.agent.program.0.clone().into_os_string();
        let program =
            gate.into_iter().chain([agent]).chain(self.arguments.iter().cloned()).collect();
        let request = SandboxRequest {
            profile: self.profile.clone(),
            network: spec.network,
            allow_hosts: self.allow_hosts.clone(),
            workspace: self.workspace.as_path().to_owned(),
            home: home.clone(),
            user: sandbox_user(),
            ours: self.ours.clone(),
            run_directories,
            nothing: roots.nothing,
            dot_cursor: roots.dot_cursor,
            inside_sockets: self.sockets.inside(),
            data_root: roots.projects,
            chats: ChatsBind {
                bucket: bucket.private().to_owned(),
                inside: roots.chats_inside,
                sessions: bucket.shown(),
            },
            login: spec.login_file.as_ref().map(|_| LoginCopy::mounted_in(&self.mcp.run_dir)),
            private_home_files: roots
                .home_files
                .into_iter()
                .map(|file| PrivateFile {
                    path: file.path,
                    contents: file.content,
                    mode: file.mode,
                })
                .collect(),
            expose,
            program,
            env: environment(spec, home, self.network_mode(spec), secrets),
        };
        Ok(sandbox_plan::plan(&request)?)
    }
}

fn sandbox_user() -> SandboxUser {
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let known = nix::unistd::User::from_uid(uid).ok().flatten();
    SandboxUser {
        uid: uid.as_raw(),
        gid: gid.as_raw(),
        name: known.map_or_else(|| "agent".to_owned(), |user| user.name),
    }
}

/// The program that we are: also the relay, the gate and the guard.
fn own_program() -> std::io::Result<PathBuf> {
    std::env::current_exe()?.canonicalize()
}
