//! Databases as Cursor opens them.

use std::path::Path;

use rusqlite::Connection;

/// What the writer leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// One file: everything is in the database.
    Clean,
    /// As after `kill -9`: database, `-wal` and `-shm` lie there, and the newest is in the log only.
    Killed,
}

/// Opens a database for writing, with a write-ahead log as all of Cursor's have, and makes its directory.
#[expect(clippy::disallowed_methods, reason = "plays Cursor, which writes")]
pub fn open_writer(path: &Path) -> Connection {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;").unwrap();
    connection
}

/// Ends the writing of the database at `path`.
pub fn close(connection: Connection, path: &Path, closing: Closing) {
    match closing {
        Closing::Clean => connection.close().unwrap(),
        Closing::Killed => {
            // A killed writer is played by a copy of its files: closing ours would write the log back.
            let keep = |suffix: &str| {
                let mut name = path.as_os_str().to_owned();
                name.push(suffix);
                let bytes = std::fs::read(&name).ok();
                (name, bytes)
            };
            let files = ["", "-wal", "-shm"].map(keep);
            connection.close().unwrap();
            for (name, bytes) in files {
                if let Some(bytes) = bytes {
                    std::fs::write(name, bytes).unwrap();
                }
            }
        }
    }
}
