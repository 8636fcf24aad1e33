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
//!   flush      ends it               ──► nothing new: the segment had no visible beginning (thinking, a call unseen)
//!   flush      without deltas before ──► all of it is new
//!   flush      equals all text, or   ──► hold it: the older form that repeats the whole answer, a second flush, or the
//!              the flush just before     same words again
//!     then the result                ──► whichever of the two equals the result
//!   retry      in an open segment    ──► the agent may say it again: what repeats its beginning is held
//! ```
//!
//! `result.result` is authoritative: at the result both texts are compared. Where they differ, [`Hindsight`] looks
//! whether repetitions explain it that could not be known for such when they came; if not, the difference is reported.

use crate::event::{AgentEvent, AssistantForm, EventKind, ResultEvent};
use crate::hindsight::Hindsight;
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
    /// They agree once repetitions are left out that could not be known for such when they came: the text as it was
    /// emitted has them.
    AgreesButRepeats,
    /// The assembled text differs from the agent's own; the agent's is in the result event.
    Differs {
        assembled: String,
    },
    /// There was nothing to compare: the result carries no text, or that of an error.
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
    held: Held,
    /// Whether the connection was lost since the open segment began: the agent may then say it again.
    interrupted: bool,
    /// Whether the last thing that happened to the text was a flush.
    just_flushed: bool,
    said: Hindsight,
    /// The result before this turn, while the same run goes on: a later one may include it.
    result_before: String,
    too_long: bool,
    ceiling: usize,
}

/// Text of which only the next events tell whether it is new.
#[derive(Debug, Default, PartialEq, Eq)]
enum Held {
    #[default]
    Nothing,
    /// Repeats the open segment from its beginning, so far.
    OfSegment(String),
    /// A flush that equals the whole answer so far, or the flush just before it.
    Flush(String),
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
            held: Held::Nothing,
            interrupted: false,
            just_flushed: false,
            said: Hindsight::default(),
            result_before: String::new(),
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

    /// To be called when the stream ends without a result: what is still held is all there will be.
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

    /// Swallows what says the segment again, and goes on where that goes beyond it.
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
            // "It was new" means that the flush has it behind the segment.
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
            // Nothing new. The segment began before the agent thinks it did.
        } else if segment_length > 0 && self.interrupted {
            // The flush is the segment as the agent means it; what was emitted of the lost one cannot be taken back.
            let common = common_prefix(self.segment(), text);
            self.assembled.truncate(self.segment_start + common);
            self.append(&text[common..], emit);
        } else {
            self.append(text, emit);
        }
        self.close_segment();
    }

    /// Whether a flush may be the whole answer, or the flush just before it, once more.
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
            // The one place where the answer is.
            self.append(result, emit);
        }
        let done = std::mem::replace(self, Self::with_ceiling(self.mode, self.ceiling));
        let Some(result) = result else { return TextVerdict::NoResultText };
        if result.len() <= self.ceiling {
            result.clone_into(&mut self.result_before);
        }
        // A later result of the same run may begin with the one before.
        let is_of_both = result.strip_prefix(&*done.result_before) == Some(&*done.assembled);
        if (result == done.assembled || is_of_both) && !done.too_long {
            TextVerdict::Agrees
        } else if is_error {
            // The text says what went wrong.
            TextVerdict::NoResultText
        } else if done.too_long {
            TextVerdict::TooLong
        } else if done.said.explains(result, &done.result_before) {
            TextVerdict::AgreesButRepeats
        } else {
            TextVerdict::Differs { assembled: done.assembled }
        }
    }

    /// Takes what is held for new.
    fn take_held(&mut self, emit: &mut dyn FnMut(&str)) {
        if let Held::OfSegment(held) | Held::Flush(held) = std::mem::take(&mut self.held) {
            self.append(&held, emit);
        }
    }

    /// A last segment that anything but the result follows was none.
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

/// Bytes that both begin with, up to a character's end.
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
