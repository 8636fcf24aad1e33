//! Copies of an intact home with some bytes changed: input that is slightly wrong gets further into a decoder than
//! random input.
#![allow(dead_code, reason = "each target uses only some of these functions")]

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::{Value, ValueRef};
use tempfile::TempDir;

/// The record, the place in it, the kind of change, and the new bytes.
pub type Change = (u16, u16, u8, Vec<u8>);

/// Copies a directory with its contents.
pub fn copy(from: &Path) -> TempDir {
    let home = tempfile::tempdir().expect("a directory");
    copy_into(from, home.path());
    home
}

fn copy_into(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("the template").flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_into(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("a copy");
        }
    }
}

pub fn change(bytes: &mut Vec<u8>, (_, at, how, with): &Change) {
    let at = if bytes.is_empty() { 0 } else { usize::from(*at) % bytes.len() };
    match how % 6 {
        0 => with.clone_into(bytes),
        1 => bytes.truncate(at),
        2 => drop(bytes.splice(at..at, with.iter().copied())),
        3 => {
            let end = bytes.len().min(at + with.len());
            drop(bytes.splice(at..end, with.iter().copied()));
        }
        4 => {
            let end = bytes.len().min(at + usize::from(how / 6) + 1);
            drop(bytes.drain(at..end));
        }
        // Flips one bit.
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << (how / 6 % 8);
            }
        }
    }
}

pub fn change_file(path: &Path, changes: &[Change]) {
    let mut bytes = fs::read(path).expect("a file");
    for one in changes {
        change(&mut bytes, one);
    }
    fs::write(path, bytes).expect("a file");
}

/// Changes values in some columns of a database, and keeps their types if possible.
pub fn change_rows(database: &Path, columns: &[(&str, &str)], changes: &[Change]) {
    let connection = Connection::open(database).expect("a database");
    // Other builds of Cursor may have fewer constraints, so these must not refuse a changed value.
    connection.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON;").ok();
    let mut records: Vec<(&str, &str, i64)> = Vec::new();
    for (table, column) in columns {
        let mut rows = connection.prepare(&format!("SELECT rowid FROM {table} ORDER BY rowid")).expect("a table");
        let ids = rows.query_map([], |row| row.get(0)).expect("rows");
        records.extend(ids.flatten().map(|id| (*table, *column, id)));
    }
    if records.is_empty() {
        return;
    }
    for one in changes {
        let (table, column, id) = records[usize::from(one.0) % records.len()];
        let changed = connection.query_row(&format!("SELECT {column} FROM {table} WHERE rowid = ?1"), [id], |row| {
            let (mut bytes, is_text) = match row.get_ref(0)? {
                ValueRef::Text(bytes) => (bytes.to_vec(), true),
                ValueRef::Blob(bytes) => (bytes.to_vec(), false),
                ValueRef::Integer(number) => (number.to_string().into_bytes(), true),
                ValueRef::Real(number) => (number.to_string().into_bytes(), true),
                ValueRef::Null => (Vec::new(), true),
            };
            change(&mut bytes, one);
            Ok(match String::from_utf8(bytes) {
                Ok(text) if is_text && one.2 < 250 => Value::Text(text),
                Ok(text) => Value::Blob(text.into_bytes()),
                Err(err) => Value::Blob(err.into_bytes()),
            })
        });
        if let Ok(value) = changed {
            // A value that violates a remaining constraint cannot occur in a store.
            connection.execute(&format!("UPDATE {table} SET {column} = ?2 WHERE rowid = ?1"), (id, value)).ok();
        }
    }
    connection.close().expect("closed");
}
