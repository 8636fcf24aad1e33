//! What the daemon is given by this program: admission, keys, the public form of events, the stores of conversations.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use admission::admit::{Admission, Conversation, SIMULATED_KEY, host_proxy};
use admission::brought::{Brought, ChildOrder, Submitted, brought_for};
use admission::budgets;
use admission::children::{self, NotMade};
use admission::command_error::{CommandError, OrFail};
use admission::host::Host;
use admission::request::name_claim::{self, NameClaim};
use admission::request::named_secret::LOGIN_KEYS;
use admission::request::queue_options::QueueOptions;
use admission::request::run_marks::RunName;
use admission::request::run_options::{Mode, RunOptions};
use admission::resumption::{Question, WhenHeld, refusal};
use admission::sandbox::profiles;
use caretaker_daemon::{EventForm, HostServices, Refusal, SubmitRequest};
use cursor_stores::Extent;
use public_events::EventWriter;
use run_journal::{JournalEntry, Prompt, RunDirectory, RunOverview};
use run_protocol::{AgentKind, ExitCode, NetworkMode, PromptCheck, QueueTerms, RunId, RunSpec};
use run_shim::ShimEnvironment;
use serde::Serialize;
use uuid::Uuid;

use crate::commands::sessions::selection::{Selection, Where};
use crate::continuation::{Continuation, CutOff, NotContinued, cut_off_runs};

#[derive(Debug)]
pub(crate) struct DaemonHost {
    host: Host,
    /// Our own program.
    program: PathBuf,
    /// One child after the other, so that none is one too many.
    children: Mutex<()>,
}

impl DaemonHost {
    pub(crate) fn new(host: Host, program: PathBuf) -> Self {
        Self { host, program, children: Mutex::new(()) }
    }

    fn try_submit(
        &self,
        request: &SubmitRequest,
        prompt: Option<&File>,
    ) -> Result<Submitted, CommandError> {
        let host = &self.host;
        let config = host.load_config()?;
        let options = options(request)?;
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
        let conversation = self.conversation(request.session.as_deref(), workspace)?;
        let admitted =
            Admission::new(host, &config, &options, &conversation, &self.program, None)?.admit()?;
        let brought = brought_for(&admitted.spec, &admitted.shim_environment);
        let queue = QueueTerms {
            keys: brought.keys.keys().cloned().collect(),
            ..options.queue.with_inherited(terms, admitted.spec.queue.as_ref())
        };
        let spec = RunSpec { queue: Some(queue), wait_for_locks: false, ..admitted.spec };
        let name_claim =
            options.name.as_ref().map(|name| NameClaim::new(&host.state, name)).transpose()?;
        let run = RunDirectory::create(&host.state, &spec, prompt)?;
        drop(name_claim);
        admitted.trial.remember(host.state.path());
        Ok(Submitted { run: run.run_id(), brought })
    }

    /// Continues a session as its latest run was run, with messages for a prompt.
    fn try_submit_turn(
        &self,
        latest: &RunSpec,
        delivers: Vec<String>,
        prompt: &str,
    ) -> Result<Submitted, CommandError> {
        let host = &self.host;
        let config = host.load_config()?;
        let (session, when_held) = (latest.session, WhenHeld::Wait);
        let question = Question { host, session, workspace: None, when_held };
        let resumption = question.decide()?.map_err(refusal::Refusal::into_error)?;
        let name = latest.name.as_ref().and_then(|name| name.parse::<RunName>().ok());
        let name = name.filter(|name| name_claim::check_free(&host.state, name).is_ok());
        let queue = QueueOptions { queue: true, ..QueueOptions::default() };
        let options = RunOptions { detach: true, name, queue, ..RunOptions::default() };
        let conversation = Conversation::Resumed(Box::new(resumption));
        let admitted =
            Admission::new(host, &config, &options, &conversation, &self.program, None)?.admit()?;
        let brought = brought_for(&admitted.spec, &admitted.shim_environment);
        let inherited = admitted.spec.queue.clone().unwrap_or_default();
        let terms = QueueTerms { keys: brought.keys.keys().cloned().collect(), ..inherited };
        let queue = Some(terms);
        let continues = Some(latest.run);
        let spec = RunSpec { queue, delivers, continues, wait_for_locks: false, ..admitted.spec };
        let run = RunDirectory::create(&host.state, &spec, prompt.as_bytes())?;
        admitted.trial.remember(host.state.path());
        Ok(Submitted { run: run.run_id(), brought })
    }

    fn conversation(
        &self,
        session: Option<&str>,
        workspace: PathBuf,
    ) -> Result<Conversation, CommandError> {
        let Some(session) = session else {
            return Ok(Conversation::New { workspace: Some(workspace) });
        };
        let session = Uuid::parse_str(session)
            .map_err(|error| usage("the session is not a UUID").because(error))?;
        let question = Question {
            host: &self.host,
            session,
            workspace: Some(&workspace),
            when_held: WhenHeld::Wait,
        };
        match question.decide()? {
            Ok(resumption) => Ok(Conversation::Resumed(Box::new(resumption))),
            Err(refusal) => Err(refusal.into_error()),
        }
    }
}

