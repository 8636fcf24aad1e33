//! Continuing what was cut off: one run per session, each started as the run was that it continues.
//!
//! ```text
//!   interrupted_runs: of each session the last run, if it was cut off ─► Continuation::continue_run ─► a run in the background
//! ```
//!
//! Says nothing to anybody: `caretaker resume --interrupted` prints what comes of it, and whoever restarts runs by itself
//! may do otherwise.

use std::collections::HashMap;
use std::path::Path;

use admission::admit::{Admission, Conversation, Errand};
use admission::command_error::CommandError;
use admission::config::Config;
use admission::host::{Host, list_runs};
use admission::request::name_claim;
use admission::resumption::refusal::Refusal;
use admission::resumption::{Question, WhenHeld};
use run_journal::{RunDirectory, RunFilter, RunOverview, RunState};
use run_protocol::{ExitCode, PendingTool, RunId, RunName, RunOutcome, RunRequest, RunSpec};
use uuid::Uuid;

use crate::console_options::ConsoleOptions;
use crate::launching::{Launch, warn_of_no_sandbox};
use crate::route::Route;

/// Which runs are to be continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CutOff {
    /// Those whose agent, supervisor or machine died, or whose supervisor was told to end.
    pub(crate) interrupted: bool,
    /// Those that a user suspended.
    pub(crate) suspended: bool,
    /// Of these only the ones that were started with `--restart`.
    pub(crate) only_restart: bool,
}

/// Of each session its last run, if that was cut off. The oldest comes first.
pub(crate) fn cut_off_runs(host: &Host, which: CutOff) -> Result<Vec<RunOverview>, CommandError> {
    let all = list_runs(&host.state, &RunFilter::default())?;
    let is_wanted = |run: &RunOverview| {
        let is_suspended =
            matches!(run.state, RunState::Ended { outcome: RunOutcome::Suspended, .. });
        let is_cut_off =
            which.interrupted && run.state.is_interrupted() || which.suspended && is_suspended;
        is_cut_off && (!which.only_restart || spec_of(host, run).is_some_and(|spec| spec.restart))
    };
    Ok(last_of_each_session(all).into_iter().filter(is_wanted).collect())
}

/// A session that was continued since is not cut off any more. Ids of runs are in the order of their making.
pub(crate) fn last_of_each_session(runs: Vec<RunOverview>) -> Vec<RunOverview> {
    let mut last: HashMap<String, RunOverview> = HashMap::new();
    for run in runs {
        match last.get(&run.session) {
            Some(known) if known.run > run.run => {}
            _ => drop(last.insert(run.session.clone(), run)),
        }
    }
    let mut last: Vec<RunOverview> = last.into_values().collect();
    last.sort_by_key(|run| run.run);
    last
}

fn spec_of(host: &Host, run: &RunOverview) -> Option<RunSpec> {
    RunDirectory::open(&host.state, run.run).ok()?.spec().ok()
}

/// Continues runs.
pub(crate) struct Continuation<'a> {
    pub(crate) host: &'a Host,
    pub(crate) config: &'a Config,
    /// Our own program.
    pub(crate) program: &'a Path,
    /// What is to be otherwise than it was.
    pub(crate) request: &'a RunRequest,
    pub(crate) console: &'a ConsoleOptions,
}

/// A run that goes on.
#[derive(Debug)]
pub(crate) struct Continued {
    pub(crate) run: RunId,
    pub(crate) session: Uuid,
    /// What the agent was doing, and will be told was interrupted.
    pub(crate) pending: Vec<PendingTool>,
}

/// Why a run does not go on.
#[derive(Debug)]
pub(crate) enum NotContinued {
    Refused(Refusal),
    Failed(CommandError),
}

impl From<CommandError> for NotContinued {
    fn from(error: CommandError) -> Self {
        Self::Failed(error)
    }
}

impl Continuation<'_> {
    /// Starts a run, in the background, that continues the session of one that was cut off: with its profile, its model,
    /// its limits and whatever else was said about it.
    pub(crate) fn continue_run(
        &self,
        run: &RunOverview,
        prompt: &[u8],
    ) -> Result<Continued, NotContinued> {
        let Self { host, config, program, request, console } = *self;
        let unknown = |what: &str| {
            let what = format!("{what} of run {} is not known", run.run);
            CommandError::new(ExitCode::Failed, what)
        };
        let session = Uuid::parse_str(&run.session).map_err(|_| unknown("the session"))?;
        let spec = spec_of(host, run).ok_or_else(|| unknown("the spec"))?;
        let when_held = if console.wait { WhenHeld::Wait } else { WhenHeld::Refuse };
        let question = Question { host, session, workspace: None, when_held };
        let resumption = question.decide()?.map_err(NotContinued::Refused)?;
        let pending = resumption.pending();
        let conversation = Conversation::Resumed(Box::new(resumption));
        let request = &RunRequest { name: self.name(&spec), ..request.clone() };
        let console = &ConsoleOptions { detach: true, ..console.clone() };
        let route = Route::choose(host, console, request)?;
        let way = route.way(host, console, request)?;
        // The list of runs is older than the lease, which decides.
        let errand = Errand { continues: Some(run.run), ..Errand::new(conversation, way) };
        let admitted = Admission::new(host, config, program, request, errand)?.admit()?;
        warn_of_no_sandbox(&admitted.spec);
        let launch = Launch { host, config, console, program, route: &route };
        let begun = launch.start(admitted, prompt)?;
        Ok(Continued { run: begun.run_id(), session, pending })
    }

    /// The name of the run before, unless somebody else has it by now.
    fn name(&self, spec: &RunSpec) -> Option<RunName> {
        let name = spec.name.as_ref()?.parse().ok()?;
        name_claim::check_free(&self.host.state, &name).ok().map(|()| name)
    }
}
