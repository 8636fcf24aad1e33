//! Databases as Cursor opens them, and times as Cursor writes them.

use std::path::Path;

use rusqlite::Connection;

/// The files that the writer leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// One file: everything is in the database.
    Clean,
    /// As after `kill -9`: database, `-wal` and `-shm` remain, and the newest data is only in the log.
    Killed,
}

/// Opens a database for writing, with a write-ahead log like all of Cursor's databases. Creates its directory.
#[expect(clippy::disallowed_methods, reason = "acts as Cursor, which writes")]
pub fn open_writer(path: &Path) -> Connection {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;").unwrap();
    connection
}

/// Closes the database at `path`: a connection, or a value that owns one.
pub fn close<T>(database: T, path: &Path, closing: Closing) {
    // A copy of the files imitates a killed writer, because closing a connection checkpoints the log into the database.
    let kept = ["", "-wal", "-shm"].map(|suffix| {
        let name = format!("{}{suffix}", path.display());
        let bytes = (closing == Closing::Killed).then(|| std::fs::read(&name).ok()).flatten();
        (name, bytes)
    });
    drop(database);
    for (name, bytes) in kept {
        if let Some(bytes) = bytes {
            std::fs::write(name, bytes).unwrap();
        }
    }
}

/// Formats a time in ISO 8601, like JavaScript.
pub(crate) fn iso(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).unwrap().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}
