//! Everything that is checked about a run before anything of it exists, and the spec that comes out of it.

mod accept;
mod continued;
mod host_proxy;
mod login;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cursor_home::{CursorRoots, ExtraFlags, ModelSlug, WorkspacePath};
use ground::now_ms;
use run_journal::Prompt;
use run_protocol::{
    AgentKind, AgentProgram, BytesPath, ExitCode, NetworkMode, QueueTerms, RepositoryServer,
    ResourceLimits, RunId, RunLimits, RunRequest, RunSpec, SessionStart, UserMcpFiles,
    WorkspaceSaving,
};
use run_shim::{SocketPaths, check_run};
use sandbox_plan::{Confinement, Profile};
use uuid::Uuid;

pub use self::accept::{Accepted, Admitted, place};
pub use self::host_proxy::host_proxy;
pub(crate) use self::host_proxy::is_proxy_variable;
pub(crate) use self::login::SIMULATED_KEY;
pub use self::login::has_key;
use crate::brought::brought_for;
use crate::command_error::{CommandError, OrFail};
use crate::config::Config;
use crate::host::Host;
use crate::host::agent_discovery::refuse_inside;
use crate::host::disk;
use crate::host::host_git;
use crate::inheritance;
use crate::request::name_claim;
use crate::resumption::Resumption;
use crate::sandbox::bubblewrap::{Bubblewrap, Trial};
use crate::sandbox::profiles::{self, FoundProfile, NamedBy};
use crate::sandbox::user_mcp;
use crate::sandbox::workspace;
use crate::words::units;
use crate::worktrees;

/// Variables of the host that tell the simulated agent what to play.
pub(crate) const SIMULATION: [&str; 2] = ["SIMULATED_AGENT_SCRIPT", "SIMULATED_AGENT_MISBEHAVE"];

/// What saving a workspace may take where the configuration sets no limit: nobody waits longer for an agent to begin.
const LONGEST_SAVING: Duration = Duration::from_secs(3600);

/// What is asked for, and what it is checked against.
pub struct Admission<'a, 'r> {
    pub host: &'a Host,
    pub config: &'a Config,
    /// Our own program.
    pub program: &'a Path,
    /// The topmost layer: flags, a request of the API, or a line of a batch on top of the flags.
    pub asked: &'r RunRequest,
    pub errand: Errand,
    /// The run that this one continues or repeats, and inherits from.
    before: Option<Box<RunSpec>>,
}

/// What the run is about, and what it follows: known to the caller, and no matter of taste.
#[derive(Debug)]
pub struct Errand {
    pub conversation: Conversation,
    pub way: Way,
    /// The run that is tried again.
    pub retry_of: Option<RunId>,
    /// The run that it continues, where the caller has chosen that run. The shim refuses if a later run has the session.
    pub continues: Option<RunId>,
    /// The messages of the session's inbox that are its prompt.
    pub delivers: Vec<String>,
    /// The run only counts the tools of MCP servers, and says their number itself.
    pub counts_tools: bool,
}

impl Errand {
    pub fn new(conversation: Conversation, way: Way) -> Self {
        let (retry_of, continues, delivers) = (None, None, Vec::new());
        Self { conversation, way, retry_of, continues, delivers, counts_tools: false }
    }
}

/// How a run gets its supervisor.
#[derive(Debug, Clone)]
pub enum Way {
    /// From the caller, now. `waits`: for a session or a workspace that is held, instead of failing.
    Direct { waits: bool },
    /// From the daemon, when its turn comes. `waits_for_room`: on the disk, instead of failing.
    Queue { terms: QueueTerms, waits_for_room: bool },
}

impl Way {
    /// Into the queue, when the request says.
    pub fn queue(
        host: &Host,
        request: &RunRequest,
        waits_for_room: bool,
    ) -> Result<Self, CommandError> {
        Ok(Self::Queue { terms: accept::terms(host, request)?, waits_for_room })
    }
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

impl<'a, 'r> Admission<'a, 'r> {
    /// Finds the run that this one inherits from, so that no way to continue a session can forget it.
    pub fn new(
        host: &'a Host,
        config: &'a Config,
        program: &'a Path,
        asked: &'r RunRequest,
        errand: Errand,
    ) -> Result<Self, CommandError> {
        let before = continued::run_before(host, &errand, asked)?;
        Ok(Self { host, config, program, asked, errand, before })
    }

    /// Checks the run, and makes its directory. Nothing else makes one for a request of a person.
    pub fn accept<'p>(&self, prompt: impl Into<Prompt<'p>>) -> Result<Accepted, CommandError> {
        self.admit()?.accept(prompt)
    }

