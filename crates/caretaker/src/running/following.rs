//! Follows a run to its end: prints its journal as it grows, and acts on the user's signals.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use admission::command_error::{CommandError, OrFail};
use admission::host::{overview, short_id};
use admission::words::safe_text::on_one_line;
use admission::words::talk::say;
use nix::sys::signal::Signal;
use run_journal::{Follower, JournalEntry, JournalReader, Position, Progress, RunDirectory, Woken};
use run_protocol::{ControlRequest, ExitCode, RunOutcome, StopManner};

use crate::running::interruption::{Interruption, Reaction, Seat, SignalPost};
use crate::running::journal_printer::JournalPrinter;
use crate::running::stopping::tell;
use crate::view::words;

/// How long the command waits for a second Ctrl-C.
const SECOND_THOUGHTS: Duration = Duration::from_secs(2);
/// How long the shim may take to clean up after the last event.
const CLEANING_UP: Duration = Duration::from_secs(10);

/// How following ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    Ended(RunOutcome),
    /// The run goes on without this command.
    Detached,
}

/// The event that woke the loop.
enum Happened {
    Grown,
    WriterGone,
    Signal(Signal),
    CannotWait(io::Error),
    /// The deadline has passed.
    TimeIsUp,
}

/// Prints the journal until the run has ended and its shim is gone.
pub(crate) fn follow(
    run: &RunDirectory,
    socket: PathBuf,
    printer: &mut JournalPrinter,
    seat: Seat,
    signals: &SignalPost,
) -> Result<Followed, CommandError> {
    let followed = follow_listening(run, socket, printer, seat, signals);
    // Even if following failed, the next signal does not concern this run.
    signals.dismiss();
    followed
}

fn follow_listening(
    run: &RunDirectory,
    socket: PathBuf,
    printer: &mut JournalPrinter,
    seat: Seat,
    signals: &SignalPost,
) -> Result<Followed, CommandError> {
    let mut reader = open_journal(run, Position::Start)?;
    let events = listen(run, &socket, signals);
    let mut interruption = Interruption::Following;
    let mut deadline = None;
    let mut progress = Progress::Advanced;
    loop {
        // Phase one: wait for exactly one event. If there is more to read, do not wait.
        let is_printing = interruption != Interruption::Leaving;
        let happened = match (is_printing, progress) {
            (true, Progress::Advanced) => events.try_recv().unwrap_or(Happened::Grown),
            _ => next(&events, deadline),
        };

        // Phase two: act on it.
        match happened {
            Happened::Grown if is_printing => {
                progress = printer.print_next(&mut reader)?;
                if printer.ended().is_some() {
                    deadline.get_or_insert_with(|| Instant::now() + CLEANING_UP);
                }
            }
            // Print nothing while the user decides whether to stay. Keep the news for later.
            Happened::Grown => progress = Progress::Advanced,
            Happened::WriterGone => {
                printer.print_all(&mut reader)?;
                return the_end(run, printer);
            }
            Happened::TimeIsUp if printer.ended().is_some() => return the_end(run, printer),
            Happened::TimeIsUp => return Ok(Followed::Detached),
            Happened::CannotWait(error) => {
                return Err(CommandError::new(ExitCode::Failed, "cannot follow the run")
                    .because(error)
                    .hint(format!("caretaker tail -f {}", short_id(run.run_id()))));
            }
            Happened::Signal(signal) => {
                let (next, reaction) = interruption.step(seat, signal);
                interruption = next;
                match reaction {
                    Reaction::OfferToStop => {
                        printer.finish()?;
                        say_how_to_go_on(run, ", or press Ctrl-C again now");
                        deadline = Some(Instant::now() + SECOND_THOUGHTS);
                    }
                    Reaction::Leave => {
                        printer.finish()?;
                        say_how_to_go_on(run, "");
                        return Ok(Followed::Detached);
                    }
                    Reaction::Stop(manner) => {
                        deadline = None;
                        stop(run, &socket, manner);
                    }
                }
            }
        }
    }
}

