//! Finds the rows on a page, whether or not the page's header points to them.
//!
//! A row states its length twice: as a whole, and by the types of its columns. If both agree, and the row looks like
//! one from Cursor's tables, it is accepted.

use std::collections::BTreeMap;

use super::tables::{Shape, Table};
use crate::database::record_format::{
    RecordHead, Value, big_endian_16, big_endian_32, local_length, record, varint,
};

/// Where a row's content is, after its length and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) page: u32,
    pub(super) at: usize,
    /// The length that the row states.
    pub(super) n_bytes: usize,
}

/// A row found on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) table: Table,
    pub(super) rowid: i64,
    pub(super) place: Place,
    pub(super) n_columns: usize,
    /// The page where the row continues, if it does not fit on its own page.
    pub(super) continued: Option<u32>,
    /// No pointer on the page led to the row.
    pub(super) is_carved: bool,
}

/// The first byte of a page: table or index, leaf or interior.
const LEAF: u8 = 0x0d;
const INTERIOR: u8 = 0x05;
const INDEX_LEAF: u8 = 0x0a;
const INDEX_INTERIOR: u8 = 0x02;
/// The first page begins with the file header.
const FILE_HEADER: usize = 100;

/// The start of each row on a page, with its end. No two rows overlap.
type Found = BTreeMap<usize, (usize, Cell)>;

/// Reads the rows on a page, if it may be a leaf of a table. `n_pages` is the number of pages in the file.
pub(super) fn cells(page: &[u8], number: u32, n_pages: u32) -> impl Iterator<Item = Cell> {
    let head = head_of(number);
    let mut found = Found::new();
    if may_hold_rows(page, number, n_pages) {
        let n_pointers = big_endian_16(page, head + 3).unwrap_or(0).min(page.len() / 6);
        let pointers = (0..n_pointers).filter_map(|n| big_endian_16(page, head + 8 + 2 * n));
        let mut starts: Vec<usize> = pointers.collect();
        starts.push(page.len());
        starts.sort_unstable();
        let mut n_bad = 0;
        for at in &starts[..n_pointers.min(starts.len() - 1)] {
            let cell = cell(page, number, *at, &|end| starts.binary_search(&end).is_ok());
            let is_new = cell.is_some_and(|cell| add(&mut found, *at, cell));
            n_bad += usize::from(!is_new);
        }
        if n_bad > 0 || !is_accounted_for(page, head, &found) {
            carve(page, number, head + 8, &mut found);
        }
    }
    found.into_values().map(|(_, cell)| cell)
}

/// Adds a row, unless it overlaps another one.
fn add(found: &mut Found, at: usize, (end, cell): (usize, Cell)) -> bool {
    let is_taken =
        found.range(..end).next_back().is_some_and(|(_, (other_end, _))| *other_end > at);
    if !is_taken {
        found.insert(at, (end, cell));
    }
    !is_taken
}

/// True if the page may be a leaf. One flipped bit may have changed the first byte. Rows on an interior page are
/// leftovers from the time when it was a leaf.
fn may_hold_rows(page: &[u8], number: u32, n_pages: u32) -> bool {
    let kind = page.get(head_of(number));
    kind.is_some_and(|kind| (kind ^ LEAF).count_ones() <= 1)
        && children(page, number, n_pages).is_none()
}

/// Returns the child pages of a table's interior page. `None` for other pages.
pub(super) fn children(page: &[u8], number: u32, n_pages: u32) -> Option<Vec<u32>> {
    let head = head_of(number);
    if page.get(head) != Some(&INTERIOR) {
        return None;
    }
    let child = |at: usize| big_endian_32(page, at).filter(|page| (2..=n_pages).contains(page));
    let n_cells = big_endian_16(page, head + 3)?;
    let left = (0..n_cells).map(|cell| child(big_endian_16(page, head + 12 + 2 * cell)?));
    left.chain([child(head + 8)]).collect()
}

fn head_of(number: u32) -> usize {
    if number == 1 { FILE_HEADER } else { 0 }
}

/// True if rows and free blocks fill the whole content area of a page.
fn is_accounted_for(page: &[u8], head: usize, found: &Found) -> bool {
    let Some(start) = big_endian_16(page, head + 5).filter(|start| *start >= head + 8) else {
        return false;
    };
    let mut n_free = page.get(head + 7).copied().map_or(0, usize::from);
    let mut next = big_endian_16(page, head + 1).unwrap_or(0);
    while next > 0 {
        let Some(n_bytes) = big_endian_16(page, next + 2) else { return false };
        n_free += n_bytes;
        // Free blocks are sorted by position.
        next = match big_endian_16(page, next) {
            Some(after) if after == 0 || after > next => after,
            _ => return false,
        };
    }
    let n_rows: usize = found.iter().map(|(at, (end, _))| end - at).sum();
    page.len().checked_sub(start) == Some(n_rows + n_free)
}

