//! `caretaker run`: checks everything that can be checked, starts a run, and follows it.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use run_journal::{CreateRunError, RunDirectory};
use run_protocol::ExitCode;
use run_shim::{StartShimError, Started, start_shim};
use uuid::Uuid;

use crate::admission::{Admission, Admitted};
use crate::agent_discovery::own_program;
use crate::command_error::CommandError;
use crate::config::Config;
use crate::environment::Audience;
use crate::following::{Followed, follow, say_how_to_go_on};
use crate::host::Host;
use crate::human_duration::HumanDuration;
use crate::interruption::{Seat, TakenSignals};
use crate::journal_printer::{Form, JournalPrinter};
use crate::name_claim::NameClaim;
use crate::prompt::PromptSource;
use crate::run_marks::{Label, RunName, Variable};
use crate::talk::note;

/// Run the agent on a prompt, in a sandbox, and watch it work.
///
/// The exit code is the run's outcome. On a terminal, Ctrl-C detaches and the run goes on; pressed twice, it stops the
/// run. Without a terminal, SIGINT and SIGTERM stop the run.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker run \"fix the failing tests\"
  caretaker run -f task.md --workspace ~/src/app --name nightly --timeout 1h
  git diff | caretaker run -f - --mode ask
  caretaker run --detach \"update the changelog\"      prints the run's id
  caretaker run --agent simulated \"look around\"      needs no Cursor")]
pub(crate) struct Args {
    /// What to do; `-` reads it from stdin.
    #[arg(conflicts_with = "prompt_file")]
    prompt: Option<OsString>,
    /// Read the prompt from a file; `-` is stdin.
    #[arg(long = "file", short = 'f', value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    /// The directory to work in. Default: where you are.
    #[arg(long, short = 'C', value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// The model to ask for.
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// Let the agent read only: to make a plan, or to answer questions.
    #[arg(long)]
    pub(crate) mode: Option<Mode>,
    /// The sandbox profile.
    #[arg(long)]
    pub(crate) profile: Option<String>,
    /// Continue this session instead of beginning one.
    #[arg(long, value_name = "UUID")]
    pub(crate) session: Option<Uuid>,
    /// Print the run's id and leave it alone.
    #[arg(long, short, conflicts_with = "json")]
    detach: bool,
    /// A name to call the run by. Taken as long as a run of that name is under way.
    #[arg(long)]
    pub(crate) name: Option<RunName>,
    /// A mark of your own; may be given several times.
    #[arg(long = "label", short, value_name = "NAME=VALUE")]
    pub(crate) labels: Vec<Label>,
    /// A variable for the agent, no secret; may be given several times.
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub(crate) variables: Vec<Variable>,
    /// Show this file or directory in the sandbox too, read-only; may be given several times.
    #[arg(long, value_name = "PATH")]
    pub(crate) expose: Vec<PathBuf>,
    /// Stop the run after this long, waiting included: `90s`, `20m`, `1h30m`. `0` and `none` mean no limit.
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<HumanDuration>,
    /// Stop the run after so much silence, while no tool is under way. `0` and `none` mean no limit.
    #[arg(long, value_name = "DURATION")]
    pub(crate) idle_timeout: Option<HumanDuration>,
    /// Run tools only as the agent's own permissions allow. Without it they run unasked: the sandbox is the guard.
    #[arg(long)]
    pub(crate) no_force: bool,
    /// Print the answer as it is typed.
    #[arg(long)]
    pub(crate) stream: bool,
    /// Queue behind the run that holds the session or the workspace, instead of failing.
    #[arg(long)]
    pub(crate) wait: bool,
    /// The agent's program, or `simulated`. Default: the cursor-agent that is installed.
    #[arg(long, value_name = "PATH|simulated")]
    pub(crate) agent: Option<PathBuf>,
    /// Print one JSON object per event, as `tail --json` does.
    #[arg(long)]
    json: bool,
    /// Further flags for the agent. Those that caretaker depends on are refused, and so are headers with credentials:
    /// everybody can read a command line.
    #[arg(last = true, value_name = "AGENT FLAGS")]
    pub(crate) agent_flags: Vec<OsString>,
}

