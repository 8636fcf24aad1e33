//! The blobs of one agent: its `store.db`, which is like a chat's, or its lines among the checkpoints.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ground::with_causes;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::checkpoint::{Blobs, damaged_message, read_message};
use super::records::Agent;
use crate::again::ATTEMPTS;
use crate::chat::{
    BlobId, ChatMeta, ChatStore, Fetched, LatestRoot, OpenChatStoreError, ReadMetaError, Rows,
    SubagentOrigin, meta_row, with_store,
};
use crate::model::Damage;
use crate::plain_file::PlainFileError;
use crate::read_only_database::{OpenDatabaseError, ReadDatabaseError};

/// How many messages are shown of a store that has lost the checkpoints which lead to them.
const MAX_FOUND: usize = 50_000;

/// Where the database of an agent is.
pub(super) fn chat_path(directory: &Path, agent_id: &str) -> PathBuf {
    let name = format!("agent-{}", hex::encode(Sha256::digest(agent_id)));
    directory.join("agents").join(name).join("store.db")
}

/// The agents whose databases lie beside an index, as far as those know them. For where the index does not any more.
pub(super) fn agents_with_chats(directory: &Path) -> Vec<Agent> {
    let Ok(entries) = std::fs::read_dir(directory.join("agents")) else { return Vec::new() };
    let mut agents: Vec<Agent> = entries
        .flatten()
        .filter_map(|entry| {
            let chat = entry.path().join("store.db");
            let meta = with_store(&chat, meta_row).ok()?.ok()??;
            let id = meta.agent_id()?.to_owned();
            // The name of its directory is made of its id, so that nobody can be taken for somebody else.
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

/// What the meta row of an agent's database says.
#[derive(Debug, Default)]
pub(super) struct OwnMeta {
    /// Where the agent's row does not know it.
    pub(super) root: Option<BlobId>,
    /// Whose sub-agent this is.
    pub(super) parent: Option<SubagentOrigin>,
}

/// A database that is opened when the first blob is asked for.
pub(super) struct ChatBlobs {
    path: PathBuf,
    store: RefCell<Option<ChatStore>>,
    /// What was asked for and lies in a damaged part.
    unreadable: RefCell<BTreeSet<BlobId>>,
    /// To what a checkpoint leads that is not there.
    missing: RefCell<BTreeSet<BlobId>>,
    /// Why the file cannot be opened, or what is missing from all of it.
    loss: RefCell<Option<String>>,
    /// Nobody tries again.
    is_unopenable: Cell<bool>,
}

impl ChatBlobs {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            store: RefCell::default(),
            unreadable: RefCell::default(),
            missing: RefCell::default(),
            loss: RefCell::default(),
            is_unopenable: Cell::new(false),
        }
    }

    pub(super) fn meta(&self) -> OwnMeta {
        let meta = self.read(|store| match store.meta() {
            Err(ReadMetaError::Database(error)) => Err(error),
            Err(error) => {
                self.loss.replace(Some(with_causes(&error)));
                Ok(None)
            }
            Ok(meta) => Ok(meta),
        });
        let Some(meta) = meta.flatten() else { return OwnMeta::default() };
        OwnMeta { root: root_of(&meta), parent: meta.subagent_origin() }
    }

    /// What could not be read, as far as somebody asked for it.
    pub(super) fn damage(&self) -> Vec<Damage> {
        let mut damage: Vec<Damage> =
            self.loss.borrow().iter().map(|what| Damage::new("store.db", what)).collect();
        let unreadable = self.unreadable.borrow();
        let mut missing: BTreeSet<BlobId> =
            self.missing.borrow().difference(&unreadable).copied().collect();
        if self.store.borrow().is_none() {
            // Nothing is in a file that is not there, and of one that cannot be opened it is said why.
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

    /// Reads from the store as it is now. `None` if there is none, or it cannot be read, which is remembered.
    fn read<T>(&self, read: impl Fn(&ChatStore) -> Result<T, ReadDatabaseError>) -> Option<T> {
        let mut store = self.store.borrow_mut();
        for _ in 0..ATTEMPTS {
            let open = match store.take() {
                Some(open) => open,
                None if self.is_unopenable.get() => return None,
                None => match ChatStore::open_mended(&self.path) {
                    Ok(open) => {
                        self.loss.replace(open.loss().map(str::to_owned));
                        open
                    }
                    Err(OpenChatStoreError::Read(ReadDatabaseError::Changed)) => continue,
                    Err(error) => {
                        self.is_unopenable.set(true);
                        let is_there = !matches!(
                            error,
                            OpenChatStoreError::Database(OpenDatabaseError::File(
                                PlainFileError::Missing { .. }
                            ))
                        );
                        // What is locked now is whole.
                        if is_there && !error.is_locked() {
                            self.loss.replace(Some(with_causes(&error)));
                        }
                        return None;
                    }
                },
            };
            match read(&open) {
                Err(ReadDatabaseError::Changed) => {}
                read => {
                    *store = Some(open);
                    return match read {
                        Ok(read) => Some(read),
                        Err(error) => {
                            self.loss.replace(Some(with_causes(&error)));
                            None
                        }
                    };
                }
            }
        }
        None
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
