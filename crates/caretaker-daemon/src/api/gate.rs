//! Checks every client. On the Unix socket the kernel identifies the user. On loopback any process and any web page in
//! the user's browser can connect, so a client must send the token and the daemon's `Host`, but no foreign `Origin`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::body::with_whole_body;
use super::prompt_body::is_prompt;
use super::{ApiError, ErrorCode};
use crate::daemon::Daemon;
use crate::server::unknown_clients::LoopbackClient;

/// The header with the protocol version, in requests and answers.
pub(crate) const PROTOCOL_HEADER: &str = "caretaker-protocol";

/// The listener that a client connected to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Door {
    Unix,
    Loopback(SocketAddr),
}

pub(super) async fn check(
    State((daemon, door)): State<(Arc<Daemon>, Door)>,
    request: Request,
    next: Next,
) -> Response {
    daemon.counters.requests.one();
    let refusal = knock(&daemon, door, request.headers())
        .and_then(|()| take_place(&request))
        .and_then(|()| speaks_our_language(&daemon, request.headers()));
    let answer = match refusal {
        Ok(()) if is_prompt(&request) => Ok(next.run(request).await),
        Ok(()) => with_whole_body(&daemon.bodies, request, |request| next.run(request)).await,
        Err(error) => Err(error),
    };
    let mut response = answer.unwrap_or_else(|error| {
        daemon.counters.refused_requests.one();
        error.into_response()
    });
    let headers = response.headers_mut();
    headers.insert(PROTOCOL_HEADER, HeaderValue::from(daemon.note.protocol));
    headers.insert("cache-control", HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

fn knock(daemon: &Daemon, door: Door, headers: &HeaderMap) -> Result<(), ApiError> {
    let Door::Loopback(address) = door else { return Ok(()) };
    let forbidden = |what: &str| ApiError::new(ErrorCode::ForeignOrigin, what);
    // A page from another site can make a browser send requests here, under a host name that the page chose for this
    // machine.
    let host = only(headers, HOST.as_str()).ok_or_else(|| forbidden("the Host is missing"))?;
    if !is_own_host(host, address) {
        return Err(forbidden("the Host does not name this daemon"));
    }
    match headers.get_all(ORIGIN).iter().collect::<Vec<_>>().as_slice() {
        [] => {}
        [origin] => {
            let origin = origin.to_str().unwrap_or_default();
            if !origin.strip_prefix("http://").is_some_and(|host| is_own_host(host, address)) {
                return Err(forbidden("the request comes from another site"));
            }
        }
        _ => return Err(forbidden("more than one Origin")),
    }
    let shown =
        only(headers, AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix("Bearer "));
    let wanted = daemon.token.as_deref().unwrap_or_default();
    if wanted.is_empty() || !shown.is_some_and(|shown| is_same(shown, wanted)) {
        return Err(ApiError::new(ErrorCode::TokenMissing, "the token is missing or wrong")
            .hint("send `Authorization: Bearer …` with the content of the file `daemon.token`"));
    }
    Ok(())
}

/// Gives a client that has shown the token a slot for known clients.
fn take_place(request: &Request) -> Result<(), ApiError> {
    let Some(client) = request.extensions().get::<Arc<LoopbackClient>>() else { return Ok(()) };
    if client.take_place() {
        return Ok(());
    }
    Err(ApiError::new(ErrorCode::TooManyConnections, "the daemon has too many connections")
        .hint("close some pages or programs that use it, and try again"))
}

/// The header's value, if it was sent exactly once.
fn only<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn is_own_host(host: &str, address: SocketAddr) -> bool {
    let port = address.port();
    let names = ["127.0.0.1", "localhost", "[::1]"];
    names.iter().any(|name| {
        host.strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(':'))
            .is_some_and(|given| given == port.to_string())
    }) || host == address.to_string()
}

/// Compares in constant time, so that the time does not reveal how many characters match.
fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let differences = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && differences == 0
}

fn speaks_our_language(daemon: &Daemon, headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(spoken) = headers.get(PROTOCOL_HEADER) else { return Ok(()) };
    let ours = daemon.note.protocol;
    let spoken = spoken.to_str().unwrap_or_default();
    if spoken.parse() == Ok(ours) {
        return Ok(());
    }
    let what = format!("this daemon speaks protocol {ours}, the client speaks protocol {spoken}");
    Err(ApiError::new(ErrorCode::OtherProtocol, what)
        .hint("use the same version of caretaker for both: caretaker daemon restart"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_daemons_own_names_with_its_own_port_are_accepted_as_host() {
        let address: SocketAddr = "127.0.0.1:4321".parse().unwrap();
        for good in ["127.0.0.1:4321", "localhost:4321", "[::1]:4321"] {
            assert!(is_own_host(good, address), "{good}");
        }
        for bad in [
            "",
            "localhost",
            "localhost:80",
            "localhost:43210",
            "evil.example:4321",
            "127.0.0.1.evil.example:4321",
            "localhost:4321.evil.example",
            "user@localhost:4321",
        ] {
            assert!(!is_own_host(bad, address), "{bad}");
        }
    }

    #[test]
    fn only_identical_tokens_match() {
        assert!(is_same("abc", "abc"));
        for other in ["", "ab", "abd", "abcd"] {
            assert!(!is_same("abc", other), "{other}");
        }
    }
}
