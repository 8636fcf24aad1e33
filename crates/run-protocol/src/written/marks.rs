//! What a user calls a run: its name, its labels, and variables for its agent.

use std::fmt;
use std::str::FromStr;

use super::reserved_variables::{Reserved, reserved};
use super::text_serde;

/// The longest name of a run, and of a label.
const LONGEST_NAME: usize = 64;
const LONGEST_VALUE: usize = 1024;

/// A name that cannot be mistaken for an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunName(String);

/// Why a name, a label or a variable cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarkError {
    /// It is no name.
    #[error(
        "a name has 1 to 64 letters, digits, `.`, `_` or `-`, and begins with a letter or digit"
    )]
    Name,
    /// It may be taken for an id.
    #[error("this name could be mistaken for the beginning of a run's id")]
    LooksLikeAnId,
    /// It is no label.
    #[error("a label is written NAME=VALUE; its name has letters, digits, `.`, `_`, `-` or `/`")]
    Label,
    /// It is no variable.
    #[error("a variable is written NAME=VALUE; its name has letters, digits and `_`")]
    Variable,
    /// Its value cannot be written down.
    #[error("a value has no control characters and at most 1024 bytes")]
    Value,
    /// The variable is not the user's to set.
    #[error("this variable {0}; {hint}", hint = .0.hint())]
    ReservedVariable(Reserved),
    /// It is a secret.
    #[error(
        "a secret does not belong on a command line or into a run's spec; CURSOR_API_KEY is taken from caretaker's own \
         environment, and --secret NAME=env:VARIABLE or NAME=file:PATH is for others"
    )]
    Secret,
}

impl RunName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

text_serde!(RunName, "a name");

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
pub struct Label {
    /// What is marked.
    pub name: String,
    /// With what.
    pub value: String,
}

impl FromStr for Label {
    type Err = MarkError;

    fn from_str(text: &str) -> Result<Self, MarkError> {
        let (name, value) = text.split_once('=').ok_or(MarkError::Label)?;
        Self::new(name, value)
    }
}

impl Label {
    /// A label that may be written down.
    pub fn new(name: &str, value: &str) -> Result<Self, MarkError> {
        let is_name = (1..=LONGEST_NAME).contains(&name.len())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/'));
        if !is_name {
            return Err(MarkError::Label);
        }
        check_value(value)?;
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

/// `NAME=VALUE`, a variable for the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value, no secret.
    pub value: String,
}

impl FromStr for Variable {
    type Err = MarkError;

    fn from_str(text: &str) -> Result<Self, MarkError> {
        let (name, value) = text.split_once('=').ok_or(MarkError::Variable)?;
        Self::new(name, value)
    }
}

impl Variable {
    /// A variable that the user may set.
    pub fn new(name: &str, value: &str) -> Result<Self, MarkError> {
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

/// Labels and variables are objects in JSON: `{"NAME": "VALUE"}`.
pub(crate) trait Pair: Sized {
    fn of(name: &str, value: &str) -> Result<Self, MarkError>;
    fn parts(&self) -> (&str, &str);
}

macro_rules! pair {
    ($($kind:ident),*) => {$(
        impl Pair for $kind {
            fn of(name: &str, value: &str) -> Result<Self, MarkError> {
                Self::new(name, value)
            }

            fn parts(&self) -> (&str, &str) {
                (&self.name, &self.value)
            }
        }
    )*};
}
pair!(Label, Variable);

/// For `#[serde(with = …)]`: a list of pairs as one object. The last of a name counts.
pub(crate) mod as_object {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::Pair;

    pub(crate) fn serialize<T: Pair, S: Serializer>(
        pairs: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(pairs.iter().map(Pair::parts).collect::<BTreeMap<_, _>>())
    }

    pub(crate) fn deserialize<'de, T: Pair, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<T>, D::Error> {
        let pairs = BTreeMap::<String, String>::deserialize(deserializer)?;
        let pairs = pairs.iter().map(|(name, value)| T::of(name, value));
        pairs.collect::<Result<_, _>>().map_err(de::Error::custom)
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
    fn odd_labels_are_refused() {
        for text in ["", "x", "=v", "a b=c", "x=\u{1b}[2J"] {
            assert!(text.parse::<Label>().is_err(), "{text:?}");
        }
        assert_eq!(Label::new("a b", ""), Err(MarkError::Label));
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
