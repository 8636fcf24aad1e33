//! Prints everything about one run.

use std::collections::BTreeMap;
use std::io::{self, Write};

use admission::sandbox::profiles;
use admission::words::safe_text::{on_lines, on_one_line};
use admission::words::units;
use caretaker_daemon::{HookRecord, HookStanding};
use cursor_stores::model::display_model;
use run_journal::RunState;
use run_protocol::Checkpoint;

use super::{network_words, summary_view};
use crate::commands::show::{ShownPolicy, ShownRun, WorkspaceSaved};
use crate::view::changes::{audit_view, change_view};
use crate::view::fact_rows::{NAMES, moment, row, rows};
use crate::view::run::network_sum::{NetworkSum, Refused};
use crate::view::styled_line::{BOLD, DIM};
use crate::view::words;

/// Shows at most this many lines of stderr; its file has all of them.
const STDERR_LINES: usize = 10;
/// Shows at most this many lines of an answer; `--json` has all of it.
const ANSWER_LINES: usize = 20;
const ANSWER_CHARS: usize = 4000;
/// Shows at most this many hosts; the log has all of them.
const NETWORK_LINES: usize = 12;

pub(crate) fn print(out: &mut dyn Write, shown: &ShownRun) -> io::Result<()> {
    let run = &shown.overview;
    row(out, "run", &run.run.to_string())?;
    row(out, "name", run.name.as_deref().unwrap_or_default())?;
    let labels: Vec<String> =
        run.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    row(out, "labels", &labels.join(" "))?;
    print_state(out, shown)?;
    row(out, "prompt", &run.prompt_start)?;
    print_answer(out, shown)?;
    let retry_of = run.retry_of.map(|run| run.to_string()).unwrap_or_default();
    row(out, "retry of", &retry_of)?;
    let parent = run.lineage.as_ref().map(|lineage| lineage.run.to_string()).unwrap_or_default();
    row(out, "child of", &parent)?;
    row(out, "session", &run.session)?;
    row(out, "workspace", &run.workspace.0.display().to_string())?;
    if let Some(origin) = &run.worktree {
        let repository = origin.repository.0.display();
        row(out, "worktree", &format!("of {repository}, branch {}", origin.branch))?;
    }
    let version = run.agent_version.as_deref().unwrap_or("(unknown version)");
    row(out, "agent", &format!("{} {version}", run.agent.0.display()))?;
    row(out, "model", &run.model.as_deref().map(display_model).unwrap_or_default())?;
    let profile = match run.profile.as_str() {
        profiles::OFF => "off: no sandbox".to_owned(),
        profile => profile.to_owned(),
    };
    row(out, "profile", &profile)?;
    rows(out, "rules", &shown.policy.as_ref().map(rules).unwrap_or_default())?;
    let limits = shown.limits.as_ref().map(|limits| {
        format!("{}, by {}", words::resources(&limits.held), words::backend(limits.backend))
    });
    row(out, "limits", &limits.unwrap_or_default())?;
    row(out, "caches", &shown.caches.join(" "))?;
    print_times(out, shown)?;
    print_work(out, shown)?;
    print_network(out, &shown.network)?;
    print_workspace(out, shown)?;
    let login: Vec<String> = shown.login.iter().filter_map(words::login_news).collect();
    rows(out, "login", &login)?;
    if let Some(checkpoint) = &run.checkpoint {
        print_checkpoint(out, checkpoint)?;
    }
    let hooks: Vec<String> = shown.hooks.iter().map(hooks_called).collect();
    rows(out, "hooks", &hooks)?;
    let stderr: Vec<&str> = shown.stderr_tail.lines().collect();
    rows(out, "stderr", &stderr[stderr.len().saturating_sub(STDERR_LINES)..])?;
    let directory = shown.files.directory.0.display().to_string();
    let size = units::bytes(run.journal_bytes);
    row(out, "files", &format!("{directory} (journal: {size})"))
}

