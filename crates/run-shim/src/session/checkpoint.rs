//! Reads the state of a session from Cursor's store after a run: its root, its pending tool calls, and whether it can
//! be resumed.

use std::path::Path;

use agent_stream::{few_words, tool_subject};
use cursor_stores::chat::{Depth, PendingMessages, PendingToolCall, resume_point};
use run_protocol::{Checkpoint, PendingTool, Resumable};
use uuid::Uuid;

/// No model makes more calls in one step.
const MOST_PENDING: usize = 32;

/// Reads `store.db` and returns the session's checkpoint. Never fails: an unreadable store is not resumable. Blocks for
/// at most twenty seconds, even for a hostile store.
pub(crate) fn checkpoint(store_db: &Path, session: Uuid) -> Checkpoint {
    let (root, state, resumable) = match resume_point(store_db, None, Depth::Whole) {
        Ok(point) => (Some(point.state.id), Some(point.state), Resumable::Yes),
        Err(refused) => {
            let reason = refused.reason.to_string();
            (refused.root, refused.state, Resumable::No { reason })
        }
    };
    let state = state.as_ref();
    let count = |n: Option<usize>| n.map_or(0, |n| u64::try_from(n).unwrap_or(u64::MAX));
    Checkpoint {
        session: session.to_string(),
        root: root.map(|root| root.to_string()),
        messages: count(state.map(|state| state.n_prompt_messages)),
        turns: count(state.map(|state| state.n_turns)),
        pending: state.map(|state| pending_tools(&state.pending)).unwrap_or_default(),
        resumable,
    }
}

/// The pending tool calls, each in a few words.
pub fn pending_tools(pending: &PendingMessages) -> Vec<PendingTool> {
    pending.tool_calls.iter().take(MOST_PENDING).map(pending_tool).collect()
}

fn pending_tool(call: &PendingToolCall) -> PendingTool {
    let tool = match call.tool_name.as_str() {
        "" => "unnamed".to_owned(),
        name => printable(&few_words(name)),
    };
    PendingTool { tool, subject: printable(&tool_subject(&call.args)) }
}

fn printable(words: &str) -> String {
    words.replace(char::is_control, " ")
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
