//! `caretaker kill`: stops runs, and returns when they are dead.

use std::path::Path;
use std::time::{Duration, Instant};

use run_journal::{Follower, RunDirectory, Woken, WriterPresence};
use run_protocol::{ControlRequest, ExitCode, StopManner};

use crate::command_error::CommandError;
use crate::control_client::{self, ControlError};
use crate::host::{Host, overview};
use crate::run_report;
use crate::talk::say;
use crate::view::words;

/// How long a supervisor that holds its lock may take to open its socket.
const COMING_UP: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Stop runs, and return only when nothing of them is left.
///
/// The agent gets SIGINT, then SIGTERM, then its whole sandbox is killed; how fast is in the configuration. Asking a
/// second time makes it faster. RUN is an id, a beginning of one that is unique, a name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The runs.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// Kill the sandbox at once.
    #[arg(long)]
    now: bool,
    /// Print one JSON object per run: how it stands now.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let host = Host::of_process()?;
    let manner = if args.now { StopManner::Now } else { StopManner::Ladder };
    let runs = host.find_runs(&args.runs)?;
    // All are told before any is waited for, so that they die side by side.
    let told: Vec<Result<(), CommandError>> =
        runs.iter().map(|run| tell(run, &host.control_socket(run), manner)).collect();
    let mut code = ExitCode::Success;
    for (run, told) in runs.iter().zip(told) {
        let ended = told.and_then(|()| wait_until_dead(run, &host.control_socket(run)));
        match ended.and_then(|()| overview(run)) {
            Ok(overview) if args.json => run_report::print(&overview)?,
            Ok(overview) => {
                say(&format!("run {}: {}", run.run_id(), words::state(&overview.state)));
            }
            Err(error) => code = error.report(),
        }
    }
    Ok(code)
}

/// Tells the run's supervisor to stop it; a run that is over needs no telling.
fn tell(run: &RunDirectory, socket: &Path, manner: StopManner) -> Result<(), CommandError> {
    let deadline = Instant::now() + COMING_UP;
    loop {
        match writer(run)? {
            WriterPresence::Gone(_) => return Ok(()),
            WriterPresence::NotYet | WriterPresence::Live(_) => {}
        }
        match control_client::order(socket, run.run_id(), &ControlRequest::Stop { manner }) {
            // Refused is said by a supervisor that is about to end anyway.
            Ok(()) | Err(ControlError::Refused(_)) => return Ok(()),
            // It comes up, or went down just now, perhaps between the order and its answer: the lock tells which.
            Err(ControlError::Connect(_) | ControlError::Conversation(_))
                if Instant::now() < deadline =>
            {
                std::thread::sleep(LOOK_AGAIN);
            }
            Err(error) => {
                let what = format!("the supervisor of run {} does not listen", run.run_id());
                return Err(CommandError::new(ExitCode::SupervisorFailed, what).because(error));
            }
        }
    }
}

fn wait_until_dead(run: &RunDirectory, socket: &Path) -> Result<(), CommandError> {
    let cannot = |error| {
        let what = format!("the end of run {} cannot be waited for", run.run_id());
        CommandError::new(ExitCode::Failed, what).because(error)
    };
    let mut follower = Follower::new(run, socket);
    while !matches!(writer(run)?, WriterPresence::Gone(_)) {
        if follower.wait(None).map_err(cannot)? == Woken::WriterGone {
            break;
        }
    }
    Ok(())
}

fn writer(run: &RunDirectory) -> Result<WriterPresence, CommandError> {
    run.writer().map_err(|error| {
        let what = format!("the lock of run {} cannot be examined", run.run_id());
        CommandError::new(ExitCode::Failed, what).because(error)
    })
}
