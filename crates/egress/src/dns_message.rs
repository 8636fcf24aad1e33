//! The small part of DNS that a sandbox needs: one question, and an answer with the shim's address or "no such name".

use run_protocol::{HostName, HostNameError};

/// The longest question over UDP. A longer message is not a real question, but may smuggle data out.
pub const LONGEST_UDP_QUERY: usize = 1232;

const HEADER: usize = 12;
/// Programs may cache an answer for this many seconds. It never changes while the sandbox exists.
const TIME_TO_LIVE: u32 = 60;
const CLASS_IN: u16 = 1;

/// The kind of question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryKind {
    /// The IPv4 address of a name.
    A,
    /// Anything else. The shim has no answer for it.
    Other,
}

/// One DNS question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsQuery {
    id: u16,
    wants_recursion: bool,
    /// Name, type and class as received, for the answer.
    question: Vec<u8>,
    pub kind: QueryKind,
    /// The name in the question, or its text if it is not a host name.
    pub name: Result<HostName, (String, HostNameError)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DnsReply {
    /// The name resolves to the shim.
    Known,
    /// There is no such name.
    Unknown,
}

impl DnsQuery {
    /// Reads a message. `None` for everything except one question about an internet name; the shim does not answer
    /// anything else.
    pub fn read(message: &[u8]) -> Option<Self> {
        let (header, body) = message.split_first_chunk::<HEADER>()?;
        let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let flags = number(2);
        let (is_answer, operation, is_cut) = (flags >> 15 & 1, flags >> 11 & 0xf, flags >> 9 & 1);
        let n_questions = number(4);
        let n_answers = number(6);
        if is_answer != 0 || operation != 0 || is_cut != 0 || n_questions != 1 || n_answers != 0 {
            return None;
        }
        let (labels, name_length) = labels(body)?;
        let (fixed, _) = body.get(name_length..)?.split_first_chunk::<4>()?;
        if u16::from_be_bytes([fixed[2], fixed[3]]) != CLASS_IN {
            return None;
        }
        let kind = match u16::from_be_bytes([fixed[0], fixed[1]]) {
            1 => QueryKind::A,
            _ => QueryKind::Other,
        };
        Some(Self {
            id: number(0),
            wants_recursion: flags >> 8 & 1 == 1,
            question: body[..name_length + 4].to_vec(),
            kind,
            name: host_name(&labels),
        })
    }

    /// Writes the answer.
    pub fn answer(&self, reply: DnsReply) -> Vec<u8> {
        const RESPONSE: u16 = 0x8000;
        const RECURSION_DESIRED: u16 = 0x0100;
        const RECURSION_AVAILABLE: u16 = 0x0080;
        const NO_SUCH_NAME: u16 = 3;
        let has_address = reply == DnsReply::Known && self.kind == QueryKind::A;
        let mut flags = RESPONSE | RECURSION_AVAILABLE;
        if self.wants_recursion {
            flags |= RECURSION_DESIRED;
        }
        if reply == DnsReply::Unknown {
            flags |= NO_SUCH_NAME;
        }
        let mut message = Vec::with_capacity(HEADER + self.question.len() + 16);
        for number in [self.id, flags, 1, u16::from(has_address), 0, 0] {
            message.extend_from_slice(&number.to_be_bytes());
        }
        message.extend_from_slice(&self.question);
        if has_address {
            // A pointer to the name in the question, which begins after the header.
            message.extend_from_slice(&[0xc0, HEADER as u8, 0, 1, 0, 1]);
            message.extend_from_slice(&TIME_TO_LIVE.to_be_bytes());
            message.extend_from_slice(&[0, 4, 127, 0, 0, 1]);
        }
        message
    }
}

/// The labels of the question's name, and its length in bytes. A question has no compressed names.
fn labels(body: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let mut labels = Vec::new();
    let mut at = 0;
    loop {
        let length = usize::from(*body.get(at)?);
        at += 1;
        match length {
            0 => return Some((labels, at)),
            1..=63 => labels.push(body.get(at..at + length)?),
            _ => return None,
        }
        at += length;
        if at > 254 {
            return None;
        }
    }
}

fn host_name(labels: &[&[u8]]) -> Result<HostName, (String, HostNameError)> {
    // A dot inside a label would look like a separator between two labels.
    let inner_dot = labels.iter().any(|label| label.contains(&b'.'));
    let joined = labels.join(&b'.');
    let name = match inner_dot {
        true => Err(HostNameError::Byte(b'.')),
        false => HostName::read(&joined),
    };
    name.map_err(|reason| (String::from_utf8_lossy(&joined).into_owned(), reason))
}

#[cfg(test)]
#[path = "dns_message_tests.rs"]
mod tests;
