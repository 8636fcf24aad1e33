//! Creates queued runs: from an API request, from messages for a session, and from an interrupted run. `children`
//! creates child runs.
//!
//! Each run passes the same checks as on the command line, and then exists as a queued run directory. The caller gets
//! its id and its credentials.

use std::fs::File;
use std::path::{Path, PathBuf};

use run_journal::{Prompt, RunDirectory, RunOverview};
use run_protocol::{ExitCode, PromptCheck, RunName, RunRequest, RunSpec};
use uuid::Uuid;

use crate::admit::{Admission, Admitted, Conversation, CreatedRun, RunContext, StartMode};
use crate::budgets::group_record::GroupRecord;
use crate::command_error::{CommandError, OrFail};
use crate::continuation::{Continuation, NotContinued};
use crate::credentials::QueuedRun;
use crate::host::Host;
use crate::host::agent_discovery::SIMULATED;
use crate::request::name_claim;
use crate::resumption::refusal::Refusal;
use crate::resumption::{Question, WhenHeld};
use crate::sandbox::profiles;
use crate::worktrees::{Fresh, Wanted};

/// Checks a request as the command line does, and creates a queued run. A prompt in `prompt` is already checked, and
/// replaces the prompt of the request.
pub fn queue_request(
    host: &Host,
    program: &Path,
    request: &RunRequest,
    prompt: Option<&File>,
) -> Result<QueuedRun, CommandError> {
    let config = host.load_config()?;
    let workspace = check(request)?;
    let prompt = match (prompt, &request.prompt) {
        (Some(file), None) => Prompt::File(file),
        (None, Some(text)) => {
            PromptCheck::whole(text.as_bytes())?;
            Prompt::Text(text.as_bytes())
        }
        (Some(_), Some(_)) => return Err(usage("there are two prompts")),
        (None, None) => return Err(usage("missing field `prompt`")),
    };
    let start_mode = StartMode::queue(host, request, true)?;
    let fresh = match request.worktree {
        true => {
            let (name, include) = (request.name.as_ref(), config.worktree.include.as_slice());
            Some(Fresh::make_quietly(host, Some(&workspace), Wanted { name, include })?)
        }
        false => None,
    };
    let workspace = fresh.as_ref().map_or(workspace, |fresh| fresh.path().to_owned());
    let run = fresh.as_ref().map(Fresh::run);
    let accept = || {
        let conversation = match request.session {
            None => Conversation::New { workspace: Some(workspace) },
            Some(session) => resumed(host, session, Some(&workspace))?,
        };
        let context = RunContext { fresh: run, ..RunContext::new(conversation, start_mode) };
        let admission = Admission::new(host, &config, program, request, context)?;
        queue_with_budget(admission.admit_silently()?, request, prompt)
    };
    let submitted = accept();
    if let Some(fresh) = fresh {
        fresh.settle(submitted.is_ok());
    }
    submitted
}

/// Creates a queued run that continues the session of `latest` with the same settings. The messages are its prompt.
pub fn queue_turn(
    host: &Host,
    program: &Path,
    latest: &RunSpec,
    delivers: Vec<String>,
    prompt: &str,
) -> Result<QueuedRun, CommandError> {
    let config = host.load_config()?;
    let name = latest.name.as_ref().and_then(|name| name.parse::<RunName>().ok());
    let name = name.filter(|name| name_claim::check_free(&host.state, name).is_ok());
    let request = RunRequest { name, ..RunRequest::default() };
    let conversation = resumed(host, latest.session, None)?;
    let start_mode = StartMode::queue(host, &request, true)?;
    let continues = Some(latest.run);
    let context = RunContext { continues, delivers, ..RunContext::new(conversation, start_mode) };
    let admission = Admission::new(host, &config, program, &request, context)?;
    queue(admission.admit_silently()?, prompt.as_bytes())
}

/// Creates a queued run that continues an interrupted run.
pub fn queue_continuation(
    continuation: &Continuation<'_>,
    run: &RunOverview,
    prompt: &[u8],
) -> Result<QueuedRun, NotContinued> {
    let start_mode = StartMode::queue(continuation.host, continuation.request, true)?;
    Ok(queue(continuation.admit(run, start_mode)?.admitted, prompt)?)
}

/// Creates the queued run.
fn queue<'p>(
    admitted: Admitted<'_>,
    prompt: impl Into<Prompt<'p>>,
) -> Result<QueuedRun, CommandError> {
    let warnings = admitted.remarks.iter().cloned().map(Into::into).collect();
    let CreatedRun { run, credentials, .. } = admitted.create_run(prompt)?;
    Ok(QueuedRun { run: run.run_id(), credentials, warnings })
}

/// Creates the queued run and sets its group's budget. Sets the budget last, so that a refused request changes nothing.
/// The run cannot start before that, because the daemon waits for its credentials.
fn queue_with_budget(
    admitted: Admitted<'_>,
    request: &RunRequest,
    prompt: Prompt<'_>,
) -> Result<QueuedRun, CommandError> {
    let Some(budget) = request.group_budget else { return queue(admitted, prompt) };
    let group = admitted.spec.group.clone();
    let group = group.ok_or_else(|| usage("`group_budget` needs a `group`"))?;
    let state = &admitted.host.state;
    let queued = queue(admitted, prompt)?;
    let saved = GroupRecord::update(state, &group, |record| record.budget = Some(budget.0))
        .or_fail(|| format!("the budget of group `{group}` could not be saved"));
    if saved.is_err()
        && let Ok(run) = RunDirectory::open(state, queued.run)
    {
        run.withdraw();
    }
    saved.map(|_| queued)
}

/// The session to resume. Another run may hold it; then the queue waits.
fn resumed(
    host: &Host,
    session: Uuid,
    workspace: Option<&Path>,
) -> Result<Conversation, CommandError> {
    let question = Question { host, session, workspace, when_held: WhenHeld::Wait };
    let resumption = question.decide()?.map_err(Refusal::into_error)?;
    Ok(Conversation::Resumed(Box::new(resumption)))
}

/// Refuses requests that only the command line may make, and relative paths, which mean nothing without a working
/// directory. Returns the workspace.
fn check(request: &RunRequest) -> Result<PathBuf, CommandError> {
    if request.profile.as_deref() == Some(profiles::OFF) {
        return Err(usage("only the command line can start a run without a sandbox")
            .hint("caretaker run --sandbox off"));
    }
    let workspace = request.workspace.clone().ok_or_else(|| usage("missing field `workspace`"))?;
    if !workspace.is_absolute() {
        return Err(usage("the workspace is not an absolute path"));
    }
    let agent = request.agent.as_deref().filter(|agent| *agent != Path::new(SIMULATED));
    let secrets = request.secret.iter();
    let secrets = secrets.filter_map(|secret| secret.split_once("=file:")).map(|(_, path)| path);
    let paths = request.expose.iter().map(PathBuf::as_path).chain(agent);
    match paths.chain(secrets.map(Path::new)).find(|path| !path.is_absolute()) {
        None => Ok(workspace),
        Some(relative) => Err(usage(&format!("`{}` is not an absolute path", relative.display()))),
    }
}

fn usage(what: &str) -> CommandError {
    CommandError::new(ExitCode::Usage, what)
}

#[cfg(test)]
#[path = "queue_run_tests.rs"]
mod tests;
