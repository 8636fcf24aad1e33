//! `[[hooks]]` in the configuration.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::hooks::{Hook, HookAction, HookUrl, NotAHookUrl, Transition};
use run_protocol::HumanDuration;

/// The default timeout.
const USUAL_TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout of a hook with `timeout = "none"`.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A checked hook.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct HookConfig(Hook);

/// The hook as written in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    on: Vec<Transition>,
    command: Option<Vec<String>>,
    url: Option<String>,
    timeout: Option<HumanDuration>,
}

impl TryFrom<Written> for HookConfig {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written { on, command, url, timeout } = written;
        if on.is_empty() {
            return Err("a hook's `on` must name started, needs_human or ended".to_owned());
        }
        let action = match (command, url) {
            (Some(command), None) if command.first().is_some_and(|it| !it.is_empty()) => {
                HookAction::Command(command)
            }
            (Some(_), None) => return Err("a hook's `command` is empty".to_owned()),
            (None, Some(url)) => {
                let url: HookUrl = url.parse().map_err(|error: NotAHookUrl| error.to_string())?;
                HookAction::Webhook(url)
            }
            _ => return Err("a hook needs either a `command` or a `url`".to_owned()),
        };
        let timeout = match timeout {
            None => USUAL_TIMEOUT,
            Some(timeout) => timeout.limit().unwrap_or(LONGEST).min(LONGEST),
        };
        Ok(Self(Hook { on, action, timeout }))
    }
}

impl HookConfig {
    /// The hook, with a leading `~/` in the path of its program replaced by the user's home.
    pub fn hook(&self, home: &Path) -> Hook {
        let mut hook = self.0.clone();
        if let HookAction::Command(words) = &mut hook.action
            && let Some(program) = words.first_mut()
            && let Some(below) = program.strip_prefix("~/")
        {
            *program = home.join(below).display().to_string();
        }
        hook
    }
}

#[cfg(test)]
#[path = "hook_options_tests.rs"]
mod tests;
