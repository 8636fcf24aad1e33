//! Whether what was said in a turn explains its result, once that is known.
//!
//! While a stream runs, nobody can tell whether words that come again are said again or only shown again: after a lost
//! connection some agents repeat what they said, some go on where they were, and some begin anew; a segment may be
//! flushed twice, or as ever longer snapshots. The result tells. It is explained if every piece is found in it, touching
//! or overlapping what was said before, and nothing of it is left over:
//!
//! ```text
//!   result   A . B .        pieces   "A" "."   "A."      "B"   "B."
//!            ├─┤                      new       repeats   new   repeats and adds
//! ```
//!
//! Only what came before a lost connection may be missing from the result.

use memchr::memmem;

/// Pieces remembered of a turn. A turn of more is not explained, only compared.
const MOST_MARKS: usize = 1 << 20;
/// Ways to read a turn that are followed at once.
const MOST_READINGS: usize = 32;

/// What was said in a turn, piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Hindsight {
    text: String,
    marks: Vec<Mark>,
    /// More was said than is kept.
    overflowed: bool,
}

#[derive(Debug, Clone, Copy)]
enum Mark {
    /// So many bytes of `text`.
    Piece(usize),
    SegmentEnd,
    ConnectionLost,
}

impl Hindsight {
    /// Whether nothing was said.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.overflowed
    }

    /// Remembers a piece, unless that would be more than `ceiling` bytes in all.
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

    /// Whether the pieces, repetitions left out, make up the result. It may begin with that of the turn before, when no
    /// new run began in between.
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
                // What was under way may be gone, or all of the turn.
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

/// How far into the result one may be after one more piece.
fn reached_with(piece: &[u8], before: &[usize], result: &[u8]) -> Vec<usize> {
    let mut reached = Vec::new();
    for &place in before {
        // The likely ones first: all of it new, none of it new.
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
