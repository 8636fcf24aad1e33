//! The state from which a conversation is read: the latest root, or the best replacement.

use std::ops::ControlFlow;

use prost::Message;

use super::links::linked_messages;
use super::notes::{BearsOn, Notes};
use crate::chat::messages::JsonMessage;
use crate::chat::schema::{
    AgentConversationTurnStructure, ConversationStateStructure, SubagentPersistedState,
};
use crate::chat::store::{BlobId, Blobs, LatestRoot, Rows};
use crate::model::{MessageKind, Role};

/// The source of a conversation.
pub(crate) enum ConversationRoot {
    State(Box<ConversationStateStructure>),
    /// Messages without a state: their ids, and the kind to show them as.
    Messages {
        ids: Vec<BlobId>,
        kind: MessageKind,
    },
}

const META: &str = "meta";
const ROOT: &str = "latestRootBlobId";
/// How many of the newest blobs to check for an earlier root. Each step writes two.
const MAX_CHECKED: usize = 5_000;
/// The most messages to show from a store that lost its root.
const MAX_FOUND: usize = 50_000;

/// Finds the state that the meta row names, or else the newest state before it. `meta` is an error text if the row
/// could not be read.
pub(crate) fn find_root(
    blobs: &Blobs<'_>,
    meta: Result<&LatestRoot, &str>,
    notes: &mut Notes,
) -> rusqlite::Result<ConversationRoot> {
    let (mut damaged, mut links) = (None, Vec::new());
    match meta {
        // No checkpoint yet: the writer is still at work, or was killed.
        Ok(LatestRoot::Absent) => {
            return Ok(ConversationRoot::Messages {
                ids: all_messages(blobs)?,
                kind: MessageKind::Pending,
            });
        }
        Ok(LatestRoot::Blob(id)) => {
            let place = || ROOT.to_owned();
            if let Some(data) = notes.fetch(blobs, *id, BearsOn::Prompt, &place)? {
                match ConversationStateStructure::decode(data.as_slice()) {
                    // The oldest stores are trees of links, which decode as turns of another kind.
                    Ok(state) if is_tree_of_links(blobs, &state)? => {}
                    Ok(state) if BlobId::of(&data) == *id => {
                        return Ok(ConversationRoot::State(Box::new(state)));
                    }
                    Ok(state) => damaged = Some(state),
                    Err(err) => notes.add(BearsOn::Prompt, ROOT, format!("does not decode: {err}")),
                }
                links = linked_messages(blobs, &data)?;
                if BlobId::of(&data) == *id && !links.is_empty() {
                    return Ok(ConversationRoot::Messages { ids: links, kind: MessageKind::Said });
                }
            }
        }
        Ok(LatestRoot::Malformed(_)) => notes.add(BearsOn::Prompt, ROOT, "is not a blob id"),
        Err(why) => notes.add(BearsOn::Prompt, META, why),
    }
    replacement_root(blobs, damaged, links, notes)
}

/// Finds the best replacement for a root that is missing or damaged. `damaged` is the part of the state that still
/// decodes, and `links` are the messages that its bytes lead to.
fn replacement_root(
    blobs: &Blobs<'_>,
    damaged: Option<ConversationStateStructure>,
    links: Vec<BlobId>,
    notes: &mut Notes,
) -> rusqlite::Result<ConversationRoot> {
    let sound = newest_state(blobs)?;
    // A damaged state may have more messages than the intact state before it.
    let n_messages = |state: &ConversationStateStructure| state.root_prompt_messages_json.len();
    if let Some(state) = damaged
        && sound.as_ref().is_none_or(|(_, sound)| n_messages(sound) < n_messages(&state))
    {
        return Ok(ConversationRoot::State(Box::new(state)));
    }
    if let Some((id, state)) = sound {
        notes.add(
            BearsOn::Prompt,
            ROOT,
            format!("shown from the newest readable checkpoint, {id}"),
        );
        return Ok(ConversationRoot::State(Box::new(state)));
    }
    if !links.is_empty() {
        return Ok(ConversationRoot::Messages { ids: links, kind: MessageKind::Said });
    }
    let ids = all_messages(blobs)?;
    if !ids.is_empty() {
        notes.add(
            BearsOn::Prompt,
            ROOT,
            "no checkpoint can be read: messages are shown in the order they were written",
        );
    }
    Ok(ConversationRoot::Messages { ids, kind: MessageKind::Orphan })
}

