//! `caretaker doctor --trial`: two ordinary runs of the agent in a scratch repository, which are removed at the end.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use admission::admit::{Admission, Admitted, Conversation, RunContext, StartMode};
use admission::command_error::{CommandError, OrFail};
use admission::config::Config;
use admission::host::Host;
use admission::host::agent_discovery::{self, AgentChoice};
use admission::resumption::{Question, WhenHeld};
use admission::words::safe_text::on_one_line;
use admission::words::talk::say;
use cursor_stores::session_copy::verify_store;
use run_protocol::{
    AgentKind, AgentProgram, CountLimit, ExitCode, HumanDuration, RunOutcome, RunRequest,
};
use uuid::Uuid;

use super::scratch::Scratch;
use crate::command_helper::CommandHelper;
use crate::commands::sessions::verify::words;
use crate::health::Finding;
use crate::health::trial::turn::Turn;
use crate::health::trial::{Evidence, Second, Store, judge, prompts};
use crate::running::console_options::ConsoleOptions;
use crate::running::following::{Followed, follow};
use crate::running::interruption::{Seat, SignalPost};
use crate::running::journal_printer::JournalPrinter;
use crate::running::launching::{Launch, take_signals};
use crate::running::route::Route;
use crate::surroundings::Audience;

/// A model needs a few seconds for each prompt.
const MOST_TIME: HumanDuration = HumanDuration::Limited(Duration::from_secs(5 * 60));
/// The prompts ask for two calls. A model that makes many more would cost more than the trial promised.
const MOST_CALLS: CountLimit = CountLimit(10);

/// A trial that came to its end.
pub(super) struct Held {
    pub(super) agent: AgentProgram,
    pub(super) findings: Vec<Finding>,
}

/// Asks, and holds the trial. Whatever happens then, nothing of it stays.
pub(super) fn hold(
    helper: &CommandHelper,
    agent: Option<&Path>,
    is_agreed: bool,
) -> Result<Held, CommandError> {
    let (host, config, program) = (&helper.host, helper.config()?, helper.program()?);
    let choice = AgentChoice::of(agent, config.agent.as_deref(), &host.environment);
    let found = agent_discovery::find(&choice, &host.environment, program, &[])?;
    if found.kind == AgentKind::Cursor && !is_agreed {
        ask(&found)?;
    }
    // Take over signals before anything exists, so that a signal cannot leave it behind.
    let signals = take_signals()?;
    let mut stay = Stay { scratch: Scratch::make(host, config)?, signals };
    let evidence = Trial { host, config, program, request: request(agent) }.evidence(&mut stay);
    let left = stay.scratch.clear();
    Ok(Held { agent: found, findings: judge(&Evidence { left, ..evidence? }) })
}

/// Says what the trial costs, and asks whether to start it.
fn ask(agent: &AgentProgram) -> Result<(), CommandError> {
    let version = on_one_line(agent.version.as_deref().unwrap_or("(unknown version)")).into_owned();
    say(&format!(
        "The trial gives two short prompts to cursor-agent {version}, with your login and your default model. It takes \
         about a minute.\nBoth runs work in a scratch repository and are removed at the end."
    ));
    if Audience::of_stdin() == Audience::Program {
        let what = "the trial costs two prompts, and stdin is not a terminal where you could agree";
        return Err(CommandError::new(ExitCode::Usage, what).hint("agree with --yes"));
    }
    let mut answer = String::new();
    let asked = write!(anstream::stderr(), "Start it? [y/N] ")
        .and_then(|()| io::stdin().read_line(&mut answer));
    asked.or_fail(|| "cannot ask whether to start the trial")?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(CommandError::new(ExitCode::Cancelled, "the trial did not start")),
    }
}

/// Asks for what any run gets, within small limits. The user's own MCP servers would only add tokens.
fn request(agent: Option<&Path>) -> RunRequest {
    RunRequest {
        agent: agent.map(Path::to_owned),
        timeout: Some(MOST_TIME),
        max_tool_calls: Some(MOST_CALLS),
        no_user_mcp: true,
        no_checkpoint: true,
        ..RunRequest::default()
    }
}

