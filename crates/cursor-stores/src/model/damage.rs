//! What could not be read, said so that a user knows what is missing.

use serde::{Deserialize, Serialize};

/// One thing that is missing from a conversation or a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Damage {
    /// The part that is affected, in the words of the store: `message 12`, `turns[3]`, `bubbleId:…`.
    pub place: String,
    /// What is wrong with it, as a clause without a full stop.
    pub what: String,
}

impl Damage {
    #[must_use]
    pub fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }
}
