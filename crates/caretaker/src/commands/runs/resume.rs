//! `caretaker resume`: continues a session, after a check that the agent will remember it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use admission::admit::{Admission, Admitted, Conversation, RunContext, StartMode};
use admission::command_error::{CommandError, OrFail};
use admission::config::Config;
use admission::continuation::{Continuable, Continuation, CutOff, NotContinued, cut_off_runs};
use admission::host::Host;
use admission::resumption::refusal::{Refusal, RefusalReport};
use admission::resumption::{Question, Resumption, WhenHeld, known_workspace, target};
use admission::sandbox::profiles::warn_of_no_sandbox;
use admission::words::safe_text::on_one_line;
use admission::words::talk::{Remark, note, say};
use admission::words::units;
use cursor_stores::session_copy::verify_at_a_glance;
use run_journal::RunOverview;
use run_protocol::{ControlRequest, ExitCode, PendingTool, RunId, RunRequest, SessionStart};
use run_shim::session_holder;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::command_helper::CommandHelper;
use crate::commands::group::budget;
use crate::commands::sessions::verify::words::finding;
use crate::data_out::{print_json, print_text};
use crate::running::console_options::ConsoleOptions;
use crate::running::launching::{Launch, take_signals};
use crate::running::prompt::PromptSource;
use crate::running::retries::Retries;
use crate::running::route::Route;
use crate::running::stopping::{tell, wait_until_dead};
use crate::running::workspace_owner::become_owner;
use crate::surroundings::Audience;
use crate::view::words;

/// Continue a session in its own workspace, wherever you are.
///
/// Caretaker first checks the session's store. If the agent would not remember the session, it refuses and says why.
/// You can also continue sessions from your own cursor-agent. A session keeps the settings of its last run: sandbox,
/// network, limits, agent, model, labels. Flags can narrow them. To allow more, give the flag and `--widen NAME`.
///
/// SESSION is a session's id, a unique prefix of it, a run's id or name, or `-` for the latest session of this
/// workspace.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker resume 3f2504e0 \"now the other module\"
  caretaker resume nightly                     the last run of that name, with the configured prompt
  caretaker resume --check -                   only say whether it can be resumed
  caretaker resume --interrupted \"go on\"       every session that a crash or a reboot cut off
  caretaker resume --suspended                 every session that `suspend --all` stopped
  caretaker resume --interrupted --only-restart    for a script that runs when the machine starts")]
