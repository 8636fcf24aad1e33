//! How a run stands, in the form that `wait --json` and `kill --json` print: one JSON object a line.

use run_journal::{RunOverview, RunState};
use run_protocol::RunId;
use serde::Serialize;

use crate::command_error::CommandError;
use crate::data_out::print_json;
use crate::view::words;

#[derive(Debug, Serialize)]
pub(crate) struct RunReport<'a> {
    v: u32,
    run: RunId,
    name: Option<&'a str>,
    state: &'a RunState,
    /// Why it stands as it stands, in one sentence.
    why: Option<&'a str>,
    /// The exit code of a command that waited for it.
    exit_code: Option<u8>,
}

impl<'a> RunReport<'a> {
    pub(crate) fn of(overview: &'a RunOverview) -> Self {
        Self {
            v: 1,
            run: overview.run,
            name: overview.name.as_deref(),
            state: &overview.state,
            why: words::why(&overview.state),
            exit_code: overview.state.outcome().map(|outcome| outcome.exit_code() as u8),
        }
    }
}

pub(crate) fn print(overview: &RunOverview) -> Result<(), CommandError> {
    print_json(&RunReport::of(overview))
}
