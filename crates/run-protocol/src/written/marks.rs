//! A run's name, its labels, and the variables for its agent.

use std::fmt;
use std::str::FromStr;

use super::reserved_variables::{Reserved, reserved};
use super::text_serde;

/// The longest name of a run, and of a label.
const LONGEST_NAME: usize = 64;
const LONGEST_VALUE: usize = 1024;

/// A run's name. It cannot be mistaken for an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunName(String);

/// Why a name, a label or a variable cannot be used.
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

/// `NAME=VALUE`, a user's label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    pub name: String,
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
    /// Checks name and value.
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
    pub name: String,
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
    /// Checks that the user may set this variable, and its value.
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

/// For `#[serde(with = …)]`: a list of pairs as one object. If a name occurs twice, the last value wins.
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

/// True if a shell would accept the name.
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
#[path = "marks_tests.rs"]
mod tests;
