//! What the daemon is given by this program: admission, keys, the public form of events, the stores of conversations.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use admission::admit::{SIMULATED_KEY, host_proxy};
use admission::brought::{Brought, ChildOrder, Submitted};
use admission::budgets;
use admission::children::{self, NotMade};
use admission::command_error::{CommandError, OrFail};
use admission::config::Config;
use admission::host::Host;
use admission::request::named_secret::LOGIN_KEYS;
use admission::submission::Submission;
use caretaker_daemon::{EventForm, HostServices, Refusal};
use cursor_stores::Extent;
use public_events::EventWriter;
use run_journal::{JournalEntry, RunOverview};
use run_protocol::{AgentKind, ExitCode, NetworkMode, RunId, RunRequest, RunSpec};
use run_shim::ShimEnvironment;
use serde::Serialize;

use crate::commands::sessions::selection::{Selection, Where};
use crate::console_options::ConsoleOptions;
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

    fn submission<'a>(&'a self, config: &'a Config) -> Submission<'a> {
        Submission { host: &self.host, config, program: &self.program }
    }
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

    fn submit(&self, request: RunRequest, prompt: Option<File>) -> Result<Submitted, Refusal> {
        let config = self.host.load_config().map_err(as_refusal)?;
        self.submission(&config).submit(request, prompt.as_ref()).map_err(as_refusal)
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
        let config = self.host.load_config().map_err(as_refusal)?;
        self.submission(&config).submit_turn(latest, delivers, &prompt).map_err(as_refusal)
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
        let request = &RunRequest { restart: true, ..RunRequest::default() };
        let console = &ConsoleOptions::default();
        let continuation = Continuation { host, config: &config, program, request, console };
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
