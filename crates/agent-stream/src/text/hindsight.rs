//! Decides whether the pieces of a turn explain its result, once the result is known.
//!
//! While a stream runs, we cannot tell whether the agent says words again or only prints them again: after a lost
//! connection some agents repeat their words, some continue, and some start over. An agent may print a segment twice,
//! or as ever longer snapshots. The result shows which it was. The pieces explain the result if each piece is part of
//! it, touches or overlaps the earlier pieces, and together they cover the whole result:
//!
//! ```text
//!   result   A . B .        pieces   "A" "."   "A."      "B"   "B."
//!            ├─┤                      new       repeats   new   repeats and adds
//! ```
//!
//! Only pieces from before a lost connection may be missing from the result.

use memchr::memmem;

/// The most pieces of a turn to keep. Without all pieces, the texts can only be compared.
const MOST_MARKS: usize = 1 << 20;
/// The most readings of a turn to follow at once.
const MOST_READINGS: usize = 32;

/// The pieces of a turn.
#[derive(Debug, Default)]
pub(crate) struct Hindsight {
    text: String,
    marks: Vec<Mark>,
    /// True if there were too many pieces, or they were too long. Then none is kept.
    overflowed: bool,
}

#[derive(Debug, Clone, Copy)]
enum Mark {
    /// The length of a piece of `text`, in bytes.
    Piece(usize),
    SegmentEnd,
    ConnectionLost,
}

impl Hindsight {
    /// True if no piece has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.overflowed
    }

    /// Keeps a piece, unless the pieces together would exceed `ceiling` bytes.
    pub(crate) fn said(&mut self, piece: &str, ceiling: usize) {
        if piece.is_empty() || self.overflowed {
            return;
        }
        if self.text.len() + piece.len() > ceiling {
            *self = Self { overflowed: true, ..Self::default() };
            return;
        }
        self.text.push_str(piece);
        self.mark(Mark::Piece(piece.len()));
    }

    pub(crate) fn segment_ended(&mut self) {
        if matches!(self.marks.last(), Some(Mark::Piece(_))) {
            self.mark(Mark::SegmentEnd);
        }
    }

    pub(crate) fn connection_lost(&mut self) {
        if matches!(self.marks.last(), Some(Mark::Piece(_) | Mark::SegmentEnd)) {
            self.mark(Mark::ConnectionLost);
        }
    }

    fn mark(&mut self, mark: Mark) {
        if self.marks.len() == MOST_MARKS {
            *self = Self { overflowed: true, ..Self::default() };
        } else if !self.overflowed {
            self.marks.push(mark);
        }
    }

    /// True if the pieces, without repetitions, make up the result. The result may begin with the result of the
    /// previous turn, if no new run began in between.
    pub(crate) fn explains(&self, result: &str, result_before: &str) -> bool {
        if self.overflowed {
            return false;
        }
        let result = result.as_bytes();
        let mut starts = vec![0];
        if !result_before.is_empty() && result.starts_with(result_before.as_bytes()) {
            starts.push(result_before.len());
        }
        let mut segment = starts.clone();
        let mut reached = starts.clone();
        let mut rest = self.text.as_bytes();
        for mark in &self.marks {
            match *mark {
                Mark::Piece(length) => {
                    let (piece, after) = rest.split_at(length);
                    rest = after;
                    reached = reached_with(piece, &reached, result);
                }
                Mark::SegmentEnd => segment.clone_from(&reached),
                // The open segment or the whole turn may be missing from the result.
                Mark::ConnectionLost => {
                    for place in segment.iter().chain(&starts) {
                        add(&mut reached, *place);
                    }
                }
            }
        }
        reached.contains(&result.len())
    }
}

/// The positions in the result that are possible after one more piece.
fn reached_with(piece: &[u8], before: &[usize], result: &[u8]) -> Vec<usize> {
    let mut reached = Vec::new();
    for &place in before {
        // The likely cases first: the whole piece is new, or none of it.
        if result[place..].starts_with(piece) {
            add(&mut reached, place + piece.len());
        }
        if result[..place].ends_with(piece) {
            add(&mut reached, place);
        }
        let end = (place + piece.len()).min(result.len());
        let mut from = place.saturating_sub(piece.len());
        while reached.len() < MOST_READINGS
            && let Some(found) = memmem::find(&result[from..end], piece)
        {
            add(&mut reached, from + found + piece.len());
            from += found + 1;
        }
    }
    reached
}

fn add(places: &mut Vec<usize>, place: usize) {
    if places.len() < MOST_READINGS && !places.contains(&place) {
        places.push(place);
    }
}

#[cfg(test)]
#[path = "hindsight_tests.rs"]
mod tests;
