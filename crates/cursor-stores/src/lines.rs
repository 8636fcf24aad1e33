//! Reads a file line by line while another process writes it. Every line has a size limit.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

/// The usual limit. A reader skips a longer line and reports it.
pub(crate) const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
const BLOCK_BYTES: usize = 64 * 1024;

/// One line, without its line feed.
pub(crate) enum Line<'a> {
    Whole {
        bytes: &'a [u8],
        /// False for the last line if its writer is still writing it, or was killed.
        is_terminated: bool,
    },
    TooLong,
}

/// Reads lines from the beginning of a file.
pub(crate) struct LineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    limit: usize,
    /// The number of the last line read, from 1.
    pub(crate) number: u64,
}

impl<R: Read> LineReader<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self::with_limit(reader, MAX_LINE_BYTES)
    }

    pub(crate) fn with_limit(reader: R, limit: usize) -> Self {
        let reader = BufReader::with_capacity(BLOCK_BYTES, reader);
        Self { reader, line: Vec::new(), limit, number: 0 }
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let (mut n_bytes, mut is_terminated) = (0_usize, false);
        while !is_terminated {
            let block = self.reader.fill_buf()?;
            if block.is_empty() {
                break;
            }
            let end = memchr::memchr(b'\n', block);
            is_terminated = end.is_some();
            let piece = &block[..end.unwrap_or(block.len())];
            n_bytes = n_bytes.saturating_add(piece.len());
            if n_bytes <= self.limit {
                self.line.extend_from_slice(piece);
            }
            let n_used = piece.len() + usize::from(is_terminated);
            self.reader.consume(n_used);
        }
        if n_bytes == 0 && !is_terminated {
            return Ok(None);
        }
        self.number += 1;
        if n_bytes > self.limit {
            // One hostile line must not keep its memory allocated for the rest of the file.
            self.line = Vec::new();
            return Ok(Some(Line::TooLong));
        }
        let bytes = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        Ok(Some(Line::Whole { bytes, is_terminated }))
    }
}

/// Reads up to `limit` bytes from `start`.
pub(crate) fn read_range(file: &mut File, start: u64, limit: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8]) -> Vec<Option<(Vec<u8>, bool)>> {
        let mut reader = LineReader::new(bytes);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().unwrap() {
            lines.push(match line {
                Line::Whole { bytes, is_terminated } => Some((bytes.to_vec(), is_terminated)),
                Line::TooLong => None,
            });
        }
        lines
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_and_the_next_is_read() {
        let mut bytes = vec![b'x'; MAX_LINE_BYTES + 1];
        bytes.extend_from_slice(b"\nnext\r\n\nlast");
        assert_eq!(
            all(&bytes),
            [
                None,
                Some((b"next".to_vec(), true)),
                Some((Vec::new(), true)),
                Some((b"last".to_vec(), false))
            ]
        );
    }

    proptest! {
        #[test]
        fn lines_joined_with_their_ends_give_the_original_text(text in "[a\n]{0,40}") {
            let lines = all(text.as_bytes());
            let joined: Vec<u8> = lines.iter().flatten().flat_map(|(line, is_terminated)| {
                let end: &[u8] = if *is_terminated { b"\n" } else { b"" };
                [line.as_slice(), end].concat()
            }).collect();
            prop_assert_eq!(joined, text.as_bytes());
        }
    }
}
