//! The SQL function through which our database reads a value from Cursor's file.

use std::cell::RefCell;
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::Value as SqlValue;

use super::cells::Place;
use super::page_file::PageFile;
use crate::database::record_format::{RecordHead, Value, local_length, value};

/// The last row read, or its beginning: a query asks for several columns of each row.
type LastRow = Option<(Place, Vec<u8>)>;

/// `cell(page, at, n_bytes, n_there, column)`: a column's value from the row at this position, of which `n_there` bytes
/// are left. A lost value is `NULL`.
pub(super) fn add_cell_function(
    connection: &Connection,
    pages: Arc<PageFile>,
) -> rusqlite::Result<()> {
    let last = RefCell::new(None);
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("cell", 5, flags, move |context| {
        Ok(cell(&pages, &mut last.borrow_mut(), context)?.unwrap_or(SqlValue::Null))
    })
}

fn cell(
    pages: &PageFile,
    last: &mut LastRow,
    context: &Context<'_>,
) -> rusqlite::Result<Option<SqlValue>> {
    let number = |argument| {
        let number: i64 = context.get(argument)?;
        Ok::<usize, rusqlite::Error>(usize::try_from(number).unwrap_or(usize::MAX))
    };
    let page = u32::try_from(number(0)?).unwrap_or(u32::MAX);
    let place = Place { page, at: number(1)?, n_bytes: number(2)? };
    Ok(column(pages, last, place, number(3)?, number(4)?))
}

fn column(
    pages: &PageFile,
    last: &mut LastRow,
    place: Place,
    n_there: usize,
    column: usize,
) -> Option<SqlValue> {
    let n_local = local_length(place.n_bytes, pages.usable());
    let head = RecordHead::read(row(pages, last, place, n_local)?)?;
    let (kind, mut range) = (*head.kinds.get(column)?, head.place_of(column)?);
    if column + 1 == head.kinds.len() && kind >= 12 {
        // If the two lengths of a row differ, use this one.
        range.end = place.n_bytes;
    }
    if range.start >= n_there && !range.is_empty() {
        return None;
    }
    let end = range.end.min(n_there);
    let bytes = row(pages, last, place, end)?.get(range.start.min(end)..end)?;
    Some(match value(kind, bytes).filter(|_| end == range.end || kind >= 12)? {
        Value::Null => SqlValue::Null,
        Value::Integer(number) => SqlValue::Integer(number),
        Value::Real(number) => SqlValue::Real(number),
        Value::Blob(bytes) => SqlValue::Blob(bytes.to_vec()),
        // A flipped bit can break the encoding. Lossy text can still be shown and searched.
        Value::Text(text) => SqlValue::Text(String::from_utf8_lossy(text).into_owned()),
    })
}

/// Returns at least this many bytes of a row.
fn row<'a>(
    pages: &PageFile,
    last: &'a mut LastRow,
    place: Place,
    n_wanted: usize,
) -> Option<&'a [u8]> {
    let is_known =
        last.as_ref().is_some_and(|(known, row)| *known == place && row.len() >= n_wanted);
    if !is_known {
        *last = Some((place, pages.row(place, n_wanted).ok()?));
    }
    last.as_ref().map(|(_, row)| row.as_slice())
}
