//! The secrets of a server's definition.

use serde_json::{Map, Value};

/// The text that replaces a secret.
const STAND_IN: &str = "[redacted]";
/// Shorter values occur elsewhere by chance. In a definition they are still replaced.
const SHORTEST_ANYWHERE: usize = 8;

/// Returns the secrets of a definition, the longest form of each first.
pub(crate) fn of(definition: &Map<String, Value>) -> Vec<&str> {
    let mut secrets = Vec::new();
    for field in ["headers", "auth", "env"] {
        let values = definition.get(field).and_then(Value::as_object).into_iter().flatten();
        for (name, value) in values.filter_map(|(name, value)| Some((name, value.as_str()?))) {
            if field != "env" || is_telling(name) {
                secrets.extend(with_bare_token(value));
            } else {
                secrets.extend(of_address(value));
            }
        }
    }
    secrets.extend(definition.get("url").and_then(Value::as_str).into_iter().flat_map(of_address));
    secrets.extend(of_arguments(definition));
    secrets
}

/// Returns the definition without secrets. Leaves out the values of all variables, because a name does not always show
/// that its value is secret.
pub(crate) fn without(definition: &Map<String, Value>) -> Value {
    let secrets = of(definition);
    let shown = definition.iter().map(|(field, value)| {
        let value = match (field.as_str(), value) {
            ("headers" | "auth" | "env", Value::Object(values)) => {
                let names = values.keys().map(|name| (name.clone(), Value::from(STAND_IN)));
                Value::Object(names.collect())
            }
            ("args" | "url", value) => replaced(value, &secrets, 1),
            (_, value) => replaced(value, &secrets, SHORTEST_ANYWHERE),
        };
        (field.clone(), value)
    });
    Value::Object(shown.collect())
}

fn replaced(value: &Value, secrets: &[&str], shortest: usize) -> Value {
    match value {
        Value::String(text) => {
            let secrets = secrets.iter().filter(|secret| secret.len() >= shortest.max(1));
            secrets.fold(text.clone(), |text, secret| text.replace(secret, STAND_IN)).into()
        }
        Value::Array(list) => list.iter().map(|value| replaced(value, secrets, shortest)).collect(),
        Value::Object(map) => {
            let values = map.iter();
            values.map(|(name, value)| (name.clone(), replaced(value, secrets, shortest))).collect()
        }
        other => other.clone(),
    }
}

/// Finds secrets in arguments by their names: `--api-key X`, `--api-key=X`, `API_KEY=X`, `--header "Authorization:
/// Bearer X"`.
fn of_arguments(definition: &Map<String, Value>) -> Vec<&str> {
    let arguments = definition.get("args").and_then(Value::as_array).into_iter().flatten();
    let mut secrets = Vec::new();
    let mut is_named = false;
    for argument in arguments.filter_map(Value::as_str) {
        let is_value = std::mem::take(&mut is_named) && !argument.starts_with('-');
        let named = argument.split_once(['=', ':']).filter(|(name, _)| is_telling(name));
        match named {
            Some((_, value)) => secrets.extend(with_bare_token(value.trim())),
            None if is_value => secrets.extend(with_bare_token(argument)),
            None if argument.starts_with('-') => is_named = is_telling(argument),
            None => {}
        }
        secrets.extend(of_address(argument));
    }
    secrets
}

/// Finds the password in a URL, and the values of parameters with secret names.
fn of_address(text: &str) -> Vec<&str> {
    let Some((_, rest)) = text.split_once("://") else { return Vec::new() };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    let password = user.and_then(|user| user.split_once(':')).map(|(_, password)| password);
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let parameters = query.split(['&', '#']).filter_map(|parameter| parameter.split_once('='));
    let telling = parameters.filter(|(name, _)| is_telling(name)).map(|(_, value)| value);
    password.into_iter().chain(telling).filter(|secret| !secret.is_empty()).collect()
}

/// Returns the value, and also the token without a word such as `Bearer` before it: servers may repeat it that way.
fn with_bare_token(value: &str) -> impl Iterator<Item = &str> {
    let bare = value.split_once(' ').map(|(_, token)| token.trim());
    [Some(value), bare].into_iter().flatten().filter(|secret| !secret.is_empty())
}

/// Returns true if this is the name of a secret. Other names belong to paths and switches, which are not secret and
/// occur everywhere.
fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL", "COOKIE", "DSN"]
        .iter()
        .any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn secrets(definition: &Value) -> Vec<&str> {
        of(definition.as_object().unwrap())
    }

    #[test]
    fn secrets_are_found_in_arguments_and_addresses_too() {
        let definition = json!({
            "command": "npx",
            "args": [
                "-y", "remote", "--api-key", "hush-1", "--token=hush-2", "--verbose", "plain",
                "--header", "Authorization: Bearer hush-3", "postgres://ada:hush-4@db/x", "--auth-file", "-x", "y"
            ],
        });
        assert_eq!(secrets(&definition), ["hush-1", "hush-2", "Bearer hush-3", "hush-3", "hush-4"]);
        let remote = json!({"url": "https://a.test/mcp?api_key=hush-5&page=2"});
        assert_eq!(secrets(&remote), ["hush-5"]);
        let variable =
            json!({"command": "a", "env": {"DATABASE": "mysql://u:hush-6@db/x", "HOME": "/h"}});
        assert_eq!(secrets(&variable), ["hush-6"]);
    }

    #[test]
    fn a_shown_definition_has_no_secrets_and_no_variable_values() {
        let definition = json!({
            "command": "npx", "args": ["--api-key", "x1", "--level=2"], "env": {"LEVEL": "2", "KEY": "hush-hush"},
            "headers": {"A": "b"}, "note": "not hush-hush at all", "enabledTools": ["a"],
        });
        assert_eq!(
            without(definition.as_object().unwrap()),
            json!({
                "command": "npx", "args": ["--api-key", "[redacted]", "--level=2"],
                "env": {"LEVEL": "[redacted]", "KEY": "[redacted]"}, "headers": {"A": "[redacted]"},
                "note": "not [redacted] at all", "enabledTools": ["a"],
            })
        );
    }
}
