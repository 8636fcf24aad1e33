//! `caretaker tail`: a run's events, as they were and as they come.

use admission::command_error::{CommandError, OrFail};
use admission::host::overview;
use admission::words::talk::note;
use run_journal::{EventNumber, Follower, Position, RunDirectory, Woken};
use run_protocol::ExitCode;

use crate::command_helper::CommandHelper;
use crate::running::following::open_journal;
use crate::running::journal_printer::{Form, JournalPrinter};
use crate::view::words;

/// Print the events of a run, and go on as they come.
///
/// RUN is an id, a beginning of one that is unique, a name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker tail -f -                      follow the latest run
  caretaker tail nightly --json --since 17 events after number 17, for a program
  caretaker tail - --raw | caretaker parse --summary")]
pub(crate) struct Args {
    /// The run.
    run: String,
    /// Go on until the run ends.
    #[arg(long, short)]
    follow: bool,
    /// Begin after this event. In a later epoch, the number is written with it: `2:17`.
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
            let woken = follower.wait(None).or_fail(|| "the run cannot be followed")?;
            printer.print_all(&mut reader)?;
            if woken == Woken::WriterGone {
                break;
            }
        }
    }
    printer.finish()?;
    if args.follow && printer.ended().is_none() {
        say_that_it_did_not_end(&run)?;
    }
    Ok(ExitCode::Success)
}

fn say_that_it_did_not_end(run: &RunDirectory) -> Result<(), CommandError> {
    let state = overview(run)?.state;
    // Read from behind its last event, a run that ended has none to show.
    if let Some(why) = words::why(&state) {
        note(&format!("the run is over: {}: {why}", words::state(&state)));
    }
    Ok(())
}