fn usage(what: &str) -> CommandError {
    CommandError::new(ExitCode::Usage, what)
}

/// What a client asks for, as the command line would have it.
fn options(request: &SubmitRequest) -> Result<RunOptions, CommandError> {
    fn parsed<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, CommandError>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        text.parse()
            .map_err(|error: T::Err| usage(&format!("`{what}` cannot be used")).because(error))
    }
    fn maybe<T: std::str::FromStr>(
        what: &str,
        text: Option<&String>,
    ) -> Result<Option<T>, CommandError>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        text.map(|text| parsed(what, text)).transpose()
    }
    let pairs = |map: &std::collections::BTreeMap<String, String>| -> Vec<String> {
        map.iter().map(|(name, value)| format!("{name}={value}")).collect()
    };
    let mode = match request.mode.as_deref() {
        None => None,
        Some("plan") => Some(Mode::Plan),
        Some("ask") => Some(Mode::Ask),
        Some(_) => return Err(usage("`mode` is `plan` or `ask`")),
    };
    if request.profile.as_deref() == Some(profiles::OFF) {
        return Err(usage("a sandbox is left away only on the command line of the run itself")
            .hint("caretaker run --sandbox off"));
    }
    if !(-100..=100).contains(&request.priority) {
        return Err(usage("`priority` is from -100 to 100"));
    }
    let relative = request
        .expose
        .iter()
        .chain(&request.agent)
        .find(|path| !Path::new(path).is_absolute() && path.as_str() != "simulated");
    if let Some(relative) = relative {
        return Err(usage(&format!("`{relative}` is not an absolute path")));
    }
    Ok(RunOptions {
        model: request.model.clone(),
        mode,
        profile: request.profile.clone(),
        detach: true,
        name: maybe("name", request.name.as_ref())?,
        labels: pairs(&request.labels)
            .iter()
            .map(|label| parsed("labels", label))
            .collect::<Result<_, _>>()?,
        variables: pairs(&request.env)
            .iter()
            .map(|variable| parsed("env", variable))
            .collect::<Result<_, _>>()?,
        expose: request.expose.iter().map(PathBuf::from).collect(),
        timeout: maybe("timeout", request.timeout.as_ref())?,
        idle_timeout: maybe("idle_timeout", request.idle_timeout.as_ref())?,
        max_tool_calls: maybe("max_tool_calls", request.max_tool_calls.as_ref())?,
        max_tokens: maybe("max_tokens", request.max_tokens.as_ref())?,
        journal: maybe("journal", request.journal.as_ref())?,
        no_force: request.no_force,
        stream: request.stream,
        restart: request.restart,
        agent: request.agent.as_ref().map(PathBuf::from),
        agent_flags: request.agent_flags.iter().map(Into::into).collect(),
        queue: QueueOptions {
            queue: true,
            priority: Some(request.priority),
            delay: maybe("delay", request.delay.as_ref())?,
            after: request.after.clone(),
            after_ok: request.after_ok.clone(),
            group: maybe("group", request.group.as_ref())?,
            account: maybe("account", request.account.as_ref())?,
            group_budget: None,
            direct: false,
        },
        ..RunOptions::default()
    })
}

/// By whose fault, in the words of HTTP.
fn as_refusal(error: CommandError) -> Refusal {
    let status = match error.exit_code() {
        ExitCode::Usage => 400,
        ExitCode::NotFound => 404,
        ExitCode::Conflict => 409,
        ExitCode::AuthenticationMissing
        | ExitCode::NotResumable
        | ExitCode::AgentNotFound
        | ExitCode::AgentNotExecutable => 422,
        ExitCode::SupervisorFailed => 503,
        _ => 500,
    };
    Refusal {
        status,
        error: error.message_with_causes(),
        hint: error.hint_text().map(ToOwned::to_owned),
    }
}

impl HostServices for DaemonHost {
    fn event_form(&self) -> Box<dyn EventForm> {
        Box::new(PublicForm(EventWriter::default()))
    }

    fn submit(&self, request: SubmitRequest, prompt: Option<File>) -> Result<Submitted, Refusal> {
        self.try_submit(&request, prompt.as_ref()).map_err(as_refusal)
    }

    fn submit_child(&self, parent: &RunSpec, order: ChildOrder) -> Result<Submitted, Refusal> {
        let _one = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        let host = &self.host;
        let config = host.load_config().map_err(as_refusal)?;
        children::submit(host, &config.children, parent, order).map_err(|error| match error {
            NotMade::Forbidden(error) => Refusal { status: 403, error, hint: None },
            NotMade::Failed(error) => as_refusal(error),
        })
    }