pub(crate) struct Args {
    /// The session, or one of its runs.
    #[arg(value_name = "SESSION|RUN|-", required_unless_present_any = ["interrupted", "suspended"])]
    session: Option<String>,
    /// The prompt; `-` reads it from stdin. Default: `resume_prompt` from the configuration.
    #[arg(conflicts_with = "prompt_file")]
    prompt: Option<OsString>,
    /// Read the prompt from a file; `-` is stdin.
    #[arg(long = "file", short = 'f', value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    /// The session's workspace, if Caretaker does not know it. It must be the session's own.
    #[arg(long, short = 'C', value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Suspend the run that holds the session, then continue.
    #[arg(long, conflicts_with = "wait")]
    steal: bool,
    /// Begin a new session in the same workspace if this one cannot be resumed. The old session stays unchanged.
    #[arg(long)]
    fresh: bool,
    /// Only say whether the session can be resumed, and how many messages it has.
    #[arg(long, conflicts_with_all = ["detach", "fresh", "steal", "wait"])]
    check: bool,
    /// Continue every session whose last run was cut off by a crash, a reboot or a signal to its supervisor. Each gets a
    /// new run in the background, with the settings of its last run.
    #[arg(long, conflicts_with_all = ["check", "fresh", "steal", "name", "workspace", "retries"])]
    interrupted: bool,
    /// Continue every session whose last run was suspended, in the same way.
    #[arg(long, conflicts_with_all = ["check", "fresh", "steal", "name", "workspace", "retries"])]
    suspended: bool,
    /// With `--interrupted` or `--suspended`: only sessions that were started with `--restart`.
    #[arg(long)]
    only_restart: bool,
    #[command(flatten)]
    request: RunRequest,
    #[command(flatten)]
    console: ConsoleOptions,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    // A session named by its id belongs to the caller, so the owner of this directory does not matter.
    if args.workspace.is_some() || args.session.as_deref() == Some("-") {
        become_owner(helper, args.workspace.as_deref())?;
    }
    let config = helper.config()?;
    let program = helper.program()?;
    let resume = Resume { host, config, args, program };
    if args.interrupted || args.suspended {
        return resume.all_cut_off();
    }
    if args.only_restart {
        let what = "--only-restart needs --interrupted or --suspended";
        return Err(CommandError::new(ExitCode::Usage, what));
    }
    let session = target::find(host, args.session.as_deref().unwrap_or_default());
    let session = match session {
        Err(error) if args.console.json => {
            print_json(&not_found_report(&error))?;
            return Err(error);
        }
        found => found?,
    };
    if args.steal {
        resume.steal(session)?;
    }
    if args.check {
        return resume.tell(resume.question(session).decide()?);
    }
    let (request, console) = (&args.request, &args.console);
    let route = Route::choose(host, console, request)?;
    let way = route.way(host, console, request)?;
    let admit = |retry_of: Option<RunId>| resume.admit(session, retry_of, way.clone());
    let admitted = admit(None)?;
    warn_of_no_sandbox(&admitted.spec);
    if admitted.spec.session == session && admitted.spec.session_start == SessionStart::New {
        resume.must_have_prompt(session)?;
    }
    let prompt = resume.prompt(args.prompt.as_deref())?;
    budget::set_asked(host, request, admitted.spec.group.as_deref())?;
    let launch = Launch { host, config, console, program, route: &route };
    let retries = Retries::new(config, console.retries);
    let again = |failed| admit(Some(failed));
    launch.launch_and_retry(admitted, &prompt, &take_signals()?, retries, again)
}

/// Shows at most this many warnings.
const MOST_WARNINGS: usize = 5;

struct Resume<'a> {
    host: &'a Host,
    config: &'a Config,
    args: &'a Args,
    /// The path of this program.
    program: &'a Path,
}

