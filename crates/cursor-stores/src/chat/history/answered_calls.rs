//! Attaches results to their calls.

use std::collections::HashMap;

use super::draft::Draft;
use crate::chat::messages::tool_step;
use crate::chat::store::Blobs;
use crate::model::{MessageKind, Part, Role, ToolState};

/// Gives every result to the last unanswered call with its id. A result without a call stays in its message. Removes
/// messages that become empty.
pub(crate) fn answer_calls(blobs: &Blobs<'_>, drafts: &mut Vec<Draft>) -> rusqlite::Result<()> {
    let mut waiting: HashMap<String, (usize, usize)> = HashMap::new();
    for at in 0..drafts.len() {
        for result in std::mem::take(&mut drafts[at].results) {
            let place = result.call_id.as_ref().and_then(|id| waiting.remove(id));
            let Some((draft, part)) = place else {
                keep_result(&mut drafts[at], result);
                continue;
            };
            let sources = std::mem::take(&mut drafts[at].sources);
            drafts[draft].sources.extend(&sources);
            drafts[at].sources = sources;
            if let Some(Part::ToolCall(call)) =
                drafts[draft].parts.get_mut(part).map(|part| &mut part.part)
            {
                result.answer(call);
            }
        }
        for (part_at, part) in drafts[at].parts.iter().enumerate() {
            // A call waits even if its step has a result: the result that the model saw takes precedence.
            if let Part::ToolCall(call) = &part.part
                && let Some(id) = &call.id
            {
                waiting.insert(id.clone(), (at, part_at));
            }
        }
    }
    for draft in drafts.iter_mut() {
        answer_from_steps(blobs, draft)?;
    }
    drafts.retain(|draft| !draft.parts.is_empty());
    Ok(())
}

fn keep_result(draft: &mut Draft, result: crate::chat::messages::tool_result::CallResult) {
    draft.parts.push(
        Part::ToolResult {
            call_id: result.call_id,
            tool_name: result.tool_name,
            result: result.result,
        }
        .into(),
    );
    if draft.role == Role::User && draft.kind == MessageKind::Context {
        draft.role = Role::Tool;
    }
}

/// A result that is missing from the prompt may still be in the turns.
fn answer_from_steps(blobs: &Blobs<'_>, draft: &mut Draft) -> rusqlite::Result<()> {
    let is_pending = draft.kind == MessageKind::Pending;
    for part in &mut draft.parts {
        let Part::ToolCall(call) = &mut part.part else { continue };
        if call.result.is_none()
            && let Some(step) = part.step
            && let Some(step) = tool_step::call_step(blobs, step.as_bytes())?
        {
            let known = tool_step::tool_call(blobs, &step)?;
            call.result = known.result;
            call.state = known.state;
            call.duration_ms = call.duration_ms.or(known.duration_ms);
            call.subagent = call.subagent.take().or(known.subagent);
        }
        if is_pending && call.result.is_none() {
            call.state = ToolState::Pending;
            call.started = call.started.or(draft.at);
        }
    }
    Ok(())
}
