//! Caps: how many runs may be under way at once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The caps on runs under way. A group, model or account without a cap is limited by `total` alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Caps {
    /// All runs together.
    pub total: u32,
    /// By group name.
    #[serde(default)]
    pub groups: BTreeMap<String, u32>,
    /// By the requested model.
    #[serde(default)]
    pub models: BTreeMap<String, u32>,
    /// By the account.
    #[serde(default)]
    pub accounts: BTreeMap<String, u32>,
}

/// The kinds of caps.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CapKind {
    /// All runs together.
    Total,
    /// The runs of a group.
    Group,
    /// The runs with a model.
    Model,
    /// The runs of an account.
    Account,
}

impl Caps {
    /// The cap of a group, model or account; `None` if it has none.
    pub fn of(&self, kind: CapKind, name: &str) -> Option<u32> {
        match kind {
            CapKind::Total => Some(self.total),
            CapKind::Group => self.groups.get(name).copied(),
            CapKind::Model => self.models.get(name).copied(),
            CapKind::Account => self.accounts.get(name).copied(),
        }
    }

    /// Sets a cap, or removes it.
    pub fn set(&mut self, kind: CapKind, name: &str, cap: Option<u32>) {
        let named = match kind {
            CapKind::Total => {
                self.total = cap.unwrap_or(self.total);
                return;
            }
            CapKind::Group => &mut self.groups,
            CapKind::Model => &mut self.models,
            CapKind::Account => &mut self.accounts,
        };
        match cap {
            Some(cap) => drop(named.insert(name.to_owned(), cap)),
            None => drop(named.remove(name)),
        }
    }
}
