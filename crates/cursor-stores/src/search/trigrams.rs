//! The sequences of three letters in a text. An index uses them to exclude texts that cannot contain a word.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::encryption_keys::is_key;
use crate::lenient_json;
use crate::store::Encoding;

/// How deep to look for JSON inside JSON strings. A search looks just as deep.
const MAX_NESTING: usize = 4;

/// The three-character sequences in a text, ignoring case. Each has a number. Two sequences may share a number, which
/// costs an extra check but loses no match.
#[derive(Debug)]
pub(crate) struct Trigrams {
    /// One bit for each sequence of ASCII characters, since nearly all are.
    ascii: Box<[u64]>,
    others: BTreeSet<u32>,
}

const ASCII_TRIGRAMS: usize = 1 << 21;

impl Default for Trigrams {
    fn default() -> Self {
        Self { ascii: vec![0; ASCII_TRIGRAMS / 64].into(), others: BTreeSet::new() }
    }
}

impl Trigrams {
    pub(crate) fn of_text(text: &str) -> Self {
        let mut trigrams = Self::default();
        trigrams.add_text(text);
        trigrams
    }

    pub(crate) fn add(&mut self, content: &[u8], encoding: Encoding) {
        let json = match encoding {
            Encoding::Json => lenient_json::parse(content).ok(),
            Encoding::Bytes => None,
        };
        match json {
            Some(value) => self.add_json(&value, 0),
            None => self.add_text(&String::from_utf8_lossy(content)),
        }
    }

    fn add_json(&mut self, value: &Json, nesting: usize) {
        match value {
            Json::String(text) => {
                self.add_text(text);
                if text.starts_with(['{', '['])
                    && text.contains('\\')
                    && nesting < MAX_NESTING
                    && let Ok(inner) = lenient_json::parse(text.as_bytes())
                {
                    self.add_json(&inner, nesting + 1);
                }
            }
            Json::Array(values) => values.iter().for_each(|value| self.add_json(value, nesting)),
            Json::Object(fields) => fields
                .iter()
                .filter(|(name, _)| !is_key(name))
                .for_each(|(_, value)| self.add_json(value, nesting)),
            Json::Number(number) => self.add_text(&number.to_string()),
            Json::Null | Json::Bool(_) => {}
        }
    }

    fn add_text(&mut self, text: &str) {
        let mut last = [0u32; 3];
        for (n_before, c) in text.chars().map(folded).enumerate() {
            last = [last[1], last[2], c as u32];
            if n_before < 2 {
                continue;
            }
            let [first, second, third] = last;
            if (first | second | third) < 0x80 {
                let number = first << 14 | second << 7 | third;
                self.ascii[(number / 64) as usize] |= 1 << (number % 64);
            } else {
                self.others.insert(spread(last));
            }
        }
    }

    /// Returns the numbers of all sequences in the text.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        let ascii = self.ascii.iter().zip(0u32..).filter(|(word, _)| **word != 0).flat_map(
            |(word, place)| {
                (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| place * 64 + bit)
            },
        );
        ascii.chain(self.others.iter().copied())
    }
}

/// Returns one form for all forms of a letter that a case-insensitive search treats as equal.
fn folded(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    // Uses the uppercase letter, because several lowercase letters may share one: `ς` and `σ`.
    let upper = only(c.to_uppercase()).unwrap_or(c);
    only(upper.to_lowercase()).unwrap_or(upper)
}

fn only(mut forms: impl Iterator<Item = char>) -> Option<char> {
    let first = forms.next()?;
    forms.next().is_none().then_some(first)
}

/// Any hash will do. It must keep non-ASCII numbers apart from ASCII numbers.
fn spread([first, second, third]: [u32; 3]) -> u32 {
    let mixed = first.wrapping_mul(0x9E37_79B1)
        ^ second.wrapping_mul(0x85EB_CA77).rotate_left(7)
        ^ third.wrapping_mul(0xC2B2_AE3D).rotate_left(13);
    mixed | 1 << 31
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(text: &str) -> BTreeSet<u32> {
        Trigrams::of_text(text).numbers().collect()
    }

    proptest! {
        #[test]
        fn a_text_that_matches_a_word_has_all_trigrams_of_the_word(before in "\\PC{0,9}", word in "\\PC{3,9}", after in "\\PC{0,9}") {
            let text = format!("{before}{word}{after}");
            let expression = regex::RegexBuilder::new(&regex::escape(&word)).case_insensitive(true).build().unwrap();
            for form in [text.clone(), text.to_uppercase(), text.to_lowercase()] {
                if let Some(found) = expression.find(&form) {
                    prop_assert!(numbers(&word).is_subset(&numbers(found.as_str())), "{word} in {form}");
                    prop_assert!(numbers(&word).is_subset(&numbers(&form)));
                }
            }
        }
    }
}
