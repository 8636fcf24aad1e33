//! What Cursor's store holds of a session after a run: where it stands, what was under way, whether it can go on.

mod pending_subject;

use std::path::Path;

use cursor_stores::chat::{Depth, PendingMessages, PendingToolCall, resume_point};
use run_protocol::{Checkpoint, PendingTool, Resumable};
use uuid::Uuid;

use pending_subject::{few_words, subject};

/// More calls than any model makes in one step.
const MOST_PENDING: usize = 32;

/// Reads `store.db` and says what became of the session. Never fails: what cannot be read is not resumable. Blocks for
/// twenty seconds at most, whatever the agent made of its store.
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

/// The calls that were under way, each in a few words.
pub fn pending_tools(pending: &PendingMessages) -> Vec<PendingTool> {
    pending.tool_calls.iter().take(MOST_PENDING).map(pending_tool).collect()
}

fn pending_tool(call: &PendingToolCall) -> PendingTool {
    let tool = match call.tool_name.as_str() {
        "" => "unnamed".to_owned(),
        name => few_words(name),
    };
    PendingTool { tool, subject: subject(&call.args) }
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
