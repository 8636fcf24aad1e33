//! The flags that a user adds for the agent (after `--`). Caretaker checks them, so that no flag can change anything
//! that it relies on.

use std::ffi::{OsStr, OsString};

/// Words that may follow ours on the agent's command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExtraFlags(Vec<OsString>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtraFlagError {
    #[error("the agent flag `{flag}` is not accepted: {reason}")]
    Refused { flag: String, reason: &'static str },
    #[error("`{}` would become part of the prompt; write a flag's value as `--flag=value`", .0.display())]
    Positional(OsString),
    #[error("the short agent flag `{0}` is not known; write the long form")]
    UnknownShort(String),
    #[error("the agent flag `{0}` needs a value")]
    MissingValue(String),
    #[error("the agent flag `{flag}` would swallow `{}`; write `--flag=value` if that is its value", .value.display())]
    SwallowsFlag { flag: String, value: OsString },
    #[error("the agent flag `{0}` takes no value")]
    UnexpectedValue(String),
}

#[derive(Clone, Copy)]
enum Rule {
    Refused(&'static str),
    Switch,
    TakesValue,
    /// The value is a header, which may be a secret.
    TakesHeader,
}

const STREAM: &str = "caretaker reads the agent's stream and sets this itself";
const PARTIAL: &str = "use caretaker's own `--stream`";
const SESSION: &str = "caretaker chooses the session; use its own `--session`";
const WORKSPACE: &str = "caretaker chooses the workspace, and its sandbox mounts it";
const SANDBOX: &str = "cursor's own sandbox cannot start inside ours";
const ALWAYS: &str = "caretaker always passes it";
const APPROVAL: &str =
    "tools run without asking inside the sandbox, unless caretaker's own `--no-force` is given";
const MODE: &str = "use caretaker's own `--mode`";
const MODEL: &str = "use caretaker's own `--model`";
const SECRET: &str = "every process can read a secret on a command line; use `CURSOR_API_KEY`";
const ROOTS: &str = "the data root is private to the session";
const CONFIGS: &str = "the generated mcp.json and rules are project configs";
const ELSEWHERE: &str = "the agent would work where caretaker can neither confine nor follow it";
const NO_TURN: &str = "the agent would print something and exit without a turn";
const PROMPT: &str = "cursor's server refuses it; put instructions into the prompt, or into a rule in the repository";
const INERT: &str = "the agent reads it and ignores it";
const TLS: &str = "credentials would travel without protection";

/// Every known flag, visible and hidden, in all its spellings.
const FLAGS: &[(&[&str], Rule)] = &[
    (&["-p", "--print"], Rule::Refused(STREAM)),
    (&["--output-format"], Rule::Refused(STREAM)),
    (&["--stream-partial-output"], Rule::Refused(PARTIAL)),
    (&["--resume"], Rule::Refused(SESSION)),
    (&["--continue"], Rule::Refused(SESSION)),
    (&["--new-session-id"], Rule::Refused(SESSION)),
    (&["--workspace"], Rule::Refused(WORKSPACE)),
    (&["--sandbox"], Rule::Refused(SANDBOX)),
    (&["--trust"], Rule::Refused(ALWAYS)),
    (&["--approve-mcps"], Rule::Refused(ALWAYS)),
    (&["-f", "--force"], Rule::Refused(APPROVAL)),
    (&["--yolo"], Rule::Refused(APPROVAL)),
    (&["--auto-review"], Rule::Refused(APPROVAL)),
    (&["--mode"], Rule::Refused(MODE)),
    (&["--plan"], Rule::Refused(MODE)),
    (&["--model"], Rule::Refused(MODEL)),
    (&["--dev-raw-model-slug"], Rule::Refused(MODEL)),
    (&["--api-key"], Rule::Refused(SECRET)),
    (&["--auth-token"], Rule::Refused(SECRET)),
    (&["--data-dir"], Rule::Refused(ROOTS)),
    (&["--disable-project-configs"], Rule::Refused(CONFIGS)),
    (&["-w", "--worktree"], Rule::Refused(ELSEWHERE)),
    (&["--worktree-base"], Rule::Refused(ELSEWHERE)),
    (&["--skip-worktree-setup"], Rule::Refused(ELSEWHERE)),
    (&["-c", "--cloud"], Rule::Refused(ELSEWHERE)),
    (&["-b", "--background"], Rule::Refused(ELSEWHERE)),
    (&["-v", "--version"], Rule::Refused(NO_TURN)),
    (&["-h", "--help"], Rule::Refused(NO_TURN)),
    (&["--list-models"], Rule::Refused(NO_TURN)),
    (&["--printenv"], Rule::Refused(NO_TURN)),
    (&["--system-prompt"], Rule::Refused(PROMPT)),
    (&["--exclude-workspace-context"], Rule::Refused(PROMPT)),
    (&["--conversation-history-file"], Rule::Refused(INERT)),
    (&["-k", "--insecure"], Rule::Refused(TLS)),
    (&["--single-turn"], Rule::Switch),
    (&["--show-thinking"], Rule::Switch),
    (&["-H", "--header"], Rule::TakesHeader),
    (&["-e", "--endpoint"], Rule::TakesValue),
    (&["--add-dir"], Rule::TakesValue),
    (&["--plugin-dir"], Rule::TakesValue),
    (&["--background-shell-timeout"], Rule::TakesValue),
    (&["--allowed-tools"], Rule::TakesValue),
    (&["--exclude-tools"], Rule::TakesValue),
];

/// A header whose name contains one of these words carries a secret.
const CREDENTIALS: &[&str] = &["auth", "cookie", "credential", "key", "passw", "secret", "token"];

/// A flag as the user wrote it, without a joined value.
struct Written {
    flag: String,
    rule: Option<Rule>,
    value: ValuePlace,
}

/// Where the value of a flag is, if the flag has one.
enum ValuePlace {
    /// `--flag=value` or `-Fvalue`.
    Joined,
    InNextWord,
}

impl ExtraFlags {
    /// Checks the words that the user wrote for the agent.
    ///
    /// An unknown flag may be newer than this build. It is accepted, but not with a separate value: the next word
    /// could be its value or a prompt, and Caretaker cannot tell which.
    pub fn check(words: impl IntoIterator<Item = OsString>) -> Result<Self, ExtraFlagError> {
        let mut words = words.into_iter();
        let mut accepted = Vec::new();
        while let Some(word) = words.next() {
            let Written { flag, rule, value } = read_flag(&word)?;
            if let (Some(Rule::TakesHeader), ValuePlace::Joined) = (rule, &value) {
                refuse_credentials(&flag, &word.as_encoded_bytes()[flag.len()..])?;
            }
            match (rule, value) {
                (Some(Rule::Refused(reason)), _) => {
                    return Err(ExtraFlagError::Refused { flag, reason });
                }
                (Some(Rule::Switch), ValuePlace::Joined) => {
                    return Err(ExtraFlagError::UnexpectedValue(flag));
                }
                (Some(rule @ (Rule::TakesValue | Rule::TakesHeader)), ValuePlace::InNextWord) => {
                    let value =
                        words.next().ok_or_else(|| ExtraFlagError::MissingValue(flag.clone()))?;
                    // The agent's parser accepts any word here. A refused flag could hide as a value, or a forgotten
                    // value could swallow the next flag.
                    if value.as_encoded_bytes().starts_with(b"-") {
                        return Err(ExtraFlagError::SwallowsFlag { flag, value });
                    }
                    if let Rule::TakesHeader = rule {
                        refuse_credentials(&flag, value.as_encoded_bytes())?;
                    }
                    accepted.extend([word, value]);
                }
                (Some(Rule::Switch), _)
                | (Some(Rule::TakesValue | Rule::TakesHeader), ValuePlace::Joined)
                | (None, _) => {
                    accepted.push(word);
                }
            }
        }
        Ok(Self(accepted))
    }

