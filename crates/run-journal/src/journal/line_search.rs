//! Finding lines in a journal without reading all of it.
//!
//! Numbers only grow from line to line, so a binary search finds a line.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use memchr::{memchr, memrchr, memrchr_iter};

use crate::EventNumber;
use crate::journal::line_parsing::{
    HEAD_LENGTH, Line, LineHead, is_header, parse_head, parse_line,
};

const CHUNK: u64 = 64 * 1024;
/// A header is a short line, even in newer versions.
pub(crate) const HEADER_LENGTH: usize = 4096;
/// A damaged disk may leave this many unreadable lines. A file with more of them is not a journal.
const UNREADABLE_LINES_PASSED: usize = 1000;

/// Returns where the last whole line before `length` ends: after its line feed, or at 0.
pub(crate) fn end_of_whole_lines(file: &File, length: u64) -> io::Result<u64> {
    let mut end = length;
    let mut chunk = vec![0; CHUNK as usize];
    while end > 0 {
        let start = end.saturating_sub(CHUNK);
        let piece = read_piece(file, &mut chunk, start, end)?;
        if let Some(position) = memrchr(b'\n', piece) {
            return Ok(start + position as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Returns the start of the line whose line feed is right before `line_end`.
pub(crate) fn start_of_line(file: &File, line_end: u64) -> io::Result<u64> {
    end_of_whole_lines(file, line_end.saturating_sub(1))
}

/// Returns the start of the first line after `from` and not after `end`.
pub(crate) fn next_line(file: &File, from: u64, end: u64) -> io::Result<Option<u64>> {
    let mut start = from;
    let mut chunk = vec![0; CHUNK as usize];
    while start < end {
        let piece = read_piece(file, &mut chunk, start, end.min(start + CHUNK))?;
        if let Some(position) = memchr(b'\n', piece) {
            return Ok(Some(start + position as u64 + 1));
        }
        if piece.is_empty() {
            break;
        }
        start += piece.len() as u64;
    }
    Ok(None)
}

/// Returns the head of the line that starts at `start`; `None` if it is not a numbered line.
pub(crate) fn head_at(file: &File, start: u64) -> io::Result<Option<LineHead>> {
    let mut buffer = [0; HEAD_LENGTH];
    Ok(parse_head(beginning_of_line(file, &mut buffer, start)?))
}

/// Reads as much of the line that starts at `start` as fits into `buffer`.
pub(crate) fn beginning_of_line<'b>(
    file: &File,
    buffer: &'b mut [u8],
    start: u64,
) -> io::Result<&'b [u8]> {
    let end = start + buffer.len() as u64;
    let piece = read_piece(file, buffer, start, end)?;
    Ok(memchr(b'\n', piece).map_or(piece, |line_end| &piece[..line_end]))
}

/// Returns the number of the last event before `end`, and the last epoch that a writer began. `end` is the end of a
/// line.
pub(crate) fn last_number(file: &File, end: u64) -> io::Result<EventNumber> {
    let mut epoch = EventNumber::FIRST_EPOCH;
    let mut line_end = end;
    for _ in 0..UNREADABLE_LINES_PASSED {
        if line_end == 0 {
            return Ok(EventNumber { epoch, seq: 0 });
        }
        let start = start_of_line(file, line_end)?;
        let mut buffer = [0; HEADER_LENGTH];
        let line = beginning_of_line(file, &mut buffer, start)?;
        if let Some(LineHead { number, .. }) = parse_head(line) {
            return Ok(EventNumber { epoch: epoch.max(number.epoch), ..number });
        }
        if let Line::Header(header) = parse_line(line) {
            epoch = epoch.max(header.epoch);
        }
        line_end = start;
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the journal's last lines are not events"))
}

/// Returns the start of a line at or shortly before the first event after `number`.
pub(crate) fn near_number(file: &File, end: u64, number: EventNumber) -> io::Result<u64> {
    // No line before `low` has a greater number; every numbered line from `high` on has one.
    let (mut low, mut high) = (0, end);
    while high - low > CHUNK {
        let middle = low + (high - low) / 2;
        match first_numbered(file, middle, high)? {
            Some((start, head)) if head.number <= number => low = start,
            _ => high = middle,
        }
    }
    Ok(low)
}

fn first_numbered(file: &File, from: u64, end: u64) -> io::Result<Option<(u64, LineHead)>> {
    let mut start = next_line(file, from, end)?;
    while let Some(line_start) = start.filter(|start| *start < end) {
        if let Some(head) = head_at(file, line_start)? {
            return Ok(Some((line_start, head)));
        }
        start = next_line(file, line_start, end)?;
    }
    Ok(None)
}

/// Returns the start of the last `n_lines` lines before `end`, not counting headers.
pub(crate) fn start_of_tail(file: &File, end: u64, n_lines: u64) -> io::Result<u64> {
    if n_lines == 0 {
        return Ok(end);
    }
    let mut n_found = 0;
    let mut chunk = vec![0; CHUNK as usize];
    // No line begins after the line feed right before `end`.
    let mut piece_end = end.saturating_sub(1);
    while piece_end > 0 {
        let piece_start = piece_end.saturating_sub(CHUNK);
        let piece = read_piece(file, &mut chunk, piece_start, piece_end)?;
        for position in memrchr_iter(b'\n', piece) {
            let line_start = piece_start + position as u64 + 1;
            n_found += u64::from(!is_header_at(file, line_start)?);
            if n_found == n_lines {
                return Ok(line_start);
            }
        }
        piece_end = piece_start;
    }
    Ok(0)
}

fn is_header_at(file: &File, start: u64) -> io::Result<bool> {
    let mut head = [0; 16];
    Ok(is_header(read_piece(file, &mut head, start, start + 16)?))
}

/// Reads the bytes between two offsets, but no more than fit into `buffer`.
pub(crate) fn read_piece<'b>(
    file: &File,
    buffer: &'b mut [u8],
    start: u64,
    end: u64,
) -> io::Result<&'b [u8]> {
    let wanted = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX).min(buffer.len());
    let mut filled = 0;
    while filled < wanted {
        match file.read_at(&mut buffer[filled..wanted], start + filled as u64) {
            Ok(0) => break,
            Ok(n_bytes) => filled += n_bytes,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err),
        }
    }
    Ok(&buffer[..filled])
}
