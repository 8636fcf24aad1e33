//! Drives a batch from the start of its first run to the end of its last.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use admission::budgets;
use admission::budgets::group_record::GroupRecord;
use admission::budgets::tally::Tally;
use admission::command_error::{CommandError, OrFail};
use admission::config::caps::Caps;
use admission::host::short_id;
use admission::words::talk::say;
use admission::words::units;
use caretaker_daemon::{Batch, BatchRun, Turn};
use ground::now_ms;
use run_journal::{RunDirectory, RunOverview};
use run_protocol::{ControlRequest, ExitCode, RunId, RunName, RunRequest, StopManner};

use super::items::{Item, ItemsError, items};
use super::preparation::{Preparation, check};
use super::prompt_lines::{self, Line};
use super::result::BatchResult;
use super::runs_watch::RunsWatch;
use super::summary::{exit_code, print_runs, worst};
use crate::command_helper::CommandHelper;
use crate::commands::group::budget;
use crate::commands::run::Args;
use crate::data_out::{print_json, print_text};
use crate::running::interruption::{Interruption, Reaction};
use crate::running::launching::{Launch, seat, take_signals};
use crate::running::progress::Progress;
use crate::running::prompt::PromptSource;
use crate::running::route::Route;
use crate::running::stopping::tell_all;
use crate::running::workspace_owner::become_owner;
use crate::view::words;

/// How long the command waits for a second Ctrl-C.
const SECOND_THOUGHTS: Duration = Duration::from_secs(2);
/// How long to wait for news before checking again.
const PATIENCE: Duration = Duration::from_secs(60);

/// The state of one run in the batch.
enum Slot {
    /// Not started yet.
    Waiting,
    UnderWay,
    Over(Box<RunOverview>),
    NotStarted(ExitCode),
}

struct Driver<'a> {
    preparation: Preparation<'a>,
    items: &'a [Item],
    taken: Vec<BatchRun>,
    slots: Vec<Slot>,
    runs: Vec<Option<RunDirectory>>,
    group: &'a str,
    caps: Caps,
    begun_ms: u64,
    /// True while waiting runs may still start.
    is_starting: bool,
    is_json: bool,
    watch: RunsWatch,
    bar: Progress,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    become_owner(helper, args.workspace.as_deref())?;
    let config = helper.config()?;
    let console = &args.console;
    let group = match &args.request.group {
        Some(group) => group.clone(),
        None => new_group()?,
    };
    let base = RunRequest { group: Some(group.clone()), ..args.request.clone() };
    let lines = read(args)?;
    let items = items(&lines, &args.matrix, &base, args.each.is_some()).map_err(refused)?;
    let program = helper.program()?;
    let route = Route::choose(host, console, &base)?;
    let launch = Launch { host, config, console, program, route: &route };
    let (workspace, in_place) = (args.workspace.as_deref(), args.in_place);
    let preparation = Preparation { launch, workspace, in_place };
    let taken = check(&preparation, &items)?;
    let caps = config.queue.caps();
    let account = base.account.as_ref().map(RunName::as_str);
    if console.detach && matches!(route, Route::Direct) {
        let batch = Batch { group: group.as_str(), account, caps: &caps };
        refuse_to_leave_some(&taken, batch)?;
    }
    budget::set_asked(host, &base, Some(group.as_str()))?;
    let signals = take_signals()?;
    let watch = RunsWatch::new();
    watch.listen_to(&signals);
    let n_items = items.len();
    let what = units::counted(n_items as u64, "run", "runs");
    say(&format!("group {}: {what}", group.as_str()));
    let mut driver = Driver {
        preparation,
        items: &items,
        taken,
        slots: items.iter().map(|_| Slot::Waiting).collect(),
        runs: items.iter().map(|_| None).collect(),
        group: group.as_str(),
        caps,
        begun_ms: now_ms(),
        is_starting: true,
        is_json: console.json,
        watch,
        bar: Progress::of(n_items, "starting"),
    };
    driver.drive(console.detach)
}

