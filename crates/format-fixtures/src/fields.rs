//! Finds unread fields of a fixture: fields whose removal makes no difference to the reader.

use std::collections::BTreeMap;

use serde_json::Value;

/// The number of entries to try in a long list.
const MOST_ENTRIES: usize = 3;

/// The format of a fixture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Json,
    JsonLines,
    Toml,
}

/// Returns the fields that are unread in every fixture. `tell` returns everything that a reader gets from a text, or
/// `None` if it refuses the text.
///
/// A field is identified by its path, with `*` for the index in a list. One fixture where its absence makes a
/// difference is enough: in another one the field may have its default value.
///
/// # Panics
///
/// If a fixture does not have that form, or the reader refuses the whole fixture.
pub fn unread_fields(
    form: Form,
    fixtures: impl IntoIterator<Item = String>,
    tell: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut is_read = BTreeMap::new();
    for fixture in fixtures {
        let whole = form.parse(&fixture);
        let told = tell(&form.print(&whole));
        assert!(told.is_some(), "the reader refuses the whole fixture: {fixture}");
        for place in places_in(&whole) {
            let without = form.print(&removed(&whole, &place));
            let shows = tell(&without) != told;
            *is_read.entry(path_of(&whole, &place)).or_insert(false) |= shows;
        }
    }
    is_read.into_iter().filter(|(_, is_read)| !is_read).map(|(path, _)| path).collect()
}

impl Form {
    fn parse(self, text: &str) -> Value {
        let json = |text: &str| {
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
        };
        match self {
            Self::Json => json(text),
            Self::JsonLines => Value::Array(text.lines().map(json).collect()),
            Self::Toml => toml::from_str(text).unwrap_or_else(|error| panic!("{error}")),
        }
    }

    fn print(self, value: &Value) -> String {
        match (self, value) {
            (Self::JsonLines, Value::Array(lines)) => {
                lines.iter().map(|line| format!("{line}\n")).collect()
            }
            (Self::Toml, value) => toml::to_string(value).unwrap_or_else(|error| panic!("{error}")),
            (_, value) => value.to_string(),
        }
    }
}

/// The path of a field: one number per level, because a name may contain any character.
type Place = Vec<usize>;

/// Returns all fields and list entries of a value, at any depth.
fn places_in(value: &Value) -> Vec<Place> {
    let inner: Vec<&Value> = match value {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(entries) => entries.iter().collect(),
        _ => return Vec::new(),
    };
    // The lines of a file are a list, too. The test tries every entry of a short list.
    let most = if value.is_array() && inner.len() > 64 { MOST_ENTRIES } else { inner.len() };
    let mut places = Vec::new();
    for (step, inner) in inner.into_iter().enumerate().take(most) {
        places.push(vec![step]);
        places.extend(places_in(inner).into_iter().map(|rest| [vec![step], rest].concat()));
    }
    places
}

fn removed(value: &Value, place: &[usize]) -> Value {
    let mut value = value.clone();
    let mut at = &mut value;
    let (last, way) = place.split_last().map_or((0, &[][..]), |(last, way)| (*last, way));
    for step in way {
        let inner = match at {
            Value::Object(fields) => fields.values_mut().nth(*step),
            Value::Array(entries) => entries.get_mut(*step),
            _ => None,
        };
        at = inner.unwrap_or_else(|| panic!("{place:?} leads nowhere"));
    }
    match at {
        Value::Object(fields) => {
            let name = fields.keys().nth(last).cloned().unwrap_or_default();
            fields.shift_remove(&name);
        }
        Value::Array(entries) => drop(entries.remove(last)),
        _ => panic!("{place:?} leads nowhere"),
    }
    value
}

fn path_of(value: &Value, place: &[usize]) -> String {
    let mut at = value;
    let mut path = String::new();
    for step in place {
        let (name, inner) = match at {
            Value::Object(fields) => fields
                .iter()
                .nth(*step)
                .map_or((String::new(), at), |(name, inner)| (name.clone(), inner)),
            Value::Array(entries) => ("*".to_owned(), entries.get(*step).unwrap_or(at)),
            _ => (String::new(), at),
        };
        path.push_str(&format!("/{name}"));
        // Each kind has its own fields.
        if let Some(kind) = inner.get("kind").and_then(Value::as_str) {
            path.push_str(&format!("({kind})"));
        }
        at = inner;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the fields of this text that a reader of `a` and `b.c` does not read.
    fn unread(form: Form, text: &str) -> Vec<String> {
        let tell = |text: &str| {
            let value = form.parse(text);
            let values =
                if form == Form::JsonLines { value.as_array()?.clone() } else { vec![value] };
            Some(
                values
                    .iter()
                    .map(|value| format!("{:?}{:?}", value["a"], value["b"]["c"]))
                    .collect(),
            )
        };
        unread_fields(form, [text.to_owned()], tell)
    }

    #[test]
    fn an_unread_field_is_named_in_every_format() {
        let json = r#"{"a":[1,{"x":2}],"b":{"c":3,"d":4},"e":5}"#;
        assert_eq!(unread(Form::Json, json), ["/b/d", "/e"]);
        let lines = format!("{json}\n{json}\n");
        assert_eq!(unread(Form::JsonLines, &lines), ["/*/b/d", "/*/e"]);
        let toml = "a = [1, 2]\ne = 5\n[b]\nc = 3\nd = 4\n";
        assert_eq!(unread(Form::Toml, toml), ["/b/d", "/e"]);
    }
}
