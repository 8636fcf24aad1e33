//! The pages of a database: of its file, and of its log where that has newer ones.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};

use super::cells::Place;
use super::log_pages::{header_of, newest_pages};
use crate::database_fingerprint::with_suffix;
use crate::plain_file::{self, PlainFileError};
use crate::record_format::{big_endian_32, local_length};

/// What Cursor's databases have, and what is taken where the header does not say anything that can be.
const USUAL_PAGE: usize = 4096;
/// Half a terabyte of the usual ones. What is behind is not looked at.
const MAX_PAGES: u32 = 1 << 27;
/// A larger row is cut off.
const MAX_ROW: usize = 64 * 1024 * 1024 + 64 * 1024;

/// Called with a page and its number.
pub(super) type VisitPage<'v> = dyn FnMut(u32, &[u8]) -> rusqlite::Result<()> + 'v;

/// Read page by page; nothing is kept but where the pages are.
#[derive(Debug)]
pub(super) struct PageFile {
    file: File,
    log: Option<File>,
    /// Where in the log a page begins.
    in_log: BTreeMap<u32, u64>,
    /// What begins the log, and is another when it begins anew.
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
            // Only this does not fit its place.
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
        // Of the last page a part may be missing.
        let in_file = u32::try_from(n_bytes.div_ceil(n_bytes_of_page as u64)).unwrap_or(u32::MAX);
        // What is in the log is behind what is in the file, without a gap.
        let in_both = in_file.saturating_add(u32::try_from(in_log.len()).unwrap_or(u32::MAX));
        let in_log_too = in_log.last_key_value().map_or(in_file, |(last, _)| in_file.max(*last));
        let n_pages = in_log_too.min(in_both).min(MAX_PAGES);
        Ok(Self { file, log, in_log, log_header, n_bytes_of_page, n_pages })
    }

    /// As numbers: they count from 1.
    pub(super) fn n_pages(&self) -> u32 {
        self.n_pages
    }

    /// No database of Cursor's reserves a part of its pages.
    pub(super) fn usable(&self) -> usize {
        self.n_bytes_of_page
    }

    /// Reads a page into `page`. Fails for one that is not there; what is missing at the end of the file is zero.
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
                // As much as there is: `read_exact_at` says nothing of what it leaves when it fails.
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

    /// Calls `visit` with every page that is there, but for those `without`.
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

    /// The next page that has content: a file may have holes of any size.
    fn behind_hole(&self, number: u32) -> u32 {
        let n_bytes_of_page = self.n_bytes_of_page as u64;
        let in_file = match seek(&self.file, SeekFrom::Data(u64::from(number) * n_bytes_of_page)) {
            Ok(data) => {
                let found = u32::try_from(data / n_bytes_of_page).unwrap_or(u32::MAX);
                found.saturating_add(1).max(number + 1)
            }
            // There is nothing but a hole.
            Err(rustix::io::Errno::NXIO) => u32::MAX,
            // The file system cannot tell.
            Err(_) => number + 1,
        };
        let in_log = self.in_log.range(number + 1..).next();
        in_log.map_or(in_file, |(next, _)| in_file.min(*next))
    }

    /// Tells whether the log is still the one in which pages were found: it may have grown, which moves none of them.
    pub(super) fn has_same_log(&self) -> bool {
        self.log
            .as_ref()
            .is_none_or(|log| header_of(log).is_ok_and(|header| header == self.log_header))
    }

    /// The pages that nothing is on any more, as far as the list of them can be followed.
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

    /// Goes along the pages on which a row continues. Returns how many of its bytes are there, before the way leads to
    /// a page that cannot be, or that `is_free` does not give away.
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
            // It begins with the number of the next one, which is not so large that it could be taken for a page of a tree.
            let is_read = self.read_at(next, &mut bytes).is_ok();
            if !is_read || self.n_pages < 1 << 24 && matches!(bytes[0], 0x05 | 0x0a | 0x0d) {
                break;
            }
            n_there += (n_bytes - n_there).min(self.usable() - 4);
            next = u32::from_be_bytes(bytes);
        }
        n_there
    }

    /// The first bytes of a row, as many as are wanted of those that [`Self::follow`] found.
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