impl<'a> Resume<'a> {
    fn question(&self, session: Uuid) -> Question<'_> {
        let (workspace, when_held) = (self.args.workspace.as_deref(), self.when_held());
        Question { host: self.host, session, workspace, when_held }
    }

    fn when_held(&self) -> WhenHeld {
        if self.args.console.wait { WhenHeld::Wait } else { WhenHeld::Refuse }
    }

    /// Decides whether the session can be resumed, shows interrupted calls, and checks the run that resumes it.
    fn admit(
        &self,
        session: Uuid,
        retry_of: Option<RunId>,
        way: StartMode,
    ) -> Result<Admitted<'a>, CommandError> {
        let Self { host, config, args, program } = *self;
        let conversation = match self.question(session).decide()? {
            Ok(resumption) => {
                self.announce(&resumption.pending());
                Conversation::Resumed(Box::new(resumption))
            }
            Err(refusal) if args.fresh => self.afresh(refusal)?,
            Err(refusal) => return Err(self.refused(refusal)?),
        };
        let context = RunContext { retry_of, ..RunContext::new(conversation, way) };
        Admission::new(host, config, program, &args.request, context)?.admit()
    }

    /// Suspends the run that holds the session.
    fn steal(&self, session: Uuid) -> Result<(), CommandError> {
        let holder = session_holder(&self.host.state, &session)
            .or_fail(|| format!("cannot check the lease of session {session}"))?;
        let Some(holder) = holder else { return Ok(()) };
        let run = match self.host.find_run(&holder.run.to_string()) {
            // The run has no directory because its shim refused it, so there is nothing to stop.
            Err(error) if error.exit_code() == ExitCode::NotFound => return Ok(()),
            found => found?,
        };
        let socket = self.host.control_socket(&run);
        note(&format!("suspending run {}, which holds the session", holder.run));
        tell(&run, &socket, &ControlRequest::Suspend)?;
        wait_until_dead(&run, &socket)
    }

    /// Shows the interrupted calls.
    fn announce(&self, pending: &[PendingTool]) {
        if !self.args.console.json {
            pending.iter().for_each(|call| say(&words::interrupted(call)));
        }
    }

    /// Answers `--check`.
    fn tell(&self, decided: Result<Resumption, Refusal>) -> Result<ExitCode, CommandError> {
        let resumption = match decided {
            Ok(resumption) => resumption,
            Err(refusal) => return Err(self.refused(refusal)?),
        };
        if self.args.console.json {
            return print_json(&resumption.report(warnings(&resumption)));
        }
        if resumption.start == SessionStart::New {
            let workspace =
                on_one_line(&resumption.workspace.as_path().display().to_string()).into_owned();
            let session = resumption.session;
            print_text(&format!(
                "session {session} can begin in `{workspace}`; it has no messages yet\n"
            ))?;
            return Ok(ExitCode::Success);
        }
        let messages =
            resumption.point.as_ref().map_or(0, |point| point.state.n_prompt_messages as u64);
        let messages = units::counted(messages, "message", "messages");
        let workspace = resumption.workspace.as_path().display().to_string();
        let mut answer = format!(
            "session {} can be resumed in `{}`: {messages}\n",
            resumption.session,
            on_one_line(&workspace)
        );
        for call in resumption.pending() {
            answer.push_str(&words::interrupted(&call));
            answer.push('\n');
        }
        print_text(&answer)?;
        let warnings = warnings(&resumption);
        for warning in warnings.iter().take(MOST_WARNINGS) {
            say(&format!("warning: {warning}"));
        }
        if warnings.len() > MOST_WARNINGS {
            let n_more = warnings.len() - MOST_WARNINGS;
            say(&format!(
                "warning: {n_more} more; see `caretaker sessions verify {}`",
                resumption.session
            ));
        }
        Ok(ExitCode::Success)
    }

    /// Converts the refusal into an error; with `--json`, also prints it.
    fn refused(&self, refusal: Refusal) -> Result<CommandError, CommandError> {
        if self.args.console.json {
            print_json(&RefusalReport::of(&refusal))?;
        }
        Ok(refusal.into_error())
    }

    /// A new session in place of one that cannot be resumed. It gets a new id, and the old session stays where it is.
    fn afresh(&self, refusal: Refusal) -> Result<Conversation, CommandError> {
        if refusal.reason.exit_code() == ExitCode::Conflict {
            // The session can be resumed later.
            return Err(self.refused(refusal)?);
        }
        let known = || known_workspace(self.host, refusal.session);
        let Some(workspace) = self.args.workspace.clone().or_else(known) else {
            let hint = "name the workspace of the new session with --workspace DIR";
            return Err(self.refused(refusal)?.hint(hint));
        };
        note(&format!(
            "session {} cannot be resumed: {}; starting a new session, the old one stays unchanged",
            refusal.session, refusal.reason
        ));
        Ok(Conversation::Instead { of: refusal.session, workspace })
    }

    /// A session that has only an id needs a prompt, because there is nothing to continue.
    fn must_have_prompt(&self, session: Uuid) -> Result<(), CommandError> {
        if self.args.prompt.is_some() || self.args.prompt_file.is_some() {
            return Ok(());
        }
        let what =
            format!("session {session} has no messages yet, so there is nothing to continue");
        Err(CommandError::new(ExitCode::Usage, what)
            .hint("give a prompt: caretaker resume SESSION \"…\""))
    }

    fn prompt(&self, words: Option<&std::ffi::OsStr>) -> Result<Vec<u8>, CommandError> {
        let file = self.args.prompt_file.as_deref();
        if words.is_none() && file.is_none() {
            return Ok(self.config.resume_prompt.clone().into_bytes());
        }
        PromptSource::of(words, file, Audience::Person)?.read()
    }

    /// Continues every session that was cut off. Reports those that cannot be continued, and continues the others.
    fn all_cut_off(&self) -> Result<ExitCode, CommandError> {
        let Self { host, config, args, program } = *self;
        if args.prompt.is_some() {
            let what = "--interrupted and --suspended take a prompt, but no session";
            return Err(CommandError::new(ExitCode::Usage, what));
        }
        let Args { interrupted, suspended, only_restart, .. } = *args;
        let runs = cut_off_runs(host, CutOff { interrupted, suspended, only_restart })?;
        if runs.is_empty() {
            say(match (interrupted, suspended) {
                (true, true) => "no interrupted or suspended sessions",
                (true, false) => "no interrupted sessions",
                _ => "no suspended sessions",
            });
            return Ok(ExitCode::Success);
        }
        let prompt = self.prompt(args.session.as_ref().map(std::ffi::OsStr::new))?;
        let request = &args.request;
        let when_held = self.when_held();
        let continuation = Continuation { host, config, program, request, when_held };
        let mut code = ExitCode::Success;
        for run in runs {
            let failed = match self.continue_run(&continuation, &run, &prompt) {
                Ok(continued) => {
                    self.tell_continued(&run, &continued)?;
                    continue;
                }
                Err(NotContinued::Refused(refusal)) => self.refused(refusal)?,
                Err(NotContinued::Failed(error)) => error,
            };
            let failed = failed.report();
            if code == ExitCode::Success {
                code = failed;
            }
        }
        Ok(code)
    }

    /// Continues a run with a new run in the background.
    fn continue_run(
        &self,
        continuation: &Continuation<'_>,
        run: &RunOverview,
        prompt: &[u8],
    ) -> Result<Continued, NotContinued> {
        let Self { host, config, program, .. } = *self;
        let request = &self.args.request;
        let console = &ConsoleOptions { detach: true, ..self.args.console.clone() };
        let route = Route::choose(host, console, request)?;
        let way = route.way(host, console, request)?;
        let Continuable { admitted, pending } = continuation.admit(run, way)?;
        admitted.remarks.iter().for_each(Remark::print);
        warn_of_no_sandbox(&admitted.spec);
        let session = admitted.spec.session;
        let launch = Launch { host, config, console, program, route: &route };
        let begun = launch.start(admitted, prompt)?;
        Ok(Continued { run: begun.run_id(), session, pending })
    }

    /// Prints the id of the new run, as `--detach` does.
    fn tell_continued(
        &self,
        run: &RunOverview,
        continued: &Continued,
    ) -> Result<ExitCode, CommandError> {
        if self.args.console.json {
            return print_json(&json!({
                "v": 1,
                "kind": "resume.continued",
                "run": continued.run,
                "session": continued.session,
                "continues": run.run,
                "pending": continued.pending,
            }));
        }
        self.announce(&continued.pending);
        print_text(&format!("{}\n", continued.run))
    }
}

/// The `--json` output if no session matches: a refusal without a session.
fn not_found_report(error: &CommandError) -> Value {
    let kind = match error.exit_code() {
        ExitCode::NotFound => "unknown_session",
        ExitCode::Usage => "ambiguous_name",
        _ => "unreadable",
    };
    json!({
        "v": 1,
        "kind": "resume.refused",
        "session": null,
        "reason": { "kind": kind },
        "why": error.message_with_causes(),
        "exit_code": error.exit_code() as u8,
    })
}

/// A new run that continues another.
#[derive(Debug)]
struct Continued {
    run: RunId,
    session: Uuid,
    /// The interrupted tool calls.
    pending: Vec<PendingTool>,
}

/// The damage that is visible in the index of a resumable session's store. `sessions verify` reads the whole store and
/// may find more.
fn warnings(resumption: &Resumption) -> Vec<String> {
    let Some(store_db) = &resumption.store_db else { return Vec::new() };
    match verify_at_a_glance(store_db) {
        Ok(findings) => findings.iter().map(finding).collect(),
        Err(error) => vec![format!("cannot check the store: {error}")],
    }
}
