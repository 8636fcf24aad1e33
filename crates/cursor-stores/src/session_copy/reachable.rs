//! A store that is copied from: everything it holds, and what a root leads to.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde::Serialize;

use super::id_set::IdSet;
use crate::again::again_if;
use crate::chat::{
    BlobId, ChatMeta, ChatStore, CheckStoreError, Fetched, OpenChatStoreError, ReadMetaError,
    Scanned, StoredBlob,
};
use crate::read_only_database::ReadDatabaseError;

/// A store, open for reading at one moment, and the list of its blobs.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) store: ChatStore,
    /// In the order of their writing.
    pub(super) blobs: Vec<StoredBlob>,
    pub(super) ids: IdSet,
    pub(super) scanned: Scanned,
}

/// What a root leads to, itself included.
#[derive(Debug, Default)]
pub(super) struct Reach {
    pub(super) ids: HashSet<BlobId>,
    /// Those among them whose hash is not their id: encrypted or corrupt. What they name may not be what was meant.
    pub(super) damaged: Vec<BlobId>,
    /// Those among them that could not be read, or only in part.
    pub(super) unreadable: HashSet<BlobId>,
}

/// How much of a store a copy has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CopyTally {
    pub n_blobs: u64,
    pub n_bytes: u64,
    pub n_source_blobs: u64,
    pub n_source_bytes: u64,
    /// Blobs that the root leads to and that cannot be read, or whose hash is not their id.
    pub n_damaged: u64,
}

/// Says why a store cannot be copied from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopySourceError {
    #[error("the store cannot be opened")]
    Open(#[from] OpenChatStoreError),
    #[error("the store's meta row cannot be read")]
    Meta(#[from] ReadMetaError),
    #[error("the store has no meta row")]
    NoMeta,
    #[error("the store cannot be read")]
    Read(#[from] ReadDatabaseError),
    #[error("the store's log cannot be read where it lies, so that the newest may be missing")]
    WithoutLog,
    #[error("the store is damaged; `caretaker sessions repair` mends what can be mended")]
    Damaged,
}

impl From<CheckStoreError> for CopySourceError {
    fn from(err: CheckStoreError) -> Self {
        match err {
            CheckStoreError::Meta(err) => Self::Meta(err),
            CheckStoreError::Database(err) => Self::Read(err),
        }
    }
}

impl CopySourceError {
    /// Tells whether the same may go well when it is tried again: a writer came in between.
    fn is_change(&self) -> bool {
        matches!(
            self,
            Self::Read(ReadDatabaseError::Changed)
                | Self::Meta(ReadMetaError::Database(ReadDatabaseError::Changed))
                | Self::Open(OpenChatStoreError::Read(ReadDatabaseError::Changed))
        )
    }
}

/// Calls `with` with the store as of one moment, again if a writer begins while it is read as a closed one.
pub(super) fn with_source<T, E>(
    path: &Path,
    mut with: impl FnMut(&Source) -> Result<T, E>,
) -> Result<T, E>
where
    E: From<CopySourceError> + AsSourceError,
{
    again_if_changed(|| Source::open(path).map_err(E::from).and_then(|source| with(&source)))
}

/// Reads, and reads again if a writer came in between.
pub(super) fn again_if_changed<T, E: AsSourceError>(
    read: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    again_if(|err: &E| err.as_source_error().is_some_and(CopySourceError::is_change), read)
}

/// An error that may be one of the source.
pub(super) trait AsSourceError {
    fn as_source_error(&self) -> Option<&CopySourceError>;
}

impl AsSourceError for CopySourceError {
    fn as_source_error(&self) -> Option<&CopySourceError> {
        Some(self)
    }
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self, CopySourceError> {
        let store = ChatStore::open_mended(path)?;
        let (blobs, scanned) = store.inventory()?;
        let ids = blobs.iter().map(|blob| blob.id).collect();
        Ok(Self { store, blobs, ids, scanned })
    }

    /// Refuses a store whose newest part is out of reach.
    pub(super) fn check_whole(&self) -> Result<(), CopySourceError> {
        match self.store.shortcoming() {
            None => Ok(()),
            Some(_) => Err(CopySourceError::WithoutLog),
        }
    }

    /// Refuses what is left of a damaged store.
    pub(super) fn check_sound(&self) -> Result<(), CopySourceError> {
        match self.scanned {
            Scanned::Whole => Ok(()),
            Scanned::InPart => Err(CopySourceError::Damaged),
        }
    }

    pub(super) fn meta(&self) -> Result<ChatMeta, CopySourceError> {
        self.store.meta()?.ok_or(CopySourceError::NoMeta)
    }

    pub(super) fn n_bytes(&self) -> u64 {
        self.blobs.iter().map(|blob| blob.n_bytes).sum()
    }

    pub(super) fn n_bytes_of(&self, ids: &HashSet<BlobId>) -> u64 {
        let lengths: HashMap<BlobId, u64> = self
            .blobs
            .iter()
            .filter(|blob| ids.contains(&blob.id))
            .map(|blob| (blob.id, blob.n_bytes))
            .collect();
        lengths.values().sum()
    }

    pub(super) fn fetch(&self, id: BlobId) -> Result<Fetched, CopySourceError> {
        Ok(self.store.at_once(|blobs| blobs.get(id))?)
    }

    /// Walks everything that a blob names, each blob once.
    ///
    /// What a field of a known message refers to stands in its bytes, so that it is found here too.
    pub(super) fn reach(&self, root: BlobId) -> Result<Reach, CopySourceError> {
        self.reach_from(&[root])
    }

    /// The same from several blobs.
    pub(super) fn reach_from(&self, roots: &[BlobId]) -> Result<Reach, CopySourceError> {
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

    /// Calls `visit` with every blob of a set, in the order of their writing. Those that cannot be read are passed over.
    pub(super) fn visit<E: From<CopySourceError>>(
        &self,
        is_wanted: impl Fn(&BlobId) -> bool,
        mut visit: impl FnMut(BlobId, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
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

    /// How much a copy of what was reached has of all that is here.
    pub(super) fn tally(&self, reach: &Reach) -> CopyTally {
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
#[path = "reachable_tests.rs"]
mod tests;
