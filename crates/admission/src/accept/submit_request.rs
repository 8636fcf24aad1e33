//! A run as a client of the API words it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::usage;
use crate::command_error::CommandError;
use crate::request::queue_options::QueueOptions;
use crate::request::run_options::{Mode, RunOptions};
use crate::sandbox::profiles;

/// A run that somebody wants, as a client of the API words it. The names are those of the flags of `caretaker run`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// What to do.
    pub prompt: String,
    /// The directory to work in, absolute.
    pub workspace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expose: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<String>,
    #[serde(default)]
    pub no_force: bool,
    #[serde(default)]
    pub stream: bool,
    #[serde(default)]
    pub restart: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_flags: Vec<String>,
    #[serde(default)]
    pub priority: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_ok: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

/// What a client asks for, as the command line would have it.
pub(super) fn options(request: &SubmitRequest) -> Result<RunOptions, CommandError> {
    fn parsed<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, CommandError>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        text.parse()
            .map_err(|error: T::Err| usage(&format!("`{what}` cannot be used")).because(error))
    }
    fn maybe<T: std::str::FromStr>(
        what: &str,
        text: Option<&String>,
    ) -> Result<Option<T>, CommandError>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        text.map(|text| parsed(what, text)).transpose()
    }
    let pairs = |map: &std::collections::BTreeMap<String, String>| -> Vec<String> {
        map.iter().map(|(name, value)| format!("{name}={value}")).collect()
    };
    let mode = match request.mode.as_deref() {
        None => None,
        Some("plan") => Some(Mode::Plan),
        Some("ask") => Some(Mode::Ask),
        Some(_) => return Err(usage("`mode` is `plan` or `ask`")),
    };
    if request.profile.as_deref() == Some(profiles::OFF) {
        return Err(usage("a sandbox is left away only on the command line of the run itself")
            .hint("caretaker run --sandbox off"));
    }
    if !(-100..=100).contains(&request.priority) {
        return Err(usage("`priority` is from -100 to 100"));
    }
    let relative = request
        .expose
        .iter()
        .chain(&request.agent)
        .find(|path| !Path::new(path).is_absolute() && path.as_str() != "simulated");
    if let Some(relative) = relative {
        return Err(usage(&format!("`{relative}` is not an absolute path")));
    }
    Ok(RunOptions {
        model: request.model.clone(),
        mode,
        profile: request.profile.clone(),
        detach: true,
        name: maybe("name", request.name.as_ref())?,
        labels: pairs(&request.labels)
            .iter()
            .map(|label| parsed("labels", label))
            .collect::<Result<_, _>>()?,
        variables: pairs(&request.env)
            .iter()
            .map(|variable| parsed("env", variable))
            .collect::<Result<_, _>>()?,
        expose: request.expose.iter().map(PathBuf::from).collect(),
        timeout: maybe("timeout", request.timeout.as_ref())?,
        idle_timeout: maybe("idle_timeout", request.idle_timeout.as_ref())?,
        max_tool_calls: maybe("max_tool_calls", request.max_tool_calls.as_ref())?,
        max_tokens: maybe("max_tokens", request.max_tokens.as_ref())?,
        journal: maybe("journal", request.journal.as_ref())?,
        no_force: request.no_force,
        stream: request.stream,
        restart: request.restart,
        agent: request.agent.as_ref().map(PathBuf::from),
        agent_flags: request.agent_flags.iter().map(Into::into).collect(),
        queue: QueueOptions {
            queue: true,
            priority: Some(request.priority),
            delay: maybe("delay", request.delay.as_ref())?,
            after: request.after.clone(),
            after_ok: request.after_ok.clone(),
            group: maybe("group", request.group.as_ref())?,
            account: maybe("account", request.account.as_ref())?,
            group_budget: None,
            direct: false,
        },
        ..RunOptions::default()
    })
}
