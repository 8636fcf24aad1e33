//! The pages of a database, as far as small and ordinary ones go: enough to look at a closed store without the half
//! millisecond that opening it takes.
//!
//! Whoever uses this takes `None` for an answer: anything out of the ordinary is left to SQLite.

use std::ops::ControlFlow;

const MAGIC: &[u8] = b"SQLite format 3\0";
/// The only size that Cursor's databases have.
pub(super) const PAGE: usize = 4096;
/// What of a row fits its page, and how much of it stays there if it does not.
const MOST_LOCAL: usize = PAGE - 35;
const LEAST_LOCAL: usize = (PAGE - 12) * 32 / 255 - 23;
/// The first page begins with the header of the file.
const FILE_HEADER: usize = 100;
const LEAF: u8 = 0x0d;
const INTERIOR: u8 = 0x05;
const UTF_8: u32 = 1;
/// As much as is ever loaded of one blob.
const MAX_ROW: usize = 64 * 1024 * 1024;

/// A value of a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Integer(i64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
    Other,
}

/// Finds the page where a table begins, in the schema on the first page.
pub(super) fn table_page(first: &[u8], table: &str) -> Option<usize> {
    let size = usize::from(u16::from_be_bytes(first.get(16..18)?.try_into().ok()?));
    let is_ordinary = first.starts_with(MAGIC)
        && size == PAGE
        && first.get(20) == Some(&0)
        && big_endian_32(first, 56) == Some(UTF_8);
    if !is_ordinary {
        return None;
    }
    let root = cells(first.get(..PAGE)?, FILE_HEADER).find_map(|cell| {
        let record = record(local_row(cell)?)?;
        let [kind, name, _, root, ..] = record.as_slice() else { return None };
        let is_it = *kind == Value::Text(b"table") && *name == Value::Text(table.as_bytes());
        match root {
            Value::Integer(root) if is_it => usize::try_from(*root).ok(),
            _ => None,
        }
    })?;
    (root > 1).then_some(root)
}

/// The rows of a leaf page that fit it whole.
pub(super) fn local_rows(page: &[u8]) -> impl Iterator<Item = &[u8]> {
    cells(page, 0).filter_map(local_row)
}

/// Calls `visit` with every row of a table, until told to stop. `None` if the pages are not what they should be.
pub(super) fn visit_rows(
    file: &[u8],
    root: usize,
    visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Option<()> {
    let n_pages = file.len() / PAGE;
    if usize::try_from(big_endian_32(file, 28)?).ok()? != n_pages
        || !file.len().is_multiple_of(PAGE)
    {
        return None;
    }
    let mut pages = vec![root];
    let mut n_visited = 0;
    let mut n_bytes = 0;
    while let Some(number) = pages.pop() {
        n_visited += 1;
        // A page that is there twice makes a tree without end.
        if n_visited > n_pages {
            return None;
        }
        let page = page_of(file, number)?;
        match page[0] {
            INTERIOR => {
                pages.push(usize::try_from(big_endian_32(page, 8)?).ok()?);
                for cell in 0..big_endian_16(page, 3)? {
                    let at = big_endian_16(page, 12 + 2 * cell)?;
                    pages.push(usize::try_from(big_endian_32(page, at)?).ok()?);
                }
            }
            LEAF => {
                for cell in 0..big_endian_16(page, 3)? {
                    let cell = page.get(big_endian_16(page, 8 + 2 * cell)?..)?;
                    let visited = with_row(file, cell, &mut |row| {
                        n_bytes += row.len();
                        visit(row)
                    })?;
                    // Rows that share their pages would make a small file a large one.
                    if n_bytes > file.len() {
                        return None;
                    }
                    if visited.is_break() {
                        return Some(());
                    }
                }
            }
            _ => return None,
        }
    }
    Some(())
}

/// Puts the pieces of a row together.
fn with_row(
    file: &[u8],
    mut cell: &[u8],
    visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Option<ControlFlow<()>> {
    let length = usize::try_from(varint(&mut cell)?).ok()?;
    varint(&mut cell)?;
    if length <= MOST_LOCAL {
        return Some(visit(cell.get(..length)?));
    }
    if length > MAX_ROW.min(file.len()) {
        return None;
    }
    let spread = LEAST_LOCAL + (length - LEAST_LOCAL) % (PAGE - 4);
    let local = if spread <= MOST_LOCAL { spread } else { LEAST_LOCAL };
    let mut row = Vec::with_capacity(length);
    row.extend_from_slice(cell.get(..local)?);
    let mut next = big_endian_32(cell, local)?;
    while row.len() < length {
        let page = page_of(file, usize::try_from(next).ok()?)?;
        let n_missing = length - row.len();
        row.extend_from_slice(&page[4..4 + n_missing.min(PAGE - 4)]);
        next = big_endian_32(page, 0)?;
    }
    Some(visit(&row))
}

/// A page by its number, which counts from 1. The first one is of the schema and in no table.
fn page_of(file: &[u8], number: usize) -> Option<&[u8]> {
    let start = number.checked_sub(1).filter(|number| *number > 0)?.checked_mul(PAGE)?;
    file.get(start..start.checked_add(PAGE)?)
}

/// The cells of a leaf page, each from its beginning to the end of the page.
fn cells(page: &[u8], header: usize) -> impl Iterator<Item = &[u8]> {
    let is_leaf = page.get(header) == Some(&LEAF);
    let n_cells = big_endian_16(page, header + 3).filter(|_| is_leaf).unwrap_or(0);
    (0..n_cells).filter_map(move |cell| page.get(big_endian_16(page, header + 8 + 2 * cell)?..))
}

fn local_row(mut cell: &[u8]) -> Option<&[u8]> {
    let length = usize::try_from(varint(&mut cell)?).ok()?;
    varint(&mut cell)?;
    cell.get(..length).filter(|row| row.len() <= MOST_LOCAL)
}

fn big_endian_16(page: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(page.get(at..at.checked_add(2)?)?.try_into().ok()?)))
}

fn big_endian_32(page: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(page.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Reads a row: its header of types, then the values.
pub(super) fn record(row: &[u8]) -> Option<Vec<Value<'_>>> {
    let mut types = row;
    let header = usize::try_from(varint(&mut types)?).ok()?;
    let mut types = row.get(row.len() - types.len()..header)?;
    let mut values = row.get(header..)?;
    let mut record = Vec::new();
    while !types.is_empty() {
        record.push(value(varint(&mut types)?, &mut values)?);
    }
    Some(record)
}

fn value<'a>(kind: u64, values: &mut &'a [u8]) -> Option<Value<'a>> {
    let length = match kind {
        0 | 8 | 9 => 0,
        1..=4 => kind,
        5 => 6,
        6 | 7 => 8,
        10 | 11 => return None,
        kind => (kind - 12) / 2,
    };
    let (bytes, rest) = values.split_at_checked(usize::try_from(length).ok()?)?;
    *values = rest;
    Some(match kind {
        1..=4 => {
            Value::Integer(bytes.iter().fold(0, |number, byte| number << 8 | i64::from(*byte)))
        }
        8 | 9 => Value::Integer(i64::try_from(kind - 8).ok()?),
        12.. if kind.is_multiple_of(2) => Value::Blob(bytes),
        12.. => Value::Text(bytes),
        _ => Value::Other,
    })
}

/// SQLite's own: most significant bits first, and a ninth byte has eight of them.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for position in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if position == 8 {
            return Some(value << 8 | u64::from(*byte));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
#[path = "database_page_tests.rs"]
mod tests;
