//! The proxy that the machine itself uses, as its `HTTPS_PROXY` names it.

use std::fmt;
use std::io;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use egress::ConnectTarget;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest answer from a proxy.
const LONGEST_ANSWER: usize = 8 * 1024;

/// `http://[user:password@]host[:port]`.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamProxy {
    host: String,
    port: u16,
    /// `user:password`, in base64.
    credentials: Option<String>,
}

/// Why the shim cannot use a proxy. The message does not repeat the proxy's URL, which may contain a password.
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
            // Most programs accept a proxy without a scheme.
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
        let credentials =
            user.map(|user| STANDARD.encode(percent_decode_str(user).collect::<Vec<u8>>()));
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

    /// Asks the proxy for a host, and returns once bytes can flow.
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
        // Byte by byte, because the bytes after the head belong to the client.
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
            _ => Err(io::Error::other(format!("it answered {status}"))),
        }
    }
}

// Leaves out the credentials.
impl fmt::Debug for UpstreamProxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "UpstreamProxy({}:{})", self.host, self.port)
    }
}

#[cfg(test)]
#[path = "upstream_proxy_tests.rs"]
mod tests;
