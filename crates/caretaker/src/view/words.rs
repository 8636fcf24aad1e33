//! Words for the outcomes and states of runs.

use admission::words::safe_text::on_one_line;
use admission::words::units;
use anstyle::Style;
use run_journal::{RunOverview, RunState};
use run_protocol::{
    FailureClass, LimitBackend, LimitKind, LoginDrop, McpRefusal, NoResult, PendingTool,
    QuestionAbout, ReportedStatus, ResourceLimits, Resumable, RunEvent, RunOutcome, StopReason,
};

use super::run::network_words;
use super::styled_line::{BAD, GOOD, ODD};

/// `timed out (idle)`.
pub(crate) fn outcome(outcome: &RunOutcome) -> String {
    match outcome {
        RunOutcome::Succeeded => "succeeded".to_owned(),
        RunOutcome::AgentError => "agent error".to_owned(),
        RunOutcome::Failed { class } => format!("failed ({})", failure(*class)),
        RunOutcome::Unknown { why } => format!("unknown ({})", no_result(*why)),
        RunOutcome::TimedOut { limit } => format!("timed out ({})", limit_name(limit)),
        RunOutcome::QuotaExceeded { limit } => format!("over its limit ({})", limit_name(limit)),
        RunOutcome::Looping => "looping".to_owned(),
        RunOutcome::Cancelled => "cancelled".to_owned(),
        RunOutcome::Suspended => "suspended".to_owned(),
        RunOutcome::DependencyFailed => "dependency failed".to_owned(),
        RunOutcome::Interrupted => "interrupted".to_owned(),
        RunOutcome::NotResumable => "not resumable".to_owned(),
        RunOutcome::Amnesia => "amnesia".to_owned(),
        RunOutcome::LeaseLost => "lease lost".to_owned(),
        RunOutcome::SandboxFailed => "sandbox failed".to_owned(),
        RunOutcome::ProtectionLost { .. } => "protection lost".to_owned(),
        RunOutcome::AgentNotStarted => "agent not started".to_owned(),
        RunOutcome::SetupFailed => "set-up failed".to_owned(),
        RunOutcome::SessionMismatch => "session mismatch".to_owned(),
        RunOutcome::JournalFailed => "journal failed".to_owned(),
        RunOutcome::SupervisorFailed => "supervisor failed".to_owned(),
    }
}

/// The colour and the sign of an outcome.
pub(crate) fn mark(outcome: &RunOutcome) -> (Style, &'static str) {
    match outcome {
        RunOutcome::Succeeded => (GOOD, "✓"),
        RunOutcome::Cancelled => (ODD, "■"),
        RunOutcome::Suspended | RunOutcome::Interrupted => (ODD, "‖"),
        RunOutcome::Unknown { .. } => (ODD, "?"),
        _ => (BAD, "✗"),
    }
}

/// The state of a run, in a word or two.
pub(crate) fn state(state: &RunState) -> String {
    match state {
        RunState::Created => "created".to_owned(),
        RunState::Queued { .. } => "queued".to_owned(),
        RunState::Waiting { .. } => "waiting".to_owned(),
        RunState::Starting => "starting".to_owned(),
        RunState::Running { .. } => "running".to_owned(),
        RunState::Ended { outcome: ended, .. } => outcome(ended),
        RunState::Lost { .. } => "lost".to_owned(),
    }
}

/// The reason for the state, if there is one.
pub(crate) fn why(state: &RunState) -> Option<&str> {
    match state {
        RunState::Waiting { reason } => Some(reason),
        RunState::Ended { why, .. } | RunState::Lost { why, .. } => Some(why),
        RunState::Created
        | RunState::Queued { .. }
        | RunState::Starting
        | RunState::Running { .. } => None,
    }
}

/// The part of the reason that a user needs; `None` for an ordinary success.
pub(crate) fn worth_saying(why: &str) -> Option<&str> {
    let news =
        why.strip_prefix("the agent gave its result").map(|rest| rest.trim_start_matches("; "));
    news.or(Some(why)).filter(|news| !news.is_empty())
}

