//! Cuts a stream of chunks into lines, and borrows from the chunk if it contains the whole line.

use sha2::{Digest, Sha256};

/// The longest line that is not cut off: an edit carries two full copies of its file, so megabytes are normal.
pub const DEFAULT_LINE_CEILING: usize = 16 * 1024 * 1024;

/// How much of a longer line is kept: enough to recognise it.
const HEAD_OF_OVERSIZED: usize = 64 * 1024;

/// One line of output, without its line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawLine<'a> {
    Whole(&'a [u8]),
    /// The last line, if the stream ended without a line feed.
    Unterminated(&'a [u8]),
    /// A line over the ceiling: its beginning, its length, and the SHA-256 of the whole line.
    Oversized {
        head: &'a [u8],
        length: u64,
        sha256: [u8; 32],
    },
}

impl<'a> RawLine<'a> {
    /// The bytes that were kept.
    pub fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Whole(bytes) | Self::Unterminated(bytes) => bytes,
            Self::Oversized { head, .. } => head,
        }
    }
}

/// Splits at line feeds, wherever the chunks end.
///
/// ```text
///   feed("ab\ncd")  -> Whole("ab")            carries "cd"
///   feed("ef\n")    -> Whole("cdef")
///   finish()        -> nothing, or Unterminated(rest)
/// ```
#[derive(Debug)]
pub struct LineSplitter {
    ceiling: usize,
    /// The beginning of a line whose end has not arrived yet.
    carry: Vec<u8>,
    /// Set while the current line is over the ceiling. `carry` then holds its beginning.
    overflow: Option<Overflow>,
}

#[derive(Debug)]
struct Overflow {
    length: u64,
    hasher: Sha256,
}

impl Default for LineSplitter {
    fn default() -> Self {
        Self::with_ceiling(DEFAULT_LINE_CEILING)
    }
}

impl LineSplitter {
    /// A splitter that cuts off only lines longer than `ceiling` bytes.
    pub fn with_ceiling(ceiling: usize) -> Self {
        Self { ceiling, carry: Vec::new(), overflow: None }
    }

    /// Takes the next chunk, and passes on every line that ends in it.
    pub fn feed(&mut self, chunk: &[u8], mut on_line: impl FnMut(RawLine<'_>)) {
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (piece, after) = (&rest[..end], &rest[end + 1..]);
            rest = after;
            if self.carry.is_empty() && self.overflow.is_none() && piece.len() <= self.ceiling {
                on_line(RawLine::Whole(piece));
            } else {
                self.keep(piece);
                self.hand_on(Ending::LineFeed, &mut on_line);
            }
        }
        if !rest.is_empty() {
            self.keep(rest);
        }
    }

    /// Passes on the rest when the stream has ended.
    pub fn finish(&mut self, mut on_line: impl FnMut(RawLine<'_>)) {
        if !self.carry.is_empty() || self.overflow.is_some() {
            self.hand_on(Ending::EndOfStream, &mut on_line);
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        if let Some(overflow) = &mut self.overflow {
            overflow.length += piece.len() as u64;
            overflow.hasher.update(piece);
        } else if self.carry.len() + piece.len() <= self.ceiling {
            self.carry.extend_from_slice(piece);
        } else {
            let mut hasher = Sha256::new();
            hasher.update(&self.carry);
            hasher.update(piece);
            let length = (self.carry.len() + piece.len()) as u64;
            let head = HEAD_OF_OVERSIZED.min(self.ceiling);
            if self.carry.len() < head {
                let wanted = (head - self.carry.len()).min(piece.len());
                self.carry.extend_from_slice(&piece[..wanted]);
            }
            self.carry.truncate(head);
            self.carry.shrink_to(head);
            self.overflow = Some(Overflow { length, hasher });
        }
    }

    fn hand_on(&mut self, ending: Ending, on_line: &mut impl FnMut(RawLine<'_>)) {
        match (self.overflow.take(), ending) {
            (Some(Overflow { length, hasher }), _) => {
                let sha256 = hasher.finalize().into();
                on_line(RawLine::Oversized { head: &self.carry, length, sha256 });
            }
            (None, Ending::LineFeed) => on_line(RawLine::Whole(&self.carry)),
            (None, Ending::EndOfStream) => on_line(RawLine::Unterminated(&self.carry)),
        }
        self.carry.clear();
        // One long line must not keep its memory for the rest of the run.
        self.carry.shrink_to(HEAD_OF_OVERSIZED);
    }
}

#[derive(Clone, Copy)]
enum Ending {
    LineFeed,
    EndOfStream,
}

#[cfg(test)]
#[path = "line_splitter_tests.rs"]
mod tests;
