//! A store to copy from: all its blobs, and everything that a root leads to.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::path::Path;

use serde::Serialize;

use super::error::CopyError;
use super::id_set::IdSet;
use crate::chat::schema::ConversationStateStructure;
use crate::chat::schema::references::check_json_object;
use crate::chat::{BlobId, ChatMeta, ChatStore, ChatStoreError, Fetched, Scanned, StoredBlob};
use crate::database::ReadDatabaseError;
use crate::database::again::again_if;

/// A store, open for reading in one state, and the list of its blobs.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) store: ChatStore,
    /// In the order they were written.
    pub(crate) blobs: Vec<StoredBlob>,
    pub(crate) ids: IdSet,
    pub(crate) scanned: Scanned,
}

/// Everything that some roots lead to, including the roots.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    pub(crate) ids: HashSet<BlobId>,
    /// Blobs whose hash is not their id: encrypted or corrupt. The ids in them may be wrong.
    pub(crate) damaged: Vec<BlobId>,
    /// Blobs that could not be read.
    pub(crate) unreadable: HashSet<BlobId>,
}

/// The size of a copy and of its source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CopyTally {
    pub n_blobs: u64,
    pub n_bytes: u64,
    pub n_source_blobs: u64,
    pub n_source_bytes: u64,
    /// Blobs that the root leads to, but that cannot be read or whose hash is not their id.
    pub n_damaged: u64,
}

/// Tells whether a writer changed the store during the read, so that another attempt may succeed.
fn is_change(error: &(dyn Error + 'static)) -> bool {
    use ReadDatabaseError::Changed;
    let is_here = matches!(error.downcast_ref(), Some(Changed))
        || error.downcast_ref().is_some_and(ChatStoreError::is_change);
    is_here || error.source().is_some_and(is_change)
}

/// Opens a store and calls `with`. Tries again if a writer changes the store during the read.
pub(crate) fn with_source<T, E: From<CopyError> + Error + 'static>(
    path: &Path,
    mut with: impl FnMut(&Source) -> Result<T, E>,
) -> Result<T, E> {
    again_if_changed(|| with(&Source::open(path)?))
}

/// Reads, and tries again if a writer changed the store during the read.
pub(crate) fn again_if_changed<T, E: Error + 'static>(
    read: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    again_if(|err: &E| is_change(err), read)
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self, CopyError> {
        let store = ChatStore::open_salvaged(path).map_err(CopyError::Open)?;
        let (blobs, scanned) = store.inventory()?;
        let ids = blobs.iter().map(|blob| blob.id).collect();
        Ok(Self { store, blobs, ids, scanned })
    }

    /// Rejects a store whose log cannot be read, because the newest part is missing.
    pub(crate) fn check_whole(&self) -> Result<(), CopyError> {
        match self.store.shortcoming() {
            None => Ok(()),
            Some(_) => Err(CopyError::WithoutLog),
        }
    }

    /// Rejects a damaged store.
    pub(crate) fn check_sound(&self) -> Result<(), CopyError> {
        match self.scanned {
            Scanned::Whole => Ok(()),
            Scanned::InPart => Err(CopyError::Damaged),
        }
    }

    pub(crate) fn meta(&self) -> Result<ChatMeta, CopyError> {
        self.store.meta().map_err(CopyError::Meta)?.ok_or(CopyError::NoMeta)
    }

    pub(crate) fn n_bytes(&self) -> u64 {
        self.blobs.iter().map(|blob| blob.n_bytes).sum()
    }

    pub(crate) fn n_bytes_of(&self, ids: &HashSet<BlobId>) -> u64 {
        let lengths: HashMap<BlobId, u64> = self
            .blobs
            .iter()
            .filter(|blob| ids.contains(&blob.id))
            .map(|blob| (blob.id, blob.n_bytes))
            .collect();
        lengths.values().sum()
    }

    pub(crate) fn fetch(&self, id: BlobId) -> Result<Fetched, CopyError> {
        Ok(self.store.at_once(|blobs| blobs.get(id))?)
    }

    /// Reads a blob if it exists and its hash is its id.
    pub(crate) fn intact(&self, id: BlobId) -> Result<Option<Vec<u8>>, CopyError> {
        Ok(self.fetch(id)?.intact(id))
    }

    /// Finds the first prompt message that is missing, damaged or not a message. Returns its position and its id.
    pub(crate) fn broken_prompt_message(
        &self,
        state: &ConversationStateStructure,
    ) -> Result<Option<(usize, Option<BlobId>)>, CopyError> {
        for (index, bytes) in state.root_prompt_messages_json.iter().enumerate() {
            let id = BlobId::try_from(bytes.as_slice()).ok();
            let data = id.map(|id| self.intact(id)).transpose()?.flatten();
            if data.is_none_or(|data| check_json_object(&data).is_err()) {
                return Ok(Some((index, id)));
            }
        }
        Ok(None)
    }

    /// Walks everything that the bytes of these blobs name, each blob once. Known fields also name their blobs in the
    /// bytes, so this walk finds them all.
    pub(crate) fn reach_from(&self, roots: &[BlobId]) -> Result<Reach, CopyError> {
        let mut reach = Reach::default();
        let mut rest: Vec<BlobId> =
            roots.iter().filter(|root| self.ids.contains(root)).copied().collect();
        reach.ids.extend(&rest);
        while let Some(id) = rest.pop() {
            let data = match self.fetch(id)? {
                Fetched::Data(data) => data,
                Fetched::Missing | Fetched::TooLarge { .. } | Fetched::Unreadable => {
                    reach.unreadable.insert(id);
                    continue;
                }
            };
            if BlobId::of(&data) != id {
                reach.damaged.push(id);
            }
            self.ids.visit_named(&data, &mut |named| {
                if reach.ids.insert(named) {
                    rest.push(named);
                }
            });
        }
        Ok(reach)
    }

    /// Calls `visit` with every wanted blob, in the order they were written. Skips unreadable blobs.
    pub(crate) fn visit(
        &self,
        is_wanted: impl Fn(&BlobId) -> bool,
        mut visit: impl FnMut(BlobId, &[u8]) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let mut seen = HashSet::new();
        for blob in self.blobs.iter().filter(|blob| is_wanted(&blob.id)) {
            if seen.insert(blob.id)
                && let Fetched::Data(data) = self.fetch(blob.id)?
            {
                visit(blob.id, &data)?;
            }
        }
        Ok(())
    }

    /// Compares a copy of the reached blobs with the whole store.
    pub(crate) fn tally(&self, reach: &Reach) -> CopyTally {
        let carried: HashSet<BlobId> = reach.ids.difference(&reach.unreadable).copied().collect();
        CopyTally {
            n_blobs: carried.len() as u64,
            n_bytes: self.n_bytes_of(&carried),
            n_source_blobs: self.ids.len() as u64,
            n_source_bytes: self.n_bytes(),
            n_damaged: (reach.damaged.len() + reach.unreadable.len()) as u64,
        }
    }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
