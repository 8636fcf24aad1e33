//! The outcome of a run and its reason, in one sentence.

use run_protocol::{FailureClass, LimitKind, NoResult, RunLimits, RunOutcome};

use crate::sandbox::gate;
use crate::session::session_memory::Recollection;
use crate::supervise::failure_class;
use crate::supervise::run_state::Ending;

/// Returns the outcome. If the state machine did not decide it, the exit code and stderr do.
pub(crate) fn outcome_of(ending: Ending, stderr: &str) -> RunOutcome {
    match ending {
        Ending::Decided(outcome) => outcome,
        Ending::ByItself { was_released: false, .. } => RunOutcome::SandboxFailed,
        Ending::ByItself { exit_code: Some(0), .. } => {
            RunOutcome::Unknown { why: NoResult::ExitedWithoutResult }
        }
        Ending::ByItself { exit_code: Some(126 | 127), .. }
            if stderr.lines().any(|line| line.starts_with(gate::COMPLAINT)) =>
        {
            RunOutcome::AgentNotStarted
        }
        // bwrap reports the agent's exit code, unless bwrap itself was killed.
        Ending::ByItself { exit_code: None, .. } => {
            RunOutcome::Failed { class: FailureClass::Killed }
        }
        Ending::ByItself { exit_code: Some(code), .. } => {
            let signal = (code > 128).then(|| code - 128);
            RunOutcome::Failed { class: failure_class::classify(stderr, Some(code), signal) }
        }
    }
}

/// Returns the reason for an outcome.
pub(crate) fn why(
    outcome: &RunOutcome,
    exit_code: Option<i32>,
    stderr: &str,
    limits: &RunLimits,
) -> String {
    match outcome {
        RunOutcome::Succeeded => "the agent gave its result".to_owned(),
        RunOutcome::AgentError => "the agent's result says that it failed".to_owned(),
        RunOutcome::Failed { class: FailureClass::Killed } => match exit_code {
            Some(code) => format!("the agent was killed by a signal (exit code {code})"),
            None => "the agent and its sandbox were killed from outside".to_owned(),
        },
        RunOutcome::Failed { class } => failure_class::sentence(*class, stderr),
        RunOutcome::Unknown { why } => match why {
            NoResult::ExitedWithoutResult => {
                "the agent exited without an error and without a result".to_owned()
            }
            NoResult::SettledWithoutResult => format!(
                "the agent's answer was final, but no result followed for {}",
                seconds(limits.settle_ms)
            ),
            NoResult::StreamClosed => {
                "the agent closed its output without a result and did not exit".to_owned()
            }
            NoResult::Lost => "the run's supervisor died, and the sandbox with it".to_owned(),
        },
        RunOutcome::TimedOut { limit } | RunOutcome::QuotaExceeded { limit } => met(limit, limits),
        RunOutcome::Looping => {
            "the agent repeated the same tool calls, and their results did not change; `--loop warn` lets it go on"
                .to_owned()
        }
        RunOutcome::Cancelled => "it was stopped on request".to_owned(),
        RunOutcome::Suspended => "it was suspended on request".to_owned(),
        RunOutcome::DependencyFailed => "the run that it waited for did not succeed".to_owned(),
        RunOutcome::Interrupted => {
            "its supervisor received a signal to end, as in a shutdown".to_owned()
        }
        RunOutcome::NotResumable => "the session could not be resumed".to_owned(),
        RunOutcome::Amnesia => FORGOTTEN.to_owned(),
        RunOutcome::LeaseLost => {
            "the run lost the session's lease, or another process replaced the lease's file"
                .to_owned()
        }
        RunOutcome::SandboxFailed => "the sandbox could not be set up".to_owned(),
        RunOutcome::ProtectionLost { path } => format!(
            "a process on the host removed or replaced `{}` while the agent ran, so it was no longer protected; leave it alone, and resume the run",
            path.0.display()
        ),
        RunOutcome::AgentNotStarted => {
            "the agent's program could not be started inside the sandbox".to_owned()
        }
        RunOutcome::SetupFailed => match exit_code {
            Some(code) => format!(
                "the set-up command failed with exit code {code}; `caretaker tail` shows its output, and the worktree is kept"
            ),
            None => "the set-up command was killed; the worktree is kept".to_owned(),
        },
        RunOutcome::SessionMismatch => {
            "the agent worked on a different session or directory than asked".to_owned()
        }
        RunOutcome::JournalFailed => "the journal could not be written".to_owned(),
        RunOutcome::SupervisorFailed => "the run's supervisor failed".to_owned(),
    }
}

/// Names the limit that the run reached.
fn met(limit: &LimitKind, limits: &RunLimits) -> String {
    match limit {
        LimitKind::Startup => {
            format!("the agent did not start within {}", seconds(limits.startup_ms))
        }
        LimitKind::Idle => {
            format!("the agent was silent for {} without an open tool", seconds(limits.idle_ms))
        }
        LimitKind::WallClock => {
            format!("the run took longer than {}", seconds(limits.wall_ms))
        }
        limit => match limit.remedy() {
            Some(remedy) => format!("{limit}; {remedy}"),
            None => limit.to_string(),
        },
    }
}

fn seconds(ms: u64) -> String {
    match ms % 1000 {
        0 => format!("{} s", ms / 1000),
        _ => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
    }
}

/// Added to the reason if the run has a token limit and the agent did not report its tokens.
pub(crate) const UNCOUNTED: &str =
    "; the agent did not report its tokens, so they could not be compared with `--max-tokens`";

/// Returns whether the agent gave a result without an error.
pub(crate) fn has_answered(outcome: &RunOutcome) -> bool {
    matches!(
        outcome,
        RunOutcome::Succeeded | RunOutcome::QuotaExceeded { limit: LimitKind::Tokens { .. } }
    )
}

/// Why a session cannot be resumed although its agent answered.
pub(crate) const NO_KNOWN_BUCKET: &str = "the agent answered, but left no store in a place where cursor-agent is known to \
     keep sessions; its version may use another one";

const FORGOTTEN: &str = "the agent began an empty conversation instead of continuing this one";

/// Returns the reason if the agent did not continue the conversation.
pub(crate) fn lost_memory(recollection: &Recollection) -> Option<String> {
    Some(match recollection {
        Recollection::Continued => return None,
        Recollection::Forgotten(Ok(_)) => FORGOTTEN.to_owned(),
        Recollection::Forgotten(Err(problem)) => {
            format!("{FORGOTTEN}, and the store still points to the empty one: {problem}")
        }
        Recollection::Elsewhere => {
            "the agent answered, but added nothing to this conversation".to_owned()
        }
        Recollection::Destroyed(problem) => {
            format!("the run left the conversation's store unreadable: {problem}")
        }
    })
}
