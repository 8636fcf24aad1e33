//! The spec of a run. Each field comes from the layers of the request, from the earlier run, or from the host.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cursor_home::{CursorRoots, ExtraFlags, ModelSlug, WorkspacePath};
use ground::now_ms;
use run_protocol::{
    AgentKind, AgentProgram, BytesPath, ExitCode, NetworkMode, RepositoryServer, ResourceLimits,
    RunId, RunLimits, RunRequest, RunSpec, UserMcpFiles, WorkspaceSaving,
};
use run_shim::machine_memory;
use sandbox_plan::{CERTIFICATE_VARIABLES, Confinement, Profile};
use uuid::Uuid;

use super::{Admission, Chosen, RunContext, SIMULATION, create, is_proxy_variable};
use crate::command_error::{CommandError, OrFail};
use crate::host::{Host, host_git, memory};
use crate::inheritance;
use crate::sandbox::profiles::{self, NamedBy};
use crate::sandbox::user_mcp;
use crate::worktrees;

/// The time limit for saving a workspace if the configuration sets none. No user would wait longer for an agent to
/// begin.
const LONGEST_SAVING: Duration = Duration::from_secs(3600);

impl Admission<'_, '_> {
    pub(super) fn spec(
        &self,
        chosen: &Chosen,
        roots: &CursorRoots,
    ) -> Result<RunSpec, CommandError> {
        let Self { host, asked, context, .. } = self;
        let before = self.before.as_deref();
        let profile = &chosen.profile.profile;
        if profile.confinement() == Confinement::None
            && !(asked.mcp.is_empty() && asked.mcp_from_repo.is_empty())
        {
            let what = "--mcp and --mcp-from-repo choose servers for a sandbox; without a sandbox the agent reads your own files";
            return Err(CommandError::new(ExitCode::Usage, what).hint("leave them out"));
        }
        let request = self.combined(profile)?;
        let found = self.found_registries(chosen);
        let registries = self.registries(&request, profile, &found)?;
        let mode = request.network.unwrap_or(profile.network_mode());
        let is_online = mode == NetworkMode::Host || !registries.is_empty();
        let of_tools = found.variables_if(is_online);
        let (queue, wait_for_locks) = create::queueing(&context.start_mode, &request);
        let mut spec = RunSpec {
            run: chosen.run,
            created_ms: now_ms(),
            name: asked.name.as_ref().map(ToString::to_string),
            session: chosen.session,
            session_start: chosen.session_start,
            workspace: chosen.workspace.as_utf8()?.to_owned(),
            worktree: worktrees::origin_of(host, chosen.workspace.as_path()),
            setup: self.setup(&request)?,
            saving: self.saving(&request, chosen.workspace.as_path()),
            agent: chosen.agent.clone(),
            model: model(&request)?,
            mode: request.mode.and_then(Into::into),
            tool_approval: self.tool_approval(profile)?,
            partial_output: request.stream,
            extra_flags: extra_flags(&request.agent_flags)?,
            env: self.variables(&request, &chosen.agent, profile, of_tools)?,
            certificates: self.certificates(profile),
            home_files: found.home_files,
            secrets: self.secret_names(),
            profile: profile.name().to_owned(),
            profile_text: chosen.profile.text.clone(),
            fresh_cache: request.fresh_cache,
            network: request.network,
            allow_hosts: request.allow_host.iter().map(ToString::to_string).collect(),
            known_registries: found
                .hosts
                .iter()
                .map(ToString::to_string)
                .filter(|host| !registries.contains(host))
                .collect(),
            registries,
            bwrap: chosen
                .bubblewrap
                .as_ref()
                .map(|found| found.path.clone())
                .unwrap_or_default()
                .into(),
            home: physical_home(host)?,
            host_config_root: roots.config().into(),
            login_file: self.login_file(&chosen.agent, roots).map(BytesPath::from),
            policy: self.policy(chosen, &request),
            user_mcp: self.user_mcp(&chosen.workspace, roots)?,
            repository_mcp: self.repository_mcp(&chosen.workspace)?,
            mcp_choice: self.mcp_choice(),
            limits: self.limits(&request),
            resources: self.resources(&request, profile),
            wait_for_locks,
            retry_of: context.retry_of,
            continues: self.continues(chosen.session),
            restart: request.restart,
            group: request.group.as_ref().map(ToString::to_string),
            queue,
            lineage: before.and_then(|before| before.lineage.clone()),
            delivers: context.delivers.clone(),
            labels: request.labels.into_iter().map(|label| (label.name, label.value)).collect(),
            expose: request.expose.into_iter().map(BytesPath::from).collect(),
            widened: Vec::new(),
            socket_dir: host.places.sockets.clone().into(),
        };
        let Some(before) = self.before_with(&spec.agent) else { return Ok(spec) };
        let widened = inheritance::wider_than(&spec, &before);
        inheritance::check(&widened, &asked.widen)?;
        // After the check, because this only removes paths.
        spec.expose.retain(|path| path.0.exists());
        spec.widened = widened;
        Ok(spec)
    }