/// A reader of the run's journal.
pub(crate) fn open_journal(
    run: &RunDirectory,
    from: Position,
) -> Result<JournalReader, CommandError> {
    JournalReader::open(run, from)
        .or_fail(|| format!("cannot read the journal of run {}", run.run_id()))
}

/// Passes the next piece of a journal to `on_entry`.
pub(crate) fn read_batch(
    reader: &mut JournalReader,
    on_entry: &mut dyn FnMut(JournalEntry<'_>),
) -> Result<Progress, CommandError> {
    reader.next_batch(on_entry).or_fail(|| "cannot read the journal")
}

/// Passes the rest of a journal to `on_entry`.
pub(crate) fn read_to_end(
    reader: &mut JournalReader,
    on_entry: &mut dyn FnMut(JournalEntry<'_>),
) -> Result<(), CommandError> {
    while read_batch(reader, on_entry)? == Progress::Advanced {}
    Ok(())
}

/// Starts two threads that wait for events. The channel has no buffer, so news is never older than the last read.
fn listen(run: &RunDirectory, socket: &Path, signals: &SignalPost) -> Receiver<Happened> {
    let (sender, events) = mpsc::sync_channel(0);
    let follower = Follower::new(run, socket);
    let (of_signals, signals) = (sender.clone(), signals.clone());
    thread::spawn(move || wait_for_growth(follower, &sender));
    thread::spawn(move || {
        while let Some(signal) = signals.next() {
            if of_signals.send(Happened::Signal(signal)).is_err() {
                signals.put_back(signal);
                return;
            }
        }
    });
    events
}

fn wait_for_growth(mut follower: Follower, sender: &SyncSender<Happened>) {
    loop {
        let happened = match follower.wait(None) {
            Ok(Woken::Grown) => Happened::Grown,
            Ok(Woken::WriterGone) => Happened::WriterGone,
            Ok(Woken::TimedOut) => continue,
            Err(error) => Happened::CannotWait(error),
        };
        let is_last = !matches!(happened, Happened::Grown);
        if sender.send(happened).is_err() || is_last {
            return;
        }
    }
}

fn next(events: &Receiver<Happened>, deadline: Option<Instant>) -> Happened {
    let received = match deadline {
        None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(deadline) => events.recv_timeout(deadline.saturating_duration_since(Instant::now())),
    };
    received.unwrap_or(Happened::TimeIsUp)
}

fn the_end(run: &RunDirectory, printer: &mut JournalPrinter) -> Result<Followed, CommandError> {
    printer.finish()?;
    if let Some(outcome) = printer.ended() {
        return Ok(Followed::Ended(outcome.clone()));
    }
    let state = overview(run)?.state;
    let outcome = state.outcome().unwrap_or(RunOutcome::SupervisorFailed);
    let why = words::why(&state).unwrap_or("its supervisor is gone").to_owned();
    say(&format!("run {}: {}: {}", run.run_id(), words::state(&state), on_one_line(&why)));
    Ok(Followed::Ended(outcome))
}

/// Tells a user who leaves how to come back.
pub(crate) fn say_how_to_go_on(run: &RunDirectory, or_else: &str) {
    let id = short_id(run.run_id());
    // A terminal shows `^C` at the cursor.
    say(&format!(
        "\ndetached; the run continues\n  \
           follow it again   caretaker tail -f {id}\n  \
           stop it           caretaker kill {id}{or_else}"
    ));
}

/// Stops the run in a separate thread: `tell` may wait for a shim that does not answer, and a second Ctrl-C must still
/// get through.
fn stop(run: &RunDirectory, socket: &Path, manner: StopManner) {
    let how = match manner {
        StopManner::Ladder => "stopping the run; press again to kill it immediately",
        StopManner::Now => "killing the run",
    };
    say(how);
    let (run, socket) = (run.clone(), socket.to_owned());
    thread::spawn(move || {
        if let Err(error) = tell(&run, &socket, &ControlRequest::Stop { manner }) {
            let id = short_id(run.run_id());
            let why = error.message_with_causes();
            say(&format!("could not stop the run: {why}; try `caretaker kill {id}`"));
        }
    });
}
