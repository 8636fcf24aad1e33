//! Searches the strings of a JSON value.

use serde_json::Value as Json;

use super::matcher::Matcher;
use super::snippet::Snippet;
use crate::encryption_keys::{ENDING, is_key};
use crate::lenient_json;

/// Tools write JSON inside JSON strings inside JSON strings. Deeper nesting does not occur.
const MAX_NESTING: usize = 4;

/// A match, and the field where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldMatch {
    /// Names joined by dots; array positions are left out.
    pub field: String,
    pub snippet: Snippet,
}

/// Searches all strings of a JSON text, including JSON inside strings. The words of the pattern may be in different
/// strings. Bytes that are not JSON are searched as text.
#[must_use]
pub fn search_json(matcher: &Matcher, json: &[u8]) -> Option<FieldMatch> {
    if !matcher.may_match_json(json) {
        return None;
    }
    match lenient_json::parse(json) {
        Ok(value) => search_value(matcher, &value),
        // Without fields, an encryption key looks like any other text.
        Err(_) if memchr::memmem::find(json, ENDING.as_bytes()).is_some() => None,
        Err(_) => search_bytes(matcher, "", json),
    }
}

/// Searches all strings of a parsed value.
#[must_use]
pub(crate) fn search_value(matcher: &Matcher, value: &Json) -> Option<FieldMatch> {
    let mut look = Look::new(matcher);
    look.visit(value, 0);
    look.finish()
}

impl FieldMatch {
    /// Returns the match in a value that another field or record holds.
    pub(crate) fn below(mut self, holder: &str) -> Self {
        self.field = if self.field.is_empty() {
            holder.to_owned()
        } else {
            format!("{holder}.{}", self.field)
        };
        self
    }
}

/// Searches one text.
#[must_use]
pub fn search_text(matcher: &Matcher, field: &str, text: &str) -> Option<FieldMatch> {
    let mut look = Look::new(matcher);
    look.path.push(field.to_owned());
    look.visit_text(text);
    look.finish()
}

/// Searches bytes that contain text, such as a protobuf message.
#[must_use]
pub fn search_bytes(matcher: &Matcher, field: &str, bytes: &[u8]) -> Option<FieldMatch> {
    if !matcher.may_match_bytes(bytes) {
        return None;
    }
    search_text(matcher, field, &String::from_utf8_lossy(bytes))
}

struct Look<'a> {
    matcher: &'a Matcher,
    path: Vec<String>,
    is_found: Vec<bool>,
    first: Option<FieldMatch>,
}

impl<'a> Look<'a> {
    fn new(matcher: &'a Matcher) -> Self {
        Self { matcher, path: Vec::new(), is_found: vec![false; matcher.n_terms()], first: None }
    }

    fn visit(&mut self, value: &Json, nesting: usize) {
        match value {
            Json::String(text) => {
                self.visit_text(text);
                let may_be_json = text.starts_with(['{', '[']) && text.contains('\\');
                if may_be_json
                    && nesting < MAX_NESTING
                    && !self.is_over()
                    && let Ok(inner) = lenient_json::parse(text.as_bytes())
                {
                    self.visit(&inner, nesting + 1);
                }
            }
            Json::Array(values) => values.iter().for_each(|value| self.visit(value, nesting)),
            Json::Object(fields) => {
                for (name, value) in fields {
                    if is_key(name) {
                        continue;
                    }
                    self.path.push(name.clone());
                    self.visit(value, nesting);
                    self.path.pop();
                }
            }
            Json::Number(number) => self.visit_text(&number.to_string()),
            Json::Null | Json::Bool(_) => {}
        }
    }

    fn visit_text(&mut self, text: &str) {
        for number in 0..self.is_found.len() {
            if self.is_found[number] {
                continue;
            }
            let Some(range) = self.matcher.find_term(number, text) else { continue };
            self.is_found[number] = true;
            self.first.get_or_insert_with(|| FieldMatch {
                field: self.path.join("."),
                snippet: Snippet::around(text, range),
            });
        }
    }

    fn is_over(&self) -> bool {
        self.is_found.iter().all(|is_found| *is_found)
    }

    fn finish(self) -> Option<FieldMatch> {
        if self.is_over() { self.first } else { None }
    }
}