    /// Combines all layers; see the top of `RunRequest`.
    fn combined(&self, profile: &Profile) -> Result<RunRequest, CommandError> {
        let asked = RunRequest { expose: self.exposed()?, ..self.asked.clone() };
        Ok(match &self.before {
            None => RunRequest::combine([self.config.request()?, asked]),
            Some(before) => RunRequest::combine([
                inheritance::layer(before, profile, self.asked, self.auto_memory()),
                asked,
            ]),
        })
    }

    /// The command that prepares a new worktree.
    fn setup(&self, request: &RunRequest) -> Result<Option<String>, CommandError> {
        match (self.context.fresh, self.context.retry_of, &self.asked.setup) {
            (Some(_), ..) => Ok(request.setup.clone()),
            (None, None, Some(_)) => {
                let what = "--setup prepares a new worktree, and this run has none";
                Err(CommandError::new(ExitCode::Usage, what).hint("add --worktree"))
            }
            // A retry works in a worktree that is already prepared.
            (None, ..) => Ok(None),
        }
    }

    /// How the shim saves the workspace before the run.
    fn saving(&self, request: &RunRequest, workspace: &Path) -> Option<WorkspaceSaving> {
        let Self { host, config, .. } = self;
        if request.no_checkpoint {
            return None;
        }
        let git = host_git::program(&host.environment, Some(workspace)).map(BytesPath::from);
        if let Some(before) = &self.before {
            return before.saving.clone().map(|saving| WorkspaceSaving { git, ..saving });
        }
        let within = config.checkpoint_within.limit().unwrap_or(LONGEST_SAVING);
        Some(WorkspaceSaving {
            git,
            within_ms: u64::try_from(within.min(LONGEST_SAVING).as_millis()).unwrap_or(u64::MAX),
            most_new_bytes: config.checkpoint_size.0,
            keep_runs: config.checkpoints_kept,
        })
    }

    /// The files of the user's own MCP servers, if the run gets those servers.
    fn user_mcp(
        &self,
        workspace: &WorkspacePath,
        roots: &CursorRoots,
    ) -> Result<Option<UserMcpFiles>, CommandError> {
        let RunRequest { user_mcp, no_user_mcp, mcp, .. } = self.asked;
        if !mcp.is_empty() {
            return user_mcp::named(workspace, roots, mcp).map(Some);
        }
        match (&self.before, user_mcp::find(workspace, roots)) {
            _ if *no_user_mcp => Ok(None),
            (_, None) if *user_mcp => {
                let file = roots.user_mcp_json();
                let what = format!("you have no MCP servers: there is no `{}`", file.display());
                Err(CommandError::new(ExitCode::NotFound, what))
            }
            (Some(before), _) if !*user_mcp => Ok(before.user_mcp.clone()),
            // The configuration may ask for servers on a machine that has none: the user may share it between machines.
            (_, files) => Ok(files.filter(|_| *user_mcp || self.config.user_mcp)),
        }
    }

    /// The repository's servers that the user allows now, or allowed for the earlier run.
    fn repository_mcp(
        &self,
        workspace: &WorkspacePath,
    ) -> Result<Vec<RepositoryServer>, CommandError> {
        match &self.before {
            Some(before) if self.asked.mcp_from_repo.is_empty() => {
                Ok(before.repository_mcp.clone())
            }
            _ => user_mcp::from_repository(workspace, &self.asked.mcp_from_repo),
        }
    }

