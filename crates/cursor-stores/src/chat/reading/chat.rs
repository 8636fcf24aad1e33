//! Reads one chat from its directory: the database, the files next to it, and its sub-agents.

use std::collections::HashMap;
use std::path::Path;

use ground::with_causes;

use super::conversation::{Reading, read_conversation};
use super::conversation_root::{ConversationRoot, find_root};
use super::notes::Notes;
use super::side_state::calls_of;
use crate::chat::listing::chat_head::{self, Count};
use crate::chat::listing::{
    ChatFiles, ChatsRoot, FileState, ListedChat, MetaFile, directories_below, split_key,
};
use crate::chat::store::{ChatMeta, ChatStore, ChatStoreError, LatestRoot};
use crate::database::ReadDatabaseError;
use crate::database::again::again_if;
use crate::model::{Activity, Conversation, Damage, Head, MessageKind, Shelf, TurnState};
use crate::store::{Extent, ReadConversationError};

/// Opens a store and reads from it. Reads again if the store changed during the read, or if it is damaged.
pub(crate) fn with_store<T>(
    path: &Path,
    read: impl Fn(&ChatStore) -> Result<T, ReadDatabaseError>,
) -> Result<T, ChatStoreError> {
    again_if(ChatStoreError::is_change, || Ok(read(&ChatStore::open_salvaged(path)?)?))
}

/// Reads the meta row. Returns a problem with the row as text, and a problem with the file as an error.
pub(crate) fn meta_row(
    store: &ChatStore,
) -> Result<Result<Option<ChatMeta>, String>, ReadDatabaseError> {
    match store.meta() {
        Ok(meta) => Ok(Ok(meta)),
        Err(ChatStoreError::Read(err)) if !err.is_damage() => Err(err),
        Err(err) => Ok(Err(with_causes(&err))),
    }
}

pub(crate) fn read(
    root: &ChatsRoot,
    key: &str,
    extent: Extent,
) -> Result<Conversation, ReadConversationError> {
    let (chat_key, subagent) = split_key(key);
    let missing = || ReadConversationError::Missing(root.path.join(chat_key));
    let chat = root.find(chat_key).ok_or_else(missing)?;
    let head = chat.files.head(root.kind, &chat.key, &root.listed_id(&chat));
    if chat.files.database.is_missing() {
        let mut conversation = Conversation::new(head);
        add_file_damage(&chat.files, &mut conversation.damage);
        return Ok(conversation);
    }
    let path = chat.files.database_path();
    let reading =
        with_store(&path, |store| read_from(store, &head, subagent, extent)).map_err(|err| {
            ReadConversationError::Unreadable { path: path.clone(), source: Box::new(err) }
        })?;
    let mut reading = reading.ok_or_else(missing)?;
    add_file_damage(&chat.files, &mut reading.conversation.damage);
    link_subagents(root, &chat, &mut reading);
    set_activity(root, &chat.files, reading.is_prompt_damaged, &mut reading.conversation);
    Ok(reading.conversation)
}

/// Reads everything at once, so that all of it comes from the same state of the store.
pub(crate) fn read_from(
    store: &ChatStore,
    head: &Head,
    subagent: Option<&str>,
    extent: Extent,
) -> Result<Option<Reading>, ReadDatabaseError> {
    let meta = meta_row(store)?;
    let meta = meta.as_ref().map(Option::as_ref).map_err(String::as_str);
    let reading =
        store.at_once(|blobs| read_conversation(blobs, meta, head.clone(), subagent, extent))?;
    Ok(reading.map(|mut reading| {
        reading.is_prompt_damaged |= store.is_salvaged();
        if let Some(what) = store.loss() {
            reading.conversation.damage.push(Damage::new("store.db", what));
        }
        reading
    }))
}

fn add_file_damage(files: &ChatFiles, damage: &mut Vec<Damage>) {
    if let MetaFile::Unreadable(why) = &files.meta_file {
        damage.push(Damage::new("meta.json", why.clone()));
    }
    if let FileState::Refused(why) = &files.wal {
        damage.push(Damage::new("store.db-wal", why.clone()));
    }
}

fn set_activity(
    root: &ChatsRoot,
    files: &ChatFiles,
    is_damaged: bool,
    conversation: &mut Conversation,
) {
    let head = &mut conversation.head;
    head.activity = activity(root, files, is_damaged, !head.pending.is_empty());
    let is_pending =
        conversation.messages.iter().any(|message| message.kind == MessageKind::Pending);
    if head.activity == Activity::Live
        && is_pending
        && let Some(turn) = conversation.turns.last_mut()
    {
        turn.state = TurnState::Running;
    }
}

fn activity(
    root: &ChatsRoot,
    files: &ChatFiles,
    is_damaged: bool,
    has_pending_calls: bool,
) -> Activity {
    if root.is_live(files) {
        Activity::Live
    } else if is_damaged {
        Activity::Damaged
    } else if has_pending_calls {
        Activity::Interrupted
    } else {
        Activity::Idle
    }
}

