//! Tokens, where a store knows them.

use serde::{Deserialize, Serialize};

/// What was used. What is not known is absent, never zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct TokenUsage {
    /// What the models read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// What the models wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// What came from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// What went to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// A part of `output`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// How full the model's context is: a snapshot, not a sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_used: Option<u64>,
    /// How much fits into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_limit: Option<u64>,
}

impl TokenUsage {
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what another turn used. A snapshot is replaced by the later one.
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
