//! An index for searches that come again: which conversations may hold a word. Derived, and ours; may be deleted at any
//! time.
//!
//! ```text
//!   words ──► their trigrams ──► FTS5: conversations that have them all ──► their records are searched as ever
//! ```
//!
//! It keeps no text, only which sequences of three letters a conversation has, so it is small, and a find is always made in
//! the store itself: what the index says can be too much, never wrong. Stores that are not indexable are searched as ever.

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use run_protocol::BytesPath;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use crate::catalogue::Catalogue;
use crate::model::{Head, StoreKind};
use crate::search::Matcher;
use crate::search::trigrams::Trigrams;
use crate::store::IndexableStore;

/// The version while somebody writes: whoever comes upon it finds what a killed writer left.
const BEING_WRITTEN: i32 = -1;
/// To be raised with every change of the tables or of what is put into them: an index of another version is made anew.
const VERSION: i32 = 1;

const SCHEMA: &str = "
    CREATE TABLE stores (
        kind TEXT NOT NULL, path BLOB NOT NULL, fingerprint INTEGER,
        PRIMARY KEY (kind, path)
    ) WITHOUT ROWID;
    CREATE TABLE conversations (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL, path BLOB NOT NULL, key TEXT NOT NULL,
        stamp INTEGER,
        head TEXT,
        UNIQUE (kind, path, key)
    );
    CREATE VIRTUAL TABLE trigrams USING fts5 (
        numbers, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
    );
";

/// An open index.
#[derive(Debug)]
pub struct SearchIndex {
    connection: Connection,
}

/// A conversation that may hold what is looked for.
#[derive(Debug)]
pub struct Candidate {
    pub store: StoreKind,
    pub path: BytesPath,
    /// The key in that store; empty for what belongs to no conversation.
    pub key: String,
    pub head: Option<Head>,
}

/// What bringing an index up to date took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refreshed {
    pub n_read: usize,
    pub n_removed: usize,
    /// Could not be read, and will be tried again.
    pub n_failed: usize,
}

