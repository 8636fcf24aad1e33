//! The prepared files of the agent's sandbox. The phases after `prepare` use them and remove them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use run_journal::{RunDirectory, StateRoot};
use run_protocol::{AllowedHost, NetworkMode, RunEvent, RunSpec};
use sandbox_plan::{Confinement, Profile, RunDirectories};
use tokio::sync::mpsc;

use crate::agent_tools::agent_servers::Reach;
use crate::agent_tools::live_servers::{LiveServers, ServerFiles};
use crate::login::{LoginCopy, LoginWatch};
use crate::network::{NetworkPolicy, UpstreamProxy};
use crate::preparation::agent_invocation::environment;
use crate::preparation::caches::RepositoryCache;
use crate::preparation::error::PrepareError;
use crate::preparation::leftovers::{MOUNT_POINTS_FILE, forget_servers, remove_recorded};
use crate::preparation::outline::Outline;
use crate::preparation::placeholders;
use crate::sandbox::Launchable;
use crate::sandbox::unconfined::UnconfinedPlan;
use crate::session::session_bucket::SessionBucket;

/// A run that is ready for its launch.
pub(crate) struct Prepared {
    pub(crate) launchable: Launchable,
    pub(crate) profile: String,
    /// The prompt, read before anything starts, because an agent without a prompt is useless.
    pub(crate) prompt: Vec<u8>,
    login: Option<LoginCopy>,
    /// The tokens of a login that the agent uses in place.
    tokens: Vec<String>,
    bucket: SessionBucket,
    /// The record of the run's mount points in the workspace.
    mount_points: PathBuf,
    mcp: ServerFiles,
    reach: Reach,
    /// The tools with caches.
    caches: Vec<String>,
    cache: Option<RepositoryCache>,
}

impl Prepared {
    pub(crate) fn new(
        run: &RunDirectory,
        state: &StateRoot,
        spec: &RunSpec,
        profile: Profile,
        secrets: &[(String, String)],
    ) -> Result<Self, PrepareError> {
        let outline = Outline::with_profile(state, spec, profile)?;
        let path = run.prompt_path();
        let prompt =
            std::fs::read(&path).map_err(|source| PrepareError::Prompt { path, source })?;
        if outline.profile.confinement() == Confinement::None {
            return Ok(Self::unconfined(outline, run, spec, secrets, prompt));
        }
        let roots = outline.mcp.build()?;
        placeholders::make(state)?;
        let caches = &outline.caches;
        let cache = (!caches.is_empty())
            .then(|| RepositoryCache::prepare(state, spec, caches))
            .transpose()?;
        let login_file = spec.login_file.as_ref();
        let login = login_file.map(|file| LoginCopy::make(state, spec.run, &file.0)).transpose()?;
        let bucket = outline.bucket();
        let mount_points = run.path().join(MOUNT_POINTS_FILE);
        let planned = bucket.prepare().map_err(PrepareError::Bucket).and_then(|()| {
            let plan = outline.plan(spec, roots, &bucket, secrets, RunDirectories::MustExist)?;
            plan.dot_cursor_mounts().create()?;
            plan.mount_points_to_create().create(&mount_points)?;
            Ok(plan)
        });
        // A refused run leaves no empty session behind.
        let plan = planned.inspect_err(|_| bucket.settle())?;
        Ok(Self {
            launchable: Launchable::Sandbox { plan: Arc::new(plan), bwrap: spec.bwrap.0.clone() },
            profile: spec.profile.clone(),
            prompt,
            login,
            tokens: Vec::new(),
            bucket,
            mount_points,
            mcp: outline.mcp,
            reach: outline.reach,
            caches: caches.iter().map(|cache| cache.tool.clone()).collect(),
            cache,
        })
    }

    /// Prepares a run without a sandbox. The agent uses the user's own files. Only the gate is Caretaker's.
    fn unconfined(
        outline: Outline,
        run: &RunDirectory,
        spec: &RunSpec,
        secrets: &[(String, String)],
        prompt: Vec<u8>,
    ) -> Self {
        let login = spec.login_file.as_ref().and_then(|file| LoginCopy::read_tokens(&file.0));
        let bucket = outline.bucket();
        let plan = UnconfinedPlan {
            program: outline.mcp.relay.clone(),
            agent: outline.behind_gate(spec),
            directory: outline.workspace.as_path().to_owned(),
            environment: environment(spec, &outline.mcp.home, NetworkMode::Host, secrets)
                .into_iter()
                // The user's own agent may use a keychain.
                .filter(|variable| variable.name != "AGENT_CLI_CREDENTIAL_STORE")
                .map(|variable| match variable.name.to_str() {
                    Some("CURSOR_CONFIG_DIR") => {
                        (variable.name, spec.host_config_root.0.clone().into_os_string())
                    }
                    _ => (variable.name, variable.value),
                })
                .collect(),
        };
        Self {
            launchable: Launchable::Unconfined(plan),
            profile: spec.profile.clone(),
            prompt,
            login: None,
            tokens: login.unwrap_or_default(),
            bucket,
            mount_points: run.path().join(MOUNT_POINTS_FILE),
            mcp: outline.mcp,
            reach: outline.reach,
            caches: Vec::new(),
            cache: None,
        }
    }

