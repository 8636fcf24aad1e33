//! Reads a text transcript, one speech at a time.

use std::io::{self, Read};

use super::text_form::{Speaker, speaker_line};
use crate::lines::{Line, LineReader, MAX_LINE_BYTES};

/// The text of one speaker, up to the next.
pub(super) struct Speech {
    pub(super) speaker: Speaker,
    pub(super) body: String,
    /// The line where it begins.
    pub(super) line: u64,
    /// The speech was longer than the limit.
    pub(super) is_cut: bool,
}

/// Reads speeches from the beginning of a file.
pub(super) struct Speeches<R> {
    lines: LineReader<R>,
    next: Option<(Speaker, u64)>,
}

impl<R: Read> Speeches<R> {
    pub(super) fn new(lines: LineReader<R>) -> Self {
        Self { lines, next: Some((Speaker::Unnamed, 1)) }
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Speech>> {
        let Some((speaker, line)) = self.next.take() else { return Ok(None) };
        let mut body = Vec::new();
        let mut is_cut = false;
        while let Some(line) = self.lines.next()? {
            match line {
                Line::Whole { bytes, .. } => {
                    if let Some(speaker) = speaker_line(bytes) {
                        self.next = Some((speaker, self.lines.number));
                        break;
                    }
                    if body.len() + bytes.len() < MAX_LINE_BYTES {
                        body.extend_from_slice(bytes);
                        body.push(b'\n');
                    } else {
                        is_cut = true;
                    }
                }
                Line::TooLong => is_cut = true,
            }
        }
        let body = String::from_utf8(body)
            .unwrap_or_else(|err| String::from_utf8_lossy(err.as_bytes()).into_owned());
        Ok(Some(Speech { speaker, body, line, is_cut }))
    }
}
