//! A database's pages: from its file, or from its log if that has a newer version.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};

use super::cells::Place;
use super::log_pages::{header_of, newest_pages};
use crate::database::record_format::{big_endian_32, local_length};
use crate::database::with_suffix;
use crate::plain_file::{self, PlainFileError};

/// The page size of Cursor's databases, used if the header states an impossible size.
const USUAL_PAGE: usize = 4096;
/// Half a terabyte at the usual page size. Later pages are ignored.
const MAX_PAGES: u32 = 1 << 27;
/// A larger row is cut off.
const MAX_ROW: usize = 64 * 1024 * 1024 + 64 * 1024;

/// Takes a page and its number.
pub(super) type VisitPage<'v> = dyn FnMut(u32, &[u8]) -> rusqlite::Result<()> + 'v;

/// Reads page by page. Keeps only the position of each page.
#[derive(Debug)]
pub(super) struct PageFile {
    file: File,
    log: Option<File>,
    /// The offset of each page in the log.
    in_log: BTreeMap<u32, u64>,
    /// The header of the log. SQLite writes a different one when it restarts the log.
    log_header: Vec<u8>,
    n_bytes_of_page: usize,
    n_pages: u32,
}

impl PageFile {
    pub(super) fn open(path: &Path) -> Result<Self, PlainFileError> {
        let failed = |source| PlainFileError::Read { path: path.to_owned(), source };
        let file = plain_file::open(path)?;
        let log = match plain_file::open(&with_suffix(path, "-wal")) {
            Ok(log) => Some(log),
            Err(PlainFileError::Missing { .. }) => None,
            Err(err) => return Err(err),
        };
        let n_bytes = file.metadata().map_err(failed)?.len();
        let mut size = [0; 2];
        let is_told = file.read_exact_at(&mut size, 16).is_ok();
        let n_bytes_of_page = match usize::from(u16::from_be_bytes(size)) {
            // 65,536 does not fit in the field, so SQLite writes 1.
            1 if is_told => 65_536,
            size if is_told && size >= 512 && size.is_power_of_two() => size,
            _ => USUAL_PAGE,
        };
        let (in_log, log_header) = match &log {
            Some(log) => (
                newest_pages(log, n_bytes_of_page).map_err(failed)?,
                header_of(log).map_err(failed)?,
            ),
            None => (BTreeMap::new(), Vec::new()),
        };
        // The last page may be incomplete.
        let in_file = u32::try_from(n_bytes.div_ceil(n_bytes_of_page as u64)).unwrap_or(u32::MAX);
        // Pages in the log follow those in the file, without a gap.
        let in_both = in_file.saturating_add(u32::try_from(in_log.len()).unwrap_or(u32::MAX));
        let in_log_too = in_log.last_key_value().map_or(in_file, |(last, _)| in_file.max(*last));
        let n_pages = in_log_too.min(in_both).min(MAX_PAGES);
        Ok(Self { file, log, in_log, log_header, n_bytes_of_page, n_pages })
    }

    /// Returns the number of the last page. Numbers start at 1.
    pub(super) fn n_pages(&self) -> u32 {
        self.n_pages
    }

    /// Cursor's databases reserve no part of their pages.
    pub(super) fn usable(&self) -> usize {
        self.n_bytes_of_page
    }

    /// Reads a page into `page`. Fails if there is no such page. Missing bytes at the end of the file become zero.
    pub(super) fn read(&self, number: u32, page: &mut Vec<u8>) -> io::Result<()> {
        page.clear();
        page.resize(self.n_bytes_of_page, 0);
        match self.read_at(number, page) {
            Err(err) if err.kind() == io::ErrorKind::UnexpectedEof && number == self.n_pages => {
                Ok(())
            }
            read => read,
        }
    }

    fn read_at(&self, number: u32, bytes: &mut [u8]) -> io::Result<()> {
        match (&self.log, self.in_log.get(&number)) {
            (Some(log), Some(start)) => log.read_exact_at(bytes, *start),
            _ => {
                let number = number.checked_sub(1).ok_or(io::ErrorKind::NotFound)?;
                let start = u64::from(number) * self.n_bytes_of_page as u64;
                let mut n_read = 0;
                // Reads as many bytes as there are. `read_exact_at` leaves the buffer undefined when it fails.
                while n_read < bytes.len() {
                    match self.file.read_at(&mut bytes[n_read..], start + n_read as u64) {
                        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                        Ok(n_more) => n_read += n_more,
                        Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                        Err(err) => return Err(err),
                    }
                }
                Ok(())
            }
        }
    }