/// The user's rules: `deny Shell(git push)`, `not applied: ~/.cursor/hooks.json`.
fn rules(policy: &ShownPolicy) -> Vec<String> {
    let team = policy.team.as_ref().map(|team| match team.as_str() {
        Some(team) => team.to_owned(),
        None => team.to_string(),
    });
    let programs: Vec<String> =
        policy.hook_programs.iter().map(|path| path.0.display().to_string()).collect();
    let model =
        policy.model.as_ref().map(|model| format!("{} (your default)", display_model(model)));
    [
        ("deny ", policy.deny.join(", ")),
        ("allow ", policy.allow.join(", ")),
        ("model ", model.unwrap_or_default()),
        ("", if policy.http1 { "HTTP/1.1".to_owned() } else { String::new() }),
        ("team ", team.unwrap_or_default()),
        ("hooks in /etc/cursor start ", programs.join(", ")),
        ("not applied: ", policy.not_applied.join(", ")),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(name, value)| format!("{name}{value}"))
    .collect()
}

/// The beginning of the answer, and how to see the rest.
fn print_answer(out: &mut dyn Write, shown: &ShownRun) -> io::Result<()> {
    let Some(answer) = &shown.answer else { return Ok(()) };
    let answer = answer.trim_matches(['\r', '\n']);
    let end = answer.char_indices().nth(ANSWER_CHARS).map_or(answer.len(), |(end, _)| end);
    let names = std::iter::once("answer").chain(std::iter::repeat(""));
    for (name, line) in names.zip(answer[..end].lines().take(ANSWER_LINES)) {
        // Keep tabs, because answers often contain code.
        writeln!(out, "{DIM}{name:<NAMES$}{DIM:#}{}", on_lines(line))?;
    }
    if end < answer.len() || answer.lines().count() > ANSWER_LINES {
        let size = units::bytes(answer.len() as u64);
        let run = shown.overview.run;
        row(out, " ", &format!("… {size} in all, see `answer` in `caretaker show {run} --json`"))?;
    }
    Ok(())
}

/// `ended: notify ok, report failed: exit code 1`.
fn hooks_called(record: &HookRecord) -> String {
    let name = record.transition.name();
    let mut outcomes: Vec<String> = record
        .outcomes
        .iter()
        .map(|outcome| match &outcome.problem {
            None => format!("{} ok", outcome.hook),
            Some(problem) => format!("{} failed: {problem}", outcome.hook),
        })
        .collect();
    let n_left = record.n_hooks.saturating_sub(record.outcomes.len()).max(1);
    match record.standing {
        Some(HookStanding::UnderWay) => outcomes.push("being called".to_owned()),
        Some(HookStanding::Interrupted) => outcomes.push(format!(
            "interrupted: the daemon died during {} and will not retry",
            units::counted(n_left as u64, "hook", "hooks")
        )),
        Some(HookStanding::Done) | None => {}
    }
    format!("{name}: {}", outcomes.join(", "))
}

fn print_state(out: &mut dyn Write, shown: &ShownRun) -> io::Result<()> {
    let state = &shown.overview.state;
    let text = words::state(state);
    let (style, mark) = match state.outcome() {
        Some(outcome) => words::mark(&outcome),
        None => (BOLD, "◐"),
    };
    let why = shown.why.as_deref().and_then(words::worth_saying);
    let why = why.map_or(String::new(), |why| format!(": {}", on_one_line(why)));
    writeln!(out, "{DIM}{:<NAMES$}{DIM:#}{style}{mark} {text}{style:#}{why}", "state")?;
    if let RunState::Running { progress: Some(progress), .. } = state {
        row(out, "progress", progress)?;
    }
    row(out, "asks", shown.overview.needs_human.as_deref().unwrap_or_default())?;
    match &shown.overview.reported {
        Some(reported) => {
            let status = words::reported(reported.status);
            row(out, "reported", &format!("{status}: {}", reported.summary))
        }
        None => Ok(()),
    }
}

fn print_times(out: &mut dyn Write, shown: &ShownRun) -> io::Result<()> {
    let run = &shown.overview;
    row(out, "created", &moment(run.created_ms))?;
    match &run.state {
        RunState::Ended { duration_ms, exit_code, .. } => {
            let ended = moment(run.last_event_ms);
            row(out, "ended", &format!("{ended}, after {}", units::duration(*duration_ms)))?;
            let code = exit_code.map_or("none".to_owned(), |code| code.to_string());
            row(out, "exit code", &format!("{code} (the agent's own)"))
        }
        _ => row(out, "last event", &moment(run.last_event_ms)),
    }
}

