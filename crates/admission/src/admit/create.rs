//! Creates the directory of an admitted run. No other code creates a run that a user asked for.

use ground::now_ms;
use run_journal::{Prompt, RunDirectory};
use run_protocol::{
    AgentProgram, BytesPath, Credentials, HumanDuration, QueueTerms, RunId, RunName, RunRequest,
    RunSpec,
};
use run_shim::Shim;

use super::StartMode;
use crate::budgets;
use crate::command_error::CommandError;
use crate::config::Config;
use crate::host::{Host, kept_agents};
use crate::request::name_claim::NameClaim;
use crate::sandbox::bubblewrap::Trial;
use crate::words::talk::Remark;

/// A run that passed all checks.
#[derive(Debug)]
pub struct Admitted<'a> {
    pub(crate) host: &'a Host,
    pub(super) config: &'a Config,
    pub spec: RunSpec,
    /// Has started already if the caller starts the run now.
    pub(super) shim: Shim,
    pub(super) credentials: Credentials,
    /// Saved once the state directory exists.
    pub(super) trial: Trial,
    /// Remarks for the user.
    pub remarks: Vec<Remark>,
}

/// A run that exists and has no shim yet.
#[derive(Debug)]
pub struct CreatedRun {
    pub run: RunDirectory,
    /// The caller needs this if it starts the run now.
    pub shim: Shim,
    /// The daemon needs these if it starts the shim later. They are never on disk.
    pub credentials: Credentials,
}

impl Admitted<'_> {
    /// Creates the run's directory.
    pub fn create_run<'p>(self, prompt: impl Into<Prompt<'p>>) -> Result<CreatedRun, CommandError> {
        let Self { host, config, spec, shim, credentials, trial, .. } = self;
        // For queued runs the daemon checks the budgets.
        if spec.queue.is_none() {
            budgets::check(host, config, spec.group.as_deref())?;
        }
        let run = create_run_directory(host, &spec, prompt)?;
        trial.remember(host.state.path());
        Ok(CreatedRun { run, shim, credentials })
    }
}

/// Creates the directory of a checked run, and keeps the run's version of the agent. If two requests ask for the same
/// name at once, the name claim decides which gets it.
pub fn create_run_directory<'p>(
    host: &Host,
    spec: &RunSpec,
    prompt: impl Into<Prompt<'p>>,
) -> Result<RunDirectory, CommandError> {
    let name: Option<RunName> = spec.name.as_ref().and_then(|name| name.parse().ok());
    let _claim = name.map(|name| NameClaim::new(&host.state, &name)).transpose()?;
    // Without a sandbox the agent runs where it is installed.
    if spec.bwrap.0.as_os_str().is_empty() {
        return Ok(RunDirectory::create(&host.state, spec, prompt)?);
    }
    let kept = kept_agents::keep(&host.state, &spec.agent)?;
    let agent = AgentProgram { kept: kept.directory.clone().map(BytesPath), ..spec.agent.clone() };
    let run = RunDirectory::create(&host.state, &RunSpec { agent, ..spec.clone() }, prompt)?;
    let is_new = kept.is_new;
    drop(kept);
    if is_new {
        // Old versions go when a new one comes. If that fails, `gc` does it.
        kept_agents::remove_unneeded(&host.state).ok();
    }
    Ok(run)
}

/// The queue conditions that the request names. Priority and account may also come from the earlier run.
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

/// The queue conditions, and whether the shim waits for a locked session or workspace. For a queued run the daemon
/// waits before it starts a shim.
pub(super) fn queueing(start_mode: &StartMode, request: &RunRequest) -> (Option<QueueTerms>, bool) {
    match start_mode {
        StartMode::Direct { waits } => (None, *waits),
        StartMode::Queue { terms, .. } => {
            let priority = request.priority.unwrap_or_default();
            let account = request.account.as_ref().map(ToString::to_string);
            (Some(QueueTerms { priority, account, ..terms.clone() }), false)
        }
    }
}