    /// The host's variables that the profile lets in, and the user's variables for this run.
    fn variables(
        &self,
        request: &RunRequest,
        agent: &AgentProgram,
        profile: &Profile,
        of_tools: BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, CommandError> {
        // Without a sandbox the agent gets every variable, but the spec records no more of them than in a sandbox.
        let usual = match profile.confinement() {
            Confinement::Bubblewrap => None,
            Confinement::None => {
                Some(profiles::find(&self.host.places, "default", NamedBy::Configuration)?.profile)
            }
        };
        let profile = usual.as_ref().unwrap_or(profile);
        let mode = request.network.unwrap_or(profile.network_mode());
        let plays = |name: &str| agent.kind == AgentKind::Simulated && SIMULATION.contains(&name);
        let is_let_in = |name: &str| match &self.before {
            // Inside, these variables have other values.
            None if usual.is_none() && CERTIFICATE_VARIABLES.contains(&name) => false,
            None => {
                matches!(name, "PATH" | "SHELL")
                    || profile.passes_variable(name.as_ref())
                    || plays(name)
            }
            // A continued run keeps its variables. But the simulated agent's variables come from this command, and the
            // proxy depends on the network mode.
            Some(before) => {
                let is_other_way = inheritance::mode_of(before) != Some(mode);
                plays(name)
                    || is_other_way
                        && is_proxy_variable(name)
                        && profile.passes_variable(name.as_ref())
            }
        };
        // A run without the host's network does not use the host's proxy.
        let has_host_network = mode == NetworkMode::Host;
        let of_host = self
            .host
            .environment
            .utf8_variables()
            .filter(|(name, _)| is_let_in(name) && (has_host_network || !is_proxy_variable(name)))
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let of_request = request.env.iter().map(|set| (set.name.clone(), set.value.clone()));
        Ok(of_tools.into_iter().chain(of_host).chain(of_request).collect())
    }

    /// The files of certificates that the host's variables name. Without a sandbox, the agent gets the variables themselves.
    fn certificates(&self, profile: &Profile) -> BTreeMap<String, BytesPath> {
        let environment = &self.host.environment;
        let named = CERTIFICATE_VARIABLES.into_iter().filter_map(|name| {
            let path = environment.absolute(environment.variable(name)?.as_ref());
            Some((name.to_owned(), BytesPath::from(path)))
        });
        named.filter(|_| profile.confinement() == Confinement::Bubblewrap).collect()
    }

    /// The absolute paths that the sandbox also shows.
    pub(super) fn exposed(&self) -> Result<Vec<PathBuf>, CommandError> {
        let paths = self.asked.expose.iter().map(|path| self.host.environment.absolute(path));
        let paths: Vec<PathBuf> = paths.collect();
        match paths.iter().find(|path| !path.exists()) {
            None => Ok(paths),
            Some(missing) => {
                let missing = missing.display();
                let what = format!("`{missing}` from --expose does not exist");
                Err(CommandError::new(ExitCode::NotFound, what))
            }
        }
    }

    /// Limits without a flag come from the earlier run, or from the configuration.
    fn limits(&self, request: &RunRequest) -> RunLimits {
        let usual = || self.config.run_limits();
        let mut limits = self.before.as_ref().map_or_else(usual, |before| before.limits.clone());
        limits.set(request);
        limits
    }

    fn resources(&self, request: &RunRequest, profile: &Profile) -> ResourceLimits {
        let mut resources = match &self.before {
            None => inheritance::of_profile(Some(profile), self.auto_memory()),
            Some(before) => inheritance::resources(before, profile, self.auto_memory()),
        };
        resources.set(request);
        resources
    }

    /// The limit of a profile that says `memory = "auto"`.
    fn auto_memory(&self) -> u64 {
        memory::usual_limit(machine_memory(), self.config.queue.cap)
    }

    /// The run that this run continues, if the caller knows it. Another process may have continued the session during the
    /// pause before a retry.
    fn continues(&self, session: Uuid) -> Option<RunId> {
        let RunContext { continues, retry_of, .. } = &self.context;
        let is_same = self.before.as_ref().is_some_and(|before| before.session == session);
        continues.or(retry_of.filter(|_| is_same))
    }
}

fn model(request: &RunRequest) -> Result<Option<String>, CommandError> {
    let model = request.model.as_deref().map(ModelSlug::parse).transpose();
    let model = model.or_fail_as(ExitCode::Usage, || "the model cannot be used")?;
    Ok(model.map(|model| model.as_str().to_owned()))
}

fn extra_flags(words: &[String]) -> Result<Vec<String>, CommandError> {
    ExtraFlags::check(words.iter().map(OsString::from))?;
    Ok(words.to_vec())
}

/// The home directory's physical path, which it also has in the sandbox: a link to it would dangle there.
fn physical_home(host: &Host) -> Result<BytesPath, CommandError> {
    let home = &host.environment.home;
    std::fs::canonicalize(home).map(BytesPath::from).or_fail_as(ExitCode::Usage, || {
        format!("the home directory `{}` cannot be used", home.display())
    })
}
