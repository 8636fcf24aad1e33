//! Reads a closed store's meta row directly from its page: a list may need thousands of them.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::database_page::{PAGE, local_rows, table_page};
use super::meta::ChatMeta;
use crate::database::record_format::{Value, record};
use crate::plain_file;

const META: &str = "meta";

/// Reads the meta row of a database that has no log. Returns `None` if anything about the file is unusual: then the
/// caller uses SQLite.
pub(crate) fn read_meta_page(path: &Path) -> Option<ChatMeta> {
    let mut file = plain_file::open(path).ok()?;
    let before = file.metadata().ok()?;
    let mut page = vec![0; PAGE];
    file.read_exact(&mut page).ok()?;
    let number = table_page(&page, META)?;
    file.seek(SeekFrom::Start((number as u64 - 1) * PAGE as u64)).ok()?;
    file.read_exact(&mut page).ok()?;
    let meta = ChatMeta::from_row(meta_value(&page)?).ok()?;
    // Another process may have just written to the file.
    let after = file.metadata().ok()?;
    let is_same = (before.len(), before.modified().ok()) == (after.len(), after.modified().ok());
    is_same.then_some(meta)
}

/// The value of the row whose key is `0`.
fn meta_value(page: &[u8]) -> Option<&[u8]> {
    local_rows(page).find_map(|row| match record(row)?.as_slice() {
        [Value::Text(b"0"), Value::Text(value) | Value::Blob(value)] => Some(*value),
        _ => None,
    })
}

/// The meta row of a database that is completely in memory.
pub(crate) fn meta_in(file: &[u8]) -> Option<ChatMeta> {
    let start = (table_page(file, META)? - 1).checked_mul(PAGE)?;
    ChatMeta::from_row(meta_value(file.get(start..start.checked_add(PAGE)?)?)?).ok()
}

#[cfg(test)]
#[path = "meta_page_tests.rs"]
mod tests;
