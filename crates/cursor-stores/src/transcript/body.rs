//! Assembles the messages of a transcript from its lines.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::mem;

use super::files::Layout;
use super::json_line::{TranscriptLine, decode_line, state_of};
use super::speeches::Speeches;
use super::text_form::decode_speech;
use crate::lines::{Line, LineReader, MAX_LINE_BYTES, read_range};
use crate::model::{Damage, Message, MessageKind, Moment, Part, Role, Turn, TurnState};
use crate::spread_times::spread_times;

/// The size of the first window, read from the end. Later windows are larger.
const FIRST_WINDOW: u64 = 64 * 1024;
const MAX_WINDOW: u64 = 64 * 1024 * 1024;
/// Every line of a garbage file is broken.
const MAX_DAMAGE: usize = 100;
/// The damage in a line that is JSON except for some bytes.
const NOT_TEXT: &str = "has bytes that are not text";
/// How many damaged lines become messages.
pub(super) const MAX_DAMAGED_SHOWN: usize = 1_000;

/// The messages and turns read so far.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) messages: Vec<Message>,
    pub(super) turns: Vec<Turn>,
    pub(super) damage: Vec<Damage>,
    /// The last line, if it has no line feed and is not JSON.
    torn: Option<Vec<u8>>,
    n_damaged: usize,
    n_unnamed: u64,
}

/// Reads a whole file.
pub(super) fn read_whole(file: File, layout: &Layout, limit: u64) -> io::Result<Body> {
    let mut body = Body::default();
    let mut lines = LineReader::new(file.take(limit));
    if *layout == Layout::Text {
        let mut speeches = Speeches::new(lines);
        while let Some(speech) = speeches.next()? {
            if speech.is_cut {
                body.lose(format!("line {}", speech.line), "is too long and was cut off");
            }
            body.messages_of(decode_speech(speech.speaker, &speech.body));
        }
        return Ok(body);
    }
    while let Some(line) = lines.next()? {
        // The borrow of the line must end before its number is read.
        let lost = body.take_line(&line);
        if let Some(what) = lost {
            body.lose(format!("line {}", lines.number), what);
        }
    }
    Ok(body)
}

/// Reads the last `n_messages` of a JSONL file, without reading what comes before them.
pub(super) fn read_last(
    mut file: File,
    n_bytes: u64,
    n_messages: usize,
    until: Option<Moment>,
) -> io::Result<Body> {
    let mut window = FIRST_WINDOW;
    loop {
        let start = n_bytes.saturating_sub(window);
        let bytes = read_range(&mut file, start, window)?;
        let mut body = Body::default();
        // The first line is cut off, unless it is the first line of the file.
        let n_skipped = if start == 0 {
            0
        } else {
            memchr::memchr(b'\n', &bytes).map_or(bytes.len(), |at| at + 1)
        };
        let mut place = start + n_skipped as u64;
        let mut lines = LineReader::new(&bytes[n_skipped..]);
        while let Some(line) = lines.next()? {
            let length = match &line {
                Line::Whole { bytes, .. } => bytes.len() as u64 + 1,
                Line::TooLong => MAX_LINE_BYTES as u64,
            };
            if let Some(what) = body.take_line(&line) {
                body.lose(format!("the line at byte {place}"), what);
            }
            place += length;
        }
        let body = body.finish(until);
        if body.messages.len() >= n_messages || start == 0 || window >= MAX_WINDOW {
            return Ok(body.keep_last(n_messages));
        }
        window = (window * 4).min(MAX_WINDOW);
    }
}

impl Body {
    /// Takes one line, or says what is wrong with it.
    fn take_line(&mut self, line: &Line<'_>) -> Option<String> {
        let (bytes, is_terminated) = match line {
            Line::Whole { bytes, .. } if bytes.trim_ascii().is_empty() => return None,
            Line::Whole { bytes, is_terminated } => (bytes, is_terminated),
            Line::TooLong => return Some(format!("has more than {MAX_LINE_BYTES} bytes")),
        };
        let is_text = str::from_utf8(bytes).is_ok();
        match decode_line(bytes) {
            Ok(TranscriptLine::Message(message)) => {
                self.messages_of(Some(message));
                if !is_text {
                    return Some(NOT_TEXT.to_owned());
                }
            }
            Ok(TranscriptLine::TurnEnded { state, error }) => {
                if let Some(turn) = self.turns.last_mut() {
                    turn.state = state;
                    turn.error = error.or(turn.error.take());
                }
            }
            Err(_) if !is_terminated => {
                // Not a message: the writer may still complete the line.
                self.torn = Some(bytes.to_vec());
                return Some("is cut off: its writer has not finished, or was killed".to_owned());
            }
            Err(err) => {
                if self.n_damaged < MAX_DAMAGED_SHOWN {
                    self.n_damaged += 1;
                    self.messages_of(Some(damaged_message(bytes)));
                }
                return Some(format!("is not JSON: {err}"));
            }
        }
        None
    }