/// The run's question, its progress, the reason for its state, or its prompt: the first that it has.
pub(crate) fn about(run: &RunOverview) -> &str {
    match &run.state {
        state if state.is_unfinished() && run.needs_human.is_some() => {
            run.needs_human.as_deref().unwrap_or_default()
        }
        RunState::Running { progress: Some(progress), .. } => progress,
        state => why(state).and_then(worth_saying).unwrap_or(&run.prompt_start),
    }
}

/// `read a.rs, then shell cargo test (12 calls in a row, same results)`. `None` for other events.
pub(crate) fn repeated(event: &RunEvent) -> Option<String> {
    let RunEvent::Looping { calls, in_a_row } = event else { return None };
    let calls: Vec<String> =
        calls.iter().map(|call| format!("{} {}", call.tool, call.subject)).collect();
    let calls = calls.join(", then ");
    Some(format!("{} ({in_a_row} calls in a row, same results)", on_one_line(&calls)))
}

/// The mechanism that enforces the limits.
pub(crate) fn backend(backend: LimitBackend) -> &'static str {
    match backend {
        LimitBackend::CgroupV2 => "cgroup v2",
        LimitBackend::SystemdScope => "a systemd scope",
        LimitBackend::CgroupV1 => "cgroup v1",
        LimitBackend::Rlimits => "per-process limits only (no cgroup)",
    }
}

/// `memory 4.0 GiB, 512 processes`: the limits in force.
pub(crate) fn resources(held: &ResourceLimits) -> String {
    let limits = [
        (held.memory_bytes, format!("memory {}", units::bytes(held.memory_bytes))),
        (held.processes, format!("{} processes", held.processes)),
        (held.cpu_milli, format!("{} processors", processors(held.cpu_milli))),
        (held.file_bytes, format!("files {}", units::bytes(held.file_bytes))),
        (held.open_files, format!("{} open files", held.open_files)),
        (held.disk_bytes, format!("disk {}", units::bytes(held.disk_bytes))),
    ];
    let set: Vec<String> =
        limits.into_iter().filter(|(limit, _)| *limit > 0).map(|(_, text)| text).collect();
    if set.is_empty() { "none".to_owned() } else { set.join(", ") }
}

/// `1500` → `1.5`.
pub(crate) fn processors(milli: u64) -> String {
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(crate) fn stop_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Cancelled => "cancelled",
        StopReason::CancelledNow => "cancelled immediately",
        StopReason::Suspended => "suspended",
        StopReason::Interrupted => "a signal ended its supervisor",
        StopReason::Amnesia => "the agent has forgotten the conversation",
        StopReason::Limit => "limit exceeded",
        StopReason::Looping => "the agent repeats itself",
        StopReason::Lingering => "the agent did not exit after its result",
        StopReason::NoResult => "the agent gave no result",
        StopReason::JournalFailed => "the journal cannot be written",
        StopReason::LeaseLost => "another run may use the session now",
        StopReason::SessionMismatch => "the agent opened the wrong session",
        StopReason::ProtectionLost => "the workspace is no longer protected",
    }
}

/// Why the agent's socket refused something.
pub(crate) fn mcp_refusal(reason: McpRefusal) -> &'static str {
    match reason {
        McpRefusal::Oversized => "refused a line that was too long",
        McpRefusal::Malformed => "refused a line that is not a request",
        McpRefusal::TooManyConnections => "refused a connection: too many are open",
    }
}

/// Says whether Caretaker kept or dropped a login that the agent changed. `None` for other events.
pub(crate) fn login_news(event: &RunEvent) -> Option<String> {
    match event {
        RunEvent::LoginCarriedBack { kept } => Some(format!(
            "the agent renewed its login, and your login file has the new tokens; \
             undo with `caretaker login restore {}`",
            on_one_line(kept)
        )),
        RunEvent::LoginDropped { reason, count } => Some(format!(
            "the agent changed its login; your login is unchanged: {}{}",
            login_drop(*reason),
            network_words::times(*count)
        )),
        _ => None,
    }
}