struct Trial<'a> {
    host: &'a Host,
    config: &'a Config,
    /// The path of this program.
    program: &'a Path,
    request: RunRequest,
}

/// What lasts as long as the trial.
struct Stay<'a> {
    scratch: Scratch<'a>,
    signals: SignalPost,
}

impl<'a> Trial<'a> {
    fn admit(&self, conversation: Conversation) -> Result<Admitted<'a>, CommandError> {
        // A run that waits in a queue could take hours.
        let context = RunContext::new(conversation, StartMode::Direct { waits: false });
        Admission::new(self.host, self.config, self.program, &self.request, context)?.admit()
    }

    /// Makes both runs, and collects what they show.
    fn evidence(&self, stay: &mut Stay<'_>) -> Result<Evidence, CommandError> {
        let workspace = Some(stay.scratch.path().to_owned());
        let admitted = self.admit(Conversation::New { workspace })?;
        let (word, session) = (prompts::word(), admitted.spec.session);
        let first = self.turn("first", admitted, &prompts::first(&word), stay)?;
        let mut evidence = Evidence {
            word,
            session: session.to_string(),
            store: Store::default(),
            second: Second::None,
            left: Vec::new(),
            first,
        };
        if evidence.first.answer.is_some() {
            evidence.store = look_at_store(&evidence.first, &stay.scratch);
            evidence.second = self.second(session, &evidence.store, stay)?;
        }
        Ok(evidence)
    }

    /// Resumes the session, if its store allows that.
    fn second(
        &self,
        session: Uuid,
        store: &Store,
        stay: &mut Stay<'_>,
    ) -> Result<Second, CommandError> {
        let when_held = WhenHeld::Refuse;
        let question = Question { host: self.host, session, workspace: None, when_held };
        match question.decide()? {
            Ok(resumption) => {
                let admitted = self.admit(Conversation::Resumed(Box::new(resumption)))?;
                self.turn("second", admitted, prompts::second(), stay).map(Second::Ended)
            }
            // The check of the store says why.
            Err(_) if !store.is_in_bucket || store.damage.is_some() => Ok(Second::None),
            Err(refusal) => Ok(Second::Refused(refusal.reason.to_string())),
        }
    }

    /// Starts one run and waits for its end. Ctrl-C stops the run.
    fn turn(
        &self,
        which: &str,
        admitted: Admitted<'_>,
        prompt: &str,
        stay: &mut Stay<'_>,
    ) -> Result<Turn, CommandError> {
        let Self { host, config, program, .. } = *self;
        let console = &ConsoleOptions::default();
        let launch = Launch { host, config, console, program, route: &Route::Direct };
        stay.scratch.expect(&admitted.spec);
        let (run, _) = launch.start_silently(admitted, prompt.as_bytes())?;
        say(&format!("trial: the {which} prompt, run {}", run.run_id()));
        let mut printer = JournalPrinter::silent();
        let socket = host.control_socket(&run);
        match follow(&run, socket, &mut printer, Seat::Unattended, &stay.signals)? {
            Followed::Ended(RunOutcome::Cancelled) => {
                let what = "cancelled: the trial stopped, and its runs are removed";
                Err(CommandError::new(ExitCode::Cancelled, what))
            }
            Followed::Ended(_) | Followed::Detached => Turn::of(&run),
        }
    }
}

/// Looks for the session's store in Cursor's own directory, and reads all of it.
fn look_at_store(first: &Turn, scratch: &Scratch<'_>) -> Store {
    let found = scratch.store_db();
    let mut damage = first.not_resumable.clone();
    if let Some(store_db) = &found
        && damage.is_none()
    {
        damage = match verify_store(store_db, &[]) {
            Ok(verdict) => verdict.findings.first().map(words::finding),
            Err(error) => Some(ground::with_causes(&error)),
        };
    }
    Store { is_in_bucket: found.is_some(), n_messages: first.n_messages, damage }
}
