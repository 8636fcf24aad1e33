//! Outcomes and states of runs in words.

use anstyle::Style;
use run_journal::RunState;
use run_protocol::{
    FailureClass, LimitKind, NoResult, PendingTool, ReportedStatus, Resumable, RunOutcome,
    StopReason,
};

use super::safe_text::on_one_line;
use super::styled_line::{BAD, GOOD, ODD};

/// `timed out (idle)`.
pub(crate) fn outcome(outcome: &RunOutcome) -> String {
    match outcome {
        RunOutcome::Succeeded => "succeeded".to_owned(),
        RunOutcome::AgentError => "agent error".to_owned(),
        RunOutcome::Failed { class } => format!("failed ({})", failure(*class)),
        RunOutcome::Unknown { why } => format!("unknown ({})", no_result(*why)),
        RunOutcome::TimedOut { limit } => format!("timed out ({})", limit_name(limit)),
        RunOutcome::Cancelled => "cancelled".to_owned(),
        RunOutcome::Suspended => "suspended".to_owned(),
        RunOutcome::Interrupted => "interrupted".to_owned(),
        RunOutcome::NotResumable => "not resumable".to_owned(),
        RunOutcome::Amnesia => "amnesia".to_owned(),
        RunOutcome::LeaseLost => "lease lost".to_owned(),
        RunOutcome::SandboxFailed => "sandbox failed".to_owned(),
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
        RunState::Ended { why, .. } | RunState::Lost { why } => Some(why),
        RunState::Created | RunState::Starting | RunState::Running { .. } => None,
    }
}

pub(crate) fn limit(limit: &LimitKind) -> String {
    match limit {
        LimitKind::Startup => "the agent did not begin in time".to_owned(),
        LimitKind::Idle => "the agent was silent for too long".to_owned(),
        LimitKind::Tool { name } => {
            format!("the tool {} did not come back in time", on_one_line(name))
        }
        LimitKind::WallClock => "the whole run took too long".to_owned(),
    }
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
