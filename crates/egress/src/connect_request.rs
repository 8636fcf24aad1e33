//! Reads a client's request to a proxy. Only `CONNECT host:port` is allowed.

use run_protocol::{HostName, HostNameError};

/// The longest request head. The shim does not wait for a longer one.
pub const LONGEST_HEAD: usize = 8 * 1024;

/// The host and port that a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectTarget {
    pub host: HostName,
    pub port: u16,
}

/// The result of reading the bytes so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadState {
    Incomplete,
    Complete {
        target: ConnectTarget,
        /// The length of the head. The bytes after it are for the host.
        length: usize,
    },
}

/// Why the shim does not serve a client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    #[error("the head of its request is longer than {LONGEST_HEAD} bytes")]
    TooLong,
    #[error("its request is malformed")]
    Malformed,
    #[error("`{method}` is not allowed, only CONNECT")]
    Method { method: String, host: Option<HostName> },
    #[error("`{authority}` does not name a port from 1 to 65535")]
    Port { authority: String },
    #[error("`{authority}` does not name a host: {reason}")]
    Name { authority: String, reason: HostNameError },
}

/// Reads everything that a client has sent so far.
pub fn read_head(received: &[u8]) -> Result<HeadState, ConnectError> {
    let head = &received[..received.len().min(LONGEST_HEAD)];
    let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") else {
        return match received.len() < LONGEST_HEAD {
            true => Ok(HeadState::Incomplete),
            false => Err(ConnectError::TooLong),
        };
    };
    let lines = head[..end + 2].split_inclusive(|byte| *byte == b'\n');
    let mut lines = lines.map(|line| line.strip_suffix(b"\r\n").ok_or(ConnectError::Malformed));
    let request = lines.next().ok_or(ConnectError::Malformed)??;
    for line in lines {
        check_field(line?)?;
    }
    Ok(HeadState::Complete { target: target(request)?, length: end + 4 })
}

/// Checks the form of a header field. Its value has no effect.
fn check_field(line: &[u8]) -> Result<(), ConnectError> {
    let (name, value) = match line.iter().position(|byte| *byte == b':') {
        Some(colon) => line.split_at(colon),
        None => return Err(ConnectError::Malformed),
    };
    let is_token = |byte: &u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(byte);
    let is_text = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    let is_good = !name.is_empty() && name.iter().all(is_token) && value.iter().all(is_text);
    if is_good { Ok(()) } else { Err(ConnectError::Malformed) }
}

fn target(request: &[u8]) -> Result<ConnectTarget, ConnectError> {
    let words: Vec<&[u8]> = request.split(|byte| *byte == b' ').collect();
    let [method, authority, b"HTTP/1.1" | b"HTTP/1.0"] = words[..] else {
        return Err(ConnectError::Malformed);
    };
    if method != b"CONNECT" {
        if method.is_empty() || !method.iter().all(u8::is_ascii_alphabetic) {
            return Err(ConnectError::Malformed);
        }
        let method = String::from_utf8_lossy(method).into_owned();
        return Err(ConnectError::Method { method, host: host_of_url(authority) });
    }
    let shown = || String::from_utf8_lossy(authority).into_owned();
    let bad_port = || ConnectError::Port { authority: shown() };
    let colon = authority.iter().rposition(|byte| *byte == b':').ok_or_else(bad_port)?;
    let (host, port) = (&authority[..colon], &authority[colon + 1..]);
    let host =
        HostName::read(host).map_err(|reason| ConnectError::Name { authority: shown(), reason })?;
    Ok(ConnectTarget { host, port: port_number(port).ok_or_else(bad_port)? })
}

/// The host of a plain HTTP request, for the error message.
fn host_of_url(url: &[u8]) -> Option<HostName> {
    let rest = url.strip_prefix(b"http://").or_else(|| url.strip_prefix(b"https://"))?;
    let host = rest.split(|byte| matches!(byte, b'/' | b':' | b'?' | b'#')).next()?;
    HostName::read(host).ok()
}

/// Reads a port. It must have no sign and no leading zero.
fn port_number(text: &[u8]) -> Option<u16> {
    let is_plain = matches!(text, [b'1'..=b'9', ..]) && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()
}

#[cfg(test)]
#[path = "connect_request_tests.rs"]
mod tests;
