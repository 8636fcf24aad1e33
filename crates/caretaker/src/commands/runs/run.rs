//! `caretaker run`: makes all checks, starts a run, and follows it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use admission::admit::{Admission, Conversation, RunContext};
use admission::command_error::CommandError;
use admission::host::Host;
use admission::resumption::refusal::RefusalReport;
use admission::resumption::{Question, WhenHeld};
use admission::sandbox::profiles::warn_of_no_sandbox;
use admission::worktrees::{Fresh, Wanted};
use run_protocol::{ExitCode, RunId, RunRequest};
use uuid::Uuid;

use crate::batch::{self, Axis};
use crate::command_helper::CommandHelper;
use crate::commands::group::budget;
use crate::data_out::print_json;
use crate::running::console_options::ConsoleOptions;
use crate::running::launching::{Launch, take_signals};
use crate::running::prompt::PromptSource;
use crate::running::retries::Retries;
use crate::running::route::Route;
use crate::running::workspace_owner::become_owner;
use crate::surroundings::Audience;

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
  caretaker run --each prompts.jsonl --group nightly   one run per line, each in a worktree
  caretaker run --matrix model=auto,gpt-5 \"fix it\"    one run per model
  caretaker run --profile strict --secret NPM_TOKEN=file:token \"update the packages\"
  caretaker run --agent simulated \"look around\"      needs no Cursor")]
pub(crate) struct Args {
    /// The prompt; `-` reads it from stdin.
    #[arg(conflicts_with = "prompt_file")]
    prompt: Option<OsString>,
    /// Read the prompt from a file; `-` is stdin.
    #[arg(long = "file", short = 'f', value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    /// The directory to work in. Default: where you are.
    #[arg(long, short = 'C', value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Work in a new git worktree on a new branch, so that your checkout stays untouched. See the changes with
    /// `caretaker diff`, take them with `apply`, or `discard` them. The worktree begins at the last commit, without your
    /// uncommitted changes.
    #[arg(long, conflicts_with = "session")]
    worktree: bool,
    /// Start one run per line of a file, as one group; `-` is stdin. A line is a JSON object with `prompt` and,
    /// optionally, `name`, `workspace`, `model`, `mode`, `profile`, `timeout`, `idle_timeout`, `priority`, `labels`,
    /// `env`; or a JSON string; or plain words. Each run works in its own git worktree. The exit code is the worst of
    /// all runs. With a daemon, all runs enter its queue. Without a daemon, this command must keep running: it starts
    /// as many runs at once as `[queue]` in the configuration allows.
    #[arg(long, value_name = "FILE", help_heading = "Many runs",
          conflicts_with_all = ["prompt", "prompt_file", "session", "retries"])]
    pub(crate) each: Option<PathBuf>,
    /// Start one run per combination of these values, as one group. NAME is model, mode, profile or workspace. Can be
    /// given several times, and together with `--each`.
    #[arg(long, value_name = "NAME=VALUE,…", help_heading = "Many runs",
          conflicts_with_all = ["session", "retries"])]
    pub(crate) matrix: Vec<Axis>,
    /// Let the runs of `--each` and `--matrix` work in their workspaces, not in worktrees. Runs that share a workspace
    /// run one after the other.
    #[arg(long, help_heading = "Many runs", conflicts_with_all = ["worktree", "session"])]
    pub(crate) in_place: bool,
    /// Continue this session of the workspace, if it can be resumed; see `caretaker resume`. With an id from
    /// `caretaker sessions new`, begin that session.
    #[arg(long, value_name = "UUID")]
    pub(crate) session: Option<Uuid>,
    #[command(flatten)]
    pub(crate) request: RunRequest,
    #[command(flatten)]
    pub(crate) console: ConsoleOptions,
}

impl Args {
    pub(crate) fn prompt(&self) -> Result<PromptSource<'_>, CommandError> {
        let (words, file) = (self.prompt.as_deref(), self.prompt_file.as_deref());
        PromptSource::of(words, file, Audience::of_stdin())
    }
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    if !args.request.widen.is_empty() && args.session.is_none() {
        let what = "--widen needs an earlier run of the session, and a new session has none";
        return Err(CommandError::new(ExitCode::Usage, what).hint("leave it out"));
    }
    if args.each.is_some() || !args.matrix.is_empty() {
        return batch::run(helper, args);
    }
    if args.in_place {
        return Err(CommandError::new(ExitCode::Usage, "--in-place is for --each and --matrix")
            .hint("leave it out: a single run works in its workspace anyway"));
    }
    let host = &helper.host;
    become_owner(helper, args.workspace.as_deref())?;
    let config = helper.config()?;
    let source = args.prompt()?;
    let program = helper.program()?;
    let (request, console) = (&args.request, &args.console);
    let route = Route::choose(host, console, request)?;
    let way = route.way(host, console, request)?;
    let fresh = match args.worktree {
        true => {
            let wanted = Wanted { name: request.name.as_ref(), include: &config.worktree.include };
            Some(Fresh::make(host, args.workspace.as_deref(), wanted)?)
        }
        false => None,
    };
    let worktree = fresh.as_ref().map(|fresh| fresh.path().to_owned());
    let admit = |retry_of: Option<RunId>| {
        let conversation = conversation(host, args, worktree.as_deref())?;
        let fresh = fresh.as_ref().filter(|_| retry_of.is_none()).map(Fresh::run);
        let context = RunContext { retry_of, fresh, ..RunContext::new(conversation, way.clone()) };
        Admission::new(host, config, program, request, context)?.admit()
    };
    let admitted = admit(None)?;
    warn_of_no_sandbox(&admitted.spec);
    // Read the prompt last, because a pipe may be slow to end.
    let prompt = source.read()?;
    budget::set_asked(host, request, admitted.spec.group.as_deref())?;
    let signals = take_signals()?;
    let launch = Launch { host, config, console, program, route: &route };
    let retries = Retries::new(config, console.retries);
    let again = |failed| admit(Some(failed));
    let launched = launch.launch_and_retry(admitted, &prompt, &signals, retries, again);
    if let Some(fresh) = fresh {
        fresh.settle(launched.is_ok());
    }
    launched
}

/// The run's conversation. Checks a session that the user named; a new session gets a new id each time.
fn conversation(
    host: &Host,
    args: &Args,
    worktree: Option<&Path>,
) -> Result<Conversation, CommandError> {
    let Some(session) = args.session else {
        let workspace = worktree.map(Path::to_owned).or_else(|| args.workspace.clone());
        return Ok(Conversation::New { workspace });
    };
    let here = args.workspace.as_deref().unwrap_or(&host.environment.working_directory);
    let when_held = if args.console.wait { WhenHeld::Wait } else { WhenHeld::Refuse };
    match (Question { host, session, workspace: Some(here), when_held }).decide()? {
        Ok(resumption) => Ok(Conversation::Resumed(Box::new(resumption))),
        Err(refusal) => {
            if args.console.json {
                print_json(&RefusalReport::of(&refusal))?;
            }
            Err(refusal.into_error())
        }
    }
}
