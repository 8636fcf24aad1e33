//! `caretaker why`: the reason for a run's state, in one sentence.

use admission::command_error::CommandError;
use admission::host::{Host, overview};
use admission::words::safe_text::on_one_line;
use caretaker_daemon::{QueueWord, Waiting, why};
use ground::now_ms;
use run_journal::{RunDirectory, RunState};
use run_protocol::ExitCode;
use serde::Deserialize;
use serde_json::json;

use crate::command_helper::CommandHelper;
use crate::daemon_client::DaemonClient;
use crate::data_out::{print_json, print_text};

/// Say in one sentence what a run is waiting for, or why it ended.
///
/// RUN is a run's id, a unique prefix or suffix of it, its name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run.
    run: String,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let run = host.find_run(&args.run)?;
    let overview = overview(&run)?;
    let word = match overview.state {
        RunState::Queued { .. } => queue_word(host, &run)?,
        _ => QueueWord::Undecided,
    };
    let sentence = why(&overview.state, &word, now_ms());
    if args.json {
        let waiting = match &word {
            QueueWord::Waits(waiting) => Some(waiting),
            _ => None,
        };
        let (run, state) = (run.run_id(), &overview.state);
        print_json(
            &json!({ "v": 1, "run": run, "state": state, "waiting": waiting, "why": sentence }),
        )?;
    } else {
        print_text(&format!("{}\n", on_one_line(&sentence)))?;
    }
    Ok(ExitCode::Success)
}

/// Asks the daemon why the run is waiting.
fn queue_word(host: &Host, run: &RunDirectory) -> Result<QueueWord, CommandError> {
    #[derive(Deserialize)]
    struct OneRun {
        waiting: Option<Waiting>,
    }
    let Some(daemon) = DaemonClient::find(host)? else { return Ok(QueueWord::NoDaemon) };
    let found: OneRun = daemon.get(&format!("/v1/runs/{}", run.run_id()))?;
    Ok(found.waiting.map_or(QueueWord::Undecided, QueueWord::Waits))
}
