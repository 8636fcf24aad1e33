//! Server-sent events, as far as MCP uses them: the data of each message.

/// Takes bytes as they arrive and returns whole messages.
///
/// **Invariant:** the result does not depend on how the bytes are split into pieces.
#[derive(Debug, Default)]
pub(super) struct EventStream {
    line: Vec<u8>,
    /// The data lines of the current event.
    data: Option<Vec<u8>>,
    event: Vec<u8>,
    is_after_return: bool,
    has_begun: bool,
}

impl EventStream {
    /// Returns the data of the messages that these bytes complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        for &byte in bytes {
            let is_after_return = std::mem::replace(&mut self.is_after_return, byte == b'\r');
            match byte {
                // The second half of a CRLF.
                b'\n' if is_after_return => {}
                b'\n' | b'\r' => messages.extend(self.end_line()),
                byte => self.line.push(byte),
            }
        }
        messages
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        let mark = if self.has_begun { None } else { line.strip_prefix("\u{feff}".as_bytes()) };
        self.has_begun = true;
        let line = mark.unwrap_or(&line);
        if line.is_empty() {
            let (data, event) = (self.data.take(), std::mem::take(&mut self.event));
            return data.filter(|_| event.is_empty() || event == b"message");
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match (field, &mut self.data) {
            (b"data", Some(data)) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            (b"data", none) => *none = Some(value.to_vec()),
            (b"event", _) => self.event = value.to_vec(),
            // Ignore comments, and the fields with which a client resumes a broken stream.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
#[path = "event_stream_tests.rs"]
mod tests;
