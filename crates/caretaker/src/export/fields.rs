//! Shows a tool's input and result as readable fields instead of JSON.

use serde_json::Value as Json;

/// A longer value does not fit next to its name.
const LONGEST_SHORT: usize = 120;

/// A named value; the name is empty if the value is not an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) value: FieldValue,
    pub(super) role: FieldRole,
}

/// The role of a value in a file edit.
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
    /// Text with several lines.
    Text(String),
    /// Anything else, as indented JSON.
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
        // Always as blocks, so that old and new can be compared.
        (FieldRole::Removed | FieldRole::Added, Json::String(text)) => {
            FieldValue::Text(text.clone())
        }
        _ => field_value(value),
    };
    Field { name: name.to_owned(), value, role }
}

/// Stores spell names differently: `target_file`, `targetFile`.
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
            // Writing a JSON value cannot fail.
            serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string()),
        ),
    }
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
}
