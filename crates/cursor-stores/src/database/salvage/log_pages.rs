//! A database's log: the pages after each commit, one after the other.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::database::record_format::big_endian_32;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The last bit gives the byte order of the checksums.
const MAGIC: u32 = 0x377f_0682;

/// Reads the header of a log, if it has one.
pub(super) fn header_of(log: &File) -> io::Result<Vec<u8>> {
    let mut header = vec![0; HEADER];
    match log.read_exact_at(&mut header, 0) {
        Ok(()) => Ok(header),
        Err(err) if err.kind() == io::ErrorKind::UnexpectedEof => Ok(Vec::new()),
        Err(err) => Err(err),
    }
}

/// Finds the newest version of each page in the log. Like SQLite, stops at the first bad checksum and ignores
/// uncommitted pages.
pub(super) fn newest_pages(log: &File, n_bytes_of_page: usize) -> io::Result<BTreeMap<u32, u64>> {
    let mut newest = BTreeMap::new();
    let header = header_of(log)?;
    if header.is_empty() {
        return Ok(newest);
    }
    let magic = big_endian_32(&header, 0).unwrap_or_default();
    let page_size = big_endian_32(&header, 8).and_then(|size| usize::try_from(size).ok());
    let mut sum = Sum { is_big_endian: magic & 1 == 1, values: (0, 0) };
    sum.add(&header[..24]);
    if magic & !1 != MAGIC || page_size != Some(n_bytes_of_page) || !sum.is_at(&header, 24) {
        return Ok(newest);
    }
    let mut frame = vec![0; FRAME_HEADER + n_bytes_of_page];
    let mut at = HEADER as u64;
    let mut uncommitted = Vec::new();
    while log.read_exact_at(&mut frame, at).is_ok() {
        sum.add(&frame[..8]);
        sum.add(&frame[FRAME_HEADER..]);
        if frame[8..16] != header[16..24] || !sum.is_at(&frame, 16) {
            break;
        }
        let number = big_endian_32(&frame, 0).unwrap_or_default();
        uncommitted.push((number, at + FRAME_HEADER as u64));
        let is_commit = big_endian_32(&frame, 4).is_some_and(|n_pages| n_pages > 0);
        if is_commit {
            newest.extend(uncommitted.drain(..));
        }
        at += frame.len() as u64;
    }
    Ok(newest)
}

/// The checksum of everything so far.
struct Sum {
    is_big_endian: bool,
    values: (u32, u32),
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        let (mut one, mut other) = self.values;
        for pair in bytes.chunks_exact(8) {
            one = one.wrapping_add(self.word(pair, 0)).wrapping_add(other);
            other = other.wrapping_add(self.word(pair, 4)).wrapping_add(one);
        }
        self.values = (one, other);
    }

    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        let word = big_endian_32(bytes, at).unwrap_or_default();
        if self.is_big_endian { word } else { word.swap_bytes() }
    }

    /// True if the bytes at `at` are this checksum. Stored checksums are always big-endian.
    fn is_at(&self, bytes: &[u8], at: usize) -> bool {
        let said = (big_endian_32(bytes, at), big_endian_32(bytes, at + 4));
        said == (Some(self.values.0), Some(self.values.1))
    }
}
