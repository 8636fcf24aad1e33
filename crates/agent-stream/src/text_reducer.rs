//! The answer's text, each piece once, out of assistant events that repeat themselves.
//!
//! With `--stream-partial-output` the agent prints deltas, and then each segment once more, whole, before a tool call
//! and at the end. Without it, it prints segments only. A delta and a segment before an `interaction_query` have the
//! same envelope, so what an event was is sometimes known only from what follows it:
//!
//! ```text
//!   delta      seg ≠ text            ──► append
//!   delta      seg = text            ──► hold it: a repeated delta, or the segment once more
//!     then a query or a tool call    ──► it was the segment: drop it
//!     then another delta             ──► it was a delta: append it
//!     then a flush                   ──► whichever of the two equals the flush
//!   flush      equals the segment    ──► nothing new
//!   flush      begins with it        ──► the rest is new
//!   flush      without deltas before ──► all of it is new
//! ```
//!
//! `result.result` is authoritative: at the result both texts are compared, and a difference is reported.

use crate::event::{AgentEvent, AssistantForm, EventKind};
use crate::line_splitter::DEFAULT_LINE_CEILING;

/// What is known beforehand about how the agent was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextMode {
    /// Without `--stream-partial-output`: every assistant event is a whole segment.
    Segments,
    /// With it, or not known: repetitions are recognised.
    MayRepeat,
}

/// What the comparison at `result` found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextVerdict {
    Agrees,
    /// The assembled text differs from the agent's own; the agent's is in the result event.
    Differs {
        assembled: String,
    },
    /// There was nothing to compare: the result carries no text.
    NoResultText,
    /// More text than is kept came before the result.
    TooLong,
}

/// Assembles the text of one turn.
#[derive(Debug)]
pub struct TextReducer {
    mode: TextMode,
    /// All text of the turn so far, up to the ceiling.
    assembled: String,
    /// Where the open segment begins in `assembled`.
    segment_start: usize,
    /// A delta that equals the open segment and may be its repetition.
    held: Option<String>,
    /// Whether an event of this turn was recognised as repeating deltas, so that the old form, in which the last event
    /// repeats the whole answer, is possible.
    saw_deltas: bool,
    /// Whether the connection was lost since the open segment began: the agent then says the segment again.
    interrupted: bool,
    too_long: bool,
    ceiling: usize,
}

impl TextReducer {
    pub fn new(mode: TextMode) -> Self {
        Self::with_ceiling(mode, DEFAULT_LINE_CEILING)
    }

    /// Keeps at most `ceiling` bytes of a turn. A result cannot be longer than a line, so no more is of use.
    pub fn with_ceiling(mode: TextMode, ceiling: usize) -> Self {
        Self {
            mode,
            assembled: String::new(),
            segment_start: 0,
            held: None,
            saw_deltas: false,
            interrupted: false,
            too_long: false,
            ceiling,
        }
    }

    /// Takes the next event of the stream and emits what text it adds, in pieces. At a result the verdict is returned
    /// and the reducer is ready for another turn.
    pub fn observe(
        &mut self,
        event: &AgentEvent<'_>,
        emit: &mut dyn FnMut(&str),
    ) -> Option<TextVerdict> {
        match &event.kind {
            EventKind::Assistant { text, .. } if self.mode == TextMode::Segments => {
                self.append(text, emit);
                self.close_segment();
            }
            EventKind::Assistant { form: AssistantForm::DeltaOrBeforeQuery, text, .. } => {
                self.delta(text, emit);
            }
            EventKind::Assistant { text, .. } => self.flush(text, emit),
            EventKind::ToolStarted(_) | EventKind::QueryRequest(_) => {
                self.held = None;
                self.close_segment();
            }
            EventKind::Retry { .. } | EventKind::Reconnecting { .. } => self.interrupted = true,
            EventKind::Init { .. } => *self = Self::with_ceiling(self.mode, self.ceiling),
            EventKind::Result(result) => return Some(self.finish(result.text.as_deref(), emit)),
            _ => {}
        }
        None
    }

    /// All text of the turn so far.
    pub fn assembled(&self) -> &str {
        &self.assembled
    }

    fn segment(&self) -> &str {
        &self.assembled[self.segment_start..]
    }

    fn delta(&mut self, text: &str, emit: &mut dyn FnMut(&str)) {
        if let Some(held) = self.held.take() {
            self.append(&held, emit);
        }
        if !text.is_empty() && self.segment() == text {
            self.held = Some(text.to_owned());
        } else {
            self.append(text, emit);
        }
    }

    fn flush(&mut self, text: &str, emit: &mut dyn FnMut(&str)) {
        if let Some(held) = self.held.take() {
            // Held text equals the segment, so "it was a delta" means that the flush has it twice.
            if text.len() > held.len() && text.starts_with(&held) {
                self.append(&held, emit);
            }
        }
        let segment_length = self.segment().len();
        if segment_length > 0 && text.starts_with(self.segment()) {
            self.saw_deltas = true;
            self.append(&text[segment_length..], emit);
        } else if self.saw_deltas && text == self.assembled {
            // The older form: the last event repeats the whole answer.
        } else if segment_length > 0 && self.interrupted {
            self.assembled.truncate(self.segment_start);
            self.append(text, emit);
        } else if segment_length > 0 && text == self.assembled {
            self.saw_deltas = true;
        } else {
            self.append(text, emit);
        }
        self.close_segment();
    }

    fn finish(&mut self, result: Option<&str>, emit: &mut dyn FnMut(&str)) -> TextVerdict {
        if let Some(held) = self.held.take() {
            let with_held = self.assembled.len() + held.len();
            if result.is_some_and(|result| result.len() == with_held && result.ends_with(&held)) {
                self.append(&held, emit);
            }
        }
        let done = std::mem::replace(self, Self::with_ceiling(self.mode, self.ceiling));
        match result {
            None => TextVerdict::NoResultText,
            Some(_) if done.too_long => TextVerdict::TooLong,
            Some(result) if result == done.assembled => TextVerdict::Agrees,
            Some(_) => TextVerdict::Differs { assembled: done.assembled },
        }
    }

    fn append(&mut self, text: &str, emit: &mut dyn FnMut(&str)) {
        if text.is_empty() {
            return;
        }
        emit(text);
        if self.assembled.len() + text.len() > self.ceiling {
            self.too_long = true;
            self.assembled.clear();
            self.segment_start = 0;
        }
        if text.len() <= self.ceiling {
            self.assembled.push_str(text);
        }
    }

    fn close_segment(&mut self) {
        self.segment_start = self.assembled.len();
        self.interrupted = false;
    }
}

#[cfg(test)]
#[path = "text_reducer_tests.rs"]
mod tests;
