//! Collects the changes that a conversation made and that may be in a commit.

use std::collections::HashSet;

use cursor_stores::model::{Confidence, Conversation, Message, Moment, ToolCall, ToolState};
use serde_json::Value as Json;

use super::paths::Standpoint;
pub(crate) use super::paths::WorkspaceMatch;

/// The tools that change files.
const CHANGING_TOOLS: &[&str] = &["edit", "write", "delete"];
/// The names of arguments that hold a file's path, without separators.
const PATH_ARGUMENTS: &[&str] = &[
    "path",
    "filepath",
    "file",
    "targetfile",
    "relativeworkspacepath",
    "targetnotebook",
    "notebookpath",
    "absolutepath",
    "uri",
];
/// The marks before a path in a patch.
const PATCH_MARKS: &[&str] =
    &["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Touch {
    /// Relative to the root of the repository.
    pub(crate) path: String,
    pub(crate) at: Option<Moment>,
}

/// The facts about a conversation that matter for a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) workspace_match: WorkspaceMatch,
    pub(crate) touches: Vec<Touch>,
    /// The moments of messages and calls, in order. Empty if the store has no times inside conversations.
    pub(crate) activity: Vec<i64>,
    /// The first and the last known moment.
    pub(crate) span: Option<(i64, i64)>,
}

impl Evidence {
    /// `roots`: the worktrees of the repository. `workspaces`: the names of the conversation's workspace.
    pub(crate) fn of(conversation: &Conversation, roots: &[String], workspaces: &[String]) -> Self {
        let standpoint = Standpoint::new(roots, workspaces);
        let touch = |path: &str, at: Option<Moment>| {
            Some(Touch { path: standpoint.in_repository(path)?, at })
        };
        let mut touches: Vec<Touch> =
            conversation.files.iter().filter_map(|path| touch(path, None)).collect();
        for message in &conversation.messages {
            for call in message.tool_calls().filter(|call| may_have_changed(call)) {
                let at = end_of(call).or(message.at);
                touches
                    .extend(changed_paths(&call.input).iter().filter_map(|path| touch(path, at)));
            }
        }
        // A file with a time needs no second entry without a time.
        let timed: HashSet<String> = touches
            .iter()
            .filter(|touch| touch.at.is_some())
            .map(|touch| touch.path.clone())
            .collect();
        touches.retain(|touch| touch.at.is_some() || !timed.contains(&touch.path));
        let (activity, span) = times(conversation);
        Self { workspace_match: standpoint.workspace_match, touches, activity, span }
    }
}

/// A call that failed or was refused changed nothing; a call that was cut off may have changed something.
pub(super) fn may_have_changed(call: &ToolCall) -> bool {
    CHANGING_TOOLS.contains(&call.tool.as_str())
        && !matches!(call.state, ToolState::Failed | ToolState::Rejected | ToolState::Cancelled)
}

fn end_of(call: &ToolCall) -> Option<Moment> {
    let started = call.started?;
    let at_ms = started.at_ms.checked_add_unsigned(call.duration_ms.unwrap_or(0))?;
    Some(Moment { at_ms, ..started })
}

/// The paths in the arguments of a call: plain, in a list of edits, or in a patch.
pub(super) fn changed_paths(input: &Json) -> Vec<String> {
    let mut paths = Vec::new();
    match input {
        Json::Object(fields) => {
            for (name, value) in fields {
                let name: String = name
                    .chars()
                    .filter(char::is_ascii_alphanumeric)
                    .map(|c| c.to_ascii_lowercase())
                    .collect();
                match value {
                    Json::String(path) if PATH_ARGUMENTS.contains(&name.as_str()) => {
                        paths.push(path.clone());
                    }
                    Json::String(text) => paths.extend(patched_paths(text)),
                    Json::Array(edits)
                        if matches!(name.as_str(), "edits" | "files" | "changes") =>
                    {
                        paths.extend(edits.iter().flat_map(changed_paths));
                    }
                    _ => {}
                }
            }
        }
        Json::String(text) => paths.extend(patched_paths(text)),
        _ => {}
    }
    paths
}

fn patched_paths(text: &str) -> Vec<String> {
    if !text.trim_start().starts_with("*** Begin Patch") {
        return Vec::new();
    }
    text.lines()
        .filter_map(|line| PATCH_MARKS.iter().find_map(|mark| line.strip_prefix(mark)))
        .map(|path| path.trim().to_owned())
        .collect()
}

/// The recorded moments, or estimates if none is recorded; and the whole span.
fn times(conversation: &Conversation) -> (Vec<i64>, Option<(i64, i64)>) {
    let head = &conversation.head;
    let of_messages = conversation.messages.iter().map(|message| message.at);
    let of_calls =
        conversation.messages.iter().flat_map(Message::tool_calls).map(|call| call.started);
    let of_turns = conversation.turns.iter().flat_map(|turn| [turn.started, turn.ended]);
    let inside: Vec<Moment> = of_messages.chain(of_calls).chain(of_turns).flatten().collect();
    let of_head = [head.created, head.updated].into_iter().flatten();
    let all = || inside.iter().copied().chain(of_head.clone()).map(|moment| moment.at_ms);
    let span = all().min().zip(all().max());
    let is_recorded = |moment: &&Moment| moment.confidence == Confidence::Recorded;
    let has_recorded = inside.iter().any(|moment| is_recorded(&moment));
    let mut activity: Vec<i64> = inside
        .iter()
        .filter(|moment| !has_recorded || is_recorded(moment))
        .map(|moment| moment.at_ms)
        .collect();
    activity.sort_unstable();
    activity.dedup();
    (activity, span)
}

#[cfg(test)]
#[path = "evidence_tests.rs"]
mod tests;
