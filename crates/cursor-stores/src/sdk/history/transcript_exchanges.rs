//! Reads an agent's transcript, for prompts that nothing else has.

use std::ops::ControlFlow;
use std::path::Path;

use serde_json::Value as Json;

use super::checkpoint::{Exchange, split};
use crate::lenient_json;
use crate::sdk::records::line_files::visit_lines;

/// Reads the transcript next to the store, in the nested or the flat layout. Empty if there is none.
pub(crate) fn transcript_exchanges(store: &Path, agent_id: &str) -> Vec<Exchange> {
    // An id may be anything. Only a plain name is safe in a path.
    let is_name =
        !agent_id.is_empty() && !agent_id.starts_with('.') && !agent_id.contains(['/', '\0']);
    let Some(project) = store.parent().and_then(Path::parent).filter(|_| is_name) else {
        return Vec::new();
    };
    let transcripts = project.join("agent-transcripts");
    let file = format!("{agent_id}.jsonl");
    let nested = transcripts.join(agent_id).join(&file);
    [nested, transcripts.join(&file)]
        .iter()
        .map(|path| split(lines(path)))
        .find(|exchanges| !exchanges.is_empty())
        .unwrap_or_default()
}

fn lines(path: &Path) -> Vec<Json> {
    let mut lines = Vec::new();
    // The transcript reader reports their damage.
    let mut damage = Vec::new();
    let read = visit_lines(path, &mut damage, &mut |_, line| {
        lines.extend(lenient_json::parse(line).ok());
        ControlFlow::Continue(())
    });
    if read.is_err() {
        lines.clear();
    }
    lines
}