    /// The tools whose dependency caches the run has.
    pub(crate) fn caches(&self) -> &[String] {
        &self.caches
    }

    /// Waits until the caches have their links. The agent's release must come after that.
    pub(crate) async fn caches_linked(&mut self) {
        if let Some(cache) = &mut self.cache {
            cache.linked().await;
        }
    }

    /// Removes all files of a run that will not start.
    pub(crate) fn take_back(&self) {
        self.remove_mount_points();
        self.settle_session();
    }

    /// Settles the session's bucket, and returns the event about it, if there is one. The agent must be dead.
    pub(crate) fn settle_session(&self) -> Option<RunEvent> {
        match self.launchable {
            Launchable::Sandbox { .. } => {
                self.bucket.settle();
                self.bucket.drift()
            }
            Launchable::Unconfined(_) => None,
        }
    }

    /// Cursor's store of the session on the host. The agent, or another one on the host, may choose its place.
    pub(crate) fn store_db(&self) -> PathBuf {
        self.bucket.store_db()
    }

    /// The warnings for the user.
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

    /// The home directory. It has the same path inside.
    pub(crate) fn home(&self) -> &Path {
        &self.mcp.home
    }

    /// The directories that the agent can write to. `None` without a sandbox, because the shim cannot watch everything.
    pub(crate) fn writable_on_host(&self) -> Option<Vec<PathBuf>> {
        match &self.launchable {
            Launchable::Sandbox { plan, .. } => {
                Some(plan.writable_on_host().map(Path::to_owned).collect())
            }
            Launchable::Unconfined(_) => None,
        }
    }

    /// Ends the processes that an agent without a sandbox left when it killed its keeper. The keeper must be gone.
    pub(crate) fn end_what_is_left(&self) {
        if matches!(self.launchable, Launchable::Unconfined(_)) {
            crate::sandbox::descendants::end_all();
        }
    }

    /// Starts keeping the agent's copy of the login in sync with the user's login.
    pub(crate) fn keep_logins_the_same(&self, events: &mpsc::Sender<RunEvent>) {
        self.login.iter().for_each(|login| login.keep_the_same(events.clone()));
    }

    /// The hosts that the run may reach through the shim, and the limits. `None` if the run has no sandbox.
    pub(crate) fn network_policy(
        &self,
        spec: &RunSpec,
        upstream: Option<UpstreamProxy>,
    ) -> Option<NetworkPolicy> {
        let Launchable::Sandbox { plan, .. } = &self.launchable else { return None };
        let network = plan.network();
        let allow = network.allow.iter().map(|(host, _)| host.clone()).collect();
        let registries = spec.known_registries.iter().filter_map(|host| host.parse().ok());
        let registries = registries.collect::<Vec<AllowedHost>>().into_iter().collect();
        let (tun, limits) = (network.tun, network.limits);
        Some(NetworkPolicy { allow, registries, tun, limits, upstream })
    }

    pub(crate) fn network_mode(&self) -> NetworkMode {
        match &self.launchable {
            Launchable::Sandbox { plan, .. } => plan.network().mode,
            Launchable::Unconfined(_) => NetworkMode::Host,
        }
    }

    /// The run's own mount points in the workspace.
    pub(crate) fn own_mount_points(&self) -> Vec<PathBuf> {
        match &self.launchable {
            Launchable::Sandbox { plan, .. } => {
                plan.mount_points_to_create().paths().map(Path::to_owned).collect()
            }
            Launchable::Unconfined(_) => Vec::new(),
        }
    }

    /// The secrets of the login and of the user's MCP servers. Caretaker must not record them.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let of_servers = self.mcp.servers.secrets();
        let of_login = self.login.iter().flat_map(LoginCopy::tokens);
        of_login.chain(self.tokens.iter().map(String::as_str)).chain(of_servers)
    }

    /// Removes the `mcp.json` with the keys of the user's servers. The agent must be gone.
    pub(crate) fn forget_servers(&self) {
        forget_servers(&self.mcp.run_dir);
    }

    /// Watches for new tokens in the agent's copy of the login.
    pub(crate) fn login_watch(&self) -> Option<LoginWatch> {
        self.login.as_ref().map(LoginCopy::watch)
    }

    /// Writes renewed tokens to the user's login if allowed, and returns the events about it. The agent must be gone.
    pub(crate) fn give_login_back(&mut self) -> Vec<RunEvent> {
        self.login.take().map(LoginCopy::give_back).unwrap_or_default()
    }

    /// Removes the run's mount points from the workspace, if they are unchanged.
    pub(crate) fn remove_mount_points(&self) {
        remove_recorded(&self.mount_points);
    }

    /// Changes the agent's servers while it runs. `None` without a sandbox, because the agent then uses the user's own
    /// files.
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

    /// The event for servers that the user changed for the session before this run.
    pub(crate) fn changed_servers(&self) -> Option<RunEvent> {
        self.mcp.changed_before()
    }
}