/// Gives sub-agents keys under which they can be read: their own store, or a part of this chat.
fn link_subagents(root: &ChatsRoot, chat: &ListedChat, reading: &mut Reading) {
    let Reading { conversation, state, .. } = reading;
    let siblings = chat.files.directory.parent().unwrap_or(&root.path);
    if calls_of(conversation).any(|call| call.tool == "task" && call.subagent.is_none()) {
        let children = children_of(siblings, &chat.id);
        for call in calls_of(conversation).filter(|call| call.subagent.is_none()) {
            call.subagent = call.id.as_ref().and_then(|id| children.get(id).cloned());
        }
        for child in children.into_values() {
            if !conversation.head.subagents.contains(&child) {
                conversation.head.subagents.push(child);
            }
        }
    }
    let Some(state) = state else { return };
    let parent_id = conversation.head.id.clone();
    let own_name = |id: &str| {
        let is_kept =
            state.subagent_states.contains_key(id) || state.subagent_state_refs.contains_key(id);
        let is_name = !id.contains('/') && !matches!(id, "." | "..") && !id.contains('\0');
        let has_store =
            is_name && siblings.join(id).join(crate::chat::listing::chat_files::DATABASE).exists();
        (is_kept && !has_store).then(|| format!("{parent_id}#{id}"))
    };
    for id in &mut conversation.head.subagents {
        *id = own_name(id).unwrap_or_else(|| id.clone());
    }
    for call in calls_of(conversation) {
        call.subagent = call.subagent.take().map(|id| own_name(&id).unwrap_or(id));
    }
}

/// The most neighbours to check for sub-agents.
const MAX_NEIGHBOURS: usize = 5_000;

/// Finds a chat's sub-agents with their own stores next to it, by the calls that started them.
fn children_of(siblings: &Path, parent_id: &str) -> HashMap<String, String> {
    let mut children = HashMap::new();
    for below in directories_below(siblings, "", &mut |_, _| {}).into_iter().take(MAX_NEIGHBOURS) {
        let Some(files) = ChatFiles::of(below.path).filter(ChatFiles::needs_meta_row) else {
            continue;
        };
        let Ok(Some(meta)) = files.meta_row() else { continue };
        if let Some(origin) = meta.subagent_origin()
            && origin.parent_agent_id.as_deref() == Some(parent_id)
            && let Some(call_id) = origin.tool_call_id
        {
            children.insert(call_id, below.name);
        }
    }
    children
}

/// Adds the facts that only the database has.
pub(crate) fn complete(root: &ChatsRoot, head: &mut Head) {
    let origin = head
        .origins
        .iter()
        .find(|origin| origin.store == root.kind && origin.path.as_ref().starts_with(&root.path));
    let Some(key) = origin.map(|origin| origin.key(head).to_owned()) else { return };
    let Some(chat) = root.find(&key) else { return };
    if chat.files.database.is_missing() {
        return;
    }
    let known = with_store(&chat.files.database_path(), |store| {
        let mut known = head.clone();
        let is_damaged = complete_from(store, &mut known)?;
        Ok((known, is_damaged))
    });
    let is_damaged = match known {
        Ok((known, is_damaged)) => {
            *head = known;
            is_damaged
        }
        Err(err) if err.is_locked() => {
            head.activity = Activity::Locked;
            return;
        }
        Err(_) => true,
    };
    head.activity = activity(root, &chat.files, is_damaged, !head.pending.is_empty());
}

/// Reads the meta row, the latest state and the beginnings of its messages. Returns true if a prompt message is
/// missing.
fn complete_from(store: &ChatStore, head: &mut Head) -> Result<bool, ReadDatabaseError> {
    let meta = meta_row(store)?;
    let mut last_used_model = None;
    if let Ok(Some(meta)) = &meta {
        chat_head::add_meta(head, meta);
        last_used_model = meta.last_used_model();
    }
    let latest = meta.as_ref().map(|meta| LatestRoot::of_row(meta.as_ref()));
    let latest = latest.as_ref().map_err(|why| why.as_str());
    let is_damaged = store.at_once(|blobs| {
        // Finding messages without a root needs a scan of all blobs.
        if latest == Ok(&LatestRoot::Absent) {
            // Another store may have the conversation.
            if head.origins.len() == 1 && blobs.is_empty()? {
                head.shelf = Shelf::Empty;
            }
            return Ok(false);
        }
        let mut notes = Notes::default();
        let state = match find_root(blobs, latest, &mut notes)? {
            ConversationRoot::State(state) => state,
            ConversationRoot::Messages { ids, kind: MessageKind::Said } => {
                head.n_messages = chat_head::count_said(blobs, &ids)?;
                return Ok(notes.is_prompt_damaged());
            }
            ConversationRoot::Messages { .. } => return Ok(true),
        };
        chat_head::add_state(head, &state);
        chat_head::add_first_messages(head, blobs, &state)?;
        let (n_messages, is_complete) = match chat_head::count_messages(blobs, &state)? {
            Count::Known(n_messages) => (Some(n_messages), true),
            Count::Incomplete(n_messages) => (Some(n_messages), false),
            Count::TooMany => (None, true),
        };
        head.n_messages = n_messages;
        Ok(notes.is_prompt_damaged() || !is_complete)
    })?;
    chat_head::add_model(head, last_used_model.unwrap_or_default());
    Ok(is_damaged || store.is_salvaged())
}
