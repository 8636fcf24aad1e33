//! Reports a child's end to its parent, once. The report comes from the child's shim, or from a daemon that finds the
//! child dead.

use ground::now_ms;
use run_journal::{Inbox, InboxError, RunDirectory, RunOverview, RunState, StateRoot};
use run_protocol::{Message, MessageSender, ReportedStatus};

/// Posts the report to the inbox of the parent's session, if the run has a parent and is over.
pub fn report_end(state: &StateRoot, run: &RunDirectory) -> Result<(), InboxError> {
    let Ok(overview) = RunOverview::read(run) else { return Ok(()) };
    let Some(lineage) = &overview.lineage else { return Ok(()) };
    let Some(text) = in_words(&overview) else { return Ok(()) };
    let message = Message {
        // Every sender uses the same id, so the inbox keeps only one report.
        id: format!("end-{}", overview.run),
        at: now_ms(),
        from: MessageSender::End { run: overview.run, name: overview.name.clone() },
        text,
        answers: None,
    };
    Inbox::of(state, lineage.session).post(message).map(drop)
}

/// Returns the report, or `None` if the run is not over.
fn in_words(overview: &RunOverview) -> Option<String> {
    let name = overview.name.as_ref().map_or(String::new(), |name| format!(" `{name}`"));
    let (outcome, why) = match &overview.state {
        RunState::Ended { outcome, why, .. } => {
            let json = serde_json::to_value(outcome).ok()?;
            (json["outcome"].as_str().unwrap_or("unknown").replace('_', " "), why.clone())
        }
        RunState::Lost { why, .. } => ("unknown".to_owned(), why.clone()),
        _ => return None,
    };
    let mut text = format!("Your child{name} (run {}) is over: {outcome}; {why}.", overview.run);
    match &overview.reported {
        Some(reported) => {
            let status = match reported.status {
                ReportedStatus::Done => "done",
                ReportedStatus::Blocked => "blocked",
                ReportedStatus::Failed => "failed",
            };
            text.push_str(&format!(" It reports: {status}.\n{}", reported.summary));
        }
        None => text.push_str(" It reported nothing."),
    }
    if let Some(origin) = &overview.worktree {
        text.push_str(&format!("\nIts work is on the branch {}.", origin.branch));
    }
    Some(text)
}
