//! Checks a run before Caretaker creates anything for it, and makes its spec.

mod create;
mod host_proxy;
mod login;
mod registries;
mod run_before;
mod spec;

use std::panic;
use std::path::{Path, PathBuf};
use std::thread;

use cursor_home::WorkspacePath;
use run_protocol::{
    AgentPolicy, AgentProgram, Credentials, ExitCode, QueueTerms, RunId, RunRequest, RunSpec,
    SessionStart,
};
use run_shim::{Shim, ShimEnvironment, SocketPaths, check_run};
use sandbox_plan::Confinement;
use uuid::Uuid;

pub use self::create::{Admitted, CreatedRun, create_run_directory};
pub use self::host_proxy::host_proxy;
pub(crate) use self::host_proxy::is_proxy_variable;
pub(crate) use self::login::SIMULATED_KEY;
pub use self::login::has_key;
use crate::command_error::CommandError;
use crate::config::Config;
use crate::host::Host;
use crate::host::agent_discovery::refuse_inside;
use crate::host::disk;
use crate::host::git_settings::GitSettings;
use crate::request::name_claim;
use crate::request::named_secret::{self, NamedSecret};
use crate::resumption::Resumption;
use crate::sandbox::bubblewrap::{Bubblewrap, Trial};
use crate::sandbox::profiles::FoundProfile;
use crate::sandbox::workspace;
use crate::sandbox::{user_mcp, user_policy};
use crate::words::talk::Remark;
use crate::words::units;

/// Host variables that control the simulated agent.
pub(crate) const SIMULATION: [&str; 2] = ["SIMULATED_AGENT_SCRIPT", "SIMULATED_AGENT_MISBEHAVE"];

/// A request, and everything that admission checks it against.
pub struct Admission<'a, 'r> {
    pub host: &'a Host,
    pub config: &'a Config,
    /// Caretaker's own program.
    pub program: &'a Path,
    /// The topmost layer: the flags, an API request, or a batch line on top of the flags.
    pub asked: &'r RunRequest,
    pub context: RunContext,
    /// The run that this run continues or repeats, and inherits from.
    before: Option<Box<RunSpec>>,
    /// The secrets that the request names, read once.
    secrets: Vec<NamedSecret>,
}

/// The circumstances of a run, which the caller knows and the user cannot choose.
#[derive(Debug)]
pub struct RunContext {
    pub conversation: Conversation,
    pub start_mode: StartMode,
    /// The failed run that this run repeats.
    pub retry_of: Option<RunId>,
    /// The run that this run continues, if the caller chose it. The shim refuses if a later run has taken the session.
    pub continues: Option<RunId>,
    /// This run, if a new worktree was made for it.
    pub fresh: Option<RunId>,
    /// The ids of the inbox messages that are the prompt.
    pub delivers: Vec<String>,
    /// True if the run only counts the tools of MCP servers; then the caller prints the count.
    pub counts_tools: bool,
}

impl RunContext {
    pub fn new(conversation: Conversation, start_mode: StartMode) -> Self {
        let (retry_of, continues, fresh, delivers) = (None, None, None, Vec::new());
        Self { conversation, start_mode, retry_of, continues, fresh, delivers, counts_tools: false }
    }
}

/// How a run gets its shim.
#[derive(Debug, Clone)]
pub enum StartMode {
    /// The caller starts the shim now. `waits`: the shim waits for a locked session or workspace, instead of failing.
    Direct { waits: bool },
    /// The daemon starts the shim when the run's turn comes. `waits_for_room`: it waits for disk space, instead of failing.
    Queue { terms: QueueTerms, waits_for_room: bool },
}

impl StartMode {
    /// Starts the run through the queue, under the request's conditions.
    pub fn queue(
        host: &Host,
        request: &RunRequest,
        waits_for_room: bool,
    ) -> Result<Self, CommandError> {
        Ok(Self::Queue { terms: create::terms(host, request)?, waits_for_room })
    }
}

/// The session of a run.
#[derive(Debug)]
pub enum Conversation {
    /// A new session, in the named directory or in the working directory.
    New { workspace: Option<PathBuf> },
    /// A new session instead of one that cannot be resumed.
    Instead { of: Uuid, workspace: PathBuf },
    /// A session that can be resumed, or one that has an id but no prompt yet.
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

    /// The session whose last run this run inherits from.
    fn continues(&self) -> Option<Uuid> {
        match self {
            Self::New { .. } => None,
            Self::Instead { of, .. } => Some(*of),
            Self::Resumed(resumption) => Some(resumption.session),
        }
    }
}

/// The parts of a run that admission found on the host.
struct Chosen {
    run: RunId,
    session: Uuid,
    session_start: SessionStart,
    workspace: WorkspacePath,
    agent: AgentProgram,
    profile: FoundProfile,
    /// The user's rules, as they are now.
    policy: Option<AgentPolicy>,
    /// A run without a sandbox needs no bubblewrap.
    bubblewrap: Option<Bubblewrap>,
}

impl<'a, 'r> Admission<'a, 'r> {
    /// Looks up the earlier run to inherit from, so that no caller can forget to.
    pub fn new(
        host: &'a Host,
        config: &'a Config,
        program: &'a Path,
        asked: &'r RunRequest,
        context: RunContext,
    ) -> Result<Self, CommandError> {
        let before = run_before::run_before(host, &context, asked)?;
        let secrets = named_secret::read_all(&asked.secret, &host.environment)?;
        Ok(Self { host, config, program, asked, context, before, secrets })
    }

