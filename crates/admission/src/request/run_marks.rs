//! What a user calls a run: its name, its labels, and variables for its agent.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::request::reserved_variables::{Reserved, reserved};

/// The longest name of a run, and of a label.
const LONGEST_NAME: usize = 64;
const LONGEST_VALUE: usize = 1024;

/// A name that cannot be mistaken for an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarkError {
    #[error(
        "a name has 1 to 64 letters, digits, `.`, `_` or `-`, and begins with a letter or digit"
    )]
    Name,
    #[error("this name could be mistaken for the beginning of a run's id")]
    LooksLikeAnId,
    #[error("a label is written NAME=VALUE; its name has letters, digits, `.`, `_`, `-` or `/`")]
    Label,
    #[error("a variable is written NAME=VALUE; its name has letters, digits and `_`")]
    Variable,
    #[error("a value has no control characters and at most 1024 bytes")]
    Value,
    #[error("this variable {0}; {hint}", hint = .0.hint())]
    ReservedVariable(Reserved),
    #[error(
        "a secret does not belong on a command line or into a run's spec; CURSOR_API_KEY is taken from caretaker's own \
         environment, and --secret NAME=env:VARIABLE or NAME=file:PATH is for others"
    )]
    Secret,
}

impl RunName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunName {
    type Err = MarkError;

    fn from_str(text: &str) -> Result<Self, MarkError> {
        let is_name = text.len() <= LONGEST_NAME
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        if !is_name {
            return Err(MarkError::Name);
        }
        // Four characters of an id are enough to name a run.
        let could_be_an_id =
            text.len() >= 4 && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if could_be_an_id { Err(MarkError::LooksLikeAnId) } else { Ok(Self(text.to_owned())) }
    }
}

/// `NAME=VALUE`, a mark of the user's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label(String, String);

impl FromStr for Label {
    type Err = MarkError;

    fn from_str(text: &str) -> Result<Self, MarkError> {
        let (name, value) = text.split_once('=').ok_or(MarkError::Label)?;
        Self::new(name, value)
    }
}

impl Label {
    fn new(name: &str, value: &str) -> Result<Self, MarkError> {
        let is_name = (1..=LONGEST_NAME).contains(&name.len())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/'));
        if !is_name {
            return Err(MarkError::Label);
        }
        check_value(value)?;
        Ok(Self(name.to_owned(), value.to_owned()))
    }
}

/// The labels of the configuration, and those of the command line, which win.
pub fn labels(
    config: &BTreeMap<String, String>,
    flags: &[Label],
) -> Result<BTreeMap<String, String>, MarkError> {
    let of_config = config.iter().map(|(name, value)| Label::new(name, value));
    let all = of_config.chain(flags.iter().cloned().map(Ok));
    all.map(|label| label.map(|Label(name, value)| (name, value))).collect()
}

/// `NAME=VALUE`, a variable for the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub value: String,
}

impl FromStr for Variable {
    type Err = MarkError;

    fn from_str(text: &str) -> Result<Self, MarkError> {
        let (name, value) = text.split_once('=').ok_or(MarkError::Variable)?;
        if !is_variable_name(name) {
            return Err(MarkError::Variable);
        }
        if matches!(name, "CURSOR_API_KEY" | "CURSOR_AUTH_TOKEN") {
            return Err(MarkError::Secret);
        }
        if let Some(reserved) = reserved(name) {
            return Err(MarkError::ReservedVariable(reserved));
        }
        check_value(value)?;
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

/// A name that a shell would take too.
pub fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn check_value(value: &str) -> Result<(), MarkError> {
    let is_fine = value.len() <= LONGEST_VALUE && !value.contains(char::is_control);
    if is_fine { Ok(()) } else { Err(MarkError::Value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_words_that_are_no_ids() {
        for text in ["nightly", "a", "fix-42", "v1.2_x", "bad-bee-f00d-zoo", "abc"] {
            assert!(text.parse::<RunName>().is_ok(), "{text}");
        }
        for text in ["", "-", "-x", "a b", "a/b", "ä", "../x", &"x".repeat(65)] {
            assert_eq!(text.parse::<RunName>(), Err(MarkError::Name), "{text}");
        }
        for text in ["beef", "BEEF", "0191d0f6", "dead-beef"] {
            assert_eq!(text.parse::<RunName>(), Err(MarkError::LooksLikeAnId), "{text}");
        }
    }

    #[test]
    fn a_label_of_the_command_line_wins() {
        let config = BTreeMap::from(
            [("team", "core"), ("env", "ci")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let flags = ["team=web".parse().unwrap(), "note=a=b".parse().unwrap()];
        let labels = labels(&config, &flags).unwrap();
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(labels, ["env=ci", "note=a=b", "team=web"]);
    }

    #[test]
    fn odd_labels_are_refused() {
        for text in ["", "x", "=v", "a b=c", "x=\u{1b}[2J"] {
            assert!(text.parse::<Label>().is_err(), "{text:?}");
        }
        let config = BTreeMap::from([("a b".to_owned(), String::new())]);
        assert_eq!(labels(&config, &[]), Err(MarkError::Label));
    }

    #[test]
    fn variables_that_hold_secrets_or_move_the_agent_are_refused() {
        assert_eq!(
            "RUST_LOG=debug".parse(),
            Ok(Variable { name: "RUST_LOG".to_owned(), value: "debug".to_owned() })
        );
        for (text, error) in [
            ("CURSOR_API_KEY=x", MarkError::Secret),
            ("LD_PRELOAD=x", MarkError::ReservedVariable(Reserved::Loader)),
            ("XDG_CONFIG_HOME=/x", MarkError::ReservedVariable(Reserved::Ours)),
            ("HOME=/x", MarkError::ReservedVariable(Reserved::Ours)),
            ("HTTPS_PROXY=http://x", MarkError::ReservedVariable(Reserved::Proxy)),
            ("1X=x", MarkError::Variable),
            ("X", MarkError::Variable),
            ("X=\n", MarkError::Value),
        ] {
            assert_eq!(text.parse::<Variable>(), Err(error), "{text}");
        }
    }
}
