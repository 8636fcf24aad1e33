//! Reads the server name in a TLS client's first message, without decrypting anything.

use run_protocol::{HostName, HostNameError};

/// The longest first message, including its record headers. The shim does not wait for a longer one.
pub const LONGEST_HELLO: usize = 16 * 1024;

const RECORD_HEADER: usize = 5;
const HANDSHAKE_RECORD: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

/// The result of reading the bytes so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientHello {
    /// Too few bytes. Try again once there are at least this many.
    Incomplete { at_least: usize },
    /// The host that the client asks for.
    Asks(HostName),
}

/// Why the shim does not serve a client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    #[error("it is not TLS")]
    NotTls,
    #[error("its first message is longer than {LONGEST_HELLO} bytes")]
    TooLong,
    #[error("its first message is malformed")]
    Malformed,
    #[error("it does not name the server that it wants")]
    NoServerName,
    #[error("`{name}` is not a host name: {reason}")]
    Name { name: String, reason: HostNameError },
}

/// Reads everything that a client has sent so far.
pub fn server_name(received: &[u8]) -> Result<ClientHello, HelloError> {
    let mut message = Vec::new();
    let mut rest = received;
    loop {
        if let Some(body) = whole_message(&message)? {
            return hello_name(body).map(ClientHello::Asks);
        }
        let consumed = received.len() - rest.len();
        let Some((header, after)) = rest.split_first_chunk::<RECORD_HEADER>() else {
            // The first byte alone can already rule out TLS.
            if rest.first().is_some_and(|kind| *kind != HANDSHAKE_RECORD) {
                return Err(HelloError::NotTls);
            }
            return incomplete(consumed + RECORD_HEADER);
        };
        let [kind, major, _minor, high, low] = *header;
        if kind != HANDSHAKE_RECORD || major != 3 {
            return Err(HelloError::NotTls);
        }
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length == 0 {
            return Err(HelloError::Malformed);
        }
        let Some((payload, after)) = after.split_at_checked(length) else {
            return incomplete(consumed + RECORD_HEADER + length);
        };
        message.extend_from_slice(payload);
        rest = after;
    }
}

/// The TLS alert for a client that the shim refuses.
pub fn access_denied_alert() -> [u8; 7] {
    const ALERT: u8 = 21;
    const FATAL: u8 = 2;
    const ACCESS_DENIED: u8 = 49;
    [ALERT, 3, 3, 0, 2, FATAL, ACCESS_DENIED]
}

fn incomplete(at_least: usize) -> Result<ClientHello, HelloError> {
    if at_least > LONGEST_HELLO {
        return Err(HelloError::TooLong);
    }
    Ok(ClientHello::Incomplete { at_least })
}

/// The body of the first handshake message, if it is complete.
fn whole_message(message: &[u8]) -> Result<Option<&[u8]>, HelloError> {
    let Some((header, body)) = message.split_first_chunk::<4>() else { return Ok(None) };
    let [kind, high, middle, low] = *header;
    if kind != CLIENT_HELLO {
        return Err(HelloError::Malformed);
    }
    let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
    if length > LONGEST_HELLO {
        return Err(HelloError::TooLong);
    }
    Ok(body.get(..length))
}

fn hello_name(body: &[u8]) -> Result<HostName, HelloError> {
    let extensions = extensions(body).ok_or(HelloError::Malformed)?;
    let Some(extensions) = extensions else { return Err(HelloError::NoServerName) };
    let mut fields = Fields(extensions);
    let mut found = None;
    while !fields.0.is_empty() {
        let kind = fields.number().ok_or(HelloError::Malformed)?;
        let content = fields.long_vector().ok_or(HelloError::Malformed)?;
        // With two server names, the shim and the server could read different ones.
        if kind == SERVER_NAME && found.replace(content).is_some() {
            return Err(HelloError::Malformed);
        }
    }
    let found = found.ok_or(HelloError::NoServerName)?;
    let name = single_name(found).ok_or(HelloError::Malformed)?;
    HostName::read(name).map_err(|reason| HelloError::Name {
        name: String::from_utf8_lossy(name).into_owned(),
        reason,
    })
}

/// The extensions after the fixed part of the message. `Some(None)` if there are none, as before TLS 1.2.
fn extensions(body: &[u8]) -> Option<Option<&[u8]>> {
    let mut fields = Fields(body);
    let (_version, _random) = (fields.take(2)?, fields.take(32)?);
    let _session = fields.short_vector()?;
    let _ciphers = fields.long_vector()?;
    let _compression = fields.short_vector()?;
    if fields.0.is_empty() {
        return Some(None);
    }
    let extensions = fields.long_vector()?;
    fields.0.is_empty().then_some(Some(extensions))
}

/// The host name in the extension. `None` if the extension has several names, or another kind of name.
fn single_name(extension: &[u8]) -> Option<&[u8]> {
    let mut fields = Fields(extension);
    let mut names = Fields(fields.long_vector()?);
    let kind = *names.take(1)?.first()?;
    let name = names.long_vector()?;
    let is_alone = fields.0.is_empty() && names.0.is_empty();
    (is_alone && kind == HOST_NAME).then_some(name)
}

/// Reads bytes from the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes([*bytes.first()?, *bytes.last()?]))
    }

    fn short_vector(&mut self) -> Option<&'a [u8]> {
        let length = *self.take(1)?.first()?;
        self.take(length.into())
    }

    fn long_vector(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length.into())
    }
}

#[cfg(test)]
#[path = "client_hello_tests.rs"]
mod tests;
