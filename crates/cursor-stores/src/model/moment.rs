//! Points in time, and how precise they are.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Moment {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The source of the time.
    pub confidence: Confidence,
}

/// The source of a time. Better sources sort first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The store recorded it for this exact event.
    Recorded,
    /// Interpolated between two recorded times.
    Interpolated,
    /// The modification time of the file that holds it.
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

    /// A file's time, as the file system gives it.
    #[must_use]
    pub(crate) fn of_file_time(time: SystemTime) -> Self {
        let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self::of_file(match time.duration_since(UNIX_EPOCH) {
            Ok(since) => ms(since),
            Err(before) => -ms(before.duration()),
        })
    }

    #[must_use]
    pub fn of_file(at_ms: i64) -> Self {
        Self { at_ms, confidence: Confidence::FileTime }
    }
}
