//! The decisions about a run before anything is created, and the sandbox's plan that follows from them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cursor_home::{CursorRoots, WorkspacePath};
use egress::{AllowedHost, AllowedHostError};
use run_journal::StateRoot;
use run_protocol::{NetworkMode, RunSpec};
use sandbox_plan::{
    BucketView, ChatsBind, Confinement, Placeholders, PrivateFile, Profile, RunDirectories,
    SandboxPlan, SandboxRequest, SandboxUser, ToolCache,
};

use crate::agent_tools::agent_servers::{Reach, RunServers, choice_of};
use crate::agent_tools::live_servers::ServerFiles;
use crate::control::sockets::SocketPaths;
use crate::login::LoginCopy;
use crate::preparation::agent_invocation::{arguments, environment, without_signing};
use crate::preparation::caches::RepositoryCache;
use crate::preparation::error::PrepareError;
use crate::preparation::placeholders;
use crate::preparation::private_roots::{self, HomeFile, PrivateRoots};
use crate::sandbox::gate;
use crate::session::session_bucket::SessionBucket;
use crate::session::session_places::SessionPlaces;

/// The decisions about a run before anything is created.
pub(crate) struct Outline {
    pub(crate) profile: Profile,
    pub(crate) workspace: WorkspacePath,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) allow_hosts: Vec<AllowedHost>,
    pub(crate) ours: Vec<PathBuf>,
    pub(crate) sockets: SocketPaths,
    pub(crate) mcp: ServerFiles,
    places: SessionPlaces,
    pub(crate) reach: Reach,
    pub(crate) placeholders: Placeholders,
    pub(crate) caches: Vec<ToolCache>,
    /// The directory of the repository's private caches.
    pub(crate) cache_directory: PathBuf,
}

impl Outline {
    pub(crate) fn new(state: &StateRoot, spec: &RunSpec) -> Result<Self, PrepareError> {
        Self::with_profile(state, spec, Profile::parse(&spec.profile, &spec.profile_text)?)
    }

    /// Saves a caller that already has the spec's profile from parsing it again.
    pub(crate) fn with_profile(
        state: &StateRoot,
        spec: &RunSpec,
        profile: Profile,
    ) -> Result<Self, PrepareError> {
        let workspace = WorkspacePath::new(Path::new(&spec.workspace))?;
        let relay = own_program().map_err(PrepareError::OwnProgram)?;
        let allow_hosts = spec.hosts().map(str::parse);
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
            servers,
            relay,
            config: private_roots::config_of(spec),
        };
        let variable = |name: &str| spec.env.get(name).cloned();
        let caches = ToolCache::find(&profile, workspace.as_path(), &spec.home.0, &variable);
        Ok(Self {
            placeholders: placeholders::paths(state),
            caches,
            cache_directory: RepositoryCache::directory(state, spec),
            arguments: arguments(spec, &workspace, profile.confinement())?,
            profile,
            allow_hosts,
            ours: vec![state.path().to_owned(), spec.socket_dir.0.clone()],
            sockets: SocketPaths::new(&spec.socket_dir.0, spec.run),
            places: SessionPlaces::new(state, &spec.host_config_root.0, &workspace, spec.session),
            workspace,
            mcp,
            reach,
        })
    }

    pub(crate) fn bucket(&self) -> SessionBucket {
        SessionBucket::new(&self.mcp.session_dir, self.places.clone())
    }

    /// The private roots as `build` will make them, for a plan that creates nothing.
    pub(crate) fn expected_roots(&self) -> PrivateRoots {
        self.mcp.expected_roots()
    }

    pub(crate) fn network_mode(&self, spec: &RunSpec) -> NetworkMode {
        spec.network.unwrap_or(self.profile.network_mode())
    }

    /// The arguments of the gate: the set-up command, and the agent with its arguments.
    pub(crate) fn behind_gate(&self, spec: &RunSpec) -> Vec<OsString> {
        let setup = spec.setup.iter().flat_map(|setup| [gate::SETUP.into(), setup.into()]);
        let agent = [spec.agent.program.0.clone().into_os_string()];
        setup.chain(agent).chain(self.arguments.iter().cloned()).collect()
    }

    pub(crate) fn plan(
        &self,
        spec: &RunSpec,
        roots: PrivateRoots,
        bucket: &SessionBucket,
        secrets: &[(String, String)],
        run_directories: RunDirectories,
    ) -> Result<SandboxPlan, PrepareError> {
        let home = &self.mcp.home;
        let hooks = spec.policy.iter().flat_map(|policy| &policy.hook_programs);
        let exposed = spec.agent.expose.iter().chain(&spec.expose).chain(hooks);
        let mut expose: Vec<PathBuf> = exposed.map(|path| path.0.clone()).collect();
        expose.push(self.mcp.relay.clone());
        let kept = spec.agent.expose.first().zip(spec.agent.kept.as_ref());
        let gate = [self.mcp.relay.clone().into_os_string(), "gate".into()];
        let program = gate.into_iter().chain(self.behind_gate(spec)).collect();
        let request = SandboxRequest {
            profile: self.profile.clone(),
            network: spec.network,
            allow_hosts: self.allow_hosts.clone(),
            reaches_registries: !spec.registries.is_empty(),
            workspace: self.workspace.as_path().to_owned(),
            home: home.clone(),
            user: sandbox_user(),
            ours: self.ours.clone(),
            run_directories,
            placeholders: self.placeholders.clone(),
            dot_cursor: roots.dot_cursor,
            inside_sockets: self.sockets.inside(),
            data_root: roots.projects,
            chats: chats_bind(bucket, home),
            login: spec.login_file.as_ref().map(|_| LoginCopy::mounted_in(&self.mcp.run_dir)),
            private_home_files: home_files(spec, roots.home_files),
            expose,
            stand_ins: kept
                .map(|(path, kept)| (path.0.clone(), kept.0.clone()))
                .into_iter()
                .collect(),
            program,
            env: without_signing()
                .chain(environment(spec, home, self.network_mode(spec), secrets))
                .collect(),
            certificates: spec
                .certificates
                .iter()
                .map(|(variable, path)| (variable.clone(), path.0.clone()))
                .collect(),
            caches: self.caches.clone(),
            cache_directory: self.cache_directory.clone(),
        };
        Ok(sandbox_plan::plan(&request)?)
    }
}

/// The bucket inside, under every name that the agent's version may use.
fn chats_bind(bucket: &SessionBucket, home: &Path) -> ChatsBind {
    let chats = CursorRoots::in_sandbox(home).chats();
    let view = |(name, sessions)| BucketView { inside: chats.join::<String>(name), sessions };
    ChatsBind {
        bucket: bucket.private().to_owned(),
        views: bucket.views().into_iter().map(view).collect(),
    }
}

/// The files of the private home. Admission's files replace the shim's own.
fn home_files(spec: &RunSpec, ours: Vec<HomeFile>) -> Vec<PrivateFile> {
    let is_replaced =
        |file: &HomeFile| spec.home_files.keys().any(|path| file.path == Path::new(path));
    let kept = ours.into_iter().filter(|file| !is_replaced(file)).map(|file| PrivateFile {
        path: file.path,
        contents: file.content,
        mode: file.mode,
    });
    let of_user = spec.home_files.iter().map(|(path, text)| PrivateFile {
        path: path.into(),
        contents: text.clone().into_bytes(),
        mode: 0o600,
    });
    kept.chain(of_user).collect()
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

/// Caretaker's own program. It is also the relay and the gate.
fn own_program() -> std::io::Result<PathBuf> {
    std::env::current_exe()?.canonicalize()
}