    /// Calls `visit` with every page, except those in `without`.
    pub(super) fn visit(
        &self,
        without: &HashSet<u32>,
        visit: &mut VisitPage<'_>,
    ) -> rusqlite::Result<()> {
        let mut page = Vec::new();
        let mut number = 1;
        while number <= self.n_pages {
            if !without.contains(&number) && self.read(number, &mut page).is_ok() {
                if page.iter().all(|byte| *byte == 0) {
                    number = self.behind_hole(number);
                    continue;
                }
                visit(number, &page)?;
            }
            number += 1;
        }
        Ok(())
    }

    /// Returns the next page with content: a file may have holes of any size.
    fn behind_hole(&self, number: u32) -> u32 {
        let n_bytes_of_page = self.n_bytes_of_page as u64;
        let in_file = match seek(&self.file, SeekFrom::Data(u64::from(number) * n_bytes_of_page)) {
            Ok(data) => {
                let found = u32::try_from(data / n_bytes_of_page).unwrap_or(u32::MAX);
                found.saturating_add(1).max(number + 1)
            }
            // The rest of the file is a hole.
            Err(rustix::io::Errno::NXIO) => u32::MAX,
            // The file system cannot tell where the holes are.
            Err(_) => number + 1,
        };
        let in_log = self.in_log.range(number + 1..).next();
        in_log.map_or(in_file, |(next, _)| in_file.min(*next))
    }

    /// True if the log is still the one where the pages were found. It may have grown, which moves no page.
    pub(super) fn has_same_log(&self) -> bool {
        self.log
            .as_ref()
            .is_none_or(|log| header_of(log).is_ok_and(|header| header == self.log_header))
    }

    /// Returns the pages on the free list, as far as the list can be followed.
    pub(super) fn free_pages(&self) -> HashSet<u32> {
        let mut free = HashSet::new();
        let mut page = Vec::new();
        let mut next = match self.read(1, &mut page) {
            Ok(()) => big_endian_32(&page, 32).unwrap_or(0),
            Err(_) => 0,
        };
        while next > 1 && next <= self.n_pages && self.read(next, &mut page).is_ok() {
            let n_leaves = big_endian_32(&page, 4).map_or(0, |n| n as usize);
            if n_leaves > self.n_bytes_of_page / 4 - 2 || !free.insert(next) {
                break;
            }
            let leaves = (0..n_leaves).filter_map(|leaf| big_endian_32(&page, 8 + 4 * leaf));
            free.extend(leaves.filter(|leaf| (2..=self.n_pages).contains(leaf)));
            next = big_endian_32(&page, 0).unwrap_or(0);
        }
        free
    }

    /// Follows the pages where a row continues. Returns how many of its bytes are there, up to a page that cannot
    /// belong to it or that `is_free` rejects.
    pub(super) fn follow(
        &self,
        n_bytes: usize,
        first: Option<u32>,
        is_free: &mut dyn FnMut(u32) -> bool,
    ) -> usize {
        let mut n_there = local_length(n_bytes, self.usable());
        let mut next = first.unwrap_or(0);
        while n_there < n_bytes.min(MAX_ROW) {
            let mut bytes = [0; 4];
            if next < 2 || next > self.n_pages || !is_free(next) {
                break;
            }
            // Such a page begins with the number of the next one. In smaller files that number never looks like the
            // first byte of a tree page.
            let is_read = self.read_at(next, &mut bytes).is_ok();
            if !is_read || self.n_pages < 1 << 24 && matches!(bytes[0], 0x05 | 0x0a | 0x0d) {
                break;
            }
            n_there += (n_bytes - n_there).min(self.usable() - 4);
            next = u32::from_be_bytes(bytes);
        }
        n_there
    }

    /// Returns the first bytes of a row. [`Self::follow`] tells how many there are.
    pub(super) fn row(&self, place: Place, n_wanted: usize) -> io::Result<Vec<u8>> {
        let mut page = Vec::new();
        self.read(place.page, &mut page)?;
        let n_local = local_length(place.n_bytes, self.usable());
        let local = page.get(place.at..place.at + n_local).ok_or(io::ErrorKind::InvalidData)?;
        let mut next = big_endian_32(&page, place.at + n_local).unwrap_or(0);
        let mut row = local.to_vec();
        while row.len() < n_wanted {
            let mut page = Vec::new();
            self.read(next, &mut page)?;
            let n_here = (n_wanted - row.len()).min(self.usable() - 4);
            row.extend_from_slice(&page[4..4 + n_here]);
            next = big_endian_32(&page, 0).unwrap_or(0);
        }
        row.truncate(n_wanted);
        Ok(row)
    }
}
