//! Recognises text that another store also has, even if that store splits it differently.

use std::collections::HashSet;

use serde_json::Value as Json;

use crate::model::Message;

/// The most letters to compare, so that long conversations do not take hours.
const MAX_COMPARED: usize = 2_000_000_000;

/// The texts of messages, by their letters.
#[derive(Default)]
pub(crate) struct SaidAlready {
    pieces: HashSet<String>,
    all: String,
    n_compared: usize,
}

impl SaidAlready {
    pub(crate) fn by<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Self {
        let mut said = Self::default();
        for message in messages {
            said.add(message);
        }
        said
    }

    pub(crate) fn add(&mut self, message: &Message) {
        for piece in pieces(message) {
            self.all += &piece;
            self.pieces.insert(piece);
        }
    }

    /// True if every text of a message is known. Also true for a message without text.
    pub(crate) fn has(&mut self, message: &Message) -> bool {
        pieces(message).into_iter().all(|piece| {
            if self.pieces.contains(&piece) {
                return true;
            }
            self.n_compared = self.n_compared.saturating_add(self.all.len());
            self.n_compared < MAX_COMPARED && self.all.contains(&piece)
        })
    }
}

/// Returns the letters of each text of a message, whatever its kind.
fn pieces(message: &Message) -> Vec<String> {
    let mut pieces = Vec::new();
    for part in &message.parts {
        add_texts(&serde_json::to_value(part).unwrap_or_default(), &mut pieces);
    }
    pieces
}

fn add_texts(value: &Json, pieces: &mut Vec<String>) {
    match value {
        Json::String(text) => {
            let letters: String = text.chars().filter(|c| c.is_alphanumeric()).collect();
            pieces.extend(Some(letters).filter(|letters| !letters.is_empty()));
        }
        Json::Array(values) => values.iter().for_each(|value| add_texts(value, pieces)),
        Json::Object(fields) => {
            // The name of a part's kind is ours, not the store's.
            let values = fields.iter().filter(|(name, _)| *name != "type");
            values.for_each(|(_, value)| add_texts(value, pieces));
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Part, Role};

    fn message(texts: &[&str]) -> Message {
        Message::new(Role::Assistant, texts.iter().map(|text| Part::text(*text)).collect())
    }

    #[test]
    fn the_same_words_in_other_pieces_are_recognised() {
        let one = message(&["I will look.", "Then I ", "will mend it."]);
        let mut said = SaidAlready::by([&one]);
        assert!(said.has(&message(&["Then I will mend it."])));
        assert!(said.has(&message(&["I will look."])));
        assert!(said.has(&message(&[])));
        assert!(!said.has(&message(&["I will look.", "And go."])));
    }
}
