//! What a run came to, for whoever started many: the answer, and what it took.

use agent_stream::{EventKind, Usage};
use run_journal::{JournalEntry, Position, Progress, RunDirectory, RunOverview, RunState};
use run_protocol::RunId;
use serde::Serialize;

use super::items::LINE_LABEL;
use crate::following::open_journal;
use crate::view::agent_lines::AgentLines;
use crate::view::words;

/// One run of a batch, in the shape that `--json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct BatchResult<'a> {
    v: u32,
    group: Option<&'a str>,
    /// Of the file of prompts.
    line: Option<u64>,
    /// `null`: it was not started, and `why` says why.
    run: Option<RunId>,
    name: Option<&'a str>,
    model: Option<&'a str>,
    workspace: Option<String>,
    /// Of its worktree.
    branch: Option<&'a str>,
    session: Option<&'a str>,
    state: Option<&'a RunState>,
    why: Option<String>,
    exit_code: u8,
    /// The agent's answer.
    result: Option<String>,
    tool_calls: Option<u64>,
    /// `null` where the agent did not say.
    usage: Option<Usage>,
}

/// What the agent's lines say as a whole.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) text: Option<String>,
    pub(crate) tool_calls: u64,
    pub(crate) usage: Option<Usage>,
}

impl Answer {
    /// Reads the journal; `None` if that cannot be done.
    pub(crate) fn read(run: &RunDirectory) -> Option<Self> {
        let mut reader = open_journal(run, Position::Start).ok()?;
        let mut lines = AgentLines::default();
        let mut answer = Self::default();
        let mut on_entry = |entry: JournalEntry<'_>| {
            let JournalEntry::Agent { line, ending, .. } = entry else { return };
            match &lines.read(&line, ending).event.kind {
                EventKind::ToolStarted(_) => answer.tool_calls += 1,
                EventKind::Result(result) => {
                    answer.text = result.text.as_ref().map(ToString::to_string);
                    answer.usage = result.usage;
                }
                _ => {}
            }
        };
        while reader.next_batch(&mut on_entry).ok()? == Progress::Advanced {}
        Some(answer)
    }
}

/// The line of the file of prompts that a run is of.
pub(crate) fn line_of(overview: &RunOverview) -> Option<u64> {
    overview.labels.get(LINE_LABEL)?.parse().ok()
}

impl<'a> BatchResult<'a> {
    pub(crate) fn of(overview: &'a RunOverview, answer: Option<Answer>) -> Self {
        let (result, tool_calls, usage) = match answer {
            Some(Answer { text, tool_calls, usage }) => (text, Some(tool_calls), usage),
            None => (None, None, None),
        };
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

    /// One that did not come to be.
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
            run: None,
            name,
            model: None,
            workspace: None,
            branch: None,
            session: None,
            state: None,
            why: Some(why),
            exit_code,
            result: None,
            tool_calls: None,
            usage: None,
        }
    }
}
