//! Assembles the text of the answer, each piece once, from assistant events that repeat themselves.
//!
//! With `--stream-partial-output` the agent prints deltas, and then each segment again as a whole, before a tool call
//! and at the end. Without it, the agent prints segments only. A delta and a segment before an `interaction_query` have
//! the same envelope, so sometimes only the next event shows what an event was:
//!
//! ```text
//!   delta      seg ≠ text            ──► append
//!   delta      seg = text            ──► hold it: a repeated delta, or the segment again
//!     then a query or a tool call    ──► it was the segment: drop it
//!     then another delta             ──► it was a delta: append it
//!     then a flush                   ──► whichever of the two equals the flush
//!   flush      equals the segment    ──► nothing new
//!   flush      begins with it        ──► the rest is new
//!   flush      ends it               ──► nothing new: the beginning of the segment was not visible (thinking, an unseen call)
//!   flush      without deltas before ──► all of it is new
//!   flush      equals all text, or   ──► hold it: the older form that repeats the whole answer, a second flush, or the
//!              the flush just before     same words again
//!     then the result                ──► whichever of the two equals the result
//!   retry      in an open segment    ──► the agent may say it again: hold the text that repeats its beginning
//! ```
//!
//! `result.result` is authoritative: at the result, the reducer compares both texts. If they differ, [`Hindsight`]
//! checks whether repetitions that were not recognisable on arrival explain it. If not, the reducer reports the
//! difference.

use crate::event::{AgentEvent, AssistantForm, EventKind, ResultEvent};
use crate::lines::line_splitter::DEFAULT_LINE_CEILING;
use crate::text::hindsight::Hindsight;

/// How the agent was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextMode {
    /// Without `--stream-partial-output`: every assistant event is a whole segment.
    Segments,
    /// With it, or unknown: the reducer recognises repetitions.
    MayRepeat,
}

/// The result of the comparison at `result`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextVerdict {
    Agrees,
    /// The texts agree, except for repetitions that were not recognisable on arrival. The emitted text has them.
    AgreesButRepeats,
    /// The assembled text differs from the agent's own, which is in the result event.
    Differs {
        assembled: String,
    },
    /// There was nothing to compare: the result has no text, or only the text of an error.
    NoResultText,
    /// The text before the result was too long to keep.
    TooLong,
}

/// Assembles the text of one turn.
#[derive(Debug)]
pub struct TextReducer {
    mode: TextMode,
    /// All text of the turn so far, up to the ceiling.
    assembled: String,
    /// The start of the open segment in `assembled`.
    segment_start: usize,
    held: Held,
    /// True if the connection was lost since the open segment began: the agent may then repeat it.
    interrupted: bool,
    /// True if the last change to the text was a flush.
    just_flushed: bool,
    said: Hindsight,
    /// The previous result in the same run: the next result may include it.
    result_before: String,
    too_long: bool,
    ceiling: usize,
}

/// Text that is new or repeated: only the next events show which.
#[derive(Debug, Default, PartialEq, Eq)]
enum Held {
    #[default]
    Nothing,
    /// Text that so far repeats the beginning of the open segment.
    OfSegment(String),
    /// A flush that equals the whole answer so far, or the flush just before it.
    Flush(String),
}

impl TextReducer {
    pub fn new(mode: TextMode) -> Self {
        Self::with_ceiling(mode, DEFAULT_LINE_CEILING)
    }

    /// Keeps at most `ceiling` bytes of a turn. A result is never longer than a line, so more would be useless.
    pub fn with_ceiling(mode: TextMode, ceiling: usize) -> Self {
        Self {
            mode,
            assembled: String::new(),
            segment_start: 0,
            held: Held::Nothing,
            interrupted: false,
            just_flushed: false,
            said: Hindsight::default(),
            result_before: String::new(),
            too_long: false,
            ceiling,
        }
    }

    /// Takes the next event of the stream, and emits the text that it adds, in pieces. At a result it returns the
    /// verdict and is ready for another turn.
    pub fn observe(
        &mut self,
        event: &AgentEvent<'_>,
        emit: &mut dyn FnMut(&str),
    ) -> Option<TextVerdict> {
        match &event.kind {
            EventKind::Assistant { form, text, .. } => self.assistant(*form, text, emit),
            EventKind::ToolStarted(_) | EventKind::QueryRequest(_) => {
                self.take_held_flush(emit);
                self.held = Held::Nothing;
                self.close_segment();
                self.just_flushed = false;
                self.said.segment_ended();
            }
            EventKind::Retry { .. } | EventKind::Reconnecting { .. } => {
                self.take_held(emit);
                self.interrupted = true;
                self.said.connection_lost();
            }
            EventKind::Init { .. } => {
                self.take_held(emit);
                *self = Self::with_ceiling(self.mode, self.ceiling);
            }
            EventKind::Result(result) => return Some(self.finish(result, emit)),
            _ => {}
        }
        None
    }

    fn assistant(&mut self, form: AssistantForm, text: &str, emit: &mut dyn FnMut(&str)) {
        self.said.said(text, self.ceiling);
        match (self.mode, form) {
            (TextMode::Segments, _) => {
                self.append(text, emit);
                self.close_segment();
            }
            (TextMode::MayRepeat, AssistantForm::DeltaOrBeforeQuery) => {
                self.delta(text, emit);
                self.just_flushed = false;
            }
            (TextMode::MayRepeat, AssistantForm::BeforeTool | AssistantForm::Last) => {
                self.flush(text, emit);
                self.just_flushed = true;
                self.said.segment_ended();
            }
        }
    }

