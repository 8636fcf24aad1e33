//! Everything that is checked about a run before anything of it exists, and the spec that comes out of it.

mod accept;
mod continued;
mod host_proxy;
mod login;
mod spec;

use std::path::{Path, PathBuf};

use cursor_home::WorkspacePath;
use run_protocol::{AgentProgram, ExitCode, QueueTerms, RunId, RunRequest, RunSpec, SessionStart};
use run_shim::{SocketPaths, check_run};
use sandbox_plan::Confinement;
use uuid::Uuid;

pub use self::accept::{Accepted, Admitted, place};
pub use self::host_proxy::host_proxy;
pub(crate) use self::host_proxy::is_proxy_variable;
pub(crate) use self::login::SIMULATED_KEY;
pub use self::login::has_key;
use crate::brought::brought_for;
use crate::command_error::CommandError;
use crate::config::Config;
use crate::host::Host;
use crate::host::agent_discovery::refuse_inside;
use crate::host::disk;
use crate::request::name_claim;
use crate::resumption::Resumption;
use crate::sandbox::bubblewrap::{Bubblewrap, Trial};
use crate::sandbox::profiles::FoundProfile;
use crate::sandbox::user_mcp;
use crate::sandbox::workspace;
use crate::words::units;

/// Variables of the host that tell the simulated agent what to play.
pub(crate) const SIMULATION: [&str; 2] = ["SIMULATED_AGENT_SCRIPT", "SIMULATED_AGENT_MISBEHAVE"];

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

#[cfg(test)]
#[path = "admission_tests.rs"]
pub mod tests;
