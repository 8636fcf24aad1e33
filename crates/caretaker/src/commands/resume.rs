//! `caretaker resume`: continues a session, after saying what that will find.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use run_journal::{RunDirectory, RunFilter, RunIndex, RunOverview, RunState, Which};
use run_protocol::{ControlRequest, ExitCode, RunSpec};
use run_shim::{read_session_record, session_holder};
use uuid::Uuid;

use crate::admission::{Admission, Conversation};
use crate::agent_discovery::own_program;
use crate::command_error::CommandError;
use crate::config::Config;
use crate::data_out::print_json;
use crate::environment::Audience;
use crate::host::Host;
use crate::interruption::SignalPost;
use crate::launching::{Launch, take_signals, warn_of_no_sandbox};
use crate::prompt::PromptSource;
use crate::resumption::refusal::{Refusal, RefusalReport};
use crate::resumption::{Question, Resumption, WhenHeld, target};
use crate::run_options::RunOptions;
use crate::stopping::{tell, wait_until_dead};
use crate::talk::{note, say};
use crate::view::safe_text::on_one_line;
use crate::view::{units, words};
use crate::workspace_owner::become_owner;

/// Continue a session in its own workspace, wherever you are.
///
/// Before anything is started, the session's store is looked at, and a session that would not be remembered is refused
/// with the reason. Sessions of your own cursor-agent can be continued too. SESSION is a session's id, a beginning of it
/// that is unique, a run's id or name, or `-` for the latest session of the workspace you are in.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker resume 3f2504e0 \"now the other module\"
  caretaker resume nightly                     the last run of that name, with the configured prompt
  caretaker resume --check -                   only say what would be found
  caretaker resume --interrupted \"go on\"       everything that a crash or a reboot cut off")]
pub(crate) struct Args {
    /// The session, or a run of it.
    #[arg(value_name = "SESSION|RUN|-", required_unless_present = "interrupted")]
    session: Option<String>,
    /// What to do now; `-` reads it from stdin. Default: `resume_prompt` of the configuration.
    #[arg(conflicts_with = "prompt_file")]
    prompt: Option<OsString>,
    /// Read the prompt from a file; `-` is stdin.
    #[arg(long = "file", short = 'f', value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    /// The session's workspace, where nothing else tells it. It is never another than the session's own.
    #[arg(long, short = 'C', value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Stop the run that holds the session first.
    #[arg(long, conflicts_with = "wait")]
    steal: bool,
    /// Begin a new session in the same workspace if this one cannot be resumed. The old one stays as it is.
    #[arg(long)]
    fresh: bool,
    /// Only say whether the session can be resumed, and what will be found.
    #[arg(long, conflicts_with_all = ["detach", "fresh", "steal", "wait"])]
    check: bool,
    /// Continue every session whose last run was cut off, each with a run of its own in the background.
    #[arg(long, conflicts_with_all = ["check", "fresh", "steal", "name"])]
    interrupted: bool,
    #[command(flatten)]
    options: RunOptions,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let host = Host::of_process()?;
    // Where the session is named by its id, it is one of the caller's own, wherever the caller stands.
    if args.workspace.is_some() || args.session.as_deref() == Some("-") {
        become_owner(&host.environment, args.workspace.as_deref())?;
    }
    let config = Config::load(&host.environment, &host.places)?;
    let program = own_program()?;
    let resume = Resume { host: &host, config: &config, args, program: &program };
    if args.interrupted {
        return resume.all_interrupted();
    }
    let session = target::find(&host, args.session.as_deref().unwrap_or_default())?;
    if args.steal {
        resume.steal(session)?;
    }
    let decided = resume.question(session).decide()?;
    if args.check {
        return resume.tell(decided);
    }
    let conversation = match decided {
        Ok(resumption) => {
            resume.announce(&resumption);
            Conversation::Resumed(Box::new(resumption))
        }
        Err(refusal) if args.fresh => resume.afresh(&refusal),
        Err(refusal) => return Err(resume.refused(refusal)?),
    };
    let admitted = resume.admission(&conversation, &args.options).admit()?;
    warn_of_no_sandbox(&admitted.spec);
    resume.remind_of_secrets(&admitted.spec);
    let prompt = resume.prompt(args.prompt.as_deref())?;
    let launch = Launch { host: &host, options: &args.options, program: &program };
    Ok(launch.launch(admitted, &prompt, &take_signals()?)?.exit_code())
}