    /// Call this if the stream ends without a result. Emits the text that is still held.
    pub fn end(&mut self, emit: &mut dyn FnMut(&str)) {
        self.take_held(emit);
    }

    /// All text of the turn so far.
    pub fn assembled(&self) -> &str {
        &self.assembled
    }

    fn segment(&self) -> &str {
        &self.assembled[self.segment_start..]
    }

    fn delta(&mut self, text: &str, emit: &mut dyn FnMut(&str)) {
        self.take_held_flush(emit);
        if self.interrupted {
            return self.delta_after_interruption(text, emit);
        }
        self.take_held(emit);
        if !text.is_empty() && self.segment() == text {
            self.held = Held::OfSegment(text.to_owned());
        } else {
            self.append(text, emit);
        }
    }

    /// Drops the text that repeats the segment, and emits the text that goes beyond it.
    fn delta_after_interruption(&mut self, text: &str, emit: &mut dyn FnMut(&str)) {
        let mut said = match std::mem::take(&mut self.held) {
            Held::OfSegment(held) => held,
            Held::Nothing | Held::Flush(_) => String::new(),
        };
        said.push_str(text);
        let segment = self.segment();
        if !segment.is_empty() && segment.starts_with(&said) {
            self.held = Held::OfSegment(said);
            return;
        }
        let known = if said.starts_with(segment) { segment.len() } else { 0 };
        self.interrupted = false;
        self.append(&said[known..], emit);
    }

    fn flush(&mut self, text: &str, emit: &mut dyn FnMut(&str)) {
        self.take_held_flush(emit);
        if let Held::OfSegment(held) = std::mem::take(&mut self.held) {
            // If the flush has the held text after the segment, the held text was new.
            let rest = text.strip_prefix(self.segment());
            if rest.is_some_and(|rest| rest.starts_with(&held)) {
                self.append(&held, emit);
            }
        }
        let segment_length = self.segment().len();
        if segment_length > 0 && text.starts_with(self.segment()) {
            self.append(&text[segment_length..], emit);
        } else if self.repeats(text) {
            self.held = Held::Flush(text.to_owned());
        } else if segment_length > text.len() && self.segment().ends_with(text) {
            // Nothing new: the segment began earlier than the agent thinks.
        } else if segment_length > 0 && self.interrupted {
            // The flush is the segment as the agent knows it. The reducer cannot take back emitted text of the lost
            // segment.
            let common = common_prefix(self.segment(), text);
            self.assembled.truncate(self.segment_start + common);
            self.append(&text[common..], emit);
        } else {
            self.append(text, emit);
        }
        self.close_segment();
    }

    /// True if a flush may repeat the whole answer, or the flush just before it.
    fn repeats(&self, text: &str) -> bool {
        let again = self.just_flushed && self.assembled.ends_with(text);
        !text.is_empty() && (again || text == self.assembled)
    }

    fn finish(&mut self, event: &ResultEvent<'_>, emit: &mut dyn FnMut(&str)) -> TextVerdict {
        let result = event.text.as_deref();
        if let Held::OfSegment(held) | Held::Flush(held) = std::mem::take(&mut self.held) {
            let rest = result.and_then(|result| result.strip_prefix(&*self.assembled));
            if rest == Some(&*held) {
                self.append(&held, emit);
            }
        }
        let is_error = event.is_error == Some(true)
            || event.subtype.as_deref().is_some_and(|subtype| subtype.starts_with("error"));
        if let Some(result) = result
            && self.said.is_empty()
            && self.result_before.is_empty()
            && !is_error
        {
            // No other event has the answer.
            self.append(result, emit);
        }
        let done = std::mem::replace(self, Self::with_ceiling(self.mode, self.ceiling));
        let Some(result) = result else { return TextVerdict::NoResultText };
        if result.len() <= self.ceiling {
            result.clone_into(&mut self.result_before);
        }
        // A later result of the same run may begin with the previous result.
        let is_of_both = result.strip_prefix(&*done.result_before) == Some(&*done.assembled);
        if (result == done.assembled || is_of_both) && !done.too_long {
            TextVerdict::Agrees
        } else if is_error {
            // This text is an error message.
            TextVerdict::NoResultText
        } else if done.too_long {
            TextVerdict::TooLong
        } else if done.said.explains(result, &done.result_before) {
            TextVerdict::AgreesButRepeats
        } else {
            TextVerdict::Differs { assembled: done.assembled }
        }
    }

    /// Treats the held text as new.
    fn take_held(&mut self, emit: &mut dyn FnMut(&str)) {
        if let Held::OfSegment(held) | Held::Flush(held) = std::mem::take(&mut self.held) {
            self.append(&held, emit);
        }
    }

    /// Treats a held flush as a new segment. Called when anything but the result follows, so it was not the last
    /// segment.
    fn take_held_flush(&mut self, emit: &mut dyn FnMut(&str)) {
        if matches!(self.held, Held::Flush(_)) {
            self.take_held(emit);
            self.close_segment();
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

/// The number of bytes that both texts begin with, up to the end of a character.
fn common_prefix(one: &str, other: &str) -> usize {
    one.chars()
        .zip(other.chars())
        .take_while(|(one, other)| one == other)
        .map(|(one, _)| one.len_utf8())
        .sum()
}

#[cfg(test)]
#[path = "text_reducer_tests.rs"]
mod tests;