/// A name that no other group has.
fn new_group() -> Result<RunName, CommandError> {
    format!("batch-{}", short_id(RunId::generate()))
        .parse::<RunName>()
        .or_fail(|| "cannot make a name for the group")
}

/// The prompts, each with the settings from its line.
fn read(args: &Args) -> Result<Vec<Line>, CommandError> {
    let Some(file) = &args.each else {
        let prompt = String::from_utf8_lossy(&args.prompt()?.read()?).into_owned();
        let request = RunRequest { prompt: Some(prompt), ..RunRequest::default() };
        return Ok(vec![Line { number: 1, request }]);
    };
    let source =
        if file == Path::new("-") { PromptSource::Stdin } else { PromptSource::File(file) };
    let lines = prompt_lines::parse(&source.read_lines()?)
        .map_err(|error| refused(ItemsError::Lines(error)))?;
    if lines.is_empty() {
        let what = format!("no prompts in `{}`", file.display());
        return Err(CommandError::new(ExitCode::Usage, what));
    }
    Ok(lines)
}

fn refused(error: ItemsError) -> CommandError {
    CommandError::new(ExitCode::Usage, "the batch is invalid, so nothing started")
        .because(error)
        .hint("a line is {\"prompt\":\"…\",\"model\":\"…\"}, a JSON string, or plain words; see `caretaker run --help`")
}

/// Refuses `--detach` without a daemon if some runs would have to wait, because no process would start them later.
fn refuse_to_leave_some(taken: &[BatchRun], batch: Batch<'_>) -> Result<(), CommandError> {
    let n_starts = batch.starts(taken.iter().map(|run| (run, Turn::Waits))).len();
    if n_starts == taken.len() {
        return Ok(());
    }
    let what = format!(
        "only {n_starts} of {} runs can start now, and the others need a daemon to start them later",
        taken.len()
    );
    Err(CommandError::new(ExitCode::DaemonUnavailable, what)
        .hint("start it: caretaker daemon start; or leave out --detach"))
}

