//! `caretaker tail`: prints a run's events, and follows a live run.

use admission::command_error::{CommandError, OrFail};
use admission::host::overview;
use admission::words::talk::note;
use run_journal::{EventNumber, Follower, Position, RunDirectory, Woken};
use run_protocol::ExitCode;

use crate::command_helper::CommandHelper;
use crate::running::following::open_journal;
use crate::running::journal_printer::{Form, JournalPrinter};
use crate::view::words;

/// Print the events of a run; with `-f`, follow it.
///
/// RUN is a run's id, a unique prefix or suffix of it, its name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker tail -f -                      follow the latest run
  caretaker tail nightly --json --since 17 events after number 17, for a program
  caretaker tail - --raw | caretaker parse --summary")]
pub(crate) struct Args {
    /// The run.
    run: String,
    /// Follow the run until it ends.
    #[arg(long, short)]
    follow: bool,
    /// Begin after this event. For events in a later epoch, write both numbers: `2:17`.
    #[arg(long, value_name = "SEQ|EPOCH:SEQ", conflicts_with = "last")]
    since: Option<EventNumber>,
    /// Begin with the last N events.
    #[arg(long = "last", short = 'n', value_name = "N")]
    last: Option<u64>,
    /// Print one JSON object per event.
    #[arg(long, conflicts_with = "raw")]
    json: bool,
    /// Print the agent's own lines and nothing else, byte for byte.
    #[arg(long)]
    raw: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let run = host.find_run(&args.run)?;
    let from = match (args.since, args.last) {
        (Some(number), _) => Position::After(number),
        (None, Some(n_events)) => Position::Tail(n_events),
        (None, None) => Position::Start,
    };
    let form = match (args.json, args.raw) {
        (true, _) => Form::Json,
        (_, true) => Form::Raw,
        _ => Form::ForAPerson,
    };
    let mut reader = open_journal(&run, from)?;
    let mut printer = JournalPrinter::to_stdout(form);
    printer.print_all(&mut reader)?;
    if args.follow && printer.ended().is_none() {
        let mut follower = Follower::new(&run, &host.control_socket(&run));
        while printer.ended().is_none() {
            let woken = follower.wait(None).or_fail(|| "cannot follow the run")?;
            printer.print_all(&mut reader)?;
            if woken == Woken::WriterGone {
                break;
            }
        }
    }
    printer.finish()?;
    if args.follow && printer.ended().is_none() {
        say_how_it_stands(&run)?;
    }
    Ok(ExitCode::Success)
}

fn say_how_it_stands(run: &RunDirectory) -> Result<(), CommandError> {
    let state = overview(run)?.state;
    // If the user asked for events after the last one, no printed event says that the run ended.
    if let Some(why) = words::why(&state) {
        note(&format!("the run has ended: {}: {why}", words::state(&state)));
    }
    Ok(())
}