/// Looks for rows at every position that no other row occupies, because the pointers to them may be damaged.
fn carve(page: &[u8], number: u32, start: usize, found: &mut Found) {
    let mut at = start;
    while at < page.len() {
        if let Some((_, (end, _))) = found.range(..=at).next_back()
            && *end > at
        {
            at = *end;
            continue;
        }
        let carved = cell(page, number, at, &|_| false)
            .map(|(end, cell)| (end, Cell { is_carved: true, ..cell }))
            .is_some_and(|cell| add(found, at, cell));
        if !carved {
            at += 1;
        }
    }
}

/// Reads the row at a position, and returns where it ends on the page. If its two lengths differ, accepts the one that
/// ends where `is_end` says that another row begins.
fn cell(
    page: &[u8],
    number: u32,
    at: usize,
    is_end: &dyn Fn(usize) -> bool,
) -> Option<(usize, Cell)> {
    let mut rest = page.get(at..).filter(|_| at > head_of(number))?;
    let said = usize::try_from(varint(&mut rest)?).ok()?;
    let rowid = varint(&mut rest)?.cast_signed();
    let start = page.len() - rest.len();
    let head = RecordHead::read(rest)?;
    let summed = head.row_length()?;
    let end_of = |n_bytes: usize| {
        let n_local = local_length(n_bytes, page.len());
        let end = start + n_local + if n_local < n_bytes { 4 } else { 0 };
        (end <= page.len()).then_some(end)
    };
    let n_bytes = if said == summed {
        said
    } else {
        [said, summed].into_iter().find(|length| end_of(*length).is_some_and(is_end))?
    };
    let end = end_of(n_bytes)?;
    let first = page.get(start..end)?.get(head.place_of(0)?)?;
    let table = Table::of(&Shape { kinds: &head.kinds, first })?;
    let n_local = local_length(n_bytes, page.len());
    let continued = if n_local < n_bytes { big_endian_32(page, start + n_local) } else { None };
    let place = Place { page: number, at: start, n_bytes };
    let n_columns = head.kinds.len();
    Some((end, Cell { table, rowid, place, n_columns, continued, is_carved: false }))
}

/// Calls `visit` with the rows of the schema. They are on the first page, unless there are a lot of tables.
pub(super) fn visit_schema(page: &[u8], visit: &mut dyn FnMut(&[Value<'_>])) {
    for at in FILE_HEADER + 8..page.len() {
        let mut rest = &page[at..];
        let n_bytes = varint(&mut rest).and_then(|length| usize::try_from(length).ok());
        let row = varint(&mut rest).and(n_bytes).and_then(|length| rest.get(..length));
        if let Some(row) = row
            && let Some(head) = RecordHead::read(row)
            && head.kinds.len() == 5
            && head.row_length() == Some(row.len())
            && let Some(values) = record(row)
        {
            visit(&values);
        }
    }
}

/// The key of an index entry: a text, or a text and a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexKey {
    pub(super) text: String,
    pub(super) number: Option<i64>,
}

impl IndexKey {
    /// Returns the name of the row with this key.
    pub(super) fn name(&self) -> String {
        match self.number {
            None => self.text.clone(),
            Some(number) => format!("{}/{number}", self.text),
        }
    }
}

/// Returns the index keys on a page.
pub(super) fn index_keys(page: &[u8], number: u32) -> Vec<IndexKey> {
    let head = head_of(number);
    // Interior pages store four more bytes before each entry.
    let n_before = match page.get(head) {
        Some(&INDEX_LEAF) => 0,
        Some(&INDEX_INTERIOR) => 4,
        _ => return Vec::new(),
    };
    let n_pointers = big_endian_16(page, head + 3).unwrap_or(0).min(page.len() / 5);
    let entries = (0..n_pointers).filter_map(|pointer| {
        let at = big_endian_16(page, head + 8 + n_before + 2 * pointer)?;
        let mut rest = page.get(at + n_before..)?;
        let length = usize::try_from(varint(&mut rest)?).ok()?;
        // Longer entries continue on other pages. Cursor has no such keys.
        let entry = record(rest.get(..length).filter(|_| length <= page.len().min(4096) / 4)?)?;
        let (text, number) = match entry.as_slice() {
            [Value::Text(text), Value::Integer(_)] => (text, None),
            [Value::Text(text), Value::Integer(number), Value::Integer(_)] => (text, Some(*number)),
            _ => return None,
        };
        Some(IndexKey { text: std::str::from_utf8(text).ok()?.to_owned(), number })
    });
    entries.collect()
}
