//! The transcript of an agent, for prompts that nothing else has.

use std::ops::ControlFlow;
use std::path::Path;

use serde_json::Value as Json;

use super::checkpoint::{Exchange, split};
use super::line_files::visit_lines;
use crate::lenient_json;

/// Reads the transcript that lies with the store, in the nested or in the flat layout. Nothing, if there is none.
pub(super) fn transcript_exchanges(store: &Path, agent_id: &str) -> Vec<Exchange> {
    // An id may be anything; only a plain name leads into the directory.
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
    // What is wrong with a transcript is for the reader of transcripts to say.
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
