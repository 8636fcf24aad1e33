//! Outcomes and states of runs in words.

use admission::words::safe_text::on_one_line;
use admission::words::units;
use anstyle::Style;
use run_journal::RunState;
use run_protocol::{
    FailureClass, LimitBackend, LimitKind, LoginDrop, McpRefusal, NoResult, PendingTool,
    QuestionAbout, ReportedStatus, ResourceLimits, Resumable, RunEvent, RunOutcome, StopReason,
};

use super::network_words;
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

/// How a run stands, in a word or two.
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

/// Why it stands so, where there is a reason to give.
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

/// What holds a run to its limits.
pub(crate) fn backend(backend: LimitBackend) -> &'static str {
    match backend {
        LimitBackend::CgroupV2 => "cgroup v2",
        LimitBackend::SystemdScope => "a systemd scope",
        LimitBackend::CgroupV1 => "cgroup v1",
        LimitBackend::Rlimits => "limits of each process",
    }
}

/// `memory 4.0 GiB, 512 processes`: what holds of the limits.
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
        StopReason::Cancelled => "it was cancelled",
        StopReason::CancelledNow => "it was cancelled, at once",
        StopReason::Suspended => "it is suspended",
        StopReason::Interrupted => "its supervisor was told to end",
        StopReason::Amnesia => "the agent has forgotten the conversation",
        StopReason::Limit => "a limit was reached",
        StopReason::Lingering => "the result is there and the agent lives on",
        StopReason::NoResult => "no result will come",
        StopReason::JournalFailed => "the journal cannot be written",
        StopReason::LeaseLost => "the session is not this run's any more",
        StopReason::SessionMismatch => "the agent works on another session than it was asked to",
        StopReason::ProtectionLost => "the workspace is not protected any more",
    }
}

/// What was turned away at the agent's socket.
pub(crate) fn mcp_refusal(reason: McpRefusal) -> &'static str {
    match reason {
        McpRefusal::Oversized => "a line longer than any request was refused",
        McpRefusal::Malformed => "what was no request was refused",
        McpRefusal::TooManyConnections => "one connection too many was refused",
    }
}

/// What became of a login that the agent changed; `None` for events about something else.
pub(crate) fn login_news(event: &RunEvent) -> Option<String> {
    match event {
        RunEvent::LoginCarriedBack { kept } => Some(format!(
            "the agent renewed its login, and your login file has the new tokens; \
             undo with `caretaker login restore {}`",
            on_one_line(kept)
        )),
        RunEvent::LoginDropped { reason, count } => Some(format!(
            "the agent changed its login, and yours stays as it is: {}{}",
            login_drop(*reason),
            network_words::times(*count)
        )),
        _ => None,
    }
}

fn login_drop(reason: LoginDrop) -> &'static str {
    match reason {
        LoginDrop::Malformed => "the agent's file is not a login",
        LoginDrop::Oversized => "the agent's file is too large for a login",
        LoginDrop::OtherShape => "the agent's tokens are of another kind than yours",
        LoginDrop::OtherAccount => "the agent's tokens are of another account",
        LoginDrop::OtherFields => "the agent's file differs from yours in more than its tokens",
        LoginDrop::Replayed => "the agent's tokens are older than yours, or were yours before",
        LoginDrop::Expired => "the agent's token has expired",
        LoginDrop::NotDue => "your token is not near its end",
        LoginDrop::HostChanged => "your login file changed as well",
        LoginDrop::TooMany => "this run renewed it too often",
        LoginDrop::NotWritten => "your login could not be kept, or the new one not written",
    }
}

/// What an agent wants of a person.
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

/// Which MCP servers were switched on and off.
pub(crate) fn server_changes(enabled: &[String], disabled: &[String]) -> String {
    let part = |word: &str, names: &[String]| {
        (!names.is_empty()).then(|| format!("switched {word} {}", names.join(", ")))
    };
    let parts: Vec<String> =
        [part("on", enabled), part("off", disabled)].into_iter().flatten().collect();
    parts.join("; ")
}

/// A tool call that a resumed agent will be told about.
pub(crate) fn interrupted(call: &PendingTool) -> String {
    let what = match call.subject.as_str() {
        "" => on_one_line(&call.tool).into_owned(),
        subject => on_one_line(subject).into_owned(),
    };
    format!(
        "! the agent was running `{what}` when it was stopped; it will be told that it was interrupted"
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
        NoResult::SettledWithoutResult => "no result, work in the background",
        NoResult::StreamClosed => "output closed",
        NoResult::Lost => "lost",
    }
}
