//! Builds a conversation's head from everything known about it.

use super::headers::{Header, Headers};
use super::summary::Summary;
use crate::ide::database::keys;
use crate::model::{Activity, Head, Moment, Origin, Parent, Shelf, Workspace};

/// Builds a head. `has_writer` says whether a process has the database open. `workspace` finds the workspace if the
/// conversation does not name it.
pub(crate) fn make_head(
    id: &str,
    origin: Origin,
    summary: &Summary,
    headers: &Headers,
    has_writer: bool,
    workspace: &mut dyn FnMut(&[Option<&str>]) -> Option<Workspace>,
) -> Head {
    let nothing = Header::default();
    let header = headers.get(id).unwrap_or(&nothing);
    let listed = &header.summary;
    let mut head = Head::new(id, origin);
    head.title = summary.title.clone().or_else(|| listed.title.clone());
    head.workspace = summary
        .workspace
        .clone()
        .or_else(|| listed.workspace.clone())
        .or_else(|| workspace(&[summary.workspace_id.as_deref(), listed.workspace_id.as_deref()]))
        .or_else(|| headers.project(id).cloned());
    head.created = summary.created.or(listed.created).map(Moment::recorded);
    head.updated = header
        .recency
        .or(summary.last_message)
        .or(summary.checkpoint_updated.or(listed.checkpoint_updated))
        .or(summary.last_updated.max(listed.last_updated))
        .or(summary.created)
        .or(listed.created)
        .map(Moment::recorded);
    head.mode = summary.mode.clone().or_else(|| listed.mode.clone());
    for model in [&summary.model, &listed.model].into_iter().flatten() {
        head.add_model(model);
    }
    let has_messages = summary.n_messages.is_some_and(|count| count > 0);
    // If the messages are only in the agent's state, their number is unknown.
    head.n_messages = summary.n_messages.filter(|_| has_messages || !summary.has_state);
    head.tokens = summary.tokens.or(listed.tokens);
    head.activity = activity(summary, listed, has_writer);
    head.shelf = if summary.is_archived || listed.is_archived {
        Shelf::Archived
    } else if has_messages || summary.has_state && !summary.has_unsent {
        Shelf::Shown
    } else if summary.is_draft || listed.is_draft || summary.has_unsent {
        Shelf::Draft
    } else {
        Shelf::Empty
    };
    head.subagents.clone_from(&summary.subagents);
    head.parent = parent(id, summary, header);
    head
}

fn activity(summary: &Summary, listed: &Summary, has_writer: bool) -> Activity {
    let status = summary.status.as_deref();
    let is_under_way = status == Some("generating")
        || summary.is_generating
        || summary.waits_for_user
        || listed.waits_for_user;
    match (is_under_way, has_writer, status) {
        (true, true, _) => Activity::Live,
        (true, false, _) | (false, _, Some("aborted")) => Activity::Interrupted,
        (false, _, Some("error")) => Activity::Failed,
        _ => Activity::Idle,
    }
}

fn parent(id: &str, summary: &Summary, header: &Header) -> Option<Parent> {
    let known = summary.parent.clone().or_else(|| header.summary.parent.clone());
    let is_subagent = summary.is_subagent || header.summary.is_subagent;
    let call_id = id.strip_prefix(keys::TASK);
    // The row may say that it is a sub-agent without naming the parent. The parent may name its sub-agents instead.
    let mut parent = match known {
        Some(parent) => parent,
        None if is_subagent || call_id.is_some() => Parent::default(),
        None => return None,
    };
    parent.tool_call_id = parent.tool_call_id.or_else(|| call_id.map(str::to_owned));
    parent.type_name = parent.type_name.or_else(|| header.subagent_type.clone());
    Some(parent)
}

/// Links sub-agents and the conversations that started them, in both directions.
pub(crate) fn link_subagents(heads: &mut [Head]) {
    let places: std::collections::HashMap<String, usize> =
        heads.iter().enumerate().map(|(place, head)| (head.id.clone(), place)).collect();
    let mut started: Vec<(usize, String)> = Vec::new();
    for (place, head) in heads.iter().enumerate() {
        started.extend(head.subagents.iter().map(|child| (place, child.clone())));
    }
    for (parent, child) in started {
        let parent_id = heads[parent].id.clone();
        if let Some(child) = places.get(&child).map(|place| &mut heads[*place])
            && child.id != parent_id
        {
            let link = child.parent.get_or_insert_with(Parent::default);
            if link.id.is_empty() {
                link.id = parent_id;
            }
        }
    }
    let children: Vec<(String, String)> = heads
        .iter()
        .filter_map(|head| Some((head.parent.as_ref()?.id.clone(), head.id.clone())))
        .collect();
    for (parent, child) in children {
        if let Some(parent) = places.get(&parent).map(|place| &mut heads[*place])
            && !parent.subagents.contains(&child)
        {
            parent.subagents.push(child);
        }
    }
}