    pub fn words(&self) -> &[OsString] {
        &self.0
    }
}

/// The error does not repeat the value, because it is the secret.
fn refuse_credentials(flag: &str, header: &[u8]) -> Result<(), ExtraFlagError> {
    let header = String::from_utf8_lossy(header);
    let name = header.trim_start_matches('=').split(':').next().unwrap_or_default().trim();
    let lower = name.to_ascii_lowercase();
    if CREDENTIALS.iter().any(|word| lower.contains(word)) {
        let flag = format!("{flag} {name}");
        return Err(ExtraFlagError::Refused { flag, reason: SECRET });
    }
    Ok(())
}

/// Splits a word as the agent's parser does. A word that is not a flag is an error.
fn read_flag(word: &OsStr) -> Result<Written, ExtraFlagError> {
    let bytes = word.as_encoded_bytes();
    let positional = || Err(ExtraFlagError::Positional(word.to_owned()));
    match bytes {
        // Everything after a bare `--` is the prompt.
        [b'-', b'-'] | [b'-', b'-', b'=', ..] => positional(),
        [b'-', b'-', ..] => {
            let name_length = bytes.iter().position(|byte| *byte == b'=').unwrap_or(bytes.len());
            let flag = String::from_utf8_lossy(&bytes[..name_length]).into_owned();
            let value =
                if name_length < bytes.len() { ValuePlace::Joined } else { ValuePlace::InNextWord };
            Ok(Written { rule: rule_of(&flag), flag, value })
        }
        [b'-', letter, rest @ ..] => {
            let flag = format!("-{}", char::from(*letter));
            // The text after an unknown letter may be its value or more flags, so this cannot check the word.
            let Some(rule) = rule_of(&flag) else {
                return Err(ExtraFlagError::UnknownShort(word.display().to_string()));
            };
            let value = if rest.is_empty() { ValuePlace::InNextWord } else { ValuePlace::Joined };
            Ok(Written { rule: Some(rule), flag, value })
        }
        _ => positional(),
    }
}

fn rule_of(flag: &str) -> Option<Rule> {
    FLAGS.iter().find(|(spellings, _)| spellings.contains(&flag)).map(|(_, rule)| *rule)
}

#[cfg(test)]
#[path = "extra_flags_tests.rs"]
mod tests;