/// True if an old turn of the state leads to a JSON message. In a real turn, that field refers to an encoded message.
fn is_tree_of_links(
    blobs: &Blobs<'_>,
    state: &ConversationStateStructure,
) -> rusqlite::Result<bool> {
    if !state.root_prompt_messages_json.is_empty() || !state.turns.is_empty() {
        return Ok(false);
    }
    for turn in &state.turns_old {
        let Some(node) = blobs.data_of(turn)? else { continue };
        if node.first() == Some(&b'{') {
            return Ok(true);
        }
        let Ok(node) = AgentConversationTurnStructure::decode(node.as_slice()) else { continue };
        if let Some(message) = blobs.data_of(&node.user_message)? {
            return Ok(message.first() == Some(&b'{'));
        }
    }
    Ok(false)
}

/// Reads a sub-agent's state that its parent's root contains, inline or by reference.
pub(crate) fn subagent_state(
    blobs: &Blobs<'_>,
    parent: &ConversationStateStructure,
    key: &str,
    notes: &mut Notes,
) -> rusqlite::Result<Option<SubagentPersistedState>> {
    if let Some(state) = parent.subagent_states.get(key) {
        return Ok(Some(state.clone()));
    }
    let Some(bytes) = parent.subagent_state_refs.get(key) else { return Ok(None) };
    let place = || format!("subagent_state_refs[{key}]");
    let decoded = notes.decode(blobs, bytes, BearsOn::Prompt, &place)?;
    Ok(Some(decoded.map(|(_, state)| state).unwrap_or_default()))
}

/// Finds the newest root. A root refers to at least one message that is JSON.
fn newest_state(
    blobs: &Blobs<'_>,
) -> rusqlite::Result<Option<(BlobId, ConversationStateStructure)>> {
    let mut candidates = Vec::new();
    let mut n_checked = 0;
    blobs.scan_back(&mut |id, data| {
        n_checked += 1;
        if data.starts_with(&[0x0a, 0x20])
            && BlobId::of(data) == id
            && let Ok(state) = ConversationStateStructure::decode(data)
            && state.root_prompt_messages_json.len() > 1
        {
            candidates.push((id, state));
        }
        // An old build's turn may look like a root, so one candidate is not enough.
        if n_checked >= MAX_CHECKED || candidates.len() >= 8 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    for (id, state) in candidates {
        for message in &state.root_prompt_messages_json {
            if blobs.data_of(message)?.is_some_and(|data| data.first() == Some(&b'{')) {
                return Ok(Some((id, state)));
            }
        }
    }
    Ok(None)
}

/// Finds all messages, in the order they were written.
fn all_messages(blobs: &Blobs<'_>) -> rusqlite::Result<Vec<BlobId>> {
    let messages = other_messages(blobs, &|_| false)?;
    Ok(messages.into_iter().map(|(id, _)| id).collect())
}

/// Finds all messages that are not known yet, in the order they were written.
pub(crate) fn other_messages(
    blobs: &Blobs<'_>,
    is_known: &dyn Fn(&BlobId) -> bool,
) -> rusqlite::Result<Vec<(BlobId, JsonMessage)>> {
    let mut found = Vec::new();
    blobs.scan(Rows::ALL, &mut |id, data| {
        if !is_known(&id)
            && let Some(message) = as_message(data)
        {
            found.push((id, message));
        }
        if found.len() >= MAX_FOUND { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// A file that the agent edited may be a JSON object too, but it has no known role.
fn as_message(data: &[u8]) -> Option<JsonMessage> {
    JsonMessage::parse(data).filter(|message| message.role != Role::Unknown)
}
