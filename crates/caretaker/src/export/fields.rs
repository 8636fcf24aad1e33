//! What a tool was given and what it gave back, as fields to read instead of JSON.

use serde_json::Value as Json;

/// More than that does not stand beside its name.
const LONGEST_SHORT: usize = 120;

/// A named value; the name is empty where the value is the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) value: FieldValue,
    pub(super) role: FieldRole,
}

/// What a value is to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldRole {
    Any,
    Removed,
    Added,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FieldValue {
    /// On one line.
    Short(String),
    /// Text of many lines, as it is.
    Text(String),
    /// Neither: as JSON, indented.
    Json(String),
}

/// Returns the fields of a value; nothing for null.
pub(super) fn fields(value: &Json) -> Vec<Field> {
    match value {
        Json::Null => Vec::new(),
        Json::Object(fields) => fields.iter().map(|(name, value)| field(name, value)).collect(),
        value => vec![field("", value)],
    }
}

fn field(name: &str, value: &Json) -> Field {
    let role = match plain_name(name).as_str() {
        "oldstring" | "oldstr" => FieldRole::Removed,
        "newstring" | "newstr" => FieldRole::Added,
        _ => FieldRole::Any,
    };
    let value = match (role, value) {
        // Side by side, however short.
        (FieldRole::Removed | FieldRole::Added, Json::String(text)) => {
            FieldValue::Text(text.clone())
        }
        _ => field_value(value),
    };
    Field { name: name.to_owned(), value, role }
}

/// Stores write names in their own ways: `target_file`, `targetFile`.
fn plain_name(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn field_value(value: &Json) -> FieldValue {
    match value {
        Json::String(text) if text.contains('\n') || text.chars().count() > LONGEST_SHORT => {
            FieldValue::Text(text.clone())
        }
        Json::String(text) => FieldValue::Short(text.clone()),
        Json::Null | Json::Bool(_) | Json::Number(_) => FieldValue::Short(value.to_string()),
        Json::Array(values) if values.is_empty() => FieldValue::Short("[]".to_owned()),
        Json::Object(values) if values.is_empty() => FieldValue::Short("{}".to_owned()),
        Json::Array(_) | Json::Object(_) => FieldValue::Json(
            // Values of JSON are always written.
            serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string()),
        ),
    }
}

/// The names of arguments that say what a call is about, in the order of how much they say.
const SUBJECTS: &[&str] = &[
    "command",
    "path",
    "filepath",
    "targetfile",
    "relativeworkspacepath",
    "targetnotebook",
    "notebookpath",
    "globpattern",
    "pattern",
    "query",
    "searchterm",
    "url",
    "toolname",
    "targetdirectory",
    "directorypath",
    "description",
    "name",
    "prompt",
];

/// What a call is about, in a few words.
pub(super) fn subject(input: &Json) -> Option<String> {
    let fields = input.as_object()?;
    let names: Vec<(String, &Json)> =
        fields.iter().map(|(name, value)| (plain_name(name), value)).collect();
    let found = SUBJECTS.iter().find_map(|wanted| {
        let (_, value) = names.iter().find(|(name, value)| name == wanted && value.is_string())?;
        value.as_str().map(str::trim).filter(|text| !text.is_empty())
    })?;
    let mut lines = found.lines();
    let first = lines.next().unwrap_or_default();
    let mut shown: String = first.chars().take(LONGEST_SHORT).collect();
    if shown.len() < first.len() || lines.next().is_some() {
        shown.push('…');
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn short_values_stay_beside_their_names_and_long_ones_stand_alone() {
        let input =
            json!({"command": "ls", "timeout": 30, "text": "a\nb", "list": [1], "none": {}});
        let values: Vec<FieldValue> = fields(&input).into_iter().map(|field| field.value).collect();
        assert_eq!(
            values,
            [
                FieldValue::Short("ls".to_owned()),
                FieldValue::Short("30".to_owned()),
                FieldValue::Text("a\nb".to_owned()),
                FieldValue::Json("[\n  1\n]".to_owned()),
                FieldValue::Short("{}".to_owned()),
            ]
        );
        assert_eq!(fields(&json!("text"))[0].name, "");
        assert_eq!(fields(&Json::Null), []);
    }

    #[test]
    fn a_call_is_about_its_command_its_file_or_its_pattern() {
        for (input, expected) in [
            (json!({"timeout": 1, "command": "sleep 6\nls"}), Some("sleep 6…")),
            (json!({"explanation": "why", "target_file": "a.rs"}), Some("a.rs")),
            (json!({"relativeWorkspacePath": "b.rs"}), Some("b.rs")),
            (json!({"path": "", "pattern": "TODO"}), Some("TODO")),
            (json!({"path": {"not": "text"}}), None),
            (json!(["command"]), None),
            (Json::Null, None),
        ] {
            assert_eq!(subject(&input).as_deref(), expected, "{input}");
        }
    }
}
