//! The subject of a tool call in a few words: a command, a path, a pattern.

use serde_json::Value;

/// Enough to recognise a subject.
const MOST_CHARS: usize = 100;

/// The most telling arguments of a call, best first. Their names differ between models and between stores.
const TELLING_NAMES: &[&str] = &[
    "command",
    "pattern",
    "glob_pattern",
    "globPattern",
    "path",
    "file_path",
    "filePath",
    "target_file",
    "targetFile",
    "relativeWorkspacePath",
    "relative_workspace_path",
    "url",
    "search_term",
    "searchTerm",
    "query",
    "question",
    "toolName",
    "description",
    "prompt",
    "target_directory",
    "targetDirectory",
    "directoryPath",
    "name",
];

/// The subject of a call with these arguments: the most telling one, or else the first text. Empty if there is none.
pub fn tool_subject(args: &Value) -> String {
    let text = |value: &Value| value.as_str().map(few_words).filter(|words| !words.is_empty());
    match args {
        Value::Object(fields) => TELLING_NAMES
            .iter()
            .find_map(|name| text(fields.get(*name)?))
            .or_else(|| fields.values().find_map(text)),
        args => text(args),
    }
    .unwrap_or_default()
}

/// The first line of a text, cut to a length that fits a line.
pub fn few_words(text: &str) -> String {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default();
    let mut words: String = first.chars().take(MOST_CHARS).collect();
    if words.len() < first.len() || lines.next().is_some() {
        words.push('…');
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_most_informative_argument_is_the_subject_and_otherwise_any_text() {
        for (args, expected) in [
            (json!({"path": "src", "pattern": "TODO"}), "TODO"),
            (json!({"timeout": 5, "command": " sleep 6\nls"}), "sleep 6…"),
            (json!({"command": "", "brandNew": "x"}), "x"),
            (json!("a patch"), "a patch"),
            (json!({"n": 1}), ""),
            (json!(null), ""),
        ] {
            assert_eq!(tool_subject(&args), expected, "{args}");
        }
        assert_eq!(few_words(&"x".repeat(101)), format!("{}…", "x".repeat(100)));
    }
}
