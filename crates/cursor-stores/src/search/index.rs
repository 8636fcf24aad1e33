//! An index for repeated searches: it knows which parts of a store may contain a word. It can be rebuilt, so it may be
//! deleted at any time.
//!
//! ```text
//!   words ──► their trigrams ──► FTS5: sections that have them all ──► the usual search in only those
//! ```
//!
//! The index keeps no text, only the sequences of three letters that a section has. So it is small, and the search
//! finds every match in the store itself: the index may name too many sections, but never too few. Stores without an
//! index are searched as usual.

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use run_protocol::BytesPath;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use crate::catalogue::Catalogue;
use crate::model::{Head, StoreKind};
use crate::parallel;
use crate::search::Matcher;
use crate::search::trigrams::Trigrams;
use crate::store::{IndexableStore, Section};

/// The version while a process is writing. If a reader finds it, the writer was killed.
const BEING_WRITTEN: i32 = -1;
/// Increase it with every change to the tables or their content. An index with a different version is rebuilt.
const VERSION: i32 = 1;

const SCHEMA: &str = "
    CREATE TABLE stores (
        kind TEXT NOT NULL, path BLOB NOT NULL, fingerprint INTEGER,
        PRIMARY KEY (kind, path)
    ) WITHOUT ROWID;
    CREATE TABLE sections (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL, path BLOB NOT NULL, name TEXT NOT NULL,
        stamp INTEGER NOT NULL,
        UNIQUE (kind, path, name)
    );
    CREATE TABLE heads (
        kind TEXT NOT NULL, path BLOB NOT NULL, key TEXT NOT NULL, head TEXT NOT NULL,
        PRIMARY KEY (kind, path, key)
    ) WITHOUT ROWID;
    CREATE VIRTUAL TABLE trigrams USING fts5 (
        numbers, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
    );
";

/// An open index.
#[derive(Debug)]
pub struct SearchIndex {
    connection: Connection,
}

/// The sections of one store that may contain a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidates {
    pub store: StoreKind,
    pub path: BytesPath,
    pub sections: Vec<String>,
}

/// How much work an update of the index took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refreshed {
    pub n_read: usize,
    pub n_removed: usize,
    /// Sections that could not be read. The next update tries them again.
    pub n_failed: usize,
}

