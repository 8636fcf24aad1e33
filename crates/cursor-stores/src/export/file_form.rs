//! A conversation in its own file: one JSON object, or a line for each message.
//!
//! ```text
//! JSON    {"version":1, "head":{…}, …, "messages":[…]}      one conversation
//! JSONL   {"version":1, "lines":2, "head":{…}, …}           as many as you like, one after the other
//!         {"role":"user", …}
//!         {"role":"assistant", …}
//! ```

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, Read, Seek, Write};

use serde::Deserialize;
use serde::de::{self, Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value as Json};

use super::nesting::{Guarded, MAX_NESTING, is_too_deep};
use crate::model::{CONVERSATION_VERSION, Conversation, Damage, Head, Message};

/// The number of lines, each with a message, that follow the opening line.
pub(super) const LINES: &str = "lines";

/// Says why a file is not a conversation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportFileError {
    #[error("it is not an exported conversation")]
    NotAnExport(#[source] serde_json::Error),
    #[error("it has version {0}; only version {CONVERSATION_VERSION} is supported")]
    UnknownVersion(u64),
    #[error("its values are nested more than {MAX_NESTING} levels deep")]
    TooDeep,
    #[error("it cannot be read")]
    Read(#[from] io::Error),
}

/// Writes one JSON object, indented.
pub fn write_json(conversation: &Conversation, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, conversation)?;
    out.write_all(b"\n")
}

/// Writes an opening line and a line for each message. Several conversations may be written one after the other.
pub fn write_jsonl(mut conversation: Conversation, out: &mut dyn Write) -> io::Result<()> {
    let messages = std::mem::take(&mut conversation.messages);
    let mut opening = Map::new();
    if let Json::Object(mut fields) = serde_json::to_value(&conversation)? {
        fields.remove("messages");
        for (name, value) in fields {
            if name == "head" {
                // Inserted first, so that a reader of the head alone knows how many lines follow.
                opening.insert(LINES.to_owned(), messages.len().into());
            }
            opening.insert(name, value);
        }
    }
    serde_json::to_writer(&mut *out, &opening)?;
    out.write_all(b"\n")?;
    for message in &messages {
        serde_json::to_writer(&mut *out, message)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Returns the heads of all conversations in a file, and where each begins. Does not decode messages.
pub(super) fn read_heads<R: BufRead + Seek>(
    input: &mut R,
) -> Result<Vec<(u64, Head)>, ExportFileError> {
    let mut heads = Vec::new();
    loop {
        skip_blank(input)?;
        if input.fill_buf()?.is_empty() {
            return Ok(heads);
        }
        let begins_at = input.stream_position()?;
        let beginning = read_beginning(&mut *input)?;
        heads.push((begins_at, beginning.head));
        let Some(n_lines) = beginning.n_lines else { return Ok(heads) };
        // The rest of the opening line, and the messages.
        for _ in 0..=n_lines {
            if input.skip_until(b'\n')? == 0 {
                return Ok(heads);
            }
        }
    }
}

/// Reads the conversation that begins here.
pub(super) fn read_one(input: &mut dyn BufRead) -> Result<Vec<u8>, ExportFileError> {
    let mut bytes = Vec::new();
    input.read_until(b'\n', &mut bytes)?;
    // The first line of an indented object is not a complete opening line.
    match read_beginning(bytes.as_slice()) {
        Ok(Beginning { n_lines: Some(n_lines), .. }) => {
            for _ in 0..n_lines {
                if input.read_until(b'\n', &mut bytes)? == 0 {
                    break;
                }
            }
        }
        _ => {
            input.read_to_end(&mut bytes)?;
        }
    }
    Ok(bytes)
}

/// The bytes of one conversation in a file.
#[derive(Debug)]
pub(super) struct Filed<'a> {
    pub(super) id: String,
    pub(super) form: Form<'a>,
}

#[derive(Debug)]
pub(super) enum Form<'a> {
    Object(&'a [u8]),
    Lines {
        opening: &'a [u8],
        messages: Vec<&'a [u8]>,
        /// The expected number of messages.
        n_lines: u64,
    },
}

/// Finds the conversations in the bytes of a file.
pub(super) fn split(mut rest: &[u8]) -> Result<Vec<Filed<'_>>, ExportFileError> {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(found);
        }
        let beginning = read_beginning(rest)?;
        let id = beginning.head.id;
        let Some(n_lines) = beginning.n_lines else {
            found.push(Filed { id, form: Form::Object(rest) });
            return Ok(found);
        };
        let opening = take_line(&mut rest).unwrap_or_default();
        let messages = (0..n_lines).map_while(|_| take_line(&mut rest)).collect();
        found.push(Filed { id, form: Form::Lines { opening, messages, n_lines } });
    }
}

