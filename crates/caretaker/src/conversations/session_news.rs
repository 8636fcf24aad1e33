//! Finds the parts of a conversation that are new since the last read.
//!
//! Each read covers the whole store, or a window at its end. Between reads Cursor rewrites files, answers grow, and
//! calls get their results. This reports each piece once, and only the new part of a piece that grew.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use cursor_stores::model::{Message, Part, ToolCall};

/// Everything that was already reported.
#[derive(Debug, Default)]
pub(crate) struct SessionNews {
    told: HashMap<PieceKey, Told>,
}

/// The key of a piece: its message, the number of the occurrence if the message repeats, and its place in the message.
type PieceKey = (u64, usize, usize);

#[derive(Debug)]
struct Told {
    /// The text so far, because texts grow.
    text: Option<String>,
    content: u64,
}

impl SessionNews {
    /// Marks everything as reported.
    pub(crate) fn skip(&mut self, messages: &[Message]) {
        drop(self.tell(messages));
    }

    /// Returns the messages with something new, and only their new parts.
    pub(crate) fn tell(&mut self, messages: &[Message]) -> Vec<Message> {
        let mut occurrences: HashMap<u64, usize> = HashMap::new();
        let mut news = Vec::new();
        for message in messages {
            let identity = identity(message);
            let occurrence = occurrences.entry(identity).or_default();
            let parts: Vec<Part> = message
                .parts
                .iter()
                .enumerate()
                .filter_map(|(number, part)| self.new_of((identity, *occurrence, number), part))
                .collect();
            *occurrence += 1;
            if !parts.is_empty() {
                news.push(Message { parts, ..message.clone() });
            }
        }
        news
    }

    fn new_of(&mut self, key: PieceKey, part: &Part) -> Option<Part> {
        let told = Told { text: text_of(part).map(str::to_owned), content: content_of(part) };
        let before = match self.told.insert(key, told) {
            None => return Some(part.clone()),
            Some(before) => before,
        };
        if before.content == content_of(part) {
            return None;
        }
        match (part, before.text.as_deref()) {
            (Part::Text { text }, Some(before)) => {
                text.strip_prefix(before).map(Part::text).or_else(|| Some(part.clone()))
            }
            (Part::Reasoning { text, duration_ms, is_redacted }, Some(before)) => {
                let text = text.strip_prefix(before).unwrap_or(text).to_owned();
                Some(Part::Reasoning { text, duration_ms: *duration_ms, is_redacted: *is_redacted })
            }
            (part, _) => Some(part.clone()),
        }
    }
}

/// Recognises a message when it is read again. Its position is not enough, because the window moves.
fn identity(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    match &message.id {
        Some(id) => id.hash(&mut hasher),
        // Without an id, use its beginning: the message may still grow.
        None => {
            std::mem::discriminant(&message.role).hash(&mut hasher);
            if let Some(first) = message.parts.first() {
                std::mem::discriminant(first).hash(&mut hasher);
                match first {
                    Part::ToolCall(call) => {
                        (&call.id, &call.name, call.input.to_string()).hash(&mut hasher)
                    }
                    first => text_of(first).map(beginning).hash(&mut hasher),
                }
            }
        }
    }
    hasher.finish()
}

fn beginning(text: &str) -> String {
    text.chars().take(40).collect()
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } | Part::Reasoning { text, .. } => Some(text),
        _ => None,
    }
}

fn content_of(part: &Part) -> u64 {
    let mut hasher = DefaultHasher::new();
    match part {
        Part::Text { text } | Part::Reasoning { text, .. } => text.hash(&mut hasher),
        // Start and duration may become known later, but do not count as news.
        Part::ToolCall(ToolCall { id, name, input, result, state, .. }) => {
            (id, name, input.to_string()).hash(&mut hasher);
            format!("{result:?}{state:?}").hash(&mut hasher);
        }
        part => format!("{part:?}").hash(&mut hasher),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use cursor_stores::model::{Role, ToolResult, ToolState};
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn said(id: Option<&str>, text: &str) -> Message {
        Message {
            id: id.map(str::to_owned),
            ..Message::new(Role::Assistant, vec![Part::text(text)])
        }
    }

    fn texts(messages: &[Message]) -> Vec<String> {
        messages.iter().map(Message::text).collect()
    }

    #[test]
    fn a_reported_message_is_not_reported_again_after_a_rewrite_of_the_store() {
        let mut news = SessionNews::default();
        let first = [said(None, "one"), said(None, "two")];
        assert_eq!(texts(&news.tell(&first)), ["one", "two"]);
        assert_eq!(texts(&news.tell(&first)), Vec::<String>::new());
        let grown = [said(None, "one"), said(None, "two"), said(None, "three")];
        assert_eq!(texts(&news.tell(&grown)), ["three"]);
    }

    #[test]
    fn a_moving_window_reports_only_new_messages() {
        let mut news = SessionNews::default();
        news.skip(&[said(Some("a"), "one"), said(Some("b"), "two")]);
        assert_eq!(
            texts(&news.tell(&[said(Some("b"), "two"), said(Some("c"), "three")])),
            ["three"]
        );
    }

    #[test]
    fn the_same_message_sent_twice_is_reported_twice() {
        let mut news = SessionNews::default();
        news.skip(&[said(Some("a"), "ok")]);
        assert_eq!(texts(&news.tell(&[said(Some("a"), "ok"), said(Some("a"), "ok")])), ["ok"]);
    }

    #[test]
    fn only_the_new_part_of_a_grown_text_is_reported() {
        let mut news = SessionNews::default();
        news.skip(&[said(Some("a"), "Hello")]);
        assert_eq!(texts(&news.tell(&[said(Some("a"), "Hello world")])), [" world"]);
        // The text was rewritten; it did not grow.
        assert_eq!(texts(&news.tell(&[said(Some("a"), "Good bye")])), ["Good bye"]);
    }

    #[test]
    fn a_result_is_reported_when_it_arrives() {
        let mut call = ToolCall::new("Shell", json!({"command": "ls"}));
        let message = |call: &ToolCall| Message {
            id: Some("a".to_owned()),
            ..Message::new(Role::Assistant, vec![Part::text("look"), Part::ToolCall(call.clone())])
        };
        let mut news = SessionNews::default();
        news.skip(&[message(&call)]);
        call.state = ToolState::Succeeded;
        call.result = Some(ToolResult { output: json!("a b"), error: None, is_truncated: false });
        let told = news.tell(&[message(&call)]);
        assert_eq!(told[0].parts, [Part::ToolCall(call.clone())]);
        assert_eq!(news.tell(&[message(&call)]), []);
    }

    proptest! {
        #[test]
        fn every_message_is_reported_once_and_in_order_however_the_session_grows(
            texts in prop::collection::vec("[a-c]{1,3}", 0..12), cuts in prop::collection::vec(0usize..12, 0..4),
        ) {
            let messages: Vec<Message> = texts.iter().enumerate()
                .map(|(number, text)| said(Some(&number.to_string()), text)).collect();
            let mut news = SessionNews::default();
            let mut told = Vec::new();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(messages.len())).collect();
            cuts.sort_unstable();
            cuts.push(messages.len());
            for cut in cuts {
                told.extend(news.tell(&messages[..cut]));
            }
            prop_assert_eq!(told, messages);
        }
    }
}