    /// Like [`Self::admit_silently`], but prints the remarks.
    pub fn admit(&self) -> Result<Admitted<'a>, CommandError> {
        let admitted = self.admit_silently()?;
        admitted.remarks.iter().for_each(Remark::print);
        Ok(admitted)
    }

    /// Does every check, but creates nothing. Problems that the user can easily fix come first.
    pub fn admit_silently(&self) -> Result<Admitted<'a>, CommandError> {
        let Self { host, config, program, asked, .. } = *self;
        let run = self.context.fresh.unwrap_or_else(RunId::generate);
        let roots = host.environment.cursor_roots()?;
        let workspace = workspace::check(host, self.context.conversation.workspace())?;
        // Git answers while the other checks run.
        let git = thread::spawn({
            let (host, workspace) = (host.clone(), workspace.clone());
            move || GitSettings::of(&host, workspace.as_path())
        });
        refuse_inside(program, &[workspace.as_path()])?;
        let agent = self.agent(&workspace)?;
        let (session, session_start) = self.context.conversation.session();
        let profile = self.profile()?;
        let policy = self.present_policy(workspace.as_path(), &profile.profile, &roots)?;
        user_policy::check(policy.as_ref(), &profile.profile)?;
        let confinement = profile.profile.confinement();
        let shim_environment = self.shim_environment(&agent, &roots, &profile.profile)?;
        let bubblewrap = match confinement {
            Confinement::Bubblewrap => {
                Some(Bubblewrap::find(&host.environment, Some(workspace.as_path()))?)
            }
            Confinement::None => None,
        };
        let chosen =
            Chosen { run, session, session_start, workspace, agent, profile, policy, bubblewrap };
        let mut spec = self.spec(&chosen, &roots)?;
        let ShimEnvironment { secrets, proxy, .. } = &shim_environment;
        let credentials = Credentials::of_run(&spec, secrets, proxy.clone());
        if let Some(terms) = &mut spec.queue {
            terms.keys = credentials.keys.keys().cloned().collect();
        }
        self.check_sockets(run)?;
        self.check_disk()?;
        let mut shim = Shim::new(program, shim_environment);
        if matches!(self.context.start_mode, StartMode::Direct { .. }) {
            // The shim starts during the other checks. If one of them fails, it ends without having done anything.
            shim.start_ahead(&host.state.run_dir(&run));
        }
        let user_mcp = user_mcp::check(host, &spec, asked)?;
        check_run(&host.state, &spec, chosen.profile.profile.clone())?;
        if let Some(name) = &asked.name {
            name_claim::check_free(&host.state, name)?;
        }
        // Last, because this is the only slow check.
        let trial = match &chosen.bubblewrap {
            Some(bubblewrap) => bubblewrap.try_out_once(host.state.path())?,
            None => Trial::NotNeeded,
        };
        let mut remarks = user_mcp::notes(user_mcp.as_ref(), self.context.counts_tools);
        remarks.extend(self.registry_remarks(&spec));
        if confinement == Confinement::Bubblewrap {
            let git = git.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
            spec.home_files.extend(git.files);
            remarks.extend(git.remarks);
        }
        for (policy, present) in spec.policy.iter().zip(&chosen.policy) {
            remarks.extend(user_policy::remarks(policy, present));
        }
        remarks.extend(self.inheritance_remarks(&spec, &chosen));
        Ok(Admitted { host, config, spec, shim, credentials, trial, remarks })
    }
}

impl Admission<'_, '_> {
    /// The spec that a run would have. It needs no login, no disk space and no working bubblewrap.
    pub fn hypothetical(&self) -> Result<RunSpec, CommandError> {
        let environment = &self.host.environment;
        let roots = environment.cursor_roots()?;
        let workspace = workspace::check(self.host, self.context.conversation.workspace())?;
        let bubblewrap = Bubblewrap::find(environment, Some(workspace.as_path()))
            .unwrap_or_else(|_| Bubblewrap { path: "/usr/bin/bwrap".into() });
        let profile = self.profile()?;
        let chosen = Chosen {
            run: RunId::generate(),
            session: Uuid::new_v4(),
            session_start: SessionStart::New,
            agent: self.agent(&workspace)?,
            policy: self.present_policy(workspace.as_path(), &profile.profile, &roots)?,
            workspace,
            profile,
            bubblewrap: Some(bubblewrap),
        };
        let mut spec = self.spec(&chosen, &roots)?;
        if chosen.profile.profile.confinement() == Confinement::Bubblewrap {
            spec.home_files.extend(GitSettings::of(self.host, chosen.workspace.as_path()).files);
        }
        Ok(spec)
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
        // The daemon waits until there is room.
        if matches!(self.context.start_mode, StartMode::Queue { waits_for_room: true, .. }) {
            return Ok(());
        }
        let state = self.host.state.path();
        let needed = self.config.min_free.0;
        // If the free space is unknown, the first write fails when the disk is full.
        let free = disk::free_bytes(state).unwrap_or(u64::MAX);
        if free >= needed {
            return Ok(());
        }
        let what = format!(
            "only {} free for `{}`, but {} needed",
            units::bytes(free),
            state.display(),
            units::bytes(needed)
        );
        Err(CommandError::new(ExitCode::SupervisorFailed, what)
            .hint("make room, or lower `min_free` in the configuration"))
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
pub mod tests;
