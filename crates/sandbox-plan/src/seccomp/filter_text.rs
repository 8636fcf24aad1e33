//! The text of a filter, and the table of system call numbers.

use std::collections::BTreeMap;

use seccompiler::{BackendError, SeccompCmpOp, SeccompCondition, SeccompRule};
use serde::Deserialize;

use super::{Architecture, FilterError, condition};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FilterText {
    pub(super) errno: String,
    pub(super) refuse: Vec<Refusal>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Refusal {
    /// An explanation for the reader of the file.
    #[serde(rename = "why")]
    _why: String,
    pub(super) syscalls: Vec<String>,
    #[serde(default)]
    when: Vec<When>,
}

/// A condition on an argument. Exactly one of the three lists must be present.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct When {
    argument: u8,
    #[serde(default)]
    has_any: Vec<u32>,
    #[serde(default)]
    one_of: Vec<u32>,
    #[serde(default)]
    none_of: Vec<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct SyscallTable(BTreeMap<String, Numbers>);

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Numbers {
    x86_64: Option<u32>,
    aarch64: Option<u32>,
}

impl FilterText {
    pub(super) fn read(file: &'static str, text: &str) -> Result<Self, FilterError> {
        toml::from_str(text)
            .map_err(|err| FilterError::Text { file, message: err.message().to_owned() })
    }
}

impl Refusal {
    /// Returns rules. The filter refuses the call if any of them applies, or always if there are none.
    pub(super) fn rules(&self) -> Result<Vec<SeccompRule>, BackendError> {
        // Each combination of one alternative per `when` is a rule.
        let mut rules: Vec<Vec<SeccompCondition>> = vec![Vec::new()];
        for when in &self.when {
            let alternatives = when.alternatives()?;
            rules = rules
                .iter()
                .flat_map(|rule| {
                    alternatives
                        .iter()
                        .map(move |alternative| rule.iter().chain(alternative).cloned().collect())
                })
                .collect();
        }
        match self.when.is_empty() {
            true => Ok(Vec::new()),
            false => rules.into_iter().map(SeccompRule::new).collect(),
        }
    }
}

impl When {
    fn alternatives(&self) -> Result<Vec<Vec<SeccompCondition>>, BackendError> {
        let one = |operator, value| condition(self.argument, operator, value);
        let mut alternatives = Vec::new();
        for bits in &self.has_any {
            alternatives.push(vec![one(SeccompCmpOp::MaskedEq(u64::from(*bits)), *bits)?]);
        }
        for value in &self.one_of {
            alternatives.push(vec![one(SeccompCmpOp::Eq, *value)?]);
        }
        if !self.none_of.is_empty() {
            let all: Result<Vec<_>, _> =
                self.none_of.iter().map(|value| one(SeccompCmpOp::Ne, *value)).collect();
            alternatives.push(all?);
        }
        // An empty condition must not become a rule without conditions.
        if alternatives.is_empty() { Err(BackendError::EmptyRule) } else { Ok(alternatives) }
    }
}

impl SyscallTable {
    pub(super) fn read(text: &str) -> Result<Self, FilterError> {
        toml::from_str(text).map_err(|err| FilterError::Text {
            file: "syscalls",
            message: err.message().to_owned(),
        })
    }

    pub(super) fn numbers(&self, syscall: &str) -> Option<Numbers> {
        self.0.get(syscall).copied()
    }

    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl Numbers {
    pub(super) fn on(self, architecture: Architecture) -> Option<u32> {
        match architecture {
            Architecture::X86_64 => self.x86_64,
            Architecture::Aarch64 => self.aarch64,
        }
    }
}
