//! The pages of small, ordinary databases: enough to read a closed store without the half millisecond that opening it
//! takes.
//!
//! Every function may return `None`. Then the caller uses SQLite.

use std::ops::ControlFlow;

use crate::database::record_format::{
    RecordHead, Value, big_endian_16, big_endian_32, local_length, record, varint,
};

const MAGIC: &[u8] = b"SQLite format 3\0";
/// The page size of all Cursor databases.
pub(crate) const PAGE: usize = 4096;
/// The first page begins with the file header.
const FILE_HEADER: usize = 100;
const LEAF: u8 = 0x0d;
const INTERIOR: u8 = 0x05;
const UTF_8: u32 = 1;
/// The most bytes to load from one blob.
const MAX_ROW: usize = 64 * 1024 * 1024;

/// Finds the page where a table begins, in the schema on the first page.
pub(crate) fn table_page(first: &[u8], table: &str) -> Option<usize> {
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

/// Returns the rows that fit completely on a leaf page.
pub(crate) fn local_rows(page: &[u8]) -> impl Iterator<Item = &[u8]> {
    cells(page, 0).filter_map(local_row)
}

/// Calls `visit` with every row of a table, until it returns `Break`. Returns `None` if the pages are not ordinary.
pub(crate) fn visit_rows(
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
    let mut is_visited = vec![false; n_pages + 1];
    let mut n_bytes = 0;
    while let Some(number) = pages.pop() {
        // A page that occurs twice makes an endless tree, or hides another page.
        if std::mem::replace(is_visited.get_mut(number)?, true) {
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
                        // Rows that share pages would make a small file expand without limit.
                        let head = RecordHead::read(row).filter(|_| n_bytes <= file.len());
                        match head.and_then(|head| head.row_length()) {
                            Some(length) if length == row.len() => Some(visit(row)),
                            _ => None,
                        }
                    })?;
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

/// Joins the pieces of a row.
fn with_row(
    file: &[u8],
    mut cell: &[u8],
    visit: &mut dyn FnMut(&[u8]) -> Option<ControlFlow<()>>,
) -> Option<ControlFlow<()>> {
    let length = usize::try_from(varint(&mut cell)?).ok()?;
    varint(&mut cell)?;
    let local = local_length(length, PAGE);
    if local == length {
        return visit(cell.get(..length)?);
    }
    if length > MAX_ROW.min(file.len()) {
        return None;
    }
    let mut row = Vec::with_capacity(length);
    row.extend_from_slice(cell.get(..local)?);
    let mut next = big_endian_32(cell, local)?;
    while row.len() < length {
        let page = page_of(file, usize::try_from(next).ok()?)?;
        let n_missing = length - row.len();
        row.extend_from_slice(&page[4..4 + n_missing.min(PAGE - 4)]);
        next = big_endian_32(page, 0)?;
    }
    visit(&row)
}

/// Returns a page by its number, from 1. The first page contains the schema and belongs to no table.
fn page_of(file: &[u8], number: usize) -> Option<&[u8]> {
    let start = number.checked_sub(1).filter(|number| *number > 0)?.checked_mul(PAGE)?;
    file.get(start..start.checked_add(PAGE)?)
}

/// Returns the cells of a leaf page. Each slice goes from the cell's beginning to the end of the page.
fn cells(page: &[u8], header: usize) -> impl Iterator<Item = &[u8]> {
    let is_leaf = page.get(header) == Some(&LEAF);
    let n_cells = big_endian_16(page, header + 3).filter(|_| is_leaf).unwrap_or(0);
    (0..n_cells).filter_map(move |cell| page.get(big_endian_16(page, header + 8 + 2 * cell)?..))
}

fn local_row(mut cell: &[u8]) -> Option<&[u8]> {
    let length = usize::try_from(varint(&mut cell)?).ok()?;
    varint(&mut cell)?;
    cell.get(..length).filter(|row| local_length(row.len(), PAGE) == row.len())
}

#[cfg(test)]
#[path = "database_page_tests.rs"]
mod tests;