fn login_drop(reason: LoginDrop) -> &'static str {
    match reason {
        LoginDrop::Malformed => "the agent's file is not a login file",
        LoginDrop::Oversized => "the agent's file is too large for a login",
        LoginDrop::OtherShape => "the agent's tokens differ in form from yours",
        LoginDrop::OtherAccount => "the agent's tokens belong to another account",
        LoginDrop::OtherFields => "the agent changed more than the tokens",
        LoginDrop::Replayed => "the agent's tokens are old",
        LoginDrop::Expired => "the agent's token has expired",
        LoginDrop::NotDue => "your token does not expire soon",
        LoginDrop::HostChanged => "your login file changed too",
        LoginDrop::TooMany => "this run changed its login too often",
        LoginDrop::NotWritten => "the new login could not be saved",
    }
}

/// The agent's question in a few words.
pub(crate) fn question(about: QuestionAbout, host: Option<&str>) -> String {
    match (about, host) {
        (QuestionAbout::Work, _) => "the agent asks".to_owned(),
        (QuestionAbout::Access, None) => "the agent asks for access".to_owned(),
        (QuestionAbout::Access, Some(host)) => format!("the agent asks for access to {host}"),
    }
}

pub(crate) fn reported(status: ReportedStatus) -> &'static str {
    match status {
        ReportedStatus::Done => "done",
        ReportedStatus::Blocked => "blocked",
        ReportedStatus::Failed => "failed",
    }
}

pub(crate) fn resumable(resumable: &Resumable) -> String {
    match resumable {
        Resumable::Yes => "resumable".to_owned(),
        Resumable::No { reason } => format!("not resumable: {}", on_one_line(reason)),
    }
}

/// The MCP servers that the user switched on and off.
pub(crate) fn server_changes(enabled: &[String], disabled: &[String]) -> String {
    let part = |word: &str, names: &[String]| {
        (!names.is_empty()).then(|| format!("switched {word} {}", names.join(", ")))
    };
    let parts: Vec<String> =
        [part("on", enabled), part("off", disabled)].into_iter().flatten().collect();
    parts.join("; ")
}

/// The warning about an interrupted tool call. The resumed agent learns about it.
pub(crate) fn interrupted(call: &PendingTool) -> String {
    let what = match call.subject.as_str() {
        "" => on_one_line(&call.tool).into_owned(),
        subject => on_one_line(subject).into_owned(),
    };
    format!(
        "! the agent was running `{what}` when it was stopped; it will learn that the call was interrupted"
    )
}

fn limit_name(limit: &LimitKind) -> String {
    match limit {
        LimitKind::Startup => "startup".to_owned(),
        LimitKind::Idle => "idle".to_owned(),
        LimitKind::Tool { name } => format!("tool {}", on_one_line(name)),
        LimitKind::WallClock => "wall clock".to_owned(),
        LimitKind::Memory { .. } => "memory".to_owned(),
        LimitKind::Processes { .. } => "processes".to_owned(),
        LimitKind::Disk { .. } => "disk".to_owned(),
        LimitKind::Journal { .. } => "journal".to_owned(),
        LimitKind::ToolCalls { .. } => "tool calls".to_owned(),
        LimitKind::Tokens { .. } => "tokens".to_owned(),
        LimitKind::Connections { .. } => "connections".to_owned(),
        LimitKind::FileSize { .. } => "file size".to_owned(),
        LimitKind::Tmp { .. } => "tmp".to_owned(),
        LimitKind::Home { .. } => "home".to_owned(),
        LimitKind::Scratch { path, .. } => on_one_line(&path.0.display().to_string()).into_owned(),
    }
}

fn failure(class: FailureClass) -> &'static str {
    match class {
        FailureClass::Auth => "authentication",
        FailureClass::Trust => "workspace not trusted",
        FailureClass::BadModel => "model not available",
        FailureClass::RateLimited => "rate limited",
        FailureClass::UsageLimit => "usage limit",
        FailureClass::Network => "network",
        FailureClass::ConfigRace => "configuration race",
        FailureClass::SessionInUse => "session in use",
        FailureClass::Killed => "killed",
        FailureClass::Other => "agent failed",
    }
}

fn no_result(why: NoResult) -> &'static str {
    match why {
        NoResult::ExitedWithoutResult => "no result",
        NoResult::SettledWithoutResult => "no result, background work left",
        NoResult::StreamClosed => "output closed",
        NoResult::Lost => "lost",
    }
}
