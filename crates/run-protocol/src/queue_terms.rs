//! The conditions that a queued run waits for.

use serde::{Deserialize, Serialize};

use crate::RunId;

/// The conditions under which a queued run starts. Holds no secret, only the names of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueTerms {
    /// Runs with a higher priority start first; a run that waits long enough overtakes them.
    #[serde(default)]
    pub priority: i32,
    /// The run does not start before this time, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before_ms: Option<u64>,
    /// The run does not start before these runs have ended, with any outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<RunId>,
    /// The run does not start before these runs have succeeded, and never if one of them fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_ok: Vec<RunId>,
    /// The account at the vendor that the run counts against; the user chooses the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The names of the variables that the run logs in with. Only the daemon's memory has their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
}
