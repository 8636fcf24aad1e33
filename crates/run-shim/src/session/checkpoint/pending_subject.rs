//! A tool call that was under way, in a few words: what it was asked to do.

use serde_json::Value;

/// Enough to recognise a thing by; the whole of it is in the store.
const MOST_CHARS: usize = 100;

/// What says most about a call, in this order. The model's own argument names differ between generations and families.
const TELLING_KEYS: [&str; 16] = [
    "command",
    "pattern",
    "glob_pattern",
    "globPattern",
    "path",
    "file_path",
    "target_file",
    "url",
    "search_term",
    "searchTerm",
    "query",
    "question",
    "toolName",
    "description",
    "prompt",
    "target_directory",
];

/// Describes the arguments of a call: the one that says most, or else the first that is a text.
pub(super) fn subject(args: &Value) -> String {
    let Value::Object(args) = args else { return args.as_str().map(few_words).unwrap_or_default() };
    let text = |value: &Value| match value.as_str().map(str::trim) {
        None | Some("") => None,
        Some(text) => Some(few_words(text)),
    };
    let telling = TELLING_KEYS.iter().find_map(|key| args.get(*key).and_then(text));
    telling.or_else(|| args.values().find_map(text)).unwrap_or_default()
}

/// Cuts a text to its first line and to a length that fits a line.
pub(super) fn few_words(text: &str) -> String {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default();
    let mut shown: String = first
        .chars()
        .take(MOST_CHARS)
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    if first.chars().nth(MOST_CHARS).is_some() || lines.next().is_some() {
        shown.push('…');
    }
    shown
}
