//! On which terms a run waits in the queue.

use serde::{Deserialize, Serialize};

use crate::RunId;

/// How a queued run waits for its turn. Holds no secret: of keys only their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueTerms {
    /// Higher ones go first; whoever waits long enough overtakes them.
    #[serde(default)]
    pub priority: i32,
    /// Not to be started before this, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before_ms: Option<u64>,
    /// Not to be started before these are over, however they came out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<RunId>,
    /// Not to be started before these have succeeded; not at all if one does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_ok: Vec<RunId>,
    /// Whose limits at the vendor it counts against: a name of the user's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The variables with which it logs in. Their values are given to the daemon and kept in its memory alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
}
