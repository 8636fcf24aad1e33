//! Continues interrupted and suspended runs: one run per session, with the settings of the run that it continues.
//!
//! ```text
//!   cut_off_runs: each session's last run, if it was interrupted ─► Continuation::admit ─► launched, or queued
//! ```
//!
//! `caretaker resume --interrupted` launches each run and prints the result. The daemon queues those that were started with
//! `--restart`.

use std::collections::HashMap;
use std::path::Path;

use run_journal::{RunDirectory, RunFilter, RunOverview, RunState};
use run_protocol::{ExitCode, PendingTool, RunName, RunOutcome, RunRequest, RunSpec};
use uuid::Uuid;

use crate::admit::{Admission, Admitted, Conversation, RunContext, StartMode};
use crate::command_error::CommandError;
use crate::config::Config;
use crate::host::{Host, list_runs};
use crate::request::name_claim;
use crate::resumption::refusal::Refusal;
use crate::resumption::{Question, WhenHeld};

/// The runs to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutOff {
    /// Runs whose agent, shim or machine died, or whose shim got a signal to end.
    pub interrupted: bool,
    /// Runs that a user suspended.
    pub suspended: bool,
    /// Only runs that were started with `--restart`.
    pub only_restart: bool,
}

/// Each session's last run, if it was cut off. The oldest comes first.
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

/// Each session's last run: a continued session is no longer cut off. Run ids sort by creation time.
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
    /// Caretaker's own program.
    pub program: &'a Path,
    /// The changes to the settings of the earlier run.
    pub request: &'a RunRequest,
    pub when_held: WhenHeld,
}

/// A run that can be continued.
pub struct Continuable<'a> {
    pub admitted: Admitted<'a>,
    /// The interrupted tool calls. Cursor tells the agent about them.
    pub pending: Vec<PendingTool>,
}

/// Why a run is not continued.
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
    /// Admits a background run that continues the session of an interrupted run, with its profile, model, limits and other
    /// settings.
    pub fn admit(
        &self,
        run: &RunOverview,
        start_mode: StartMode,
    ) -> Result<Continuable<'a>, NotContinued> {
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
        // The list of runs may be outdated; the shim decides under the session's lease.
        let context =
            RunContext { continues: Some(run.run), ..RunContext::new(conversation, start_mode) };
        let admitted = Admission::new(host, config, program, request, context)?.admit_silently()?;
        Ok(Continuable { admitted, pending })
    }

    /// The name of the earlier run, unless another run has it now.
    fn name(&self, spec: &RunSpec) -> Option<RunName> {
        let name = spec.name.as_ref()?.parse().ok()?;
        name_claim::check_free(&self.host.state, &name).ok().map(|()| name)
    }
}
