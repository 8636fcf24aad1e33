//! Replaces known secret values in everything that the shim records.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use memchr::memmem;

/// Replaces a secret. It is valid inside a JSON string.
const STAND_IN: &[u8] = b"[redacted]";
/// The shortest secret. Shorter values occur by chance, and no real key is that short.
const SHORTEST: usize = 8;

/// Caretaker redacts a single line of a secret only if it is at least this long. A shorter line may be a word.
const SHORTEST_LINE: usize = 16;

/// Replaces known values. All clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Redactor {
    secrets: Arc<RwLock<Vec<memmem::Finder<'static>>>>,
}

impl Redactor {
    pub(crate) fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        let redactor = Self::default();
        redactor.learn(secrets);
        redactor
    }

    /// Adds values to replace.
    pub(crate) fn learn<'s>(&self, secrets: impl IntoIterator<Item = &'s str>) {
        let secrets = secrets
            .into_iter()
            .map(str::trim)
            .filter(|secret| secret.len() >= SHORTEST)
            .flat_map(with_long_lines)
            .flat_map(|secret| [Some(secret.to_owned()), as_in_json(secret)])
            .flatten()
            .map(|secret| memmem::Finder::new(secret.as_bytes()).into_owned());
        let mut known = self.secrets.write().unwrap_or_else(PoisonError::into_inner);
        known.extend(secrets);
        // Replace longer secrets first. Otherwise, if one secret begins with another, the rest of the longer one would
        // remain.
        known.sort_by_key(|secret| std::cmp::Reverse(secret.needle().len()));
    }

    /// Returns the bytes without secrets. If there are no secrets, it borrows the bytes, so a clean line costs only a
    /// search.
    pub(crate) fn clean<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut cleaned = Cow::Borrowed(bytes);
        for secret in self.secrets.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if let Some(first) = secret.find(&cleaned) {
                cleaned = Cow::Owned(replace(&cleaned, secret, first));
            }
        }
        cleaned
    }
}

/// Returns the secret and each of its long lines, because programs often print a long key line by line. The lines that
/// frame a key are not secret.
fn with_long_lines(secret: &str) -> impl Iterator<Item = &str> {
    let is_telling = |line: &&str| line.len() >= SHORTEST_LINE && !line.starts_with("-----");
    let lines =
        secret.lines().map(str::trim).filter(is_telling).filter(move |line| *line != secret);
    std::iter::once(secret).chain(lines)
}

/// Returns how the secret looks in a JSON string, if that differs.
fn as_in_json(secret: &str) -> Option<String> {
    let json = serde_json::to_string(secret).ok()?;
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    (inner != secret).then(|| inner.to_owned())
}

fn replace(bytes: &[u8], secret: &memmem::Finder<'_>, first: usize) -> Vec<u8> {
    let mut cleaned = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    let mut found = Some(first);
    while let Some(at) = found {
        cleaned.extend_from_slice(&rest[..at]);
        cleaned.extend_from_slice(STAND_IN);
        rest = &rest[at + secret.needle().len()..];
        found = secret.find(rest);
    }
    cleaned.extend_from_slice(rest);
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_occurrence_of_every_secret_is_replaced_and_the_line_stays_json() {
        let redactor = Redactor::new(["key_0123456789abcdef", "token-abcdefghijklmnop", "short"]);
        let line = br#"{"a":"key_0123456789abcdef","b":"x token-abcdefghijklmnopkey_0123456789abcdef short"}"#;
        let cleaned = redactor.clean(line);
        assert_eq!(cleaned.as_ref(), br#"{"a":"[redacted]","b":"x [redacted][redacted] short"}"#);
        assert!(serde_json::from_slice::<serde_json::Value>(&cleaned).is_ok());
    }

    #[test]
    fn a_secret_with_characters_that_json_escapes_is_found_in_both_forms() {
        let redactor = Redactor::new([r#"pass"word\0123"#]);
        let line = serde_json::json!({"a": r#"pass"word\0123"#}).to_string();
        assert_eq!(redactor.clean(line.as_bytes()).as_ref(), br#"{"a":"[redacted]"}"#);
        assert_eq!(redactor.clean(br#"pass"word\0123"#).as_ref(), b"[redacted]");
    }

    #[test]
    fn a_key_of_several_lines_is_found_line_by_line() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\nshort\n-----END KEY-----";
        let redactor = Redactor::new([key]);
        let line = b"-----BEGIN KEY----- MIIEvQIBADANBgkqhkiG9w0B, AQEFAASCBKcwggSjAgEAAoIB short";
        let cleaned = redactor.clean(line);
        assert_eq!(cleaned.as_ref(), b"-----BEGIN KEY----- [redacted], [redacted] short");
        let json = serde_json::json!({"a": key}).to_string();
        assert_eq!(redactor.clean(json.as_bytes()).as_ref(), br#"{"a":"[redacted]"}"#);
    }

    #[test]
    fn a_secret_that_begins_with_another_is_replaced_in_full() {
        let redactor = Redactor::new(["tokenabcdef"]);
        redactor.learn(["tokenabcdefGHIJKLMNOP"]);
        let cleaned = redactor.clean(b"a tokenabcdefGHIJKLMNOP b tokenabcdef");
        assert_eq!(cleaned.as_ref(), b"a [redacted] b [redacted]");
    }

    #[test]
    fn a_clean_line_is_not_copied() {
        let redactor = Redactor::new(["key_0123456789abcdef"]);
        assert!(matches!(redactor.clean(b"nothing here"), Cow::Borrowed(_)));
    }
}