    /// Checks what is cheap to put right first, and creates nothing.
    pub fn admit(&self) -> Result<Admitted<'a>, CommandError> {
        let Self { host, config, program, asked, .. } = *self;
        let run = RunId::generate();
        let roots = host.environment.cursor_roots()?;
        let workspace = workspace::check(host, self.errand.conversation.workspace())?;
        refuse_inside(program, Some(workspace.as_path()))?;
        let agent = self.agent(&workspace)?;
        let (session, session_start) = self.errand.conversation.session();
        let profile = self.profile()?;
        let confinement = profile.profile.confinement();
        let shim_environment = self.shim_environment(&agent, &roots, &profile.profile)?;
        let bubblewrap = match confinement {
            Confinement::Bubblewrap => {
                Some(Bubblewrap::find(&host.environment, Some(workspace.as_path()))?)
            }
            Confinement::None => None,
        };
        let chosen = Chosen { run, session, session_start, workspace, agent, profile, bubblewrap };
        let mut spec = self.spec(&chosen, &roots)?;
        let brought = brought_for(&spec, &shim_environment);
        if let Some(terms) = &mut spec.queue {
            terms.keys = brought.keys.keys().cloned().collect();
        }
        self.check_sockets(run)?;
        self.check_disk()?;
        let user_mcp = user_mcp::check(host, &spec, asked)?;
        check_run(&host.state, &spec)?;
        if let Some(name) = &asked.name {
            name_claim::check_free(&host.state, name)?;
        }
        // Last, because it is the only check that takes time.
        let trial = match &chosen.bubblewrap {
            Some(bubblewrap) => bubblewrap.try_out_once(host.state.path())?,
            None => Trial::NotNeeded,
        };
        user_mcp::say_what_came_of_it(user_mcp.as_ref(), self.errand.counts_tools);
        self.say_what_was_inherited(&spec, &chosen.profile);
        Ok(Admitted { host, config, spec, shim_environment, brought, trial })
    }
}

impl Admission<'_, '_> {
    /// The spec of a run that is only talked about: it needs no login, no room and no working bubblewrap.
    pub fn hypothetical(&self) -> Result<RunSpec, CommandError> {
        let environment = &self.host.environment;
        let roots = environment.cursor_roots()?;
        let workspace = workspace::check(self.host, self.errand.conversation.workspace())?;
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
        let Self { host, asked, errand, .. } = self;
        let before = self.before.as_deref();
        let profile = &chosen.profile.profile;
        if profile.confinement() == Confinement::None
            && !(asked.mcp.is_empty() && asked.mcp_from_repo.is_empty())
        {
            let what = "--mcp and --mcp-from-repo choose servers for a sandbox; without one the agent goes by your own files";
            return Err(CommandError::new(ExitCode::Usage, what).hint("leave them out"));
        }
        let request = self.combined(profile)?;
        let (queue, wait_for_locks) = accept::queueing(&errand.way, &request);
        let mut spec = RunSpec {
            run: chosen.run,
            created_ms: now_ms(),
            name: asked.name.as_ref().map(ToString::to_string),
            session: chosen.session,
            session_start: chosen.session_start,
            workspace: chosen.workspace.as_utf8()?.to_owned(),
            worktree: worktrees::origin_of(host, chosen.workspace.as_path()),
            saving: self.saving(&request, chosen.workspace.as_path()),
            agent: chosen.agent.clone(),
            model: model(&request)?,
            mode: request.mode.and_then(Into::into),
            tool_approval: self.tool_approval(profile)?,
            partial_output: request.stream,
            extra_flags: extra_flags(&request.agent_flags)?,
            env: self.variables(&request, &chosen.agent, profile)?,
            secrets: self.secret_names()?,
            profile: profile.name().to_owned(),
            profile_text: chosen.profile.text.clone(),
            network: request.network,
            allow_hosts: request.allow_host.iter().map(ToString::to_string).collect(),
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
            repository_mcp: self.repository_mcp(&chosen.workspace)?,
            mcp_choice: self.mcp_choice(),
            limits: self.limits(&request),
            resources: self.resources(&request, profile),
            wait_for_locks,
            retry_of: errand.retry_of,
            continues: self.continues(chosen.session),
            restart: request.restart,
            group: request.group.as_ref().map(ToString::to_string),
            queue,
            lineage: before.and_then(|before| before.lineage.clone()),
            delivers: errand.delivers.clone(),
            labels: request.labels.into_iter().map(|label| (label.name, label.value)).collect(),
            expose: request.expose.into_iter().map(BytesPath::from).collect(),
            widened: Vec::new(),
            socket_dir: host.places.sockets.clone().into(),
        };
        let Some(before) = before else { return Ok(spec) };
        let widened = inheritance::wider_than(&spec, before);
        inheritance::check(&widened, &asked.widen)?;
        // Last, because it only takes away.
        spec.expose.retain(|path| path.0.exists());
        spec.widened = widened;
        Ok(spec)
    }

