//! The name of a run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A run's id: a UUIDv7, so that ids sort by the time of their making.
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
    /// A new id, later than all before it.
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
        // Only the form with hyphens, in lower case, is ever written: an id is also the name of a directory.
        match Uuid::try_parse(text) {
            Ok(uuid) if uuid.to_string() == text && uuid.get_version_num() == 7 => Ok(Self(uuid)),
            _ => Err(NotARunId(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_and_sorts_by_time() {
        let first = RunId::generate();
        let second = RunId::generate();
        assert!(first < second);
        assert_eq!(first.to_string().parse(), Ok(first));
        assert!(first.created_ms() > 1_700_000_000_000);
    }

    #[test]
    fn what_is_no_v7_in_plain_form_is_refused() {
        for text in [
            "",
            "..",
            "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11",
            "0191D0F6-0000-7000-8000-000000000000",
        ] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
    }
}
