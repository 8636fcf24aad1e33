//! The result of one run of a batch: its outcome, its answer and its usage.

use agent_stream::{AgentStream, EventKind, Usage};
use public_events::as_raw_line;
use run_journal::{JournalEntry, Position, Progress, RunDirectory, RunOverview, RunState};
use run_protocol::RunId;
use serde::Serialize;

use super::items::LINE_LABEL;
use crate::running::answer::Answer;
use crate::running::following::open_journal;
use crate::view::words;

/// One run of a batch, as `--json` prints it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct BatchResult<'a> {
    v: u32,
    group: Option<&'a str>,
    /// The line in the prompt file.
    line: Option<u64>,
    /// `null`: the run did not start; see `why`.
    run: Option<RunId>,
    name: Option<&'a str>,
    model: Option<&'a str>,
    workspace: Option<String>,
    /// The branch of its worktree.
    branch: Option<&'a str>,
    session: Option<&'a str>,
    state: Option<&'a RunState>,
    why: Option<String>,
    exit_code: u8,
    /// The agent's answer.
    result: Option<String>,
    tool_calls: Option<u64>,
    /// `null` if the agent did not report it.
    usage: Option<Usage>,
}

/// The number of tool calls. The shim records it at the end; without that record, this counts the calls in the journal.
fn tool_calls(run: &RunDirectory, overview: &RunOverview) -> Option<u64> {
    if let Some(tool_calls) = overview.spent.and_then(|spent| spent.tool_calls) {
        return Some(tool_calls);
    }
    let mut reader = open_journal(run, Position::Start).ok()?;
    let mut lines = AgentStream::default();
    let mut n_calls = 0;
    let mut on_entry = |entry: JournalEntry<'_>| {
        let JournalEntry::Agent { line, ending, .. } = entry else { return };
        let is_call = matches!(
            lines.read_line(as_raw_line(&line, ending)).event.kind,
            EventKind::ToolStarted(_)
        );
        n_calls += u64::from(is_call);
    };
    while reader.next_batch(&mut on_entry).ok()? == Progress::Advanced {}
    Some(n_calls)
}

/// The run's line in the prompt file.
pub(crate) fn line_of(overview: &RunOverview) -> Option<u64> {
    overview.labels.get(LINE_LABEL)?.parse().ok()
}

impl<'a> BatchResult<'a> {
    /// `run` is `None` if its directory cannot be opened.
    pub(crate) fn of(overview: &'a RunOverview, run: Option<&RunDirectory>) -> Self {
        let Answer { text: result, usage } =
            run.and_then(|run| Answer::read(run, &overview.state)).unwrap_or_default();
        let tool_calls = run.and_then(|run| tool_calls(run, overview));
        let exit_code = overview.state.outcome().map_or(0, |outcome| outcome.exit_code() as u8);
        Self {
            v: 1,
            group: overview.group.as_deref(),
            line: line_of(overview),
            run: Some(overview.run),
            name: overview.name.as_deref(),
            model: overview.model.as_deref(),
            workspace: Some(overview.workspace.0.display().to_string()),
            branch: overview.worktree.as_ref().map(|origin| origin.branch.as_str()),
            session: Some(&overview.session),
            state: Some(&overview.state),
            why: words::why(&overview.state).map(ToOwned::to_owned),
            exit_code,
            result,
            tool_calls,
            usage,
        }
    }

    /// The result of a run that did not start.
    pub(crate) fn not_started(
        group: &'a str,
        line: Option<usize>,
        name: Option<&'a str>,
        why: String,
        exit_code: u8,
    ) -> Self {
        Self {
            v: 1,
            group: Some(group),
            line: line.map(|line| line as u64),
            name,
            why: Some(why),
            exit_code,
            ..Self::default()
        }
    }
}
