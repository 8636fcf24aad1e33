//! `caretaker suspend`: stops runs so that their sessions can be resumed.

use admission::command_error::CommandError;
use admission::host::{Host, list_runs};
use admission::words::talk::say;
use admission::words::units;
use run_journal::{RunDirectory, RunFilter, RunOverview, RunState, Which};
use run_protocol::{ControlRequest, ExitCode, Resumable, SessionRecord};
use run_shim::read_session_record;
use serde::Serialize;
use uuid::Uuid;

use crate::command_helper::CommandHelper;
use crate::data_out::print_json;
use crate::running::run_report::RunReport;
use crate::running::stopping::end_all;
use crate::view::words;

/// Stop runs so that they can be resumed, and say what their sessions hold.
///
/// Stops the agent as `kill` does, then reads Cursor's store and records how much of the session it holds. A run that
/// has ended does not need to be suspended: resume its session directly.
///
/// RUN is a run's id, a unique prefix or suffix of it, its name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker suspend nightly
  caretaker suspend --all        before a reboot or an upgrade
  caretaker resume nightly \"go on\"")]
pub(crate) struct Args {
    /// The runs.
    #[arg(required_unless_present = "all", value_name = "RUN")]
    runs: Vec<String>,
    /// Suspend all live runs.
    #[arg(long, conflicts_with = "runs")]
    all: bool,
    /// Print one JSON object per run: its state and its session.
    #[arg(long)]
    json: bool,
}

/// A run and its session.
#[derive(Serialize)]
struct SuspendReport<'a> {
    #[serde(flatten)]
    run: RunReport<'a>,
    session: &'a str,
    /// Caretaker's record of the session.
    record: Option<SessionRecord>,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let runs = if args.all { all_under_way(host)? } else { host.find_runs(&args.runs)? };
    // A run without a directory was refused, so it does not count as a run.
    let is_none = |run: &RunDirectory| args.all && !run.path().exists();
    let mut code = ExitCode::Success;
    for (run, ended) in end_all(host, &runs, &ControlRequest::Suspend) {
        match ended {
            Ok(overview) => drop(report(host, run, &overview, args.json)?),
            Err(_) if is_none(run) => {}
            Err(error) => code = error.report(),
        }
    }
    if runs.is_empty() {
        say("no live runs");
    }
    Ok(code)
}

fn all_under_way(host: &Host) -> Result<Vec<RunDirectory>, CommandError> {
    let filter = RunFilter { which: Which::Unfinished, ..RunFilter::default() };
    let under_way = list_runs(&host.state, &filter)?
        .into_iter()
        // Queued runs stay queued, even through a reboot.
        .filter(|overview| !matches!(overview.state, RunState::Queued { .. }))
        .filter_map(|overview| match host.find_run(&overview.run.to_string()) {
            Err(error) if error.exit_code() == ExitCode::NotFound => None,
            found => Some(found),
        });
    under_way.collect()
}

fn report(
    host: &Host,
    run: &RunDirectory,
    overview: &RunOverview,
    as_json: bool,
) -> Result<ExitCode, CommandError> {
    let session = Uuid::parse_str(&overview.session).ok();
    let record = session.and_then(|session| read_session_record(&host.state, &session));
    if as_json {
        let run = RunReport::of(run, overview);
        return print_json(&SuspendReport { run, session: &overview.session, record });
    }
    let mut text = format!("run {}: {}", overview.run, words::state(&overview.state));
    let checkpoint = record.and_then(|record| record.checkpoint);
    if let Some(checkpoint) = checkpoint {
        let messages = units::counted(checkpoint.messages, "message", "messages");
        let resumable = words::resumable(&checkpoint.resumable);
        text.push_str(&format!("\n  session {}: {messages}, {resumable}", checkpoint.session));
        for call in &checkpoint.pending {
            text.push_str(&format!("\n  {}", words::interrupted(call)));
        }
        if checkpoint.resumable == Resumable::Yes {
            text.push_str(&format!("\n  resume it   caretaker resume {}", checkpoint.session));
        }
    }
    say(&text);
    Ok(ExitCode::Success)
}
