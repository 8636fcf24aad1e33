//! Makes runs that wait for their turn: from a request of the API, from messages for a session, from a run that was cut
//! off. Children of runs are made in `children`.
//!
//! Each is admitted as the command line admits a run, and is a queued directory afterwards. What no disk may hold is handed
//! back with its id.

mod submit_request;

use std::fs::File;
use std::path::{Path, PathBuf};

use run_journal::{Prompt, RunDirectory, RunOverview};
use run_protocol::{ExitCode, PromptCheck, QueueTerms, RunSpec};
use uuid::Uuid;

use crate::admit::{Admission, Admitted, Conversation};
use crate::brought::{Submitted, brought_for};
use crate::command_error::CommandError;
use crate::continuation::{Continuation, NotContinued};
use crate::host::Host;
use crate::request::name_claim::{self, NameClaim};
use crate::request::queue_options::QueueOptions;
use crate::request::run_marks::RunName;
use crate::request::run_options::RunOptions;
use crate::resumption::{Question, WhenHeld, refusal};

pub use submit_request::SubmitRequest;

/// Checks a run as the command line does, and makes its directory, queued. A prompt in a file is checked already, and
/// stands for the one of the request.
pub fn submit(
    host: &Host,
    program: &Path,
    request: &SubmitRequest,
    prompt: Option<&File>,
) -> Result<Submitted, CommandError> {
    let config = host.load_config()?;
    let options = submit_request::options(request)?;
    let terms = options.queue.terms(host)?;
    let workspace = PathBuf::from(&request.workspace);
    if !workspace.is_absolute() {
        return Err(usage("the workspace is not an absolute path"));
    }
    let prompt = match prompt {
        Some(file) => Prompt::File(file),
        None => {
            PromptCheck::whole(request.prompt.as_bytes())?;
            Prompt::Text(request.prompt.as_bytes())
        }
    };
    let conversation = conversation(host, request.session.as_deref(), workspace)?;
    let admitted =
        Admission::new(host, &config, &options, &conversation, program, None)?.admit()?;
    queue(host, admitted, &options, terms, prompt)
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
    let (session, when_held) = (latest.session, WhenHeld::Wait);
    let question = Question { host, session, workspace: None, when_held };
    let resumption = question.decide()?.map_err(refusal::Refusal::into_error)?;
    let name = latest.name.as_ref().and_then(|name| name.parse::<RunName>().ok());
    let name = name.filter(|name| name_claim::check_free(&host.state, name).is_ok());
    let queue_options = QueueOptions { queue: true, ..QueueOptions::default() };
    let options = RunOptions { detach: true, name, queue: queue_options, ..RunOptions::default() };
    let conversation = Conversation::Resumed(Box::new(resumption));
    let mut admitted =
        Admission::new(host, &config, &options, &conversation, program, None)?.admit()?;
    admitted.spec.delivers = delivers;
    admitted.spec.continues = Some(latest.run);
    let terms = admitted.spec.queue.clone().unwrap_or_default();
    queue(host, admitted, &options, terms, Prompt::Text(prompt.as_bytes()))
}

/// Makes a run, queued, that continues one that was cut off.
pub fn continue_run(
    continuation: &Continuation<'_>,
    run: &RunOverview,
    prompt: &[u8],
) -> Result<Submitted, NotContinued> {
    let host = continuation.host;
    let next = continuation.admit(run)?;
    let terms = next.options.queue.terms(host)?;
    Ok(queue(host, next.admitted, &next.options, terms, Prompt::Text(prompt))?)
}

fn queue(
    host: &Host,
    admitted: Admitted,
    options: &RunOptions,
    terms: QueueTerms,
    prompt: Prompt<'_>,
) -> Result<Submitted, CommandError> {
    let Admitted { spec, shim_environment, trial } = admitted;
    let brought = brought_for(&spec, &shim_environment);
    let terms = QueueTerms {
        keys: brought.keys.keys().cloned().collect(),
        ..options.queue.with_inherited(terms, spec.queue.as_ref())
    };
    // The queue knows who has what, and waits without a supervisor.
    let spec = RunSpec { queue: Some(terms), wait_for_locks: false, ..spec };
    let name_claim =
        options.name.as_ref().map(|name| NameClaim::new(&host.state, name)).transpose()?;
    let run = RunDirectory::create(&host.state, &spec, prompt)?;
    drop(name_claim);
    trial.remember(host.state.path());
    Ok(Submitted { run: run.run_id(), brought })
}

fn conversation(
    host: &Host,
    session: Option<&str>,
    workspace: PathBuf,
) -> Result<Conversation, CommandError> {
    let Some(session) = session else {
        return Ok(Conversation::New { workspace: Some(workspace) });
    };
    let session = Uuid::parse_str(session)
        .map_err(|error| usage("the session is not a UUID").because(error))?;
    let when_held = WhenHeld::Wait;
    let question = Question { host, session, workspace: Some(&workspace), when_held };
    match question.decide()? {
        Ok(resumption) => Ok(Conversation::Resumed(Box::new(resumption))),
        Err(refusal) => Err(refusal.into_error()),
    }
}

fn usage(what: &str) -> CommandError {
    CommandError::new(ExitCode::Usage, what)
}