struct Resume<'a> {
    host: &'a Host,
    config: &'a Config,
    args: &'a Args,
    /// Our own program.
    program: &'a Path,
}

impl Resume<'_> {
    fn question(&self, session: Uuid) -> Question<'_> {
        let when_held = if self.args.options.wait { WhenHeld::Wait } else { WhenHeld::Refuse };
        Question { host: self.host, session, workspace: self.args.workspace.as_deref(), when_held }
    }

    fn admission<'a>(
        &'a self,
        conversation: &'a Conversation,
        options: &'a RunOptions,
    ) -> Admission<'a> {
        Admission {
            host: self.host,
            config: self.config,
            options,
            conversation,
            program: self.program,
            retry_of: None,
        }
    }

    /// Stops the run that has the session, so gently that it could be resumed.
    fn steal(&self, session: Uuid) -> Result<(), CommandError> {
        let holder = session_holder(&self.host.state, &session).map_err(|error| {
            let what = format!("the lease of session {session} cannot be examined");
            CommandError::new(ExitCode::Failed, what).because(error)
        })?;
        let Some(holder) = holder else { return Ok(()) };
        let run = self.host.find_run(&holder.run.to_string())?;
        let socket = self.host.control_socket(&run);
        note(&format!("run {} holds the session and is suspended", holder.run));
        tell(&run, &socket, &ControlRequest::Suspend)?;
        wait_until_dead(&run, &socket)
    }

    /// What the user has to know before the agent goes on.
    fn announce(&self, resumption: &Resumption) {
        if self.args.options.json {
            return;
        }
        for call in resumption.pending() {
            say(&words::interrupted(&call));
        }
    }

    /// Secrets are written down nowhere, so a run that is continued has those that are given again.
    fn remind_of_secrets(&self, spec: &RunSpec) {
        let record = read_session_record(&self.host.state, &spec.session);
        let last = record.and_then(|record| RunDirectory::open(&self.host.state, record.run).ok());
        let Some(last) = last.and_then(|run| run.spec().ok()) else { return };
        for name in last.secrets.iter().filter(|name| !spec.secrets.contains(name)) {
            note(&format!(
                "the last run had the secret `{name}`; this one has it only if you give it again: --secret {name}=…"
            ));
        }
    }

    /// Answers `--check`.
    fn tell(&self, decided: Result<Resumption, Refusal>) -> Result<ExitCode, CommandError> {
        let resumption = match decided {
            Ok(resumption) => resumption,
            Err(refusal) => return Err(self.refused(refusal)?),
        };
        if self.args.options.json {
            print_json(&resumption.report())?;
            return Ok(ExitCode::Success);
        }
        let messages = resumption.point.as_ref().map_or(0, |point| point.n_messages as u64);
        let messages = units::counted(messages, "message", "messages");
        let workspace = resumption.workspace.as_path().display().to_string();
        say(&format!(
            "session {} can be resumed in `{}`: {messages}",
            resumption.session,
            on_one_line(&workspace)
        ));
        for call in resumption.pending() {
            say(&words::interrupted(&call));
        }
        Ok(ExitCode::Success)
    }

    /// A refusal for programs too, where they asked.
    fn refused(&self, refusal: Refusal) -> Result<CommandError, CommandError> {
        if self.args.options.json {
            print_json(&RefusalReport::of(&refusal))?;
        }
        Ok(refusal.into_error())
    }

    /// A new session in the place of one that cannot be resumed. It gets an id of its own: what is left of the old one
    /// stays where it is.
    fn afresh(&self, refusal: &Refusal) -> Conversation {
        let record = read_session_record(&self.host.state, &refusal.session);
        let recorded = record.map(|record| PathBuf::from(record.workspace));
        let workspace = self.args.workspace.clone().or(recorded.filter(|path| path.is_dir()));
        note(&format!(
            "session {} cannot be resumed: {}; a new session begins, and the old one stays as it is",
            refusal.session, refusal.reason
        ));
        Conversation::New { workspace }
    }

    fn prompt(&self, words: Option<&std::ffi::OsStr>) -> Result<Vec<u8>, CommandError> {
        let file = self.args.prompt_file.as_deref();
        if words.is_none() && file.is_none() {
            return Ok(self.config.resume_prompt.clone().into_bytes());
        }
        PromptSource::of(words, file, Audience::Person)?.read()
    }

    /// Continues what was cut off. What cannot be continued is said, and the others go on.
    fn all_interrupted(&self) -> Result<ExitCode, CommandError> {
        if self.args.prompt.is_some() {
            let what =
                "--interrupted continues all sessions, so none can be named beside the prompt";
            return Err(CommandError::new(ExitCode::Usage, what));
        }
        let prompt = self.prompt(self.args.session.as_ref().map(std::ffi::OsStr::new))?;
        let options = RunOptions { detach: true, ..self.args.options.clone() };
        let launch = Launch { host: self.host, options: &options, program: self.program };
        let interrupted = interrupted_runs(self.host)?;
        if interrupted.is_empty() {
            say("nothing was interrupted");
        }
        let signals = take_signals()?;
        let mut code = ExitCode::Success;
        for run in interrupted {
            let continued = self.continue_one(&run, &launch, &prompt, &signals);
            if let Err(error) = continued {
                let failed = error.report();
                if code == ExitCode::Success {
                    code = failed;
                }
            }
        }
        Ok(code)
    }

    fn continue_one(
        &self,
        run: &RunOverview,
        launch: &Launch<'_>,
        prompt: &[u8],
        signals: &SignalPost,
    ) -> Result<(), CommandError> {
        let session = Uuid::parse_str(&run.session).map_err(|error| {
            let what = format!("the session of run {} is not known", run.run);
            CommandError::new(ExitCode::Failed, what).because(error)
        })?;
        match self.question(session).decide()? {
            Ok(resumption) => {
                self.announce(&resumption);
                let conversation = Conversation::Resumed(Box::new(resumption));
                let admitted = self.admission(&conversation, launch.options).admit()?;
                warn_of_no_sandbox(&admitted.spec);
                self.remind_of_secrets(&admitted.spec);
                launch.launch(admitted, prompt, signals).map(drop)
            }
            Err(refusal) => Err(self.refused(refusal)?),
        }
    }
}

/// Of each session the last run, where it was cut off.
fn interrupted_runs(host: &Host) -> Result<Vec<RunOverview>, CommandError> {
    let cannot =
        |error| CommandError::new(ExitCode::Failed, "the runs cannot be listed").because(error);
    if !host.state.runs().is_dir() {
        return Ok(Vec::new());
    }
    let mut index = RunIndex::open(&host.state).map_err(cannot)?;
    index.refresh().map_err(cannot)?;
    let filter = RunFilter { which: Which::All, ..RunFilter::default() };
    let mut last: HashMap<String, RunOverview> = HashMap::new();
    for run in index.list(&filter).map_err(cannot)? {
        match last.get(&run.session) {
            Some(known) if known.run > run.run => {}
            _ => drop(last.insert(run.session.clone(), run)),
        }
    }
    let mut interrupted: Vec<RunOverview> =
        last.into_values().filter(|run| matches!(run.state, RunState::Lost { .. })).collect();
    interrupted.sort_by_key(|run| run.run);
    Ok(interrupted)
}
