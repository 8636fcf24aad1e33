//! Runs that a program asks the daemon for: by a request of the API, or by messages for a session that sleeps. All of them
//! are queued.

use std::fs::File;
use std::path::{Path, PathBuf};

use run_journal::Prompt;
use run_protocol::{ExitCode, PromptCheck, RunName, RunRequest, RunSpec};
use uuid::Uuid;

use crate::admit::{Accepted, Admission, Conversation, Errand, Way};
use crate::brought::Submitted;
use crate::budgets::group_record::GroupRecord;
use crate::command_error::{CommandError, OrFail};
use crate::config::Config;
use crate::host::Host;
use crate::host::agent_discovery::SIMULATED;
use crate::request::name_claim;
use crate::resumption::refusal::Refusal;
use crate::resumption::{Question, WhenHeld};
use crate::sandbox::profiles;
use crate::worktrees::Fresh;

/// Accepts runs for the queue.
#[derive(Debug, Clone, Copy)]
pub struct Submission<'a> {
    pub host: &'a Host,
    pub config: &'a Config,
    /// Our own program.
    pub program: &'a Path,
}

impl Submission<'_> {
    /// Accepts what a client of the API asks for. A prompt in a file is checked already, and stands for the one of the
    /// request.
    pub fn submit(
        &self,
        mut request: RunRequest,
        prompt: Option<&File>,
    ) -> Result<Submitted, CommandError> {
        let host = self.host;
        let workspace = check(&request)?;
        let text = request.prompt.take();
        let prompt = match (prompt, &text) {
            (Some(file), None) => Prompt::File(file),
            (None, Some(text)) => {
                PromptCheck::whole(text.as_bytes())?;
                Prompt::Text(text.as_bytes())
            }
            (Some(_), Some(_)) => return Err(usage("there are two prompts")),
            (None, None) => return Err(usage("missing field `prompt`")),
        };
        let way = Way::queue(host, &request, true)?;
        let fresh = match request.worktree {
            true => Some(Fresh::make_quietly(host, Some(&workspace), request.name.as_ref())?),
            false => None,
        };
        let workspace = fresh.as_ref().map_or(workspace, |fresh| fresh.path().to_owned());
        let accept = || {
            let conversation = match request.session {
                None => Conversation::New { workspace: Some(workspace) },
                Some(session) => self.resumed(session, Some(&workspace))?,
            };
            let errand = Errand::new(conversation, way);
            self.accept(&request, errand, prompt)
        };
        let accepted = accept();
        if let Some(fresh) = fresh {
            fresh.settle(accepted.is_ok());
        }
        accepted
    }

    /// Continues a session as its latest run was run, with messages for a prompt.
    pub fn submit_turn(
        &self,
        latest: &RunSpec,
        delivers: Vec<String>,
        prompt: &str,
    ) -> Result<Submitted, CommandError> {
        let name = latest.name.as_ref().and_then(|name| name.parse::<RunName>().ok());
        let name = name.filter(|name| name_claim::check_free(&self.host.state, name).is_ok());
        let request = RunRequest { name, ..RunRequest::default() };
        let conversation = self.resumed(latest.session, None)?;
        let way = Way::queue(self.host, &request, true)?;
        let continues = Some(latest.run);
        let errand = Errand { continues, delivers, ..Errand::new(conversation, way) };
        self.accept(&request, errand, Prompt::Text(prompt.as_bytes()))
    }

    fn accept(
        &self,
        request: &RunRequest,
        errand: Errand,
        prompt: Prompt<'_>,
    ) -> Result<Submitted, CommandError> {
        let Self { host, config, program } = *self;
        let admitted = Admission::new(host, config, program, request, errand)?.admit()?;
        if let Some(budget) = request.group_budget {
            let group = admitted.spec.group.as_deref();
            let group =
                group.ok_or_else(|| usage("`group_budget` is of a group, and there is none"))?;
            GroupRecord::update(&host.state, group, |record| record.budget = Some(budget.0))
                .or_fail(|| format!("the budget of group `{group}` could not be saved"))?;
        }
        let Accepted { run, brought, .. } = admitted.accept(prompt)?;
        Ok(Submitted { run: run.run_id(), brought })
    }

    /// The session, which may be held: the queue waits.
    fn resumed(
        &self,
        session: Uuid,
        workspace: Option<&Path>,
    ) -> Result<Conversation, CommandError> {
        let question = Question { host: self.host, session, workspace, when_held: WhenHeld::Wait };
        let resumption = question.decide()?.map_err(Refusal::into_error)?;
        Ok(Conversation::Resumed(Box::new(resumption)))
    }
}

/// Refuses what a command line may ask for and a distant program may not, and what means nothing without a working
/// directory. Says where the workspace is.
fn check(request: &RunRequest) -> Result<PathBuf, CommandError> {
    if request.profile.as_deref() == Some(profiles::OFF) {
        return Err(usage("a sandbox is left away only on the command line of the run itself")
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
