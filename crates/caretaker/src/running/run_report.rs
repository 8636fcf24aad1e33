//! The state of a run, as `wait --json` and `kill --json` print it: one JSON object per line.

use admission::command_error::CommandError;
use run_journal::{RunDirectory, RunOverview, RunState};
use run_protocol::{ExitCode, RunId};
use serde::Serialize;

use crate::data_out::print_json;
use crate::running::answer::Answer;
use crate::view::words;

#[derive(Debug, Serialize)]
pub(crate) struct RunReport<'a> {
    v: u32,
    run: RunId,
    name: Option<&'a str>,
    state: &'a RunState,
    /// The reason for its state, in one sentence.
    why: Option<&'a str>,
    /// The exit code of a command that waited for the run.
    exit_code: Option<u8>,
    /// The agent's answer; `null` if there is none.
    answer: Option<String>,
}

impl<'a> RunReport<'a> {
    pub(crate) fn of(run: &RunDirectory, overview: &'a RunOverview) -> Self {
        Self {
            v: 1,
            run: overview.run,
            name: overview.name.as_deref(),
            state: &overview.state,
            why: words::why(&overview.state),
            exit_code: overview.state.outcome().map(|outcome| outcome.exit_code() as u8),
            answer: Answer::read(run, &overview.state).and_then(|answer| answer.text),
        }
    }
}

pub(crate) fn print(run: &RunDirectory, overview: &RunOverview) -> Result<ExitCode, CommandError> {
    print_json(&RunReport::of(run, overview))
}
