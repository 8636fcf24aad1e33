//! The proxy that the host itself needs to get out, as its `HTTPS_PROXY` names it.

use std::fmt;
use std::io;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use egress::ConnectTarget;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What a proxy may say before it passes bytes on.
const LONGEST_ANSWER: usize = 8 * 1024;

/// `http://[user:password@]host[:port]`.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamProxy {
    host: String,
    port: u16,
    /// `user:password`, in base64.
    credentials: Option<String>,
}

/// Why a proxy cannot be used. Does not repeat it: there may be a password in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamProxyError {
    #[error("it is not of the form http://[user:password@]host:port")]
    Scheme,
    #[error("its host or port cannot be used")]
    Authority,
}

impl FromStr for UpstreamProxy {
    type Err = UpstreamProxyError;

    fn from_str(text: &str) -> Result<Self, UpstreamProxyError> {
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(_) => return Err(UpstreamProxyError::Scheme),
            // Most programs take it so.
            None => text,
        };
        let rest = rest.trim_end_matches('/');
        let (user, authority) = match rest.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, rest),
        };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, port.parse().map_err(|_| UpstreamProxyError::Authority)?)
            }
            _ => (authority, 80),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_plain) {
            return Err(UpstreamProxyError::Authority);
        }
        let credentials = user.map(|user| STANDARD.encode(percent_decoded(user)));
        Ok(Self { host: host.to_owned(), port, credentials })
    }
}

impl UpstreamProxy {
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Asks the proxy for a host, and returns when bytes go through.
    pub(super) async fn ask(
        &self,
        mut stream: TcpStream,
        target: &ConnectTarget,
    ) -> io::Result<TcpStream> {
        let authority = format!("{}:{}", target.host, target.port);
        let mut head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
        if let Some(credentials) = &self.credentials {
            head.push_str(&format!("Proxy-Authorization: Basic {credentials}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await?;
        // Byte by byte: what comes behind the head is not ours.
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() >= LONGEST_ANSWER {
                return Err(io::Error::other("its answer does not end"));
            }
            answer.push(stream.read_u8().await?);
        }
        let status = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let status = String::from_utf8_lossy(status).into_owned();
        match status.split(' ').nth(1) {
            Some(code) if code.starts_with('2') => Ok(stream),
            _ => Err(io::Error::other(format!("it says {status}"))),
        }
    }
}

// There may be a password in it.
impl fmt::Debug for UpstreamProxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "UpstreamProxy({}:{})", self.host, self.port)
    }
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = match (first, after) {
            (b'%', [high, low, ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                digit(high)
                    .zip(digit(low))
                    .and_then(|(high, low)| u8::try_from(high * 16 + low).ok())
            }
            _ => None,
        };
        decoded.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    decoded
}

#[cfg(test)]
#[path = "upstream_tests.rs"]
mod tests;
