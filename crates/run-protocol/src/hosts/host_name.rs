//! A strictly checked host name.
//!
//! Attackers get around allow-lists where the checker and the resolver read the same bytes differently: a NUL, a
//! trailing dot, upper case, a disguised address. So this type accepts only one spelling of a name and refuses all
//! others.

use std::fmt;
use std::str::FromStr;

/// The longest name that DNS can carry.
const LONGEST: usize = 253;
const LONGEST_LABEL: usize = 63;

/// Lower-case letters, digits and dashes in at least two labels. The last label does not begin with a digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

/// Why some text is not a host name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostNameError {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than {LONGEST} bytes")]
    TooLong,
    #[error("it has upper-case letters")]
    UpperCase,
    #[error("it has non-ASCII letters; write it in its encoded form, which begins with `xn--`")]
    NotAscii,
    #[error("it has a byte that is not allowed in a name")]
    Byte(u8),
    #[error("it ends in a dot")]
    TrailingDot,
    #[error("one of its labels is empty")]
    EmptyLabel,
    #[error("one of its labels is longer than {LONGEST_LABEL} bytes")]
    LongLabel,
    #[error("one of its labels begins or ends with a dash")]
    Dash,
    #[error("it is an address, not a name")]
    Address,
    #[error("it has no dot")]
    OneLabel,
}

impl HostName {
    /// Reads a name from untrusted bytes.
    pub fn read(bytes: &[u8]) -> Result<Self, HostNameError> {
        if bytes.is_empty() {
            return Err(HostNameError::Empty);
        }
        if bytes.len() > LONGEST {
            return Err(HostNameError::TooLong);
        }
        if let Some(odd) = bytes.iter().copied().find(|byte| !is_plain(*byte)) {
            return Err(match odd {
                b'A'..=b'Z' => HostNameError::UpperCase,
                b'[' | b']' | b':' => HostNameError::Address,
                0x80.. => HostNameError::NotAscii,
                other => HostNameError::Byte(other),
            });
        }
        if bytes.last() == Some(&b'.') {
            return Err(HostNameError::TrailingDot);
        }
        let mut last: &[u8] = b"";
        let mut n_labels = 0;
        for label in bytes.split(|byte| *byte == b'.') {
            check_label(label)?;
            last = label;
            n_labels += 1;
        }
        // No top-level domain begins with a digit, and every way to write an address ends in a part that does.
        if last.first().is_some_and(u8::is_ascii_digit) {
            return Err(HostNameError::Address);
        }
        if n_labels < 2 {
            return Err(HostNameError::OneLabel);
        }
        // The checks above made sure that every byte is ASCII.
        Ok(Self(bytes.iter().map(|byte| char::from(*byte)).collect()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if this name is below another name, and not that name itself.
    pub fn is_below(&self, parent: &Self) -> bool {
        self.0.strip_suffix(parent.as_str()).is_some_and(|rest| rest.ends_with('.'))
    }
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.')
}

fn check_label(label: &[u8]) -> Result<(), HostNameError> {
    match label {
        [] => Err(HostNameError::EmptyLabel),
        _ if label.len() > LONGEST_LABEL => Err(HostNameError::LongLabel),
        [b'-', ..] | [.., b'-'] => Err(HostNameError::Dash),
        _ => Ok(()),
    }
}

impl FromStr for HostName {
    type Err = HostNameError;

    fn from_str(text: &str) -> Result<Self, HostNameError> {
        Self::read(text.as_bytes())
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

#[cfg(test)]
#[path = "host_name_tests.rs"]
mod tests;
