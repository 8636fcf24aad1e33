//! From a run that may begin to its directory: the one place where a run that a person asked for comes to exist.

use ground::now_ms;
use run_journal::{Prompt, RunDirectory};
use run_protocol::{HumanDuration, QueueTerms, RunId, RunName, RunRequest, RunSpec};
use run_shim::ShimEnvironment;

use super::Way;
use crate::brought::Brought;
use crate::budgets;
use crate::command_error::CommandError;
use crate::config::Config;
use crate::host::Host;
use crate::request::name_claim::NameClaim;
use crate::sandbox::bubblewrap::Trial;

/// A run that may begin.
#[derive(Debug)]
pub struct Admitted<'a> {
    pub(super) host: &'a Host,
    pub(super) config: &'a Config,
    pub spec: RunSpec,
    pub(super) shim_environment: ShimEnvironment,
    pub(super) brought: Brought,
    /// To be remembered once there is a place for it.
    pub(super) trial: Trial,
}

/// A run that exists and has no supervisor yet.
#[derive(Debug)]
pub struct Accepted {
    pub run: RunDirectory,
    /// For the one who starts its supervisor now.
    pub shim_environment: ShimEnvironment,
    /// For the daemon, which starts it later. None of it is on any disk.
    pub brought: Brought,
}

impl Admitted<'_> {
    /// Makes the run's directory. Nothing else makes one for a request of a person.
    pub fn accept<'p>(self, prompt: impl Into<Prompt<'p>>) -> Result<Accepted, CommandError> {
        let Self { host, config, spec, shim_environment, brought, trial } = self;
        // The daemon looks at the budgets of the runs in its queue.
        if spec.queue.is_none() {
            budgets::check(host, config, spec.group.as_deref())?;
        }
        let run = place(host, &spec, prompt)?;
        trial.remember(host.state.path());
        Ok(Accepted { run, shim_environment, brought })
    }
}

/// Makes the directory of a checked run. If two requests ask for the same name at once, the name claim decides which gets it.
pub fn place<'p>(
    host: &Host,
    spec: &RunSpec,
    prompt: impl Into<Prompt<'p>>,
) -> Result<RunDirectory, CommandError> {
    let name: Option<RunName> = spec.name.as_ref().and_then(|name| name.parse().ok());
    let _claim = name.map(|name| NameClaim::new(&host.state, &name)).transpose()?;
    Ok(RunDirectory::create(&host.state, spec, prompt)?)
}

/// When a run in the queue may start, by its own request. Priority and account may also come from the run before, and keys
/// are known later.
pub(super) fn terms(host: &Host, request: &RunRequest) -> Result<QueueTerms, CommandError> {
    let runs = |texts: &[String]| -> Result<Vec<RunId>, CommandError> {
        Ok(host.find_runs(texts)?.iter().map(RunDirectory::run_id).collect())
    };
    let delay_ms = request.delay.map(HumanDuration::milliseconds).filter(|delay| *delay > 0);
    Ok(QueueTerms {
        not_before_ms: delay_ms.map(|delay| now_ms().saturating_add(delay)),
        after: runs(&request.after)?,
        after_ok: runs(&request.after_ok)?,
        ..QueueTerms::default()
    })
}

/// The terms of the queue, and whether the supervisor waits for what is held. The queue knows who has what, and waits without
/// a supervisor.
pub(super) fn queueing(way: &Way, request: &RunRequest) -> (Option<QueueTerms>, bool) {
    match way {
        Way::Direct { waits } => (None, *waits),
        Way::Queue { terms, .. } => {
            let priority = request.priority.unwrap_or_default();
            let account = request.account.as_ref().map(ToString::to_string);
            (Some(QueueTerms { priority, account, ..terms.clone() }), false)
        }
    }
}
