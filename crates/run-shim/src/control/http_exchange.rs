//! One request to the daemon and its answer: HTTP/1.1 over a Unix socket, with a new connection each time.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The longest answer.
const LONGEST_ANSWER: u64 = 256 * 1024 * 1024;

/// Sends a request, and waits for the whole answer. Returns its status and its body.
pub fn exchange(
    socket: &Path,
    request: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    patience: Duration,
) -> io::Result<(u16, Vec<u8>)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let mut head = format!(
        "{request} HTTP/1.1\r\nhost: caretaker\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let mut message = head.into_bytes();
    message.extend_from_slice(body);
    stream.write_all(&message)?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer)?;
    parse_answer(&answer).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Returns the status and the body of an answer. The daemon closes the connection after each answer.
fn parse_answer(answer: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let body = &answer[end + 4..];
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    // If the body has a different length, the connection broke.
    match length {
        Some(length) if length != body.len() => None,
        _ => Some((status, body.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_needs_a_status_and_its_whole_body() {
        let whole = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(parse_answer(whole), Some((404, b"{}".to_vec())));
        assert_eq!(parse_answer(&whole[..whole.len() - 1]), None);
        assert_eq!(parse_answer(b""), None);
        assert_eq!(parse_answer(b"SSH-2.0\r\n\r\n"), None);
    }
}
