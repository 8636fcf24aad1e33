//! Reads the claims of a token that is a JSON Web Token. They are not verified, because only the server can check the
//! signature.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// The claims that name the account and the purpose. A renewal changes none of them.
const ACCOUNT: &[&str] = &[
    "sub",
    "iss",
    "aud",
    "azp",
    "client_id",
    "type",
    "email",
    "user",
    "user_id",
    "userId",
    "account",
    "account_id",
    "accountId",
    "org_id",
    "team_id",
    "tid",
];
/// A token is near its end in the last quarter of its life, or in the last hour if it has no issue time.
const LAST_PART: u64 = 4;
const LAST_HOUR: u64 = 3600;
/// A token is always near its end for at least this many seconds, because an agent renews it some time before it
/// expires.
const SHORTEST_END: u64 = 300;

/// The claims of a JSON Web Token.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Claims(Map<String, Value>);

impl Claims {
    /// Returns `None` for any other kind of token.
    pub(super) fn of(token: &str) -> Option<Self> {
        let mut parts = token.split('.');
        let (header, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
        let object = |part: &str| -> Option<Map<String, Value>> {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).ok()?).ok()
        };
        object(header)?;
        let is_whole = !signature.is_empty() && parts.next().is_none();
        is_whole.then_some(Self(object(claims)?))
    }

    pub(super) fn is_of_the_same_account(&self, other: &Self) -> bool {
        ACCOUNT.iter().all(|name| self.0.get(*name) == other.0.get(*name))
    }

    /// The account's human-readable name.
    pub(super) fn account(&self) -> Option<&str> {
        ["email", "sub"].into_iter().find_map(|name| self.0.get(name)?.as_str())
    }

    /// Seconds since 1970.
    pub(super) fn expires(&self) -> Option<u64> {
        seconds(self.0.get("exp")?)
    }

    /// Seconds since 1970. In Cursor's tokens, the claim is `time`.
    fn issued(&self) -> Option<u64> {
        ["iat", "time"].into_iter().find_map(|name| seconds(self.0.get(name)?))
    }

    /// Returns whether this token was issued before the other one, or expires before it.
    pub(super) fn is_older_than(&self, other: &Self) -> bool {
        let is_less = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => one < other,
            // A token without the claim may be of any age.
            (one, other) => one.is_none() && other.is_some(),
        };
        is_less(self.issued(), other.issued()) || is_less(self.expires(), other.expires())
    }

    /// Returns whether the token expired or expires soon. `None` if it has no expiry time.
    pub(super) fn is_near_its_end(&self, now: u64) -> Option<bool> {
        let expires = self.expires()?;
        let life = self.issued().and_then(|issued| expires.checked_sub(issued));
        let end = life.map_or(LAST_HOUR, |life| life / LAST_PART).max(SHORTEST_END);
        Some(expires.saturating_sub(now) <= end)
    }
}

/// Reads a number of seconds. It may be a string.
fn seconds(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => {
            number.as_u64().or_else(|| number.as_f64().filter(|it| *it >= 0.0).map(|it| it as u64))
        }
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}
