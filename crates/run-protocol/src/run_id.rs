//! The id of a run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A run's id: a UUIDv7, so that ids sort by the time they were made.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(transparent)]
pub struct RunId(Uuid);

/// The text is not the id of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the id of a run")]
pub struct NotARunId(String);

impl RunId {
    /// A new id, greater than all earlier ones.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// When the id was made, in milliseconds since the epoch.
    pub fn created_ms(&self) -> u64 {
        let (seconds, nanoseconds) =
            self.0.get_timestamp().map_or((0, 0), |timestamp| timestamp.to_unix());
        seconds * 1000 + u64::from(nanoseconds / 1_000_000)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for RunId {
    type Err = NotARunId;

    fn from_str(text: &str) -> Result<Self, NotARunId> {
        // Accept only the form that Caretaker writes: lower case, with hyphens. An id is also a directory name, so it
        // must not have two forms.
        match Uuid::try_parse(text) {
            Ok(uuid) if uuid.to_string() == text && uuid.get_version_num() == 7 => Ok(Self(uuid)),
            _ => Err(NotARunId(text.to_owned())),
        }
    }
}

#[cfg(test)]
#[path = "run_id_tests.rs"]
mod tests;