/// Says why an index cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchIndexError {
    #[error("the index could not be created")]
    Make(#[source] std::io::Error),
    #[error("the index could not be used")]
    Database(#[from] rusqlite::Error),
}

impl SearchIndex {
    /// Opens the index at `path`. Rebuilds it if it is missing or damaged, or has a different version.
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
        // Prompts are private.
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

    /// True if the index covers the current state of the store.
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

    /// Reads what changed since the last update. Calls `progress` with the number of finished sections and their total.
    /// Meanwhile, other processes cannot use the index. If this process is killed, the next one rebuilds the index.
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
        // The next read releases the lock.
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
            // Taken before reading, so that a write during the read makes it differ.
            let fingerprint = store.fingerprint();
            let Ok(sections) = store.sections() else {
                refreshed.n_failed += 1;
                continue;
            };
            let mut gone = self.known(store)?;
            for section in sections {
                if gone.remove(&section.name) != Some(section.stamp) {
                    stale.push((store, section));
                }
            }
            refreshed.n_removed += self.remove(store, gone.into_keys())?;
            self.put_heads(store)?;
            fingerprints.push((store, fingerprint));
        }
        let n_stale = stale.len();
        // Only a few sections at a time, one for each core, to limit the memory for their text.
        for (n_before, batch) in stale.chunks(parallel::n_cores()).enumerate() {
            progress(n_before * parallel::n_cores(), n_stale);
            let read = parallel::map(batch, |(store, section)| {
                let mut trigrams = Trigrams::default();
                store
                    .visit_section(&section.name, &mut |content, encoding| {
                        trigrams.add(content, encoding);
                    })
                    .map(|()| trigrams)
            });
            for ((store, section), read) in batch.iter().zip(read) {
                match read {
                    Ok(trigrams) => {
                        self.put(*store, section, &trigrams)?;
                        refreshed.n_read += 1;
                    }
                    Err(_) => refreshed.n_failed += 1,
                }
            }
        }
        progress(n_stale, n_stale);
        for (store, fingerprint) in fingerprints {
            // Without a fingerprint, the next update tries the failed sections again.
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

    /// Returns the sections that may contain the pattern, by store. `None` if the index cannot tell: short words and
    /// regular expressions have to be searched everywhere.
    pub fn candidates(
        &self,
        matcher: &Matcher,
    ) -> Result<Option<Vec<Candidates>>, SearchIndexError> {
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
            "SELECT kind, path, name FROM sections
             WHERE id IN (SELECT rowid FROM trigrams WHERE trigrams MATCH ?1)",
        )?;
        let rows = statement.query_map([query], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, String>(2)?))
        })?;
        let mut by_store: HashMap<(String, Vec<u8>), Vec<String>> = HashMap::new();
        for row in rows {
            let (kind, path, name) = row?;
            by_store.entry((kind, path)).or_default().push(name);
        }
        let candidates = by_store.into_iter().filter_map(|((kind, path), sections)| {
            Some(Candidates { store: kind.parse().ok()?, path: path_of(path), sections })
        });
        Ok(Some(candidates.collect()))
    }

    /// Returns a conversation's head from the last update of its store.
    pub fn head(&self, store: &dyn IndexableStore, key: &str) -> Option<Head> {
        let text: String = self
            .connection
            .prepare_cached("SELECT head FROM heads WHERE kind = ?1 AND path = ?2 AND key = ?3")
            .ok()?
            .query_row(params![store.kind().as_str(), path_bytes(store.path()), key], |row| {
                row.get(0)
            })
            .ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Returns the stamps of the store's sections, by name.
    fn known(&self, store: &dyn IndexableStore) -> Result<HashMap<String, u64>, SearchIndexError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT name, stamp FROM sections WHERE kind = ?1 AND path = ?2")?;
        let rows = statement
            .query_map(params![store.kind().as_str(), path_bytes(store.path())], |row| {
                Ok((row.get(0)?, row.get::<_, i64>(1)? as u64))
            })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn put(
        &mut self,
        store: &dyn IndexableStore,
        section: &Section,
        trigrams: &Trigrams,
    ) -> Result<(), SearchIndexError> {
        let mut numbers = String::new();
        for number in trigrams.numbers() {
            numbers.push_str(&token(number));
            numbers.push(' ');
        }
        let id = id_of(store, &section.name);
        let transaction = self.connection.transaction()?;
        transaction
            .prepare_cached("INSERT OR REPLACE INTO sections VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![
                id,
                store.kind().as_str(),
                path_bytes(store.path()),
                section.name,
                section.stamp as i64
            ])?;
        transaction.prepare_cached("DELETE FROM trigrams WHERE rowid = ?1")?.execute([id])?;
        transaction
            .prepare_cached("INSERT INTO trigrams (rowid, numbers) VALUES (?1, ?2)")?
            .execute(params![id, numbers])?;
        Ok(transaction.commit()?)
    }

    fn put_heads(&mut self, store: &dyn IndexableStore) -> Result<(), SearchIndexError> {
        let (kind, path) = (store.kind().as_str(), path_bytes(store.path()));
        let transaction = self.connection.transaction()?;
        transaction
            .execute("DELETE FROM heads WHERE kind = ?1 AND path = ?2", params![kind, path])?;
        for head in store.list().heads {
            let key = head.origins.first().map_or(head.id.as_str(), |origin| origin.key(&head));
            let Ok(text) = serde_json::to_string(&head) else { continue };
            transaction
                .prepare_cached("INSERT OR REPLACE INTO heads VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![kind, path, key, text])?;
        }
        Ok(transaction.commit()?)
    }

    fn remove(
        &mut self,
        store: &dyn IndexableStore,
        names: impl Iterator<Item = String>,
    ) -> Result<usize, SearchIndexError> {
        let transaction = self.connection.transaction()?;
        let mut n_removed = 0;
        for name in names {
            let id = id_of(store, &name);
            transaction.execute("DELETE FROM trigrams WHERE rowid = ?1", [id])?;
            n_removed += transaction.execute("DELETE FROM sections WHERE id = ?1", [id])?;
        }
        transaction.commit()?;
        Ok(n_removed)
    }
}

fn version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.query_row("SELECT user_version FROM pragma_user_version", [], |row| row.get(0))
}

/// Returns a word that the tokenizer leaves unchanged.
fn token(number: u32) -> String {
    format!("x{number:x}")
}

/// Returns the same number for the same section, so that a new row replaces the old one.
fn id_of(store: &dyn IndexableStore, name: &str) -> i64 {
    let mut hasher = DefaultHasher::new();
    (store.kind().as_str(), path_bytes(store.path()), name).hash(&mut hasher);
    // Row ids should be positive.
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
    // No journal file: a user may delete the index at any time, and SQLite would apply a leftover journal to the next
    // one.
    connection.pragma_update(None, "journal_mode", "MEMORY")?;
    Ok(connection)
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