    fn submit_turn(
        &self,
        latest: &RunSpec,
        delivers: Vec<String>,
        prompt: String,
    ) -> Result<Submitted, Refusal> {
        self.try_submit_turn(latest, delivers, &prompt).map_err(as_refusal)
    }

    fn shim_environment(
        &self,
        spec: &RunSpec,
        brought: Option<&Brought>,
    ) -> Option<ShimEnvironment> {
        let environment = &self.host.environment;
        let text = |name: &str| environment.variable(name).and_then(|value| value.to_str());
        let names = spec.queue.iter().flat_map(|terms| &terms.keys);
        let value = |name: &String| {
            let brought = brought.and_then(|brought| brought.keys.get(name).cloned());
            // Only keys of the agent's mean the same here and there; a secret that the user named is whatever they said.
            let of_ours = || text(name).filter(|_| LOGIN_KEYS.contains(&name.as_str()));
            brought.or_else(|| of_ours().map(ToOwned::to_owned))
        };
        let mut secrets =
            names.map(|name| Some((name.clone(), value(name)?))).collect::<Option<Vec<_>>>()?;
        let has_key = secrets.iter().any(|(name, _)| LOGIN_KEYS.contains(&name.as_str()));
        if spec.agent.kind == AgentKind::Simulated && !has_key {
            secrets.push(("CURSOR_API_KEY".to_owned(), SIMULATED_KEY.to_owned()));
        }
        let proxy = match (brought, spec.network) {
            (Some(brought), _) => brought.proxy.clone(),
            (None, Some(NetworkMode::Host | NetworkMode::None)) => None,
            // Only a supervisor that answers for the network has a use for it.
            (None, Some(NetworkMode::Allowlist) | None) => {
                host_proxy(environment).ok().flatten().map(|proxy| proxy.address)
            }
        };
        Some(ShimEnvironment {
            secrets,
            proxy,
            log_filter: text("RUST_LOG").map(ToOwned::to_owned),
        })
    }

    fn day(&self, now_ms: u64) -> (u64, u64) {
        budgets::day(now_ms)
    }

    fn continue_interrupted(&self) -> Vec<(RunId, Result<RunId, Refusal>)> {
        let Self { host, program, .. } = self;
        let which = CutOff { interrupted: true, suspended: false, only_restart: true };
        let found = host.load_config().and_then(|config| Ok((cut_off_runs(host, which)?, config)));
        let (runs, config) = match found {
            Ok(found) => found,
            Err(error) => {
                error.report();
                return Vec::new();
            }
        };
        let options = RunOptions { restart: true, ..RunOptions::default() };
        let continuation = Continuation { host, config: &config, program, options: &options };
        let continue_one = |run: &RunOverview| {
            let continued = continuation.continue_run(run, config.resume_prompt.as_bytes());
            let next = continued.map(|continued| continued.run).map_err(|error| match error {
                NotContinued::Refused(refusal) => as_refusal(refusal.into_error()),
                NotContinued::Failed(error) => as_refusal(error),
            });
            (run.run, next)
        };
        runs.iter().map(continue_one).collect()
    }

    fn sessions(&self, limit: usize, skip: usize) -> Result<String, Refusal> {
        #[derive(Serialize)]
        struct Listing<'a> {
            v: u32,
            n_sessions: usize,
            sessions: &'a [cursor_stores::model::Head],
        }
        let selection = Selection::default();
        let catalogue = selection.place.open(&self.host).map_err(as_refusal)?;
        let heads = selection.select(&self.host, &catalogue);
        let n_sessions = heads.len();
        let mut page: Vec<_> = heads.into_iter().skip(skip).take(limit).collect();
        catalogue.complete(&mut page);
        to_json(&Listing { v: 1, n_sessions, sessions: &page })
    }

    fn session(&self, id: &str) -> Result<String, Refusal> {
        #[derive(Serialize)]
        struct One<'a> {
            v: u32,
            session: &'a cursor_stores::model::Conversation,
        }
        let catalogue = Where::default().open(&self.host).map_err(as_refusal)?;
        let listing = catalogue.list();
        let head = listing.heads.iter().find(|head| head.id == id).ok_or_else(|| Refusal {
            status: 404,
            error: format!("there is no session `{id}`"),
            hint: None,
        })?;
        let conversation = catalogue
            .read(head, Extent::default())
            .or_fail(|| format!("session {id} cannot be read"))
            .map_err(as_refusal)?;
        to_json(&One { v: 1, session: &conversation })
    }
}

fn to_json(value: &impl Serialize) -> Result<String, Refusal> {
    serde_json::to_string(value).or_fail(|| "it cannot be told").map_err(as_refusal)
}

struct PublicForm(EventWriter);

impl EventForm for PublicForm {
    fn write(&mut self, out: &mut Vec<u8>, entry: &JournalEntry<'_>) -> std::io::Result<()> {
        self.0.write(out, entry)
    }
}
