//! Many runs in one table, and one exit code for all of them.

use admission::command_error::CommandError;
use admission::host::short_id;
use admission::words::units;
use cursor_stores::model::display_model;
use ground::now_ms;
use run_journal::{RunOverview, RunState};
use run_protocol::ExitCode;

use super::result::line_of;
use crate::data_out::print_table;
use crate::view::words;

/// How bad an exit code is. In ascending order: the user's own choice, agent failures, unknown outcomes, machine
/// faults.
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

/// The worst code; success if there are none.
pub(crate) fn worst(codes: impl IntoIterator<Item = ExitCode>) -> ExitCode {
    codes.into_iter().max_by_key(|code| badness(*code)).unwrap_or(ExitCode::Success)
}

/// The exit code of a command that waited for all these runs.
pub(crate) fn exit_code<'a>(runs: impl IntoIterator<Item = &'a RunOverview>) -> ExitCode {
    let of = |run: &RunOverview| {
        run.state.outcome().map_or(ExitCode::StillRunning, |outcome| outcome.exit_code())
    };
    worst(runs.into_iter().map(of))
}

/// Prints the runs as a table, in the order given.
pub(crate) fn print_runs(runs: &[&RunOverview]) -> Result<ExitCode, CommandError> {
    let now_ms = now_ms();
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
            words::about(run).to_owned(),
        ];
        if has_lines {
            cells.insert(1, line_of(run).map(|line| line.to_string()).unwrap_or_default());
        }
        cells
    });
    print_table(&header, rows)
}

fn took_ms(run: &RunOverview, now_ms: u64) -> u64 {
    match &run.state {
        RunState::Ended { duration_ms, .. } => *duration_ms,
        RunState::Lost { .. } => run.last_event_ms.saturating_sub(run.created_ms),
        _ => now_ms.saturating_sub(run.created_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_has_its_own_rank_and_success_is_the_best() {
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