impl Args {
    /// A run that nobody asked for, but that can be talked about.
    pub(super) fn hypothetical(
        profile: Option<String>,
        workspace: Option<PathBuf>,
        agent: Option<PathBuf>,
    ) -> Self {
        Self { profile, workspace, agent, ..Self::default() }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Mode {
    Plan,
    Ask,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let host = Host::of_process()?;
    let config = Config::load(&host.environment, &host.places)?;
    let source = PromptSource::of(
        args.prompt.as_deref(),
        args.prompt_file.as_deref(),
        Audience::of_stdin(),
    )?;
    let program = own_program()?;
    let admitted = Admission { host: &host, config: &config, args, program: &program }.admit()?;
    // Last of the checks: a pipe may be slow to end.
    let prompt = source.read()?;

    // From here on a signal is ours to answer; before, it ends us and nothing was begun.
    let signals = TakenSignals::block().map_err(|errno| {
        CommandError::new(ExitCode::Failed, "signals cannot be taken over").because(errno)
    })?;
    let Admitted { spec, shim_environment, trial } = admitted;
    // Whoever asked for the same name while the prompt was read was as early as we were.
    let name_claim =
        args.name.as_ref().map(|name| NameClaim::new(&host.state, name)).transpose()?;
    let run = RunDirectory::create(&host.state, &spec, &prompt).map_err(not_created)?;
    drop(name_claim);
    trial.remember(host.state.path());
    match start_shim(&run, &program, &shim_environment).map_err(not_started)? {
        Started::Waiting { reason } if args.detach => note(&format!("the run waits: {reason}")),
        Started::Waiting { .. } | Started::Ready => {}
    }
    if args.detach {
        let mut out = anstream::stdout().lock();
        writeln!(out, "{}", run.run_id())
            .and_then(|()| out.flush())
            .map_err(CommandError::writing)?;
        return Ok(ExitCode::Success);
    }
    let form = if args.json { Form::Json } else { Form::ForAPerson };
    let mut printer = JournalPrinter::to_stdout(form);
    match follow(&run, host.control_socket(&run), &mut printer, seat(), signals) {
        Ok(Followed::Ended(outcome)) => Ok(outcome.exit_code()),
        Ok(Followed::Detached) => Ok(ExitCode::Success),
        Err(error) if error.is_reader_gone() => {
            say_how_to_go_on(&run, "");
            Err(error)
        }
        Err(error) => Err(error),
    }
}

/// Somebody can press Ctrl-C where stdin or stderr is a terminal; stdout may be piped into a file all the same.
fn seat() -> Seat {
    match (Audience::of_stdin(), Audience::of_stderr()) {
        (Audience::Program, Audience::Program) => Seat::Unattended,
        _ => Seat::AtATerminal,
    }
}

fn not_created(error: CreateRunError) -> CommandError {
    let code = match &error {
        CreateRunError::Exists(_) => ExitCode::Conflict,
        _ => ExitCode::SupervisorFailed,
    };
    CommandError::new(code, "the run's directory could not be made").because(error)
}

fn not_started(error: StartShimError) -> CommandError {
    let code = match &error {
        StartShimError::Refused { exit_code, .. } => ExitCode::from_number(*exit_code),
        _ => None,
    };
    let command_error =
        CommandError::new(code.unwrap_or(ExitCode::SupervisorFailed), error.to_string());
    match error {
        StartShimError::Refused { hint: Some(hint), .. } => command_error.hint(hint),
        StartShimError::Spawn { source, .. } => command_error.because(source),
        StartShimError::Silent { log } => match log.lines().last() {
            Some(last) => command_error.because(last),
            None => command_error,
        },
        _ => command_error,
    }
}