/// Says why an index cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchIndexError {
    #[error("the index could not be made")]
    Make(#[source] std::io::Error),
    #[error("the index could not be used")]
    Database(#[from] rusqlite::Error),
}

impl SearchIndex {
    /// Opens the index at `path`; makes it anew when it is missing, damaged or of another version.
    pub fn open(path: &Path) -> Result<Self, SearchIndexError> {
        if let Some(index) = Self::open_valid(path) {
            return Ok(index);
        }
        match fs::remove_file(path) {
            Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
                return Err(SearchIndexError::Make(err));
            }
            _ => {}
        }
        // What was said to an agent is nobody else's business.
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(SearchIndexError::Make)?;
        let connection = connect(path)?;
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;"
        ))?;
        Ok(Self { connection })
    }

    fn open_valid(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
        let connection = connect(path).ok()?;
        (version(&connection).ok()? == VERSION).then_some(Self { connection })
    }

    /// Tells whether the index knows the store as it is, so that it need not be looked through.
    fn is_current(&self, store: &dyn IndexableStore) -> Result<bool, SearchIndexError> {
        let Some(now) = store.fingerprint() else { return Ok(false) };
        let known: Option<Option<i64>> = self
            .connection
            .query_row(
                "SELECT fingerprint FROM stores WHERE kind = ?1 AND path = ?2",
                params![store.kind().as_str(), path_bytes(store.path())],
                |row| row.get(0),
            )
            .optional()?;
        Ok(known.flatten() == Some(now as i64))
    }

    /// Reads what changed since the last time. `progress` is told how many conversations are done, of how many. Nobody
    /// else can use the index meanwhile; if this process is killed at it, the next one makes it anew.
    pub fn refresh(
        &mut self,
        catalogue: &Catalogue,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Refreshed, SearchIndexError> {
        let mut changed = Vec::new();
        for store in catalogue.stores().filter_map(|store| store.indexable()) {
            if !self.is_current(store)? {
                changed.push(store);
            }
        }
        if changed.is_empty() {
            return Ok(Refreshed::default());
        }
        self.connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        self.connection.pragma_update(None, "user_version", BEING_WRITTEN)?;
        let refreshed = self.read_changed(&changed, progress)?;
        self.connection.pragma_update(None, "user_version", VERSION)?;
        self.connection.pragma_update(None, "locking_mode", "NORMAL")?;
        // The lock goes with the next read.
        version(&self.connection)?;
        Ok(refreshed)
    }

    fn read_changed(
        &mut self,
        changed: &[&dyn IndexableStore],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Refreshed, SearchIndexError> {
        let mut refreshed = Refreshed::default();
        let mut stale = Vec::new();
        let mut fingerprints = Vec::new();
        for &store in changed {
            // Before the reading: what is written meanwhile makes it differ.
            let fingerprint = store.fingerprint();
            fingerprints.push((store, fingerprint));
            let known = self.known(store)?;
            let listing = store.list();
            let mut gone = known.clone();
            // What belongs to no conversation has no head, and changes with the whole.
            let nobody = (String::new(), fingerprint, None);
            let everybody = listing.heads.into_iter().map(|head| {
                let key = head
                    .origins
                    .first()
                    .map_or(head.id.as_str(), |origin| origin.key(&head))
                    .to_owned();
                let stamp = store.stamp(&key);
                (key, stamp, Some(head))
            });
            for (key, stamp, head) in everybody.chain([nobody]) {
                gone.remove(&key);
                if stamp.is_none() || known.get(&key) != Some(&stamp) {
                    stale.push((store, key, stamp, head));
                }
            }
            refreshed.n_removed += self.remove(store, gone.into_keys())?;
        }
        let n_stale = stale.len();
        for (n_done, (store, key, stamp, head)) in stale.into_iter().enumerate() {
            progress(n_done, n_stale);
            let mut trigrams = Trigrams::default();
            let visited = store.records(&key, &mut |record| {
                trigrams.add(&record);
                ControlFlow::Continue(())
            });
            match visited {
                Ok(()) => {
                    self.put(store, &key, stamp, head.as_ref(), &trigrams)?;
                    refreshed.n_read += 1;
                }
                Err(_) => refreshed.n_failed += 1,
            }
        }
        progress(n_stale, n_stale);
        for (store, fingerprint) in fingerprints {
            // What failed is tried again only if the store is looked through again.
            let fingerprint = fingerprint.filter(|_| refreshed.n_failed == 0);
            self.connection.execute(
                "INSERT OR REPLACE INTO stores VALUES (?1, ?2, ?3)",
                params![
                    store.kind().as_str(),
                    path_bytes(store.path()),
                    fingerprint.map(|print| print as i64)
                ],
            )?;
        }
        Ok(refreshed)
    }

    /// The conversations that may hold the pattern. `None` if the index cannot tell: words of less than three letters and
    /// expressions have to be looked for everywhere.
    pub fn candidates(
        &self,
        matcher: &Matcher,
    ) -> Result<Option<Vec<Candidate>>, SearchIndexError> {
        let mut query = String::new();
        for literal in matcher.literals() {
            for number in Trigrams::of_text(literal).numbers() {
                if !query.is_empty() {
                    query.push_str(" AND ");
                }
                query.push_str(&token(number));
            }
        }
        if query.is_empty() {
            return Ok(None);
        }
        let mut statement = self.connection.prepare_cached(
            "SELECT kind, path, key, head FROM conversations
             WHERE id IN (SELECT rowid FROM trigrams WHERE trigrams MATCH ?1)",
        )?;
        let rows = statement.query_map([query], |row| {
            let kind: String = row.get(0)?;
            let path: Vec<u8> = row.get(1)?;
            let head: Option<String> = row.get(3)?;
            Ok((kind, path, row.get(2)?, head))
        })?;
        let mut candidates = Vec::new();
        for row in rows {
            let (kind, path, key, head) = row?;
            let Ok(store) = kind.parse() else { continue };
            let head = head.and_then(|head| serde_json::from_str(&head).ok());
            candidates.push(Candidate { store, path: path_of(path), key, head });
        }
        Ok(Some(candidates))
    }

    /// Stamps of the store's conversations by key.
    fn known(
        &self,
        store: &dyn IndexableStore,
    ) -> Result<HashMap<String, Option<u64>>, SearchIndexError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT key, stamp FROM conversations WHERE kind = ?1 AND path = ?2")?;
        let rows = statement.query_map(
            params![store.kind().as_str(), path_bytes(store.path())],
            |row| {
                let stamp: Option<i64> = row.get(1)?;
                Ok((row.get(0)?, stamp.map(|stamp| stamp as u64)))
            },
        )?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn put(
        &mut self,
        store: &dyn IndexableStore,
        key: &str,
        stamp: Option<u64>,
        head: Option<&Head>,
        trigrams: &Trigrams,
    ) -> Result<(), SearchIndexError> {
        let mut numbers = String::new();
        for number in trigrams.numbers() {
            numbers.push_str(&token(number));
            numbers.push(' ');
        }
        let id = id_of(store, key);
        let head = head.and_then(|head| serde_json::to_string(head).ok());
        let transaction = self.connection.transaction()?;
        transaction
            .prepare_cached("INSERT OR REPLACE INTO conversations VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
            .execute(params![
                id,
                store.kind().as_str(),
                path_bytes(store.path()),
                key,
                stamp.map(|stamp| stamp as i64),
                head
            ])?;
        transaction.prepare_cached("DELETE FROM trigrams WHERE rowid = ?1")?.execute([id])?;
        transaction
            .prepare_cached("INSERT INTO trigrams (rowid, numbers) VALUES (?1, ?2)")?
            .execute(params![id, numbers])?;
        Ok(transaction.commit()?)
    }

    fn remove(
        &mut self,
        store: &dyn IndexableStore,
        keys: impl Iterator<Item = String>,
    ) -> Result<usize, SearchIndexError> {
        let transaction = self.connection.transaction()?;
        let mut n_removed = 0;
        for key in keys {
            let id = id_of(store, &key);
            transaction.execute("DELETE FROM trigrams WHERE rowid = ?1", [id])?;
            n_removed += transaction.execute("DELETE FROM conversations WHERE id = ?1", [id])?;
        }
        transaction.commit()?;
        Ok(n_removed)
    }
}

fn version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.query_row("SELECT user_version FROM pragma_user_version", [], |row| row.get(0))
}

/// A word that the tokenizer leaves alone.
fn token(number: u32) -> String {
    format!("x{number:x}")
}

/// The same number for the same conversation, so that a new reading takes the place of the old one.
fn id_of(store: &dyn IndexableStore, key: &str) -> i64 {
    let mut hasher = DefaultHasher::new();
    (store.kind().as_str(), path_bytes(store.path()), key).hash(&mut hasher);
    // Rowids are best positive.
    (hasher.finish() >> 1) as i64
}

fn path_bytes(path: &Path) -> &[u8] {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes()
}

fn path_of(bytes: Vec<u8>) -> BytesPath {
    use std::os::unix::ffi::OsStringExt;
    std::path::PathBuf::from(std::ffi::OsString::from_vec(bytes)).into()
}

#[expect(clippy::disallowed_methods, reason = "our own database, not one of Cursor's")]
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    // No file beside it: anybody may delete the index at any time, and what lay beside it would be taken for a part of
    // the next one.
    connection.pragma_update(None, "journal_mode", "MEMORY")?;
    Ok(connection)
}
