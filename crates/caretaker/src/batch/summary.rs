//! Many runs at a glance, and the one exit code that stands for all of theirs.

use admission::host::short_id;
use admission::words::units;
use cursor_stores::model::display_model;
use run_journal::{RunOverview, RunState};
use run_protocol::{ExitCode, RunOutcome};

use super::result::line_of;
use crate::view::table::table;
use crate::view::width::Width;
use crate::view::words;

/// How bad it is that something ended so: what somebody did on purpose, what the agent came to, what nobody can say, and
/// what is wrong with the machine.
fn badness(code: ExitCode) -> u8 {
    match code {
        ExitCode::Success => 0,
        ExitCode::Cancelled => 1,
        ExitCode::StillRunning => 2,
        ExitCode::Failed => 3,
        ExitCode::TimedOut => 4,
        ExitCode::QuotaExceeded => 5,
        ExitCode::Unknown => 6,
        ExitCode::NotResumable => 7,
        ExitCode::Amnesia => 8,
        ExitCode::NotFound => 9,
        ExitCode::Conflict => 10,
        ExitCode::Usage => 11,
        ExitCode::AuthenticationMissing => 12,
        ExitCode::AgentNotFound => 13,
        ExitCode::AgentNotExecutable => 14,
        ExitCode::DaemonUnavailable => 15,
        ExitCode::SupervisorFailed => 16,
    }
}

/// The worst of them; success where there is none.
pub(crate) fn worst(codes: impl IntoIterator<Item = ExitCode>) -> ExitCode {
    codes.into_iter().max_by_key(|code| badness(*code)).unwrap_or(ExitCode::Success)
}

/// The exit code of a command that waited for all of them.
pub(crate) fn exit_code<'a>(runs: impl IntoIterator<Item = &'a RunOverview>) -> ExitCode {
    let of = |run: &RunOverview| {
        run.state.outcome().map_or(ExitCode::StillRunning, |outcome| outcome.exit_code())
    };
    worst(runs.into_iter().map(of))
}

/// The runs as a table, in the order given.
pub(crate) fn as_table(runs: &[&RunOverview], now_ms: u64, width: Width) -> String {
    let has_lines = runs.iter().any(|run| line_of(run).is_some());
    let mut header = vec!["RUN", "NAME", "MODEL", "STATE", "TIME", "ABOUT"];
    if has_lines {
        header.insert(1, "LINE");
    }
    let rows = runs.iter().map(|run| {
        let mut cells = vec![
            short_id(run.run),
            run.name.clone().unwrap_or_default(),
            run.model.as_deref().map(display_model).unwrap_or_default(),
            words::state(&run.state),
            units::duration(took_ms(run, now_ms)),
            about(run).to_owned(),
        ];
        if has_lines {
            cells.insert(1, line_of(run).map(|line| line.to_string()).unwrap_or_default());
        }
        cells
    });
    table(&header, rows, width)
}

fn took_ms(run: &RunOverview, now_ms: u64) -> u64 {
    match &run.state {
        RunState::Ended { duration_ms, .. } => *duration_ms,
        RunState::Lost { .. } => run.last_event_ms.saturating_sub(run.created_ms),
        _ => now_ms.saturating_sub(run.created_ms),
    }
}

/// What it does or was asked; why, where it did not succeed.
fn about(run: &RunOverview) -> &str {
    match &run.state {
        RunState::Running { progress: Some(progress), .. } => progress,
        RunState::Ended { outcome: RunOutcome::Succeeded, .. } => &run.prompt_start,
        state => words::why(state).unwrap_or(&run.prompt_start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_has_a_place_of_its_own_and_success_is_the_best() {
        let mut places: Vec<u8> = ExitCode::ALL.into_iter().map(badness).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), ExitCode::ALL.len());
        assert_eq!(worst([]), ExitCode::Success);
        assert_eq!(worst([ExitCode::Success, ExitCode::Cancelled]), ExitCode::Cancelled);
        let codes = [ExitCode::Failed, ExitCode::SupervisorFailed, ExitCode::TimedOut];
        assert_eq!(worst(codes), ExitCode::SupervisorFailed);
    }
}