    /// Adds a message to its turn.
    fn messages_of(&mut self, message: Option<Message>) {
        let Some(mut message) = message else { return };
        match (message.role, message.kind) {
            (Role::User, MessageKind::Said) => {
                self.turns.push(Turn { started: message.at, ..Turn::default() });
            }
            // Context comes before its prompt.
            (Role::User, _) => {
                self.messages.push(message);
                return;
            }
            _ if self.turns.is_empty() => self.turns.push(Turn::default()),
            _ => {}
        }
        message.turn = Some(self.turns.len() - 1);
        let error = message.parts.iter().find_map(|part| match part {
            Part::Error { text } => Some(text.clone()),
            _ => None,
        });
        if let (Some(error), Some(turn)) = (error, self.turns.last_mut()) {
            turn.state = TurnState::Failed;
            turn.error = Some(error);
        }
        self.messages.push(message);
    }

    fn lose(&mut self, place: String, what: impl Into<String>) {
        if self.damage.len() < MAX_DAMAGE {
            self.damage.push(Damage::new(place, what));
        } else {
            self.n_unnamed += 1;
        }
    }

    /// Attaches results to their calls, and interpolates missing times.
    pub(super) fn finish(mut self, until: Option<Moment>) -> Self {
        join_results(&mut self.messages);
        spread_times(&mut self.messages, None, until.map(|until| until.at_ms));
        if let Some(turn) = self.turns.last_mut()
            && turn.state != TurnState::Unknown
        {
            turn.ended = until;
        }
        if self.n_unnamed > 0 {
            let n_unnamed = mem::take(&mut self.n_unnamed);
            self.damage.push(Damage::new(format!("{n_unnamed} more lines"), "are not JSON either"));
        }
        self
    }

    pub(super) fn keep_last(mut self, n_messages: usize) -> Self {
        let n_dropped = self.messages.len().saturating_sub(n_messages);
        self.messages.drain(..n_dropped);
        let n_turns = self.messages.iter().find_map(|message| message.turn);
        let n_turns = n_turns.unwrap_or(self.turns.len());
        self.turns.drain(..n_turns);
        for message in &mut self.messages {
            message.turn = message.turn.map(|turn| turn.saturating_sub(n_turns));
        }
        self
    }

    /// Adds the last line if it has no line feed.
    pub(super) fn add_torn(&mut self) {
        if let Some(bytes) = self.torn.take() {
            let message = damaged_message(&bytes);
            self.messages_of(Some(Message { kind: MessageKind::Orphan, ..message }));
        }
    }

    pub(super) fn n_said(&self) -> u64 {
        self.messages.iter().filter(|message| message.is_counted()).count() as u64
    }
}

fn damaged_message(bytes: &[u8]) -> Message {
    Message::new(Role::Unknown, vec![Part::damaged(bytes)])
}

/// The position of a part: the message, and the part in it.
type Place = (usize, usize);

/// Moves each result to its call: by id, or else by name and order. Removes messages that become empty.
fn join_results(messages: &mut Vec<Message>) {
    let mut by_id: HashMap<&str, Place> = HashMap::new();
    let mut by_name: HashMap<&str, VecDeque<Place>> = HashMap::new();
    let mut moves: Vec<(Place, Place)> = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        for (part_number, part) in message.parts.iter().enumerate() {
            let place = (number, part_number);
            match part {
                Part::ToolCall(call) => match &call.id {
                    Some(id) => drop(by_id.insert(id, place)),
                    None => by_name.entry(&call.name).or_default().push_back(place),
                },
                Part::ToolResult { call_id, tool_name, .. } => {
                    let call = match (call_id, tool_name) {
                        (Some(id), _) => by_id.remove(id.as_str()),
                        (None, Some(name)) => {
                            by_name.get_mut(name.as_str()).and_then(VecDeque::pop_front)
                        }
                        (None, None) => None,
                    };
                    moves.extend(call.map(|call| (place, call)));
                }
                _ => {}
            }
        }
    }
    for ((from, from_part), (to, to_part)) in &moves {
        let taken = mem::replace(&mut messages[*from].parts[*from_part], Part::text(""));
        let Part::ToolResult { call_id, result, .. } = taken else { continue };
        if let Part::ToolCall(call) = &mut messages[*to].parts[*to_part] {
            // Text transcripts have no ids, and do not mark failures.
            if call_id.is_some() {
                call.state = state_of(&result);
            }
            call.result = Some(result);
        }
    }
    // Backwards, so that earlier positions stay valid.
    for ((from, from_part), _) in moves.into_iter().rev() {
        messages[from].parts.remove(from_part);
        if messages[from].parts.is_empty() {
            messages.remove(from);
        }
    }
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
