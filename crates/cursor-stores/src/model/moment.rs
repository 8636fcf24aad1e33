//! Points in time, and how well they are known.

use serde::{Deserialize, Serialize};

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Moment {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// How it is known.
    pub confidence: Confidence,
}

/// How a time is known. Better ones are smaller.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The store says it of this very thing.
    Recorded,
    /// Between two recorded times, spread evenly.
    Interpolated,
    /// The file that holds it changed then.
    FileTime,
}

impl Moment {
    #[must_use]
    pub fn recorded(at_ms: i64) -> Self {
        Self { at_ms, confidence: Confidence::Recorded }
    }

    #[must_use]
    pub fn interpolated(at_ms: i64) -> Self {
        Self { at_ms, confidence: Confidence::Interpolated }
    }

    #[must_use]
    pub fn of_file(at_ms: i64) -> Self {
        Self { at_ms, confidence: Confidence::FileTime }
    }
}
