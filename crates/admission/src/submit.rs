//! Makes runs that wait for their turn: from a request of the API, from messages for a session, from a run that was cut
//! off. Children of runs are made in `children`.
//!
//! Each is admitted as the command line admits a run, and is a queued directory afterwards. What no disk may hold is handed
//! back with its id.

use std::fs::File;
use std::path::{Path, PathBuf};

use run_journal::{Prompt, RunOverview};
use run_protocol::{ExitCode, PromptCheck, RunName, RunRequest, RunSpec};
use uuid::Uuid;

use crate::admit::{Accepted, Admission, Admitted, Conversation, Errand, Way};
use crate::brought::Submitted;
use crate::budgets::group_record::GroupRecord;
use crate::command_error::{CommandError, OrFail};
use crate::continuation::{Continuation, NotContinued};
use crate::host::Host;
use crate::host::agent_discovery::SIMULATED;
use crate::request::name_claim;
use crate::resumption::refusal::Refusal;
use crate::resumption::{Question, WhenHeld};
use crate::sandbox::profiles;
use crate::worktrees::Fresh;

/// Checks a run as the command line does, and makes its directory, queued. A prompt in a file is checked already, and
/// stands for the one of the request.
pub fn submit(
    host: &Host,
    program: &Path,
    request: &RunRequest,
    prompt: Option<&File>,
) -> Result<Submitted, CommandError> {
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
    let way = Way::queue(host, request, true)?;
    let fresh = match request.worktree {
        true => Some(Fresh::make_quietly(host, Some(&workspace), request.name.as_ref())?),
        false => None,
    };
    let workspace = fresh.as_ref().map_or(workspace, |fresh| fresh.path().to_owned());
    let accept = || {
        let conversation = match request.session {
            None => Conversation::New { workspace: Some(workspace) },
            Some(session) => resumed(host, session, Some(&workspace))?,
        };
        let errand = Errand::new(conversation, way);
        let admitted = Admission::new(host, &config, program, request, errand)?.admit()?;
        set_budget(host, request, &admitted)?;
        Ok(submitted(admitted.accept(prompt)?))
    };
    let submitted = accept();
    if let Some(fresh) = fresh {
        fresh.settle(submitted.is_ok());
    }
    submitted
}

/// Makes a run, queued, that continues the session of this one as it was run, and whose prompt are these messages.
pub fn submit_turn(
    host: &Host,
    program: &Path,
    latest: &RunSpec,
    delivers: Vec<String>,
    prompt: &str,
) -> Result<Submitted, CommandError> {
    let config = host.load_config()?;
    let name = latest.name.as_ref().and_then(|name| name.parse::<RunName>().ok());
    let name = name.filter(|name| name_claim::check_free(&host.state, name).is_ok());
    let request = RunRequest { name, ..RunRequest::default() };
    let conversation = resumed(host, latest.session, None)?;
    let way = Way::queue(host, &request, true)?;
    let continues = Some(latest.run);
    let errand = Errand { continues, delivers, ..Errand::new(conversation, way) };
    let admission = Admission::new(host, &config, program, &request, errand)?;
    Ok(submitted(admission.admit()?.accept(prompt.as_bytes())?))
}

/// Makes a run, queued, that continues one that was cut off.
pub fn continue_run(
    continuation: &Continuation<'_>,
    run: &RunOverview,
    prompt: &[u8],
) -> Result<Submitted, NotContinued> {
    let way = Way::queue(continuation.host, continuation.request, true)?;
    Ok(submitted(continuation.admit(run, way)?.admitted.accept(prompt)?))
}

fn submitted(Accepted { run, brought, .. }: Accepted) -> Submitted {
    Submitted { run: run.run_id(), brought }
}

/// Gives the run's group the budget that the request names.
fn set_budget(
    host: &Host,
    request: &RunRequest,
    admitted: &Admitted<'_>,
) -> Result<(), CommandError> {
    let Some(budget) = request.group_budget else { return Ok(()) };
    let group = admitted.spec.group.as_deref();
    let group = group.ok_or_else(|| usage("`group_budget` is of a group, and there is none"))?;
    GroupRecord::update(&host.state, group, |record| record.budget = Some(budget.0))
        .map(drop)
        .or_fail(|| format!("the budget of group `{group}` could not be saved"))
}

/// The session, which may be held: the queue waits.
fn resumed(
    host: &Host,
    session: Uuid,
    workspace: Option<&Path>,
) -> Result<Conversation, CommandError> {
    let question = Question { host, session, workspace, when_held: WhenHeld::Wait };
    let resumption = question.decide()?.map_err(Refusal::into_error)?;
    Ok(Conversation::Resumed(Box::new(resumption)))
}

/// Refuses what a command line may ask for and a distant program may not, and what means nothing without a working
/// directory. Says where the workspace is.
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
