//! Decides whether the tokens in an agent's copy of the login may replace the user's own. A pure function.
//!
//! It cannot tell a forged token from a genuine one for the same account, because only Cursor's server can check the
//! signature. So the rules limit when an agent may replace the tokens and which tokens it may offer, and Caretaker
//! keeps the previous login.

use cursor_home::{LOGIN_TOKENS, LONGEST_TOKEN, Login};
use run_protocol::LoginDrop;
use serde_json::{Map, Value};

use super::claims::Claims;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The agent changed nothing.
    Nothing,
    /// The new content of the user's file: its current content, with the agent's tokens.
    Carry(Vec<u8>),
    Drop(LoginDrop),
}

/// Decides about `offered`, the content of the agent's copy. `own` is the user's login. `was_before` returns whether
/// the user had a token earlier. `now` is in seconds since 1970.
pub(super) fn judge(
    own: &Login,
    offered: &[u8],
    was_before: impl Fn(&str) -> bool,
    now: u64,
) -> Verdict {
    match renewal(own, offered, was_before, now) {
        Ok(true) => {}
        Ok(false) => return Verdict::Nothing,
        Err(reason) => return Verdict::Drop(reason),
    }
    match Login::parse(offered).ok().and_then(|offered| own.refreshed_by(&offered)) {
        Some(content) => Verdict::Carry(content),
        None => Verdict::Nothing,
    }
}

/// Returns true if the copy has new tokens and they are acceptable.
fn renewal(
    own: &Login,
    offered: &[u8],
    was_before: impl Fn(&str) -> bool,
    now: u64,
) -> Result<bool, LoginDrop> {
    let offered: Map<String, Value> =
        serde_json::from_slice(offered).map_err(|_| LoginDrop::Malformed)?;
    let mut is_changed = false;
    for name in LOGIN_TOKENS {
        if own.fields().get(name) == offered.get(name) {
            continue;
        }
        let (Some(own), Some(offered)) = (own.token(name), token(&offered, name)?) else {
            return Err(LoginDrop::OtherShape);
        };
        is_changed = true;
        check_token(own, offered, now)?;
        if was_before(offered) {
            return Err(LoginDrop::Replayed);
        }
    }
    let is_due = own.token("accessToken").and_then(|token| Claims::of(token)?.is_near_its_end(now));
    check_fields(own, &offered, is_due.is_some())?;
    match (is_changed, is_due) {
        (true, Some(false)) => Err(LoginDrop::NotDue),
        (is_changed, _) => Ok(is_changed),
    }
}

/// Reads a token from the agent's copy, if it has one.
fn token<'a>(offered: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, LoginDrop> {
    let Some(token) = offered.get(name) else { return Ok(None) };
    let token = token.as_str().ok_or(LoginDrop::Malformed)?;
    if token.len() > LONGEST_TOKEN {
        return Err(LoginDrop::Oversized);
    }
    match !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(Some(token)),
        false => Err(LoginDrop::Malformed),
    }
}

/// Checks a token that would replace another.
fn check_token(own: &str, offered: &str, now: u64) -> Result<(), LoginDrop> {
    let (own, offered) = match (Claims::of(own), Claims::of(offered)) {
        (Some(own), Some(offered)) => (own, offered),
        (None, None) if are_of_like_length(own, offered) => return Ok(()),
        _ => return Err(LoginDrop::OtherShape),
    };
    if !own.is_of_the_same_account(&offered) {
        return Err(LoginDrop::OtherAccount);
    }
    if offered.is_older_than(&own) {
        return Err(LoginDrop::Replayed);
    }
    match offered.expires().is_some_and(|expires| expires <= now) {
        true => Err(LoginDrop::Expired),
        false => Ok(()),
    }
}

/// Tokens of one kind have about the same length.
fn are_of_like_length(one: &str, other: &str) -> bool {
    let (short, long) = (one.len().min(other.len()), one.len().max(other.len()));
    long <= short * 2
}

/// Checks that no other field differs. If the tokens name their account and their expiry, the agent may leave fields
/// out; the user's file keeps them.
fn check_fields(
    own: &Login,
    offered: &Map<String, Value>,
    may_leave_out: bool,
) -> Result<(), LoginDrop> {
    let own = own.fields();
    let names = own.keys().chain(offered.keys());
    let do_agree = names.filter(|name| !LOGIN_TOKENS.contains(&name.as_str())).all(|name| {
        match (own.get(name), offered.get(name)) {
            (Some(_), None) => may_leave_out,
            (own, offered) => own == offered,
        }
    });
    if do_agree { Ok(()) } else { Err(LoginDrop::OtherFields) }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
