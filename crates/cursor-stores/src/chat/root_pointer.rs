//! The one write into Cursor's store: putting the pointer to the latest root back as it was.
//!
//! An agent that forgot has begun an empty conversation in the place of the old one. Nothing of the old one is deleted;
//! only `latestRootBlobId` leads elsewhere. The caller holds the session's lease and knows that the agent is dead.
//!
//! The agent could write the file, so nothing in it is obeyed: no trigger fires, no view is read, no statement takes longer
//! than it should, and files beside it that are not plain are refused.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior};

use super::ancestry::Ancestry;
use super::blob_id::BlobId;
use super::blobs::Fetched;
use super::chat_store::ChatStore;
use super::meta::{ChatMeta, LatestRoot, ReadChatMetaError};
use super::schema::ConversationStateStructure;
use crate::database_fingerprint::DatabaseFingerprint;
use crate::plain_file::PlainFileError;
use prost::Message;

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Far more than two lookups and one update take.
const LONGEST: Duration = Duration::from_secs(20);
/// How often a statement looks at the clock.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// What was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutBack {
    /// Where the pointer led; `None` if nowhere, or to something that is no blob id.
    pub from: Option<BlobId>,
    pub to: BlobId,
}

/// Says why the pointer was left as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootPointerError {
    #[error("the store is not a file that can be opened")]
    File(#[from] PlainFileError),
    #[error("the store's directory cannot be resolved")]
    Directory(#[source] std::io::Error),
    #[error("the store could not be changed")]
    Database(#[from] rusqlite::Error),
    #[error("the store has no description of the session")]
    NoMeta,
    #[error(transparent)]
    Meta(#[from] ReadChatMetaError),
    #[error("the store does not have the checkpoint {0} any more")]
    RootGone(BlobId),
}

/// Reads where the pointer leads, and what is there: `None` if it leads to nothing that can be decoded.
///
/// Fails only if the store itself cannot be read.
pub fn latest_ancestry(
    store_db: &Path,
) -> Result<(Option<BlobId>, Option<Ancestry>), Box<dyn std::error::Error + Send + Sync>> {
    let store = ChatStore::open_read_only(store_db)?;
    let Some(meta) = store.meta()? else { return Ok((None, None)) };
    let LatestRoot::Blob(root) = meta.latest_root() else { return Ok((None, None)) };
    let ancestry = store.at_once(|blobs| match blobs.get_by_index(root)? {
        Fetched::Data(data) => match ConversationStateStructure::decode(data.as_slice()) {
            Ok(state) => Ancestry::of(blobs, &state).map(Some),
            Err(_) => Ok(None),
        },
        _ => Ok(None),
    })?;
    Ok((Some(root), ancestry))
}

/// Makes `to` the latest root again, in one transaction. Everything else in the row stays as it is.
pub fn put_back(store_db: &Path, to: BlobId) -> Result<PutBack, RootPointerError> {
    let path = plain_path(store_db)?;
    let mut connection = connect(&path)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let has_root: Option<i64> = transaction
        .query_row("SELECT 1 FROM blobs WHERE id = ?1", [to.to_string()], |row| row.get(0))
        .optional()?;
    if has_root.is_none() {
        return Err(RootPointerError::RootGone(to));
    }
    let row: Option<Vec<u8>> = transaction
        .query_row("SELECT CAST(value AS BLOB) FROM meta WHERE key = '0'", [], |row| row.get(0))
        .optional()?;
    let mut meta = ChatMeta::from_row(&row.ok_or(RootPointerError::NoMeta)?)?;
    let from = match meta.latest_root() {
        LatestRoot::Blob(id) => Some(id),
        LatestRoot::Absent | LatestRoot::Malformed(_) => None,
    };
    meta.set_latest_root(to);
    transaction.execute("UPDATE meta SET value = ?1 WHERE key = '0'", [meta.to_hex_row()])?;
    transaction.commit()?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(PutBack { from, to })
}

/// The store behind its directory's links; itself it must be none.
fn plain_path(store_db: &Path) -> Result<PathBuf, RootPointerError> {
    DatabaseFingerprint::of(store_db)?;
    match (store_db.parent().map(std::fs::canonicalize), store_db.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.map_err(RootPointerError::Directory)?.join(name)),
        _ => Ok(store_db.to_owned()),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that opens a store of Cursor's for writing"
)]
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    let deadline = Instant::now() + LONGEST;
    connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || Instant::now() >= deadline))?;
    connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA synchronous = FULL")?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::chat::BlobEncryptionKey;
    use crate::chat::schema::ConversationStateStructure as Root;
    use crate::test_store::TestStore;

    fn store_with_two_roots() -> (TestStore, BlobId, BlobId) {
        let mut store = TestStore::new();
        store.meta.set("aKeyOfTomorrow", json!({"kept": true}));
        store.meta.set_encryption_key(BlobEncryptionKey::new("0badc0de".to_owned()));
        let message = store.put(br#"{"role":"user","content":"remember"}"#);
        let old = store.put_root(&Root {
            root_prompt_messages_json: vec![message.to_vec()],
            ..Root::default()
        });
        let new = store.put_root(&Root { mode: Some(1), ..Root::default() });
        (store, old, new)
    }

    #[test]
    fn the_pointer_is_put_back_and_nothing_else_changes() {
        let (store, old, new) = store_with_two_roots();
        let before = store.meta.clone();
        let store = store.close();
        assert_eq!(put_back(&store.path(), old).unwrap(), PutBack { from: Some(new), to: old });
        let read = ChatStore::open_read_only(&store.path()).unwrap();
        let mut expected = before;
        expected.set_latest_root(old);
        assert_eq!(read.meta().unwrap().unwrap(), expected);
        assert_eq!(read.counts().unwrap().n_blobs, 3);
        drop(read);
        let (root, ancestry) = latest_ancestry(&store.path()).unwrap();
        assert_eq!((root, ancestry.unwrap().n_messages()), (Some(old), 1));
    }

    #[test]
    fn what_an_agent_left_in_its_log_is_put_right_too() {
        let (store, old, new) = store_with_two_roots();
        let killed = store.as_killed();
        assert_eq!(put_back(&killed.path(), old).unwrap(), PutBack { from: Some(new), to: old });
        assert_eq!(latest_ancestry(&killed.path()).unwrap().0, Some(old));
    }

    #[test]
    fn what_an_agent_wrote_into_its_store_is_not_obeyed() {
        let (store, old, new) = store_with_two_roots();
        let store = store.close();
        let writer = crate::test_store::open_writer(&store.path());
        let trigger = "CREATE TRIGGER evil AFTER UPDATE ON meta BEGIN DELETE FROM blobs; END";
        writer.execute_batch(trigger).unwrap();
        writer.close().unwrap();
        assert_eq!(put_back(&store.path(), old).unwrap(), PutBack { from: Some(new), to: old });
        let read = ChatStore::open_read_only(&store.path()).unwrap();
        assert_eq!(read.counts().unwrap().n_blobs, 3);
    }

    #[test]
    fn a_fifo_beside_the_store_is_refused_and_not_waited_for() {
        for suffix in ["-journal", "-wal", "-shm"] {
            let (store, old, _) = store_with_two_roots();
            let store = store.close();
            let fifo = crate::database_fingerprint::with_suffix(&store.path(), suffix);
            nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
            let refused = put_back(&store.path(), old);
            assert!(matches!(refused, Err(RootPointerError::File(_))), "{suffix}: {refused:?}");
        }
    }

    #[test]
    fn a_root_that_is_not_there_is_never_pointed_to() {
        let (store, _, new) = store_with_two_roots();
        let store = store.close();
        let gone = BlobId::of(b"gone");
        assert!(matches!(put_back(&store.path(), gone), Err(RootPointerError::RootGone(_))));
        assert_eq!(latest_ancestry(&store.path()).unwrap().0, Some(new));
        let link = store.directory.path().join("link");
        std::os::unix::fs::symlink(store.path(), &link).unwrap();
        assert!(matches!(put_back(&link, new), Err(RootPointerError::File(_))));
    }
}
