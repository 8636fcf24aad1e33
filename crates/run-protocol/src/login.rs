//! The reasons why the shim drops a login that an agent changed.

use serde::{Deserialize, Serialize};

/// Why the login in a run's private copy did not reach the user's own login file.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LoginDrop {
    /// The agent's copy is not a plain file, not a JSON object, or has no tokens in it.
    Malformed,
    /// The agent's copy, or a token in it, is larger than a login can be.
    Oversized,
    /// A token is missing, or is of a different kind than the user's token.
    OtherShape,
    /// The tokens belong to another account.
    OtherAccount,
    /// A field that is not a token differs from the user's.
    OtherFields,
    /// The tokens are older than the user's, or the user had them before.
    Replayed,
    /// The new access token has already expired.
    Expired,
    /// The user's own access token does not expire soon.
    NotDue,
    /// The user's login file changed as well, and wins.
    HostChanged,
    /// This run changed the user's login too often.
    TooMany,
    /// The shim could not back up the user's current login, or could not write the new one.
    NotWritten,
}
