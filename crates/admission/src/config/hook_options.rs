//! `[[hooks]]` of the configuration.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::hooks::{Hook, HookAction, HookUrl, NotAHookUrl, Transition};
use run_protocol::HumanDuration;

/// What a hook may take where nothing else is said.
const USUAL_TIMEOUT: Duration = Duration::from_secs(30);
/// What it may take where it may take as long as it likes.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A hook, checked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct HookConfig(Hook);

/// As it is in the file.
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
            return Err("a hook is `on` started, needs_human or ended".to_owned());
        }
        let action = match (command, url) {
            (Some(command), None) if command.first().is_some_and(|it| !it.is_empty()) => {
                HookAction::Command(command)
            }
            (Some(_), None) => return Err("the `command` of a hook is empty".to_owned()),
            (None, Some(url)) => {
                let url: HookUrl = url.parse().map_err(|error: NotAHookUrl| error.to_string())?;
                HookAction::Webhook(url)
            }
            _ => return Err("a hook has either a `command` or a `url`".to_owned()),
        };
        let timeout = match timeout {
            None => USUAL_TIMEOUT,
            Some(timeout) => timeout.limit().unwrap_or(LONGEST).min(LONGEST),
        };
        Ok(Self(Hook { on, action, timeout }))
    }
}

impl HookConfig {
    /// With its program below the user's home, where it says so.
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
mod tests {
    use super::*;
    use crate::config::Config;

    fn parsed(text: &str) -> Result<Config, String> {
        Config::parse(&format!("[[hooks]]\n{text}\n")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_hook_is_one_thing_on_something() {
        let config =
            parsed("on = ['ended']\ncommand = ['~/bin/tell', 'x']\ntimeout = '5s'").unwrap();
        let hook = config.hooks[0].hook(Path::new("/home/ada"));
        assert_eq!(hook.timeout, Duration::from_secs(5));
        let words = ["/home/ada/bin/tell", "x"].map(str::to_owned).to_vec();
        assert_eq!(hook.action, HookAction::Command(words));
        for (text, part) in [
            ("on = []\ncommand = ['x']", "`on`"),
            ("on = ['over']\ncommand = ['x']", "unknown variant `over`"),
            ("on = ['ended']", "either a `command` or a `url`"),
            ("on = ['ended']\ncommand = ['x']\nurl = 'http://x'", "either"),
            ("on = ['ended']\ncommand = []", "is empty"),
            ("on = ['ended']\nurl = 'https://example.org'", "curl"),
            ("on = ['ended']\nurl = 'http://x'\nretry = 3", "unknown field"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
