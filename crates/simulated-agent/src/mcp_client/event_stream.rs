//! Server-sent events, as far as MCP has them: the data of each message.

/// Takes bytes as they come and gives whole messages.
///
/// **Invariant:** how the bytes are cut into pieces does not matter.
#[derive(Debug, Default)]
pub(super) struct EventStream {
    line: Vec<u8>,
    /// The data lines of the event that is under way.
    data: Option<Vec<u8>>,
    event: Vec<u8>,
    is_after_return: bool,
    has_begun: bool,
}

impl EventStream {
    /// The data of the messages that these bytes complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        for &byte in bytes {
            let is_after_return = std::mem::replace(&mut self.is_after_return, byte == b'\r');
            match byte {
                // The second half of a line's end.
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
            // Comments, and what a client needs that takes up a broken stream.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn messages(pieces: &[&[u8]]) -> Vec<String> {
        let mut stream = EventStream::default();
        let messages = pieces.iter().flat_map(|piece| stream.push(piece)).collect::<Vec<_>>();
        messages.into_iter().map(|message| String::from_utf8(message).unwrap()).collect()
    }

    #[test]
    fn a_message_is_its_data_lines_and_ends_with_an_empty_line() {
        let text = "\u{feff}data: {\n: comment\nid: 7\ndata:}\n\nevent: other\ndata: no\n\n\
                    event: message\r\ndata:  two\r\n\r\n\ndata\n\ndata: unfinished";
        assert_eq!(messages(&[text.as_bytes()]), ["{\n}", " two", ""]);
    }

    proptest! {
        #[test]
        fn how_the_bytes_arrive_does_not_matter(
            text in "(data|event|id)?:? ?[a-z\u{feff}]{0,3}(\r\n|\n|\r){0,3}((data: [a-z]{0,3}|:)(\r\n|\n|\r)){0,8}",
            cut in 0_usize..64,
        ) {
            let bytes = text.as_bytes();
            let (first, rest) = bytes.split_at(cut.min(bytes.len()));
            let singly: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(messages(&[first, rest]), messages(&[bytes]));
            prop_assert_eq!(messages(&singly), messages(&[bytes]));
        }

        #[test]
        fn what_was_sent_arrives(sent in proptest::collection::vec("[^\r\n]{0,12}", 0..6), end in "\r\n|\n|\r") {
            let text: String = sent.iter().map(|data| format!("data: {data}{end}{end}")).collect();
            prop_assert_eq!(messages(&[text.as_bytes()]), sent);
        }
    }
}
