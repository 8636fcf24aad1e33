//! What is looked for, in two speeds: raw bytes that may hold it, and text that does.

use std::ops::Range;

use regex::{Regex, RegexBuilder, bytes};

use super::required_literals::required_literals;

/// A compiled pattern.
#[derive(Debug)]
pub struct Matcher {
    terms: Vec<Term>,
}

/// What the user typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern<'a> {
    /// All of these words must occur, in any order; what stands in double quotes is one.
    Words(&'a str),
    /// Exactly this.
    Phrase(&'a str),
    Regex(&'a str),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Case {
    /// Matters if the pattern has a capital letter.
    #[default]
    Smart,
    Matters,
    Ignored,
}

/// Says why a pattern cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    #[error("there is nothing to look for")]
    Empty,
    /// With what is wrong, in one line.
    #[error("the regular expression is not valid: {0}")]
    Regex(String),
}

impl From<regex::Error> for PatternError {
    fn from(error: regex::Error) -> Self {
        // The lines before the last one draw where it is.
        let text = error.to_string();
        let what = text.lines().next_back().unwrap_or_default().trim();
        Self::Regex(what.strip_prefix("error: ").unwrap_or(what).to_owned())
    }
}

#[derive(Debug)]
struct Term {
    literal: Option<String>,
    text: Regex,
    /// What bytes must hold that hold the term as it is. `None` where that cannot be said: then everything is decoded.
    raw: Option<bytes::Regex>,
    in_json: InJson,
}

/// How a term may stand in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InJson {
    /// As it is, or with `\u` escapes.
    Plain,
    /// It has characters that JSON escapes, or may escape.
    Escaped,
}

impl Matcher {
    pub fn new(pattern: Pattern<'_>, case: Case) -> Result<Self, PatternError> {
        let terms = match pattern {
            Pattern::Words(text) => words(text)
                .into_iter()
                .map(|word| Term::literal(&word, case))
                .collect::<Result<Vec<_>, _>>()?,
            Pattern::Phrase(text) => vec![Term::literal(text, case)?],
            Pattern::Regex(expression) => vec![Term::regex(expression, case)?],
        };
        let is_empty = match pattern {
            Pattern::Words(_) => terms.is_empty(),
            Pattern::Phrase(text) | Pattern::Regex(text) => text.is_empty(),
        };
        if is_empty { Err(PatternError::Empty) } else { Ok(Self { terms }) }
    }

    /// Tells quickly whether JSON of these bytes may hold the pattern: `false` is certain, `true` is not.
    #[must_use]
    pub fn may_match_json(&self, json: &[u8]) -> bool {
        self.terms.iter().all(|term| term.may_match_json(json))
    }

    /// As [`Self::may_match_json`] for bytes that hold text as it is.
    #[must_use]
    pub fn may_match_bytes(&self, bytes: &[u8]) -> bool {
        self.terms
            .iter()
            .all(|term| term.raw.as_ref().is_none_or(|expression| expression.is_match(bytes)))
    }

    /// The words that a text must have to match, as they were typed. Empty if that cannot be said.
    pub(crate) fn literals(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().filter_map(|term| term.literal.as_deref())
    }

    /// Notes which words these bytes may hold, whether they are JSON or hold it somewhere, and tells whether there is any.
    /// For messages that are kept in several pieces, of which each may hold some of the words.
    pub(crate) fn note_terms(&self, bytes: &[u8], is_noted: &mut [bool]) -> bool {
        let mut is_any = false;
        for (term, is_noted) in self.terms.iter().zip(is_noted) {
            if term.may_match_json(bytes) {
                *is_noted = true;
                is_any = true;
            }
        }
        is_any
    }

    pub(crate) fn n_terms(&self) -> usize {
        self.terms.len()
    }

    /// Where the term of this number first occurs.
    pub(super) fn find_term(&self, number: usize, text: &str) -> Option<Range<usize>> {
        self.terms.get(number)?.text.find(text).map(|found| found.range())
    }
}

impl Term {
    fn literal(text: &str, case: Case) -> Result<Self, PatternError> {
        let expression = regex::escape(text);
        let ignores_case = ignores_case(text, case);
        let in_json =
            if text.chars().any(is_escaped_in_json) { InJson::Escaped } else { InJson::Plain };
        Ok(Self {
            literal: Some(text.to_owned()),
            text: RegexBuilder::new(&expression).case_insensitive(ignores_case).build()?,
            raw: Some(
                bytes::RegexBuilder::new(&expression).case_insensitive(ignores_case).build()?,
            ),
            in_json,
        })
    }

    fn regex(expression: &str, case: Case) -> Result<Self, PatternError> {
        // Only what is searched itself may decide the case: `\S` has no capital letter.
        let ignores_case = match case {
            Case::Smart | Case::Matters => false,
            Case::Ignored => true,
        };
        let text = RegexBuilder::new(expression).case_insensitive(ignores_case).build()?;
        let Some(literals) = required_literals(expression, ignores_case) else {
            return Ok(Self { literal: None, text, raw: None, in_json: InJson::Plain });
        };
        let is_escaped = |byte: &u8| is_escaped_in_json(char::from(*byte)) && byte.is_ascii();
        let in_json =
            if literals.iter().flatten().any(is_escaped) { InJson::Escaped } else { InJson::Plain };
        let literal = match literals.as_slice() {
            [only] => String::from_utf8(only.clone()).ok(),
            _ => None,
        };
        Ok(Self { literal, text, raw: Some(any_of(&literals)?), in_json })
    }

    fn may_match_json(&self, json: &[u8]) -> bool {
        let Some(raw) = &self.raw else { return true };
        match self.in_json {
            InJson::Plain => raw.is_match(json) || has_letter_escape(json),
            InJson::Escaped => memchr::memchr(b'\\', json).is_some() || raw.is_match(json),
        }
    }
}

/// An expression for bytes, because a literal may end inside of a character.
fn any_of(literals: &[Vec<u8>]) -> Result<bytes::Regex, regex::Error> {
    let spelled = |literal: &Vec<u8>| -> String {
        literal.iter().map(|byte| format!("\\x{byte:02x}")).collect()
    };
    let alternatives: Vec<String> = literals.iter().map(spelled).collect();
    bytes::RegexBuilder::new(&alternatives.join("|")).unicode(false).build()
}

fn ignores_case(text: &str, case: Case) -> bool {
    match case {
        Case::Smart => !text.chars().any(char::is_uppercase),
        Case::Matters => false,
        Case::Ignored => true,
    }
}

fn is_escaped_in_json(c: char) -> bool {
    c.is_control() || matches!(c, '"' | '\\' | '/')
}

/// Tells whether there is a `\u` escape of anything but a control character. Those stand in the output of many commands,
/// and in no word.
fn has_letter_escape(json: &[u8]) -> bool {
    memchr::memmem::find_iter(json, b"\\u").any(|at| {
        let digits = json.get(at + 2..at + 5).unwrap_or_default();
        !matches!(digits, [b'0', b'0', b'0' | b'1'])
    })
}

/// Splits at spaces; what stands in double quotes stays together.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, piece) in text.split('"').enumerate() {
        if number % 2 == 1 {
            words.push(piece.to_owned());
        } else {
            words.extend(piece.split_whitespace().map(str::to_owned));
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
#[path = "matcher_tests.rs"]
mod tests;
