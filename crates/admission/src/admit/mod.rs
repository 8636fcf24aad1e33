//! Everything that is checked about a run before anything of it exists, and the spec that comes out of it.

mod continued;
mod host_proxy;
mod login;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cursor_home::{CursorRoots, ExtraFlags, ModelSlug, WorkspacePath};
use ground::now_ms;
use run_protocol::{
    AgentKind, AgentProgram, BytesPath, ExitCode, NetworkMode, RunId, RunLimits, RunSpec,
    SessionStart, UserMcpFiles, WorkspaceSaving,
};
use run_shim::{ShimEnvironment, SocketPaths, check_run};
use sandbox_plan::{Confinement, Profile};
use uuid::Uuid;

pub use self::host_proxy::{host_proxy, is_proxy_variable};
pub use self::login::{SIMULATED_KEY, has_key};
use crate::command_error::{CommandError, OrFail};
use crate::config::Config;
use crate::host::Host;
use crate::host::agent_discovery::refuse_inside;
use crate::host::disk;
use crate::host::host_git;
use crate::inheritance;
use crate::request::limit_options;
use crate::request::name_claim;
use crate::request::run_marks;
use crate::request::run_options::RunOptions;
use crate::resumption::Resumption;
use crate::sandbox::bubblewrap::{Bubblewrap, Trial};
use crate::sandbox::profiles::{self, FoundProfile, NamedBy};
use crate::sandbox::user_mcp;
use crate::sandbox::workspace;
use crate::words::units;
use crate::worktrees;

/// Variables of the host that tell the simulated agent what to play.
pub const SIMULATION: [&str; 2] = ["SIMULATED_AGENT_SCRIPT", "SIMULATED_AGENT_MISBEHAVE"];

/// What saving a workspace may take where the configuration sets no limit: nobody waits longer for an agent to begin.
const LONGEST_SAVING: Duration = Duration::from_secs(3600);

/// What was asked for, and what it is checked against.
pub struct Admission<'a> {
    pub host: &'a Host,
    pub config: &'a Config,
    pub options: &'a RunOptions,
    pub conversation: &'a Conversation,
    /// Our own program.
    pub program: &'a Path,
    /// The run that is tried again.
    pub retry_of: Option<RunId>,
    /// The run that this one continues or repeats, and inherits from.
    before: Option<Box<RunSpec>>,
    /// The run only counts the tools of MCP servers, and says their number itself.
    counts_tools: bool,
}

/// What the run is about.
#[derive(Debug)]
pub enum Conversation {
    /// A new session, in the directory that was named or in the one we are in.
    New { workspace: Option<PathBuf> },
    /// A new session in the place of one that cannot be resumed.
    Instead { of: Uuid, workspace: PathBuf },
    /// One that can be resumed, or that was minted, where it belongs.
    Resumed(Box<Resumption>),
}

impl Conversation {
    fn workspace(&self) -> Option<&Path> {
        match self {
            Self::New { workspace } => workspace.as_deref(),
            Self::Instead { workspace, .. } => Some(workspace),
            Self::Resumed(resumption) => Some(resumption.workspace.as_path()),
        }
    }

    fn session(&self) -> (Uuid, SessionStart) {
        match self {
            Self::New { .. } | Self::Instead { .. } => (Uuid::new_v4(), SessionStart::New),
            Self::Resumed(resumption) => (resumption.session, resumption.start),
        }
    }

    /// The session whose last run is inherited from.
    fn continues(&self) -> Option<Uuid> {
        match self {
            Self::New { .. } => None,
            Self::Instead { of, .. } => Some(*of),
            Self::Resumed(resumption) => Some(resumption.session),
        }
    }
}

/// What was found for a run.
struct Chosen {
    run: RunId,
    session: Uuid,
    session_start: SessionStart,
    workspace: WorkspacePath,
    agent: AgentProgram,
    profile: FoundProfile,
    /// Where there is no sandbox there may be no bubblewrap.
    bubblewrap: Option<Bubblewrap>,
}

/// A run that may begin.
#[derive(Debug)]
pub struct Admitted {
    pub spec: RunSpec,
    pub shim_environment: ShimEnvironment,
    /// To be remembered once there is a place for it.
    pub trial: Trial,
}

