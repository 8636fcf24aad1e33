//! A search pattern. It checks quickly whether raw bytes may match, and precisely whether a text does.

use std::ops::Range;

use regex::{Regex, RegexBuilder, bytes};

use super::required_literals::required_literals;

/// A compiled pattern.
#[derive(Debug)]
pub struct Matcher {
    terms: Vec<Term>,
}

/// The pattern that the user typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern<'a> {
    /// All of these words must occur, in any order. Text in double quotes is one word.
    Words(&'a str),
    /// Exactly this text.
    Phrase(&'a str),
    Regex(&'a str),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Case {
    /// Case matters if the pattern has a capital letter.
    #[default]
    Smart,
    Matters,
    Ignored,
}

/// Says why a pattern cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    #[error("the pattern is empty")]
    Empty,
    /// One line that says what is wrong.
    #[error("the regular expression is not valid: {0}")]
    Regex(String),
}

impl From<regex::Error> for PatternError {
    fn from(error: regex::Error) -> Self {
        // The lines before the last one show the position of the error.
        let text = error.to_string();
        let what = text.lines().next_back().unwrap_or_default().trim();
        Self::Regex(what.strip_prefix("error: ").unwrap_or(what).to_owned())
    }
}

#[derive(Debug)]
struct Term {
    literal: Option<String>,
    text: Regex,
    /// Matches all raw bytes that may contain the term. `None` if there is no such expression; the search then decodes
    /// everything.
    raw: Option<bytes::Regex>,
    in_json: InJson,
}

/// How a term may appear in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InJson {
    /// Unchanged, or with `\u` escapes.
    Plain,
    /// With characters that JSON escapes, or may escape.
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

    /// Checks quickly whether JSON may match. `false` is certain, `true` is not.
    #[must_use]
    pub fn may_match_json(&self, json: &[u8]) -> bool {
        self.terms.iter().all(|term| term.may_match_json(json))
    }

    /// Like [`Self::may_match_json`], but for bytes with unescaped text.
    #[must_use]
    pub fn may_match_bytes(&self, bytes: &[u8]) -> bool {
        self.terms
            .iter()
            .all(|term| term.raw.as_ref().is_none_or(|expression| expression.is_match(bytes)))
    }

    /// Returns the words that every match contains, as the user typed them. Empty if unknown.
    pub(crate) fn literals(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().filter_map(|term| term.literal.as_deref())
    }

    /// Records which words these bytes may contain, in JSON or not. Returns true if there are any. For messages in
    /// several pieces, each of which may contain some of the words.
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

    /// Returns the first match of the term with this number.
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
        // Smart case does not apply to an expression: the capital in `\S` is not text.
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

/// An expression over bytes, because a literal may end inside a character.
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

/// True if there is a `\u` escape of anything but a control character. Command output is full of escaped control
/// characters, but words have none.
fn has_letter_escape(json: &[u8]) -> bool {
    memchr::memmem::find_iter(json, b"\\u").any(|at| {
        let digits = json.get(at + 2..at + 5).unwrap_or_default();
        !matches!(digits, [b'0', b'0', b'0' | b'1'])
    })
}

/// Splits at spaces, and keeps text in double quotes together.
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
