//! Text in blobs that a damaged store no longer leads to. The kind of such a blob is unknown, because the blob that
//! referred to it is lost.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::conversation::Reading;
use crate::catalogue::said_already::SaidAlready;
use crate::chat::store::{Blobs, Rows, reach};
use crate::model::{Message, MessageKind, Part, Role};

/// Shorter texts are names and ids.
const SHORTEST: usize = 16;
const MAX_TEXTS: usize = 10_000;

/// Adds the texts at the end of a conversation, in the order they were written. Leaves out texts that the conversation
/// already has.
pub(crate) fn add_left_over(blobs: &Blobs<'_>, reading: &mut Reading) -> rusqlite::Result<()> {
    let reached = match &reading.state {
        Some(state) => reach(blobs, state)?,
        None => HashMap::new(),
    };
    let mut said = SaidAlready::by(&reading.conversation.messages);
    let mut left: Vec<Message> = Vec::new();
    blobs.scan(Rows::ALL, &mut |id, data| {
        let is_known = reading.sources.contains_key(&id) || reached.contains_key(&id);
        // JSON messages are shown as orphans instead.
        if is_known || data.first() == Some(&b'{') || reading.root_id == Some(id) {
            return ControlFlow::Continue(());
        }
        for text in texts_in(data) {
            let message = Message::new(Role::Unknown, vec![Part::text(text.as_str())]);
            if !said.has(&message) {
                said.add(&message);
                left.push(Message {
                    id: Some(id.to_string()),
                    kind: MessageKind::Orphan,
                    ..Message::new(Role::Unknown, vec![Part::damaged(text.as_bytes())])
                });
            }
        }
        if left.len() < MAX_TEXTS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    reading.conversation.messages.append(&mut left);
    Ok(())
}

/// Finds texts of more than one word between other bytes.
fn texts_in(data: &[u8]) -> Vec<String> {
    let is_between =
        |c: char| c == '\u{FFFD}' || c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    let is_text = |text: &&str| text.len() >= SHORTEST && text.contains(' ');
    let lossy = String::from_utf8_lossy(data);
    lossy.split(is_between).map(str::trim).filter(is_text).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_distinguished_from_ids_and_other_bytes() {
        let data = b"\x0a\x20\xff\xfe\x00short one\x12\x13a text of some words\x1a\x24\
            6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11\x00and\nanother one there";
        assert_eq!(texts_in(data), ["a text of some words", "and\nanother one there"]);
    }
}
