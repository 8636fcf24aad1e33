//! What a run came to, and why, in one sentence.

use run_protocol::{FailureClass, LimitKind, NoResult, RunLimits, RunOutcome};

use crate::sandbox::gate;
use crate::session::session_memory::Recollection;
use crate::supervise::failure_class;
use crate::supervise::run_state::Ending;

/// The outcome of a run that the machine left to exit code and stderr.
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
        // bwrap says how the agent ended, unless it died itself.
        Ending::ByItself { exit_code: None, .. } => {
            RunOutcome::Failed { class: FailureClass::Killed }
        }
        Ending::ByItself { exit_code: Some(code), .. } => {
            let signal = (code > 128).then(|| code - 128);
            RunOutcome::Failed { class: failure_class::classify(stderr, Some(code), signal) }
        }
    }
}

/// Why the run ended as it did.
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
        RunOutcome::Cancelled => "it was stopped on request".to_owned(),
        RunOutcome::Suspended => "it was stopped on request, to be taken up again".to_owned(),
        RunOutcome::DependencyFailed => "the run it was to follow did not succeed".to_owned(),
        RunOutcome::Interrupted => "its supervisor was told to end, as at a shutdown".to_owned(),
        RunOutcome::NotResumable => "the session could not be resumed".to_owned(),
        RunOutcome::Amnesia => FORGOTTEN.to_owned(),
        RunOutcome::LeaseLost => {
            "the session's lease was taken away from the run, or its file was replaced".to_owned()
        }
        RunOutcome::SandboxFailed => "the sandbox could not be set up".to_owned(),
        RunOutcome::ProtectionLost { path } => format!(
            "`{}` was removed or replaced on the host while the agent ran, so that it was not protected any more; leave it alone, and resume the run",
            path.0.display()
        ),
        RunOutcome::AgentNotStarted => {
            "the agent's program could not be started inside the sandbox".to_owned()
        }
        RunOutcome::SessionMismatch => {
            "the agent answered for another session or directory than it was asked to".to_owned()
        }
        RunOutcome::JournalFailed => "the journal could not be written".to_owned(),
        RunOutcome::SupervisorFailed => "the run's supervisor failed".to_owned(),
    }
}

/// Which limit the run met.
fn met(limit: &LimitKind, limits: &RunLimits) -> String {
    match limit {
        LimitKind::Startup => {
            format!("the agent did not begin within {}", seconds(limits.startup_ms))
        }
        LimitKind::Idle => {
            format!("the agent was silent for {} with no tool open", seconds(limits.idle_ms))
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

/// Said of a run with a limit for tokens whose agent did not count them.
pub(crate) const UNCOUNTED: &str = "; how many tokens it took was not said, so nobody knows whether they were more than `--max-tokens`";

/// Whether the agent gave a result that is no error, or may be none.
pub(crate) fn has_answered(outcome: &RunOutcome) -> bool {
    matches!(
        outcome,
        RunOutcome::Succeeded | RunOutcome::QuotaExceeded { limit: LimitKind::Tokens { .. } }
    )
}

const FORGOTTEN: &str = "the agent began an empty conversation instead of continuing this one";

/// What became of a conversation that was not continued.
pub(crate) fn lost_memory(recollection: &Recollection) -> Option<String> {
    Some(match recollection {
        Recollection::Continued => return None,
        Recollection::Forgotten(Ok(_)) => FORGOTTEN.to_owned(),
        Recollection::Forgotten(Err(problem)) => {
            format!("{FORGOTTEN}, and the store still leads to the empty one: {problem}")
        }
        Recollection::Elsewhere => {
            "the agent answered without adding to this conversation, which is as it was before"
                .to_owned()
        }
        Recollection::Destroyed(problem) => {
            format!("the run left the conversation's store so that it cannot be read: {problem}")
        }
    })
}