impl Driver<'_> {
    fn drive(&mut self, is_detached: bool) -> Result<ExitCode, CommandError> {
        let mut interruption = Interruption::Following;
        let mut deadline: Option<Instant> = None;
        loop {
            self.start_next_runs(interruption)?;
            if is_detached && !self.has_waiting() {
                return self.leave_alone();
            }
            if self.watch.is_empty() && !(self.is_starting && self.has_waiting()) {
                break;
            }
            self.refuse_to_wait_for_ever(interruption)?;
            let patience =
                deadline.map_or(PATIENCE, |at| at.saturating_duration_since(Instant::now()));
            let heard = self.watch.wait(patience);
            for overview in heard.over {
                self.note_end(overview)?;
            }
            self.tell_progress();
            for signal in heard.signals {
                let (next, reaction) = interruption.step(seat(), signal);
                interruption = next;
                match reaction {
                    Reaction::OfferToStop => {
                        self.say_how_to_go_on(", or press Ctrl-C again now");
                        deadline = Some(Instant::now() + SECOND_THOUGHTS);
                    }
                    Reaction::Leave => {
                        self.say_how_to_go_on("");
                        return Ok(ExitCode::Success);
                    }
                    Reaction::Stop(manner) => {
                        deadline = None;
                        self.stop(manner);
                    }
                }
            }
            if deadline.is_some_and(|at| at <= Instant::now()) {
                return Ok(ExitCode::Success);
            }
        }
        self.sum_up()
    }

    /// Fails if no run is live and no run can start, because that will never change.
    fn refuse_to_wait_for_ever(&mut self, interruption: Interruption) -> Result<(), CommandError> {
        let may_start = interruption == Interruption::Following && !self.watch.has_signal();
        if !self.watch.is_empty() || !may_start || !self.next_turns().is_empty() {
            return Ok(());
        }
        let what = "no run of the batch can start: `[queue]` in the configuration allows none";
        Err(CommandError::new(ExitCode::Conflict, what)
            .hint("see the caps with `caretaker config`, and allow at least one run"))
    }

    fn has_waiting(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot, Slot::Waiting))
    }

    fn start_next_runs(&mut self, interruption: Interruption) -> Result<(), CommandError> {
        while self.is_starting && interruption == Interruption::Following {
            let starts = self.next_turns();
            if starts.is_empty() {
                return Ok(());
            }
            for index in starts {
                if self.is_stopped() {
                    self.start_no_more("the group was stopped");
                    return Ok(());
                }
                self.start(index)?;
                // `group kill` may have listed the runs just before this one started.
                if self.is_stopped() {
                    self.start_no_more("the group was stopped");
                    self.stop(StopManner::Ladder);
                    return Ok(());
                }
                self.tell_progress();
                if self.watch.has_signal() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// True if the user has stopped the group since the batch began.
    fn is_stopped(&self) -> bool {
        let record = GroupRecord::read(&self.preparation.launch.host.state, self.group);
        record.stopped_ms.is_some_and(|at| at >= self.begun_ms)
    }

    /// The runs to start now. With a daemon, these are all runs: the daemon decides when each starts.
    fn next_turns(&self) -> Vec<usize> {
        let turns = self.slots.iter().map(|slot| match slot {
            Slot::Waiting => Turn::Waits,
            Slot::UnderWay => Turn::UnderWay,
            Slot::Over(_) | Slot::NotStarted(_) => Turn::Over,
        });
        match self.preparation.launch.route {
            Route::Queue { .. } => {
                let all = turns.enumerate().filter(|(_, turn)| *turn == Turn::Waits);
                all.map(|(index, _)| index).collect()
            }
            Route::Direct => {
                let account = self.items[0].request.account.as_ref().map(RunName::as_str);
                let batch = Batch { group: self.group, account, caps: &self.caps };
                batch.starts(self.taken.iter().zip(turns))
            }
        }
    }

    /// Starts one run. If the start fails, the other runs still start; but if the very first fails, the batch fails.
    fn start(&mut self, index: usize) -> Result<(), CommandError> {
        let item = &self.items[index];
        match self.preparation.start(item) {
            Ok(run) => {
                self.watch.add(run.clone());
                self.runs[index] = Some(run);
                self.slots[index] = Slot::UnderWay;
                Ok(())
            }
            Err(error) if self.slots.iter().all(|slot| matches!(slot, Slot::Waiting)) => Err(error),
            Err(error) => {
                let code = error.exit_code();
                self.slots[index] = Slot::NotStarted(code);
                self.not_started(item, &error.message_with_causes(), code)
            }
        }
    }

    fn not_started(&self, item: &Item, why: &str, code: ExitCode) -> Result<(), CommandError> {
        let name = item.request.name.as_ref().map(RunName::as_str);
        let line = item.line.map_or(String::new(), |line| format!(" for line {line}"));
        self.bar.say_above(&format!("a run{line} did not start: {why}"));
        if self.is_json {
            let why = why.to_owned();
            print_json(&BatchResult::not_started(self.group, item.line, name, why, code as u8))?;
        }
        Ok(())
    }

    fn note_end(&mut self, overview: RunOverview) -> Result<(), CommandError> {
        let is_it = |run: &Option<RunDirectory>| {
            run.as_ref().is_some_and(|run| run.run_id() == overview.run)
        };
        let Some(index) = self.runs.iter().position(is_it) else { return Ok(()) };
        if self.is_json {
            print_json(&BatchResult::of(&overview, self.runs[index].as_ref()))?;
        } else {
            let line =
                self.items[index].line.map_or(String::new(), |line| format!(" (line {line})"));
            let name = overview.name.clone().unwrap_or_else(|| short_id(overview.run));
            self.bar.say_above(&format!("run {name}{line}: {}", words::state(&overview.state)));
        }
        self.slots[index] = Slot::Over(Box::new(overview));
        Ok(())
    }

    fn tell_progress(&self) {
        let count = |is_it: fn(&Slot) -> bool| self.slots.iter().filter(|slot| is_it(slot)).count();
        let n_waiting = count(|slot| matches!(slot, Slot::Waiting));
        let n_under_way = count(|slot| matches!(slot, Slot::UnderWay));
        let text = match (self.preparation.launch.route, n_waiting) {
            (Route::Queue { .. }, 0) => format!("{n_under_way} queued or running"),
            (_, 0) => format!("{n_under_way} running"),
            (_, n) => format!("{n_under_way} running, {n} to start"),
        };
        self.bar.describe(text);
        self.bar.show(self.slots.len() - n_waiting - n_under_way, self.slots.len());
    }

    fn start_no_more(&mut self, why: &str) {
        self.is_starting = false;
        for index in 0..self.slots.len() {
            if matches!(self.slots[index], Slot::Waiting) {
                self.slots[index] = Slot::NotStarted(ExitCode::Cancelled);
                // Even if stdout is closed, go on and stop the live runs.
                self.not_started(&self.items[index], why, ExitCode::Cancelled).ok();
            }
        }
    }

    /// Stops all runs in a separate thread, so that a second signal still gets through.
    fn stop(&mut self, manner: StopManner) {
        self.bar.say_above(match manner {
            StopManner::Ladder => "stopping all runs; press again to kill them immediately",
            StopManner::Now => "killing all runs",
        });
        self.start_no_more("cancelled before it started");
        let host = self.preparation.launch.host.clone();
        let runs = self.slots.iter().zip(&self.runs);
        let runs: Vec<RunDirectory> = runs
            .filter(|(slot, _)| matches!(slot, Slot::UnderWay))
            .filter_map(|(_, run)| run.clone())
            .collect();
        std::thread::spawn(move || {
            let told = tell_all(&host, &runs, &ControlRequest::Stop { manner });
            for error in told.into_iter().filter_map(Result::err) {
                error.report();
            }
        });
    }

    fn say_how_to_go_on(&self, or_else: &str) {
        let group = self.group;
        let n_waiting = self.slots.iter().filter(|slot| matches!(slot, Slot::Waiting)).count();
        let mut text = String::from("\ndetached; the runs continue");
        if n_waiting > 0 {
            write!(text, "; {n_waiting} will not start").ok();
        }
        write!(
            text,
            "\n  show them       caretaker group show {group}\n  \
            wait for them   caretaker group wait {group}\n  \
            stop them       caretaker group kill {group}{or_else}"
        )
        .ok();
        self.bar.say_above(&text);
    }

    /// `--detach`: prints the ids, one per line.
    fn leave_alone(&self) -> Result<ExitCode, CommandError> {
        let ids: String =
            self.runs.iter().flatten().map(|run| format!("{}\n", run.run_id())).collect();
        print_text(&ids)?;
        let codes = self.slots.iter().filter_map(|slot| match slot {
            Slot::NotStarted(code) => Some(*code),
            _ => None,
        });
        Ok(worst(codes))
    }

    fn sum_up(&self) -> Result<ExitCode, CommandError> {
        let over: Vec<&RunOverview> = self
            .slots
            .iter()
            .filter_map(|slot| match slot {
                Slot::Over(overview) => Some(&**overview),
                _ => None,
            })
            .collect();
        let not_started = self.slots.iter().filter_map(|slot| match slot {
            Slot::NotStarted(code) => Some(*code),
            // Another process removed its directory.
            Slot::UnderWay => Some(ExitCode::Unknown),
            _ => None,
        });
        let not_started: Vec<ExitCode> = not_started.collect();
        self.bar.clear();
        if !self.is_json && !over.is_empty() {
            print_runs(&over)?;
        }
        let tally = Tally::of(over.iter().copied());
        let mut text = format!("{} of {} succeeded", tally.succeeded, self.slots.len());
        if !not_started.is_empty() {
            write!(text, "; {} did not start", not_started.len()).ok();
        }
        if !self.preparation.in_place {
            text.push_str(
                "; see the changes with `caretaker diff RUN`, and take them with `apply`",
            );
        }
        say(&text);
        let Launch { host, config, .. } = self.preparation.launch;
        budgets::note_if_spent(host, config, Some(self.group));
        Ok(worst(not_started.into_iter().chain([exit_code(over)])))
    }
}
