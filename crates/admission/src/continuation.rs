//! Continuing what was cut off: one run per session, each started as the run was that it continues.
//!
//! ```text
//!   cut_off_runs: of each session the last run, if it was cut off ─► Continuation::admit ─► launched, or queued
//! ```
//!
//! `caretaker resume --interrupted` launches each and prints what comes of it; the daemon queues those that were started
//! with `--restart`.

use std::collections::HashMap;
use std::path::Path;

use run_journal::{RunDirectory, RunFilter, RunOverview, RunState};
use run_protocol::{ExitCode, PendingTool, RunName, RunOutcome, RunRequest, RunSpec};
use uuid::Uuid;

use crate::admit::{Admission, Admitted, Conversation, Errand, Way};
use crate::command_error::CommandError;
use crate::config::Config;
use crate::host::{Host, list_runs};
use crate::request::name_claim;
use crate::resumption::refusal::Refusal;
use crate::resumption::{Question, WhenHeld};
use crate::sandbox::profiles::warn_of_no_sandbox;

/// Which runs are to be continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutOff {
    /// Those whose agent, supervisor or machine died, or whose supervisor was told to end.
    pub interrupted: bool,
    /// Those that a user suspended.
    pub suspended: bool,
    /// Of these only the ones that were started with `--restart`.
    pub only_restart: bool,
}

/// Of each session its last run, if that was cut off. The oldest comes first.
pub fn cut_off_runs(host: &Host, which: CutOff) -> Result<Vec<RunOverview>, CommandError> {
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
pub fn last_of_each_session(runs: Vec<RunOverview>) -> Vec<RunOverview> {
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
pub struct Continuation<'a> {
    pub host: &'a Host,
    pub config: &'a Config,
    /// Our own program.
    pub program: &'a Path,
    /// What is to be otherwise than it was.
    pub request: &'a RunRequest,
    pub when_held: WhenHeld,
}

/// The run that is to go on, and that nothing speaks against.
pub struct Continuable<'a> {
    pub admitted: Admitted<'a>,
    /// What the agent was doing, and will be told was interrupted.
    pub pending: Vec<PendingTool>,
}

/// Why a run does not go on.
#[derive(Debug)]
pub enum NotContinued {
    Refused(Refusal),
    Failed(CommandError),
}

impl NotContinued {
    pub fn into_error(self) -> CommandError {
        match self {
            Self::Refused(refusal) => refusal.into_error(),
            Self::Failed(error) => error,
        }
    }
}

impl From<CommandError> for NotContinued {
    fn from(error: CommandError) -> Self {
        Self::Failed(error)
    }
}

impl<'a> Continuation<'a> {
    /// Admits a run, for the background, that continues the session of one that was cut off: with its profile, its model,
    /// its limits and whatever else was said about it.
    pub fn admit(&self, run: &RunOverview, way: Way) -> Result<Continuable<'a>, NotContinued> {
        let Self { host, config, program, request, when_held } = *self;
        let unknown = |what: &str| {
            let what = format!("{what} of run {} is not known", run.run);
            CommandError::new(ExitCode::Failed, what)
        };
        let session = Uuid::parse_str(&run.session).map_err(|_| unknown("the session"))?;
        let spec = spec_of(host, run).ok_or_else(|| unknown("the spec"))?;
        let question = Question { host, session, workspace: None, when_held };
        let resumption = question.decide()?.map_err(NotContinued::Refused)?;
        let pending = resumption.pending();
        let conversation = Conversation::Resumed(Box::new(resumption));
        let request = &RunRequest { name: self.name(&spec), ..request.clone() };
        // The list of runs is older than the lease, which decides.
        let errand = Errand { continues: Some(run.run), ..Errand::new(conversation, way) };
        let admitted = Admission::new(host, config, program, request, errand)?.admit()?;
        warn_of_no_sandbox(&admitted.spec);
        Ok(Continuable { admitted, pending })
    }

    /// The name of the run before, unless somebody else has it by now.
    fn name(&self, spec: &RunSpec) -> Option<RunName> {
        let name = spec.name.as_ref()?.parse().ok()?;
        name_claim::check_free(&self.host.state, &name).ok().map(|()| name)
    }
}
