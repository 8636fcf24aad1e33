//! `caretaker ps`: lists runs and their states.

use std::collections::BTreeMap;
use std::io::Write;

use admission::command_error::CommandError;
use admission::continuation::last_of_each_session;
use admission::host::{Host, list_runs, short_id};
use admission::resumption::{ListedChats, Question, WhenHeld};
use admission::sandbox::profiles;
use admission::words::safe_text::on_one_line;
use admission::words::talk::note;
use admission::words::units;
use caretaker_daemon::open_inboxes;
use cursor_stores::parallel;
use ground::now_ms;
use run_journal::{RunFilter, RunOverview, RunState, Which};
use run_protocol::{ExitCode, RunId};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::command_helper::CommandHelper;
use crate::daemon_client::DaemonClient;
use crate::data_out::{print_json, print_view};
use crate::view::width::Width;
use crate::view::{self, words};

/// The list shows an interrupted run for a day.
const INTERRUPTED_IS_NEWS_MS: u64 = 24 * 3600 * 1000;

/// List live runs, and runs that were interrupted in the last 24 hours and not continued.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker ps
  caretaker ps --all --json | jq '.runs[] | select(.state.state == \"ended\")'
  caretaker kill $(caretaker ps -q)")]
pub(crate) struct Args {
    /// List runs that have ended too.
    #[arg(long, short)]
    all: bool,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print only ids.
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    host.clean_up_after_the_dead();
    let now = now_ms();
    let mut runs =
        list_runs(&host.state, &RunFilter { which: Which::All, ..RunFilter::default() })?;
    let is_cut_off = |run: &RunOverview| run.state.is_interrupted() && is_news(run, now);
    let cut_off: Vec<RunOverview> =
        last_of_each_session(runs.clone()).into_iter().filter(is_cut_off).collect();
    if !args.all {
        // Do not list an interrupted run that another run continues.
        let is_listed = |run: &RunOverview| cut_off.iter().any(|it| it.run == run.run);
        runs.retain(|run| is_news(run, now) && (!run.state.is_interrupted() || is_listed(run)));
    }
    if args.json {
        return print_json(&json!({ "v": 1, "runs": runs }));
    }
    if !args.quiet {
        note_cut_off(host, &cut_off);
        note_questions(host);
    }
    print_view(|out| match args.quiet {
        true => runs.iter().try_for_each(|run| writeln!(out, "{}", run.run)),
        false => writeln!(out, "{}", table(&runs, &reasons(host, &runs), now, Width::of_stdout())),
    })
}

/// Says which interrupted sessions can be continued, as `resume` would decide.
fn note_cut_off(host: &Host, cut_off: &[RunOverview]) {
    if cut_off.is_empty() {
        return;
    }
    let chats = ListedChats::of(host).unwrap_or_default();
    let decided = parallel::map(cut_off, |run| {
        let session = Uuid::parse_str(&run.session).ok()?;
        let question = Question { host, session, workspace: None, when_held: WhenHeld::Refuse };
        Some(question.decide_at_a_glance(&chats).ok()?.map(drop))
    });
    let n_resumable = decided.iter().filter(|it| !matches!(it, Some(Err(_)))).count();
    if n_resumable > 0 {
        let were = units::counted(n_resumable as u64, "session was", "sessions were");
        note(&format!("{were} interrupted; continue with `caretaker resume --interrupted`"));
    }
    for (run, decided) in cut_off.iter().zip(decided) {
        // A session that another run holds can be resumed later.
        if let Some(Err(refusal)) = decided
            && refusal.reason.exit_code() != ExitCode::Conflict
        {
            let run = short_id(run.run);
            let why = refusal.reason.to_string();
            note(&format!(
                "run {run} was interrupted, and its session cannot be resumed: {}",
                on_one_line(&why)
            ));
        }
    }
}

/// Points out open questions: a run that asked one may have ended its turn, and then it is not in the list.
fn note_questions(host: &Host) {
    // If the inboxes cannot be read, `caretaker inbox` says why.
    let n_asked = open_inboxes(&host.state).map_or(0, |open| open.questions.len());
    if n_asked > 0 {
        let waiting =
            units::counted(n_asked as u64, "question is waiting", "questions are waiting");
        note(&format!("{waiting} for you; see `caretaker inbox`"));
    }
}

fn is_news(run: &RunOverview, now_ms: u64) -> bool {
    match &run.state {
        state if state.is_interrupted() || matches!(state, RunState::Lost { .. }) => {
            now_ms.saturating_sub(run.last_event_ms) < INTERRUPTED_IS_NEWS_MS
        }
        RunState::Ended { .. } => false,
        _ => true,
    }
}

/// Why each queued run is waiting. Without an answer from the daemon, the list shows the prompts instead.
fn reasons(host: &Host, runs: &[RunOverview]) -> BTreeMap<RunId, String> {
    #[derive(Deserialize)]
    struct Queue {
        waiting: Vec<InQueue>,
    }
    #[derive(Deserialize)]
    struct InQueue {
        run: RunId,
        why: String,
    }
    let mut queued =
        runs.iter().filter(|run| matches!(run.state, RunState::Queued { .. })).peekable();
    if queued.peek().is_none() {
        return BTreeMap::new();
    }
    match DaemonClient::find(host) {
        Ok(Some(daemon)) => daemon.get::<Queue>("/v1/queue").map_or_else(
            |_| BTreeMap::new(),
            |queue| queue.waiting.into_iter().map(|it| (it.run, it.why)).collect(),
        ),
        Ok(None) => queued.map(|run| (run.run, "daemon not running".to_owned())).collect(),
        Err(_) => BTreeMap::new(),
    }
}

fn table(
    runs: &[RunOverview],
    reasons: &BTreeMap<RunId, String>,
    now_ms: u64,
    width: Width,
) -> String {
    let rows = runs.iter().map(|run| {
        [
            short_id(run.run),
            run.name.clone().unwrap_or_default(),
            state(run),
            units::age(now_ms.saturating_sub(run.created_ms)),
            place(run),
            reasons.get(&run.run).map_or_else(|| words::about(run), String::as_str).to_owned(),
        ]
    });
    view::table::table(&["RUN", "NAME", "STATE", "AGE", "WORKSPACE", "ABOUT"], rows, width)
}

/// The run's workspace; for a worktree, its checkout.
fn place(run: &RunOverview) -> String {
    match &run.worktree {
        Some(origin) => format!("worktree of {}", origin.repository.0.display()),
        None => run.workspace.0.display().to_string(),
    }
}

/// The state, with a mark for a run without a sandbox.
fn state(run: &RunOverview) -> String {
    let mut state = words::state(&run.state);
    if run.state.is_unfinished() && run.needs_human.is_some() {
        state.push_str(", asks");
    }
    if run.profile == profiles::OFF { format!("{state}, no sandbox") } else { state }
}

#[cfg(test)]
#[path = "ps_tests.rs"]
mod tests;
