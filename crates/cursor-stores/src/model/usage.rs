//! Token counts, if a store knows them.

use serde::{Deserialize, Serialize};

/// The tokens used. Unknown counts are absent, never zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct TokenUsage {
    /// Tokens that the models read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Tokens that the models wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Tokens read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Tokens written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// A part of `output`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// How full the model's context is: a snapshot, not a sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_used: Option<u64>,
    /// The size of the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_limit: Option<u64>,
}

impl TokenUsage {
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Adds two counts, either of which may be unknown.
    #[must_use]
    pub(crate) fn sum(known: Option<Self>, later: Option<Self>) -> Option<Self> {
        match (known, later) {
            (Some(known), Some(later)) => Some(known.plus(later)),
            (known, later) => known.or(later),
        }
    }

    /// Adds the tokens of a later turn. The later snapshot of the context replaces the earlier one.
    #[must_use]
    pub fn plus(self, later: Self) -> Self {
        let sum = |left: Option<u64>, right: Option<u64>| match (left, right) {
            (Some(left), Some(right)) => Some(left.saturating_add(right)),
            (left, right) => left.or(right),
        };
        Self {
            input: sum(self.input, later.input),
            output: sum(self.output, later.output),
            cache_read: sum(self.cache_read, later.cache_read),
            cache_write: sum(self.cache_write, later.cache_write),
            reasoning: sum(self.reasoning, later.reasoning),
            context_used: later.context_used.or(self.context_used),
            context_limit: later.context_limit.or(self.context_limit),
        }
    }
}