fn print_work(out: &mut dyn Write, shown: &ShownRun) -> io::Result<()> {
    let tools: Vec<String> = shown
        .tools
        .iter()
        .map(|(name, outcomes)| {
            let outcomes: Vec<String> =
                outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
            format!("{name}: {}", outcomes.join(", "))
        })
        .collect();
    rows(out, "tools", &tools)?;
    row(out, "open tools", &shown.open_tools.join(", "))?;
    row(out, "repeats", &shown.looping.as_ref().and_then(words::repeated).unwrap_or_default())?;
    row(out, "usage", &shown.usage.as_ref().map(summary_view::usage).unwrap_or_default())?;
    let unknown: Vec<&str> = shown.unknown_kinds.keys().map(String::as_str).collect();
    row(out, "unknown", &unknown.join(", "))
}

fn print_network(out: &mut dyn Write, network: &NetworkSum) -> io::Result<()> {
    let mut lines = Vec::new();
    if let Some(mode) = network.mode {
        lines.push(mode.word().to_owned());
    }
    let reached: Vec<String> = network
        .allowed
        .iter()
        .take(NETWORK_LINES)
        .map(|reached| {
            let place = network_words::place(reached.host.as_deref(), reached.port);
            format!("{place}{}", network_words::times(reached.count))
        })
        .collect();
    if !reached.is_empty() {
        lines.push(format!("reached {}", reached.join(", ")));
    }
    // DNS, TLS and the proxy may each refuse the same host. Show it once.
    let mut refusals: BTreeMap<(String, String), u64> = BTreeMap::new();
    let is_news =
        |refused: &&Refused| !network_words::is_quiet(refused.host.as_deref(), refused.reason);
    for refused in network.denied.iter().filter(is_news) {
        let place = network_words::place(refused.host.as_deref(), refused.port);
        let why = network_words::refusal(refused.reason, refused.detail.as_deref());
        let flag = refused.allow_with.as_ref().map_or(String::new(), |flag| format!("; {flag}"));
        *refusals.entry((place, format!("{why}{flag}"))).or_default() += refused.count;
    }
    for ((place, why), count) in refusals.iter().take(NETWORK_LINES) {
        lines.push(format!("refused {place}{}: {why}", network_words::times(*count)));
    }
    let n_more = refusals.len().saturating_sub(NETWORK_LINES);
    if n_more > 0 {
        lines.push(format!("and {n_more} more, see `caretaker sandbox net-log`"));
    }
    rows(out, "network", &lines)
}

/// The snapshot of the workspace, and the run's changes in it.
fn print_workspace(out: &mut dyn Write, shown: &ShownRun) -> io::Result<()> {
    let saved = match &shown.saved {
        None => String::new(),
        Some(WorkspaceSaved::Yes { files, left_out }) => {
            let files = units::counted(*files, "file", "files");
            let left_out: Vec<String> =
                left_out.iter().map(|path| path.0.display().to_string()).collect();
            match left_out.as_slice() {
                [] => files,
                paths => format!("{files}; not covered: {}", paths.join(", ")),
            }
        }
        Some(WorkspaceSaved::No { reason }) => format!("not saved: {reason}"),
    };
    row(out, "saved", &saved)?;
    let Some(audit) = &shown.audit else { return Ok(()) };
    if let Some(changes) = audit.changes {
        row(out, "changed", &change_view::counts(changes))?;
    }
    rows(out, "look at", &audit_view::lines(audit))
}

fn print_checkpoint(out: &mut dyn Write, checkpoint: &Checkpoint) -> io::Result<()> {
    let messages = units::counted(checkpoint.messages, "message", "messages");
    let turns = units::counted(checkpoint.turns, "turn", "turns");
    let resumable = words::resumable(&checkpoint.resumable);
    row(out, "checkpoint", &format!("{messages}, {turns}, {resumable}"))?;
    let pending: Vec<String> =
        checkpoint.pending.iter().map(|call| format!("{} {}", call.tool, call.subject)).collect();
    rows(out, "pending", &pending)
}

#[cfg(test)]
#[path = "show_view_tests.rs"]
mod tests;