impl<'a> Admission<'a> {
    /// Finds the run that this one inherits from, so that no way to continue a session can forget it.
    pub fn new(
        host: &'a Host,
        config: &'a Config,
        options: &'a RunOptions,
        conversation: &'a Conversation,
        program: &'a Path,
        retry_of: Option<RunId>,
    ) -> Result<Self, CommandError> {
        let before = continued::run_before(host, conversation, retry_of, options)?;
        let counts_tools = false;
        Ok(Self { host, config, options, conversation, program, retry_of, before, counts_tools })
    }

    /// For a run that only counts the tools of MCP servers.
    pub fn counting_tools(self) -> Self {
        Self { counts_tools: true, ..self }
    }
}

impl Admission<'_> {
    /// Checks what is cheap to put right first, and creates nothing.
    pub fn admit(&self) -> Result<Admitted, CommandError> {
        let Self { host, options, program, .. } = self;
        let run = RunId::generate();
        let roots = host.environment.cursor_roots()?;
        let workspace = workspace::check(host, self.conversation.workspace())?;
        refuse_inside(program, Some(workspace.as_path()))?;
        let agent = self.agent(&workspace)?;
        let (session, session_start) = self.conversation.session();
        let profile = self.profile()?;
        let confinement = profile.profile.confinement();
        let shim_environment = self.shim_environment(&agent, &roots, confinement)?;
        let bubblewrap = match confinement {
            Confinement::Bubblewrap => {
                Some(Bubblewrap::find(&host.environment, Some(workspace.as_path()))?)
            }
            Confinement::None => None,
        };
        let chosen = Chosen { run, session, session_start, workspace, agent, profile, bubblewrap };
        let spec = self.spec(&chosen, &roots)?;
        self.check_sockets(run)?;
        self.check_disk()?;
        let user_mcp = user_mcp::check(host, &spec, &options.servers)?;
        check_run(&host.state, &spec)?;
        if let Some(name) = &options.name {
            name_claim::check_free(&host.state, name)?;
        }
        // Last, because it is the only check that takes time.
        let trial = match &chosen.bubblewrap {
            Some(bubblewrap) => bubblewrap.try_out_once(host.state.path())?,
            None => Trial::NotNeeded,
        };
        user_mcp::say_what_came_of_it(user_mcp.as_ref(), self.counts_tools);
        self.say_what_was_inherited(&spec, &chosen.profile);
        Ok(Admitted { spec, shim_environment, trial })
    }

    /// The spec of a run that is only talked about: it needs no login, no room and no working bubblewrap.
    pub fn hypothetical(&self) -> Result<RunSpec, CommandError> {
        let environment = &self.host.environment;
        let roots = environment.cursor_roots()?;
        let workspace = workspace::check(self.host, self.conversation.workspace())?;
        let bubblewrap = Bubblewrap::find(environment, Some(workspace.as_path()))
            .unwrap_or_else(|_| Bubblewrap { path: "/usr/bin/bwrap".into() });
        let chosen = Chosen {
            run: RunId::generate(),
            session: Uuid::new_v4(),
            session_start: SessionStart::New,
            agent: self.agent(&workspace)?,
            workspace,
            profile: self.profile()?,
            bubblewrap: Some(bubblewrap),
        };
        self.spec(&chosen, &roots)
    }

    fn spec(&self, chosen: &Chosen, roots: &CursorRoots) -> Result<RunSpec, CommandError> {
        let Self { host, config, options, .. } = self;
        let profile = &chosen.profile.profile;
        let usual = self.before.as_ref().map_or(&config.labels, |before| &before.labels);
        let labels = run_marks::labels(usual, &options.labels)
            .or_fail_as(ExitCode::Usage, || "a label cannot be used")?;
        if profile.confinement() == Confinement::None && !options.servers.is_empty() {
            let what = "--mcp and --mcp-from-repo choose servers for a sandbox; without one the agent goes by your own files";
            return Err(CommandError::new(ExitCode::Usage, what).hint("leave them out"));
        }
        let fresh = RunSpec {
            run: chosen.run,
            created_ms: now_ms(),
            name: options.name.as_ref().map(|name| name.as_str().to_owned()),
            labels,
            session: chosen.session,
            session_start: chosen.session_start,
            workspace: chosen.workspace.as_utf8()?.to_owned(),
            worktree: worktrees::origin_of(host, chosen.workspace.as_path()),
            saving: self.saving(chosen.workspace.as_path()),
            agent: chosen.agent.clone(),
            model: self.model()?,
            mode: options.mode.and_then(Into::into),
            tool_approval: self.tool_approval(profile.confinement())?,
            partial_output: options.stream,
            extra_flags: extra_flags(&options.agent_flags)?,
            env: self.variables(&chosen.agent, profile)?,
            secrets: self.secrets()?.into_iter().map(|secret| secret.name).collect(),
            profile: profile.name().to_owned(),
            profile_text: chosen.profile.text.clone(),
            expose: self.expose()?,
            network: options.network.map(Into::into),
            allow_hosts: self.allow_hosts(),
            bwrap: chosen
                .bubblewrap
                .as_ref()
                .map(|found| found.path.clone())
                .unwrap_or_default()
                .into(),
            home: physical_home(host)?,
            host_config_root: roots.config().into(),
            login_file: self.login_file(&chosen.agent, roots)?.map(BytesPath::from),
            user_mcp: self.user_mcp(&chosen.workspace, roots)?,
            repository_mcp: user_mcp::from_repository(
                &chosen.workspace,
                &options.servers.mcp_from_repo,
            )?,
            mcp_choice: self.mcp_choice(),
            limits: self.limits(),
            resources: limit_options::resources(
                &options.limits,
                &config.resource_limits(),
                profile,
            ),
            wait_for_locks: options.wait,
            retry_of: self.retry_of,
            continues: None,
            restart: options.restart,
            group: options.queue.group.as_ref().map(|group| group.as_str().to_owned()),
            queue: None,
            lineage: None,
            delivers: Vec::new(),
            widened: Vec::new(),
            socket_dir: host.places.sockets.clone().into(),
        };
        let Some(before) = &self.before else { return Ok(fresh) };
        let mut spec = inheritance::inherit(fresh, before, options);
        let widened = inheritance::wider_than(&spec, before);
        inheritance::check(&widened, &options.widen)?;
        // Last, because it only takes away.
        spec.expose.retain(|path| path.0.exists());
        spec.widened = widened;
        Ok(spec)
    }

    /// How the workspace is saved before the run.
    fn saving(&self, workspace: &Path) -> Option<WorkspaceSaving> {
        let Self { host, config, options, .. } = self;
        if options.no_checkpoint || !config.checkpoint {
            return None;
        }
        let within = config.checkpoint_within.limit().unwrap_or(LONGEST_SAVING);
        Some(WorkspaceSaving {
            git: host_git::program(&host.environment, Some(workspace)).map(BytesPath::from),
            within_ms: u64::try_from(within.min(LONGEST_SAVING).as_millis()).unwrap_or(u64::MAX),
            most_new_bytes: config.checkpoint_size.0,
            keep_runs: config.checkpoints_kept,
        })
    }

    fn model(&self) -> Result<Option<String>, CommandError> {
        let named = self.options.model.as_deref().or(self.config.model.as_deref());
        let model = named.map(ModelSlug::parse).transpose();
        let model = model.or_fail_as(ExitCode::Usage, || "the model cannot be used")?;
        Ok(model.map(|model| model.as_str().to_owned()))
    }

    /// Where the user's own MCP servers are defined, if the run is to have them.
    fn user_mcp(
        &self,
        workspace: &WorkspacePath,
        roots: &CursorRoots,
    ) -> Result<Option<UserMcpFiles>, CommandError> {
        let is_usual = self.config.user_mcp && self.before.is_none() && !self.options.no_user_mcp;
        if !self.options.servers.mcp.is_empty() {
            return user_mcp::named(workspace, roots, &self.options.servers.mcp).map(Some);
        }
        match (self.options.user_mcp, user_mcp::find(workspace, roots)) {
            // A configuration may be shared with machines that have none.
            (false, files) => Ok(files.filter(|_| is_usual)),
            (true, Some(files)) => Ok(Some(files)),
            (true, None) => {
                let file = roots.user_mcp_json();
                let what = format!("you have no MCP servers: there is no `{}`", file.display());
                Err(CommandError::new(ExitCode::NotFound, what))
            }
        }
    }

    /// What the profile lets in from the host, and what the user sets for this run.
    fn variables(
        &self,
        agent: &AgentProgram,
        profile: &Profile,
    ) -> Result<BTreeMap<String, String>, CommandError> {
        // Without a sandbox nothing is kept out, but what is written down with the run is no larger than otherwise.
        let usual = match profile.confinement() {
            Confinement::Bubblewrap => None,
            Confinement::None => {
                Some(profiles::find(&self.host.places, "default", NamedBy::Configuration)?.profile)
            }
        };
        let profile = usual.as_ref().unwrap_or(profile);
        let is_let_in = |name: &str| {
            name == "PATH"
                || profile.passes_variable(name.as_ref())
                || (agent.kind == AgentKind::Simulated && SIMULATION.contains(&name))
        };
        // Whoever goes out by way of us, or not at all, has no use for the host's own way.
        let has_host_network = self.network_mode(profile) == NetworkMode::Host;
        let of_host = self
            .host
            .environment
            .utf8_variables()
            .filter(|(name, _)| is_let_in(name) && (has_host_network || !is_proxy_variable(name)))
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let of_user = self.options.variables.iter();
        let all = of_host.chain(of_user.map(|set| (set.name.clone(), set.value.clone())));
        Ok(all.collect())
    }

    fn allow_hosts(&self) -> Vec<String> {
        // What a configuration allows by now is for new sessions.
        let usual = self.config.allow_hosts.iter().filter(|_| self.before.is_none());
        let of_config = usual.map(|entry| &entry.0);
        self.options.allow_hosts.iter().chain(of_config).map(ToString::to_string).collect()
    }

    fn expose(&self) -> Result<Vec<BytesPath>, CommandError> {
        let mut exposed: Vec<BytesPath> = Vec::new();
        for named in &self.options.expose {
            let path = self.host.environment.absolute(named);
            if !path.exists() {
                let what =
                    format!("`{}`, which is to be shown inside, does not exist", path.display());
                return Err(CommandError::new(ExitCode::NotFound, what));
            }
            exposed.push(path.into());
        }
        // A configuration may be shared between machines that do not all have the same.
        let usual = self.config.expose.iter().filter(|path| self.before.is_none() && path.exists());
        exposed.extend(usual.map(|path| BytesPath::from(path.clone())));
        Ok(exposed)
    }

    fn limits(&self) -> RunLimits {
        let mut limits = self.config.run_limits();
        limit_options::apply_to_run(self.options, &mut limits);
        limits
    }

    fn check_sockets(&self, run: RunId) -> Result<(), CommandError> {
        let paths = SocketPaths::new(&self.host.places.sockets, run);
        if paths.fit() {
            return Ok(());
        }
        let what = format!(
            "the path of the run's sockets below `{}` would be too long for the kernel",
            self.host.places.sockets.display()
        );
        Err(CommandError::new(ExitCode::Usage, what)
            .hint("set XDG_RUNTIME_DIR to a shorter path, or unset it"))
    }

    fn check_disk(&self) -> Result<(), CommandError> {
        // The queue waits until there is room.
        if self.options.queue.queue {
            return Ok(());
        }
        let state = self.host.state.path();
        let needed = self.config.min_free.0;
        // Where nobody can say how much there is, the first write will.
        let free = disk::free_bytes(state).unwrap_or(u64::MAX);
        if free >= needed {
            return Ok(());
        }
        let what = format!(
            "there are only {} free for `{}`, and {} are wanted",
            units::bytes(free),
            state.display(),
            units::bytes(needed)
        );
        Err(CommandError::new(ExitCode::SupervisorFailed, what)
            .hint("make room, or lower `min_free` in the configuration"))
    }
}

fn extra_flags(words: &[OsString]) -> Result<Vec<String>, CommandError> {
    let checked = ExtraFlags::check(words.iter().cloned())?;
    let words = checked.words().iter().map(|word| word.clone().into_string());
    words.collect::<Result<_, _>>().map_err(|word| {
        let what = format!("the agent flag `{}` is not UTF-8", word.display());
        CommandError::new(ExitCode::Usage, what)
    })
}

/// Inside, the home directory has its physical path, since nothing there could follow a link to it.
fn physical_home(host: &Host) -> Result<BytesPath, CommandError> {
    let home = &host.environment.home;
    std::fs::canonicalize(home).map(BytesPath::from).or_fail_as(ExitCode::Usage, || {
        format!("the home directory `{}` cannot be used", home.display())
    })
}

#[cfg(test)]
#[path = "admission_tests.rs"]
pub mod tests;
