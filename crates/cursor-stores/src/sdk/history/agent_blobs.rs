//! One agent's blobs: from its `store.db`, which is like a chat's, or from its lines among the checkpoints.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ground::with_causes;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::checkpoint::{Blobs, damaged_message, read_message};
use crate::chat::{
    BlobId, ChatMeta, ChatStore, ChatStoreError, Fetched, LatestRoot, Rows, SubagentOrigin,
    meta_row, with_store,
};
use crate::database::again::again_if;
use crate::database::{OpenDatabaseError, ReadDatabaseError};
use crate::model::Damage;
use crate::plain_file::PlainFileError;
use crate::sdk::records::Agent;

/// The most messages to show from a store that lost its checkpoints.
const MAX_FOUND: usize = 50_000;

/// Returns the path of an agent's database.
pub(crate) fn chat_path(directory: &Path, agent_id: &str) -> PathBuf {
    let name = format!("agent-{}", hex::encode(Sha256::digest(agent_id)));
    directory.join("agents").join(name).join("store.db")
}

/// Returns the agents with a database next to the index, for an index that lost them. Their databases are the only
/// source.
pub(crate) fn agents_with_chats(directory: &Path) -> Vec<Agent> {
    let Ok(entries) = std::fs::read_dir(directory.join("agents")) else { return Vec::new() };
    let mut agents: Vec<Agent> = entries
        .flatten()
        .filter_map(|entry| {
            let chat = entry.path().join("store.db");
            let meta = with_store(&chat, meta_row).ok()?.ok()??;
            let id = meta.agent_id()?.to_owned();
            // The directory name is a hash of the id, so an agent cannot pose as another.
            (chat_path(directory, &id) == chat).then(|| Agent {
                id,
                name: meta.name().map(str::to_owned),
                checkpoint: root_of(&meta),
                created: meta.created_at_ms(),
                ..Agent::default()
            })
        })
        .collect();
    agents.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    agents
}

fn root_of(meta: &ChatMeta) -> Option<BlobId> {
    match meta.latest_root() {
        LatestRoot::Blob(root) => Some(root),
        LatestRoot::Absent | LatestRoot::Malformed(_) => None,
    }
}

/// The facts in the meta row of an agent's database.
#[derive(Debug, Default)]
pub(crate) struct OwnMeta {
    /// The latest root, for agents whose row does not name it.
    pub(crate) root: Option<BlobId>,
    /// Set if this is a sub-agent.
    pub(crate) parent: Option<SubagentOrigin>,
}

/// An agent's database. Opened when the first blob is read.
pub(crate) struct ChatBlobs {
    path: PathBuf,
    store: RefCell<Option<ChatStore>>,
    /// Wanted blobs that are in a damaged part.
    unreadable: RefCell<BTreeSet<BlobId>>,
    /// Blobs that a checkpoint names and that do not exist.
    missing: RefCell<BTreeSet<BlobId>>,
    /// Why the file cannot be opened, or why data may be missing from all of it.
    loss: RefCell<Option<String>>,
    /// Opening failed, and will not be tried again.
    is_unopenable: Cell<bool>,
}

