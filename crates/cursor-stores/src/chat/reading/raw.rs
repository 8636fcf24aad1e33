//! The raw records of a chat: its meta row, `meta.json`, and its blobs.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::path::Path;

use super::chat::{meta_row, with_store};
use super::conversation_root::{ConversationRoot, find_root, subagent_state};
use super::notes::Notes;
use crate::chat::listing::{ChatsRoot, META_FILE, MetaFile, split_key};
use crate::chat::schema::ConversationStateStructure;
use crate::chat::store::{BlobId, Blobs, ChatStore, ChatStoreError, Fetched, LatestRoot, reach};
use crate::database::ReadDatabaseError;
use crate::plain_file;
use crate::raw_record::{RawContent, RawRecord, VisitRaw};
use crate::store::{Branches, ReadConversationError};

const MAX_META_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// A blob that belongs to the conversation, and the field that refers to it.
struct RawBlob {
    id: BlobId,
    field: Option<String>,
}

pub(crate) fn visit_raw(
    root: &ChatsRoot,
    key: &str,
    branches: Branches,
    visit: &mut VisitRaw<'_>,
) -> Result<(), ReadConversationError> {
    let (chat_key, subagent) = split_key(key);
    let missing = || ReadConversationError::Missing(root.path.join(chat_key));
    let chat = root.find(chat_key).ok_or_else(missing)?;
    let content = match &chat.files.meta_file {
        MetaFile::Missing => None,
        MetaFile::Read(_) => {
            let path = chat.files.directory.join(META_FILE);
            let bytes = plain_file::read_at_most(&path, MAX_META_FILE_BYTES);
            bytes.ok().map(|bytes| RawContent::of_bytes(&bytes))
        }
        MetaFile::Unreadable(why) => Some(RawContent::LeftOut(why.clone())),
    };
    if content.is_some_and(|content| visit(RawRecord::new(META_FILE, content)).is_break()) {
        return Ok(());
    }
    if chat.files.database.is_missing() {
        return Ok(());
    }
    let path = chat.files.database_path();
    let is_there = visit_raw_store(&path, "", subagent, branches, visit).map_err(|err| {
        ReadConversationError::Unreadable { path: path.clone(), source: Box::new(err) }
    })?;
    if is_there { Ok(()) } else { Err(missing()) }
}

/// Visits the records of one `store.db`, and puts `prefix` before their names. Returns `false` if there is no such
/// sub-agent.
pub(crate) fn visit_raw_store(
    path: &Path,
    prefix: &str,
    subagent: Option<&str>,
    branches: Branches,
    visit: &mut VisitRaw<'_>,
) -> Result<bool, ChatStoreError> {
    let Some((meta, raw_blobs)) = with_store(path, |store| contents(store, subagent, branches))?
    else {
        return Ok(false);
    };
    if let Some(meta) = meta
        && visit(RawRecord { record: format!("{prefix}meta/0"), field: None, content: meta })
            .is_break()
    {
        return Ok(true);
    }
    // If the store changes during the read, the next attempt continues from here.
    let n_visited = Cell::new(0);
    let visit = RefCell::new(visit);
    with_store(path, |store| {
        store.at_once(|blobs| {
            while let Some(RawBlob { id, field }) = raw_blobs.get(n_visited.get()) {
                let content = content_of(blobs, *id)?;
                n_visited.set(n_visited.get() + 1);
                let record = format!("{prefix}blobs/{id}");
                if (visit.borrow_mut())(RawRecord { record, field: field.clone(), content })
                    .is_break()
                {
                    n_visited.set(raw_blobs.len());
                }
            }
            Ok(())
        })
    })?;
    Ok(true)
}

fn content_of(blobs: &Blobs<'_>, id: BlobId) -> rusqlite::Result<RawContent> {
    Ok(match blobs.get(id)? {
        Fetched::Data(data) => RawContent::of_bytes(&data),
        Fetched::Missing => RawContent::LeftOut("it is missing".to_owned()),
        Fetched::TooLarge { bytes } => {
            RawContent::LeftOut(format!("it has {bytes} bytes, too many to read"))
        }
        Fetched::Unreadable => {
            RawContent::LeftOut("it is in a damaged part of the file".to_owned())
        }
    })
}

/// Returns the meta row and the blobs of the conversation, in order. Returns `None` if there is no such sub-agent.
#[expect(clippy::type_complexity, reason = "the only caller takes the two apart immediately")]
fn contents(
    store: &ChatStore,
    subagent: Option<&str>,
    branches: Branches,
) -> Result<Option<(Option<RawContent>, Vec<RawBlob>)>, ReadDatabaseError> {
    let row = meta_row(store)?;
    let latest = row.as_ref().map(|meta| LatestRoot::of_row(meta.as_ref()));
    let latest = latest.as_ref().map_err(|why| why.as_str());
    let meta = match &row {
        // The fields show the encryption key as `present`.
        Ok(Some(meta)) => Some(RawContent::of_json(meta.fields().clone().into())),
        Ok(None) => None,
        Err(why) => Some(RawContent::LeftOut(why.clone())),
    };
    let raw_blobs = store.at_once(|blobs| {
        let mut notes = Notes::default();
        let mut raw_blobs: Vec<RawBlob> = Vec::new();
        let state = match find_root(blobs, latest, &mut notes)? {
            ConversationRoot::State(state) => state,
            ConversationRoot::Messages { ids, .. } => {
                raw_blobs.extend(ids.into_iter().map(|id| RawBlob { id, field: None }));
                Box::default()
            }
        };
        // The root contains a sub-agent's state, or refers to it.
        if let Ok(LatestRoot::Blob(id)) = latest {
            raw_blobs.push(RawBlob { id: *id, field: Some("latestRootBlobId".to_owned()) });
        }
        match subagent {
            None => add_reached(blobs, &state, &mut raw_blobs)?,
            Some(name) => {
                let Some(subagent) = subagent_state(blobs, &state, name, &mut notes)? else {
                    return Ok(None);
                };
                if let Some(Ok(id)) =
                    state.subagent_state_refs.get(name).map(|id| BlobId::try_from(id.as_slice()))
                {
                    raw_blobs
                        .push(RawBlob { id, field: Some(format!("subagent_state_refs[{name}]")) });
                }
                let inner = subagent.conversation_state.unwrap_or_default();
                add_reached(blobs, &inner, &mut raw_blobs)?;
            }
        }
        if branches == Branches::WithOrphans && subagent.is_none() {
            let known: HashSet<BlobId> = raw_blobs.iter().map(|blob| blob.id).collect();
            let (all, _) = blobs.inventory()?;
            let others = all.into_iter().filter(|blob| !known.contains(&blob.id));
            raw_blobs.extend(others.map(|blob| RawBlob { id: blob.id, field: None }));
        }
        Ok(Some(raw_blobs))
    })?;
    Ok(raw_blobs.map(|raw_blobs| (meta, raw_blobs)))
}

fn add_reached(
    blobs: &Blobs<'_>,
    state: &ConversationStateStructure,
    raw_blobs: &mut Vec<RawBlob>,
) -> rusqlite::Result<()> {
    let mut reached: Vec<_> = reach(blobs, state)?.into_iter().collect();
    reached.sort_by_key(|(_, reached)| reached.position);
    let known: HashSet<BlobId> = raw_blobs.iter().map(|blob| blob.id).collect();
    let news = reached.into_iter().filter(|(id, _)| !known.contains(id));
    raw_blobs.extend(news.map(|(id, reached)| RawBlob { id, field: Some(reached.visit.field) }));
    Ok(())
}