impl Form<'_> {
    /// Decodes the conversation. An unreadable line counts as damage and does not affect the others.
    pub(super) fn read(&self) -> Result<Conversation, ExportFileError> {
        match self {
            Self::Object(bytes) => parse(bytes),
            Self::Lines { opening, messages, n_lines } => {
                let mut fields: Map<String, Json> = parse(opening)?;
                fields.remove(LINES);
                fields.insert("messages".to_owned(), Json::Array(Vec::new()));
                let mut conversation: Conversation = serde_json::from_value(Json::Object(fields))
                    .map_err(ExportFileError::NotAnExport)?;
                for (number, line) in messages.iter().enumerate() {
                    match parse::<Message>(line) {
                        Ok(message) => conversation.messages.push(message),
                        Err(error) => conversation.damage.push(Damage::new(
                            format!("message {}", number + 1),
                            error.to_string(),
                        )),
                    }
                }
                let n_missing = n_lines.saturating_sub(messages.len() as u64);
                if n_missing > 0 {
                    let what = format!("the file ends before the last {n_missing} of its messages");
                    conversation.damage.push(Damage::new("messages", what));
                }
                Ok(conversation)
            }
        }
    }
}

pub(super) fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, ExportFileError> {
    if is_too_deep(json) {
        return Err(ExportFileError::TooDeep);
    }
    let mut decoder = serde_json::Deserializer::from_slice(json);
    // The default limit is the depth of a store's value. Here such a value is a few levels deeper.
    decoder.disable_recursion_limit();
    T::deserialize(&mut decoder)
        .and_then(|value| decoder.end().map(|()| value))
        .map_err(ExportFileError::NotAnExport)
}

/// The beginning of a conversation.
#[derive(Debug)]
struct Beginning {
    head: Head,
    /// The number of lines that follow, each with a message. `None` for a JSON object.
    n_lines: Option<u64>,
}

/// Reads just enough to get the head.
fn read_beginning(input: impl Read) -> Result<Beginning, ExportFileError> {
    let mut seen = Seen::default();
    let mut decoder = serde_json::Deserializer::from_reader(Guarded::new(input));
    decoder.disable_recursion_limit();
    let outcome = decoder.deserialize_map(UntilHead(&mut seen));
    match (seen, outcome) {
        (Seen { version: Some(version), .. }, _) if version != u64::from(CONVERSATION_VERSION) => {
            Err(ExportFileError::UnknownVersion(version))
        }
        (Seen { version: Some(_), head: Some(head), n_lines }, _) => {
            Ok(Beginning { head, n_lines })
        }
        (_, Err(error)) if error.is_io() => Err(ExportFileError::Read(error.into())),
        (_, Err(error)) => Err(ExportFileError::NotAnExport(error)),
        (_, Ok(())) => Err(ExportFileError::NotAnExport(de::Error::missing_field("head"))),
    }
}

#[derive(Debug, Default)]
struct Seen {
    version: Option<u64>,
    n_lines: Option<u64>,
    head: Option<Head>,
}

/// Records what it sees, and fails on purpose when it has seen enough. There is no other way to stop a decoder.
struct UntilHead<'a>(&'a mut Seen);

impl<'de> Visitor<'de> for UntilHead<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a conversation")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
            match name.as_ref() {
                "version" => self.0.version = Some(fields.next_value()?),
                LINES => self.0.n_lines = Some(fields.next_value()?),
                // In another version, the head may be anything.
                "head" if self.0.version.is_some_and(|v| v != u64::from(CONVERSATION_VERSION)) => {
                    fields.next_value::<IgnoredAny>()?;
                }
                "head" => self.0.head = Some(fields.next_value()?),
                _ => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
            if self.0.version.is_some() && self.0.head.is_some() {
                return Err(de::Error::custom("enough was read"));
            }
        }
        Ok(())
    }
}

fn take_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    if rest.is_empty() {
        return None;
    }
    let end = memchr::memchr(b'\n', rest);
    let (line, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
    *rest = after;
    Some(line)
}

fn skip_blank(input: &mut dyn BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let n_blank = buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if n_blank == 0 {
            return Ok(());
        }
        input.consume(n_blank);
    }
}