impl ChatBlobs {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            store: RefCell::default(),
            unreadable: RefCell::default(),
            missing: RefCell::default(),
            loss: RefCell::default(),
            is_unopenable: Cell::new(false),
        }
    }

    pub(crate) fn meta(&self) -> OwnMeta {
        let meta = self.read(|store| match store.meta() {
            Err(ChatStoreError::Read(error)) => Err(error),
            Err(error) => {
                self.loss.replace(Some(with_causes(&error)));
                Ok(None)
            }
            Ok(meta) => Ok(meta),
        });
        let Some(meta) = meta.flatten() else { return OwnMeta::default() };
        OwnMeta { root: root_of(&meta), parent: meta.subagent_origin() }
    }

    /// Returns the damage that reads have found.
    pub(crate) fn damage(&self) -> Vec<Damage> {
        let mut damage: Vec<Damage> =
            self.loss.borrow().iter().map(|what| Damage::new("store.db", what)).collect();
        let unreadable = self.unreadable.borrow();
        let mut missing: BTreeSet<BlobId> =
            self.missing.borrow().difference(&unreadable).copied().collect();
        if self.store.borrow().is_none() {
            // A missing file has no blobs, and a file that cannot be opened is reported as such.
            missing.clear();
        }
        for (lost, what) in
            [(&*unreadable, "in a damaged part of the file"), (&missing, "not in the file")]
        {
            let Some(first) = lost.first() else { continue };
            let what = match lost.len() {
                1 => format!("it is {what}"),
                n => format!("it and {} more are {what}", n - 1),
            };
            damage.push(Damage::new(format!("store.db blob {first}"), what));
        }
        damage
    }

    /// Reads from the store in its current state. `None` if there is no store or it cannot be read. Remembers the
    /// reason.
    fn read<T>(&self, read: impl Fn(&ChatStore) -> Result<T, ReadDatabaseError>) -> Option<T> {
        let mut store = self.store.borrow_mut();
        let is_change =
            |err: &ChatStoreError| matches!(err, ChatStoreError::Read(ReadDatabaseError::Changed));
        let read = again_if(is_change, || {
            let open = match store.take() {
                Some(open) => open,
                None if self.is_unopenable.get() => return Ok(None),
                None => self.open()?,
            };
            match read(&open) {
                Err(ReadDatabaseError::Changed) => Err(ReadDatabaseError::Changed.into()),
                read => {
                    *store = Some(open);
                    Ok(Some(read?))
                }
            }
        });
        match read {
            Ok(read) => read,
            Err(error) if is_change(&error) => None,
            Err(error) => {
                self.is_unopenable.set(store.is_none());
                let is_missing = matches!(
                    error,
                    ChatStoreError::Database(OpenDatabaseError::File(
                        PlainFileError::Missing { .. }
                    ))
                );
                // A locked file is not damaged.
                if !is_missing && !error.is_locked() {
                    self.loss.replace(Some(with_causes(&error)));
                }
                None
            }
        }
    }

    fn open(&self) -> Result<ChatStore, ChatStoreError> {
        let open = ChatStore::open_salvaged(&self.path)?;
        self.loss.replace(open.loss().map(str::to_owned));
        Ok(open)
    }
}

impl Blobs for ChatBlobs {
    fn blob(&self, id: BlobId) -> Option<Vec<u8>> {
        match self.read(|store| store.fetch(id))? {
            Fetched::Data(data) => Some(data),
            Fetched::Unreadable => {
                self.unreadable.borrow_mut().insert(id);
                None
            }
            Fetched::Missing | Fetched::TooLarge { .. } => None,
        }
    }

    fn miss(&self, id: BlobId) {
        self.missing.borrow_mut().insert(id);
    }

    fn messages(&self) -> Vec<(BlobId, Json)> {
        let found = self.read(|store| {
            store.at_once(|blobs| {
                let mut found = Vec::new();
                blobs.scan(Rows::ALL, &mut |id, data| {
                    let is_changed = || data.first() == Some(&b'{') && BlobId::of(data) != id;
                    let message =
                        read_message(data).or_else(|| is_changed().then(|| damaged_message(data)));
                    found.extend(message.map(|message| (id, message)));
                    if found.len() < MAX_FOUND {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                })?;
                Ok(found)
            })
        });
        found.unwrap_or_default()
    }

    fn is_damaged(&self) -> bool {
        let has_lost = |ids: &RefCell<BTreeSet<BlobId>>| !ids.borrow().is_empty();
        self.loss.borrow().is_some() || has_lost(&self.unreadable) || has_lost(&self.missing)
    }
}

impl Blobs for HashMap<BlobId, Vec<u8>> {
    fn blob(&self, id: BlobId) -> Option<Vec<u8>> {
        self.get(&id).cloned()
    }

    fn miss(&self, _: BlobId) {}

    fn messages(&self) -> Vec<(BlobId, Json)> {
        let mut found: Vec<(BlobId, Json)> =
            self.iter().filter_map(|(id, data)| Some((*id, read_message(data)?))).collect();
        found.sort_unstable_by_key(|(id, _)| *id);
        found
    }

    fn is_damaged(&self) -> bool {
        false
    }
}