    /// All layers; see the top of `RunRequest`.
    fn combined(&self, profile: &Profile) -> Result<RunRequest, CommandError> {
        let asked = RunRequest { expose: self.exposed()?, ..self.asked.clone() };
        Ok(match &self.before {
            None => RunRequest::combine([self.config.request()?, asked]),
            Some(before) => {
                RunRequest::combine([inheritance::layer(before, profile, self.asked), asked])
            }
        })
    }

    /// How the workspace is saved before the run.
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

    /// Where the user's own MCP servers are defined, if the run is to have them.
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
            // A configuration may be shared with machines that have none.
            (_, files) => Ok(files.filter(|_| *user_mcp || self.config.user_mcp)),
        }
    }

    /// The repository's servers that the user allows now, or allowed for the run before.
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

    /// What the profile lets in from the host, and what the user sets for this run.
    fn variables(
        &self,
        request: &RunRequest,
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
        let mode = request.network.unwrap_or(profile.network_mode());
        let plays = |name: &str| agent.kind == AgentKind::Simulated && SIMULATION.contains(&name);
        let is_let_in = |name: &str| match &self.before {
            None => name == "PATH" || profile.passes_variable(name.as_ref()) || plays(name),
            // A continued run keeps its variables. What the simulated agent plays is said for each run, and which way
            // out there is depends on the mode of the network.
            Some(before) => {
                let is_other_way = inheritance::mode_of(before) != Some(mode);
                plays(name)
                    || is_other_way
                        && is_proxy_variable(name)
                        && profile.passes_variable(name.as_ref())
            }
        };
        // Whoever goes out by way of us, or not at all, has no use for the host's own way.
        let has_host_network = mode == NetworkMode::Host;
        let of_host = self
            .host
            .environment
            .utf8_variables()
            .filter(|(name, _)| is_let_in(name) && (has_host_network || !is_proxy_variable(name)))
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let of_request = request.env.iter();
        let all = of_host.chain(of_request.map(|set| (set.name.clone(), set.value.clone())));
        Ok(all.collect())
    }

    /// What the user wants to be shown inside, by its whole path.
    fn exposed(&self) -> Result<Vec<PathBuf>, CommandError> {
        let paths = self.asked.expose.iter().map(|path| self.host.environment.absolute(path));
        let paths: Vec<PathBuf> = paths.collect();
        match paths.iter().find(|path| !path.exists()) {
            None => Ok(paths),
            Some(missing) => {
                let missing = missing.display();
                let what = format!("`{missing}`, which is to be shown inside, does not exist");
                Err(CommandError::new(ExitCode::NotFound, what))
            }
        }
    }

    /// Limits that have no flag are those of the run before, or of the configuration.
    fn limits(&self, request: &RunRequest) -> RunLimits {
        let usual = || self.config.run_limits();
        let mut limits = self.before.as_ref().map_or_else(usual, |before| before.limits.clone());
        limits.set(request);
        limits
    }

    fn resources(&self, request: &RunRequest, profile: &Profile) -> ResourceLimits {
        let mut resources = match &self.before {
            None => inheritance::of_profile(Some(profile)),
            Some(before) => inheritance::resources(before, profile),
        };
        resources.set(request);
        resources
    }

    /// The run that this one continues, if the caller knows it. Somebody else may have continued the session during the pause
    /// before a retry.
    fn continues(&self, session: Uuid) -> Option<RunId> {
        let Errand { continues, retry_of, .. } = &self.errand;
        let is_same = self.before.as_ref().is_some_and(|before| before.session == session);
        continues.or(retry_of.filter(|_| is_same))
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
        if matches!(self.errand.way, Way::Queue { waits_for_room: true, .. }) {
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

fn model(request: &RunRequest) -> Result<Option<String>, CommandError> {
    let model = request.model.as_deref().map(ModelSlug::parse).transpose();
    let model = model.or_fail_as(ExitCode::Usage, || "the model cannot be used")?;
    Ok(model.map(|model| model.as_str().to_owned()))
}

fn extra_flags(words: &[String]) -> Result<Vec<String>, CommandError> {
    ExtraFlags::check(words.iter().map(OsString::from))?;
    Ok(words.to_vec())
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
