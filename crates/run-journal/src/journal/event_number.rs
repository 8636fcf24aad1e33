//! The numbers of events, and the positions from which a journal can be read.

use std::fmt;
use std::str::FromStr;

use run_protocol::Epoch;
use serde::{Deserialize, Serialize};

/// The number of an event. A later event has a greater number, even across epochs.
///
/// Written as `17`, and as `2:17` in an epoch after the first.
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
pub struct EventNumber {
    /// Counted from one. A new epoch begins when a process opens the journal again after its writer died.
    #[schema(value_type = u32)]
    pub epoch: Epoch,
    /// Unique within the epoch.
    pub seq: u64,
}

/// Where a reader begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The first line.
    Start,
    /// After this event, even if it or the next one does not exist yet.
    After(EventNumber),
    /// This many events at the end.
    Tail(u64),
}

/// The text is not an event number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an event number: expected `17`, or `2:17` for a later epoch")]
pub struct NotAnEventNumber(String);

impl EventNumber {
    /// The epoch that every journal begins with.
    pub const FIRST_EPOCH: Epoch = 1;
}

impl fmt::Display for EventNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.epoch {
            Self::FIRST_EPOCH => write!(formatter, "{}", self.seq),
            epoch => write!(formatter, "{epoch}:{}", self.seq),
        }
    }
}

impl FromStr for EventNumber {
    type Err = NotAnEventNumber;

    fn from_str(text: &str) -> Result<Self, NotAnEventNumber> {
        let refused = || NotAnEventNumber(text.to_owned());
        let (epoch, seq) = match text.split_once(':') {
            Some((epoch, seq)) => (epoch.parse().map_err(|_| refused())?, seq),
            None => (Self::FIRST_EPOCH, text),
        };
        Ok(Self { epoch, seq: seq.parse().map_err(|_| refused())? })
    }
}

#[cfg(test)]
#[path = "event_number_tests.rs"]
mod tests;
