//! The rules that the agent finds on a host: the user's `cli-config.json`, a project's `cli.json`, and `hooks.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use run_protocol::AgentPolicy;
use serde_json::{Map, Value};

/// The keys that select a model. The agent reads them together, so they are only of use together.
const MODEL: [&str; 5] =
    ["model", "selectedModel", "modelParameters", "hasChangedDefaultModel", "maxMode"];

/// Settings that say what the agent may do, and that the flags of a run or the sandbox decide instead. With these
/// values they change nothing.
const DECIDED_BY_THE_RUN: [(&str, &str, &str); 4] = [
    ("approvalMode", "", "\"allowlist\""),
    ("sandbox", "/mode", "\"disabled\""),
    ("webFetchDomainAllowlist", "", "[]"),
    ("autoAcceptWebSearch", "", "false"),
];

#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    #[error("it is not valid JSON")]
    NotJson(#[from] serde_json::Error),
    #[error("`{key}` is not {expected}")]
    WrongShape { key: &'static str, expected: &'static str },
}

/// Parses the user's `cli-config.json`.
pub fn user_policy(bytes: &[u8]) -> Result<AgentPolicy, RulesError> {
    let config = object(bytes)?;
    let model = MODEL.iter().filter_map(|key| Some(((*key).to_owned(), config.get(*key)?.clone())));
    let model: BTreeMap<String, Value> = model.collect();
    let network = config.get("network").and_then(|network| network.get("useHttp1ForAgent"));
    let account = config.get("authInfo").filter(|account| {
        account.get("activeTeamId").is_some_and(|team| team.is_number() || team.is_string())
    });
    let left_out = DECIDED_BY_THE_RUN.iter().filter(|(key, below, usual)| {
        let value = config.get(*key).and_then(|value| value.pointer(below));
        value.map(Value::to_string).is_some_and(|value| value != *usual)
    });
    Ok(AgentPolicy {
        deny: list(&config, "deny")?,
        allow: list(&config, "allow")?,
        model,
        http1: network == Some(&Value::Bool(true)),
        account: account.cloned(),
        left_out: left_out.map(|(key, ..)| format!("{key} in cli-config.json")).collect(),
        ..AgentPolicy::default()
    })
}

/// Parses a project's `cli.json`, and returns what it denies. A project cannot allow anything: the repository may be
/// hostile.
pub fn project_deny_rules(bytes: &[u8]) -> Result<Vec<String>, RulesError> {
    list(&object(bytes)?, "deny")
}

/// Returns false if a `hooks.json` certainly has no hook.
pub fn has_hooks(bytes: &[u8]) -> bool {
    let Ok(file) = serde_json::from_slice::<Value>(bytes) else { return true };
    let is_empty = |hooks: &Value| hooks.as_array().is_some_and(Vec::is_empty);
    let hooks = file.get("hooks").and_then(Value::as_object);
    hooks.is_none_or(|hooks| !hooks.values().all(is_empty))
}

/// Returns the absolute paths of the programs that a `hooks.json` starts, either by themselves or with an interpreter:
/// `/opt/guard/check --fast`, `python3 /opt/guard/check.py`.
pub fn hook_programs(bytes: &[u8]) -> Vec<PathBuf> {
    let file: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let events = file.get("hooks").and_then(Value::as_object).into_iter().flatten();
    let hooks = events.filter_map(|(_, hooks)| hooks.as_array()).flatten();
    let program = |hook: &Value| {
        let words = hook.get("command")?.as_str()?.split_whitespace().take(2);
        let mut words = words.map(|word| word.trim_matches(['"', '\'']));
        words.find(|word| Path::new(word).is_absolute()).map(PathBuf::from)
    };
    let mut programs: Vec<PathBuf> = hooks.filter_map(program).collect();
    programs.sort();
    programs.dedup();
    programs
}

fn object(bytes: &[u8]) -> Result<Map<String, Value>, RulesError> {
    match serde_json::from_slice(bytes)? {
        Value::Object(file) => Ok(file),
        _ => Err(RulesError::WrongShape { key: "the file", expected: "an object" }),
    }
}

/// A list of permissions. A missing list is empty, as for the agent, which adds it.
fn list(file: &Map<String, Value>, key: &'static str) -> Result<Vec<String>, RulesError> {
    let permissions = match file.get("permissions") {
        None => return Ok(Vec::new()),
        Some(Value::Object(permissions)) => permissions,
        Some(_) => {
            return Err(RulesError::WrongShape { key: "permissions", expected: "an object" });
        }
    };
    let Some(entries) = permissions.get(key) else { return Ok(Vec::new()) };
    let texts = entries.as_array().map(|entries| {
        entries.iter().map(|entry| entry.as_str().map(str::to_owned)).collect::<Option<_>>()
    });
    texts.flatten().ok_or(RulesError::WrongShape { key, expected: "a list of texts" })
}

#[cfg(test)]
#[path = "user_rules_tests.rs"]
mod tests;
