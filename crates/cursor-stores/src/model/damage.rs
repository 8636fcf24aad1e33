//! Damage that a user should know about.

use serde::{Deserialize, Serialize};

/// A part of a conversation or a store that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Damage {
    /// The affected part, as the store names it: `message 12`, `turns[3]`, `bubbleId:…`.
    pub place: String,
    /// The problem, as a clause without a full stop.
    pub what: String,
}

impl Damage {
    #[must_use]
    pub fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }
}
