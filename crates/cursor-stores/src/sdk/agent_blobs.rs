//! The blobs of one agent: its `store.db`, which is like a chat's, or its lines among the checkpoints.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::checkpoint::Blobs;
use crate::chat::{BlobId, ChatStore, LatestRoot, ReadBlobError, SubagentOrigin};
use crate::read_only_database::ReadDatabaseError;

/// How often a database is opened that changes while it is read.
const ATTEMPTS: usize = 3;

/// Where the database of an agent is.
pub(super) fn chat_path(directory: &Path, agent_id: &str) -> PathBuf {
    let name = format!("agent-{}", hex::encode(Sha256::digest(agent_id)));
    directory.join("agents").join(name).join("store.db")
}

/// A database that is opened when the first blob is asked for.
pub(super) struct ChatBlobs {
    path: PathBuf,
    store: RefCell<Option<ChatStore>>,
}

impl ChatBlobs {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, store: RefCell::default() }
    }

    /// What the meta row says: the root, where the agent's row does not know it, and whose sub-agent this is.
    pub(super) fn meta(&self) -> (Option<BlobId>, Option<SubagentOrigin>) {
        let mut store = self.store.borrow_mut();
        *store = ChatStore::open_read_only(&self.path).ok();
        let meta = store.as_ref().and_then(|store| store.meta().ok().flatten());
        let root = meta.as_ref().and_then(|meta| match meta.latest_root() {
            LatestRoot::Blob(root) => Some(root),
            LatestRoot::Absent | LatestRoot::Malformed(_) => None,
        });
        (root, meta.and_then(|meta| meta.subagent_origin()))
    }
}

impl Blobs for ChatBlobs {
    fn blob(&self, id: BlobId) -> Option<Vec<u8>> {
        let mut store = self.store.borrow_mut();
        for _ in 0..ATTEMPTS {
            let open = match store.take() {
                Some(open) => open,
                None => ChatStore::open_read_only(&self.path).ok()?,
            };
            match open.blob(id) {
                Err(ReadBlobError::Database(ReadDatabaseError::Changed)) => {}
                read => {
                    *store = Some(open);
                    return read.ok().flatten();
                }
            }
        }
        None
    }
}

impl Blobs for HashMap<BlobId, Vec<u8>> {
    fn blob(&self, id: BlobId) -> Option<Vec<u8>> {
        self.get(&id).cloned()
    }
}
