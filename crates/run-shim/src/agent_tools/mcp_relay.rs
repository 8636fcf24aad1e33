//! The program that the agent starts as its MCP server: it copies bytes between stdio and the run's socket.
//!
//! **Invariant:** the agent never waits for an answer that cannot come. If the shim is not listening on the socket, the
//! relay immediately answers every request with an error. If the connection breaks, the relay exits, and the agent's
//! open requests fail.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use serde_json::{Value, json};

const BUFFER_BYTES: usize = 16 * 1024;
/// The longest line that an agent may send.
const MOST_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Relays stdin and stdout until one side ends. A thread may still be reading stdin, so the process should exit after
/// this.
///
/// If it cannot reach the socket, it fails after the end of stdin.
pub fn relay(socket: &Path) -> io::Result<()> {
    relay_between(io::stdin(), io::stdout(), socket)
}

fn relay_between(
    input: impl Read + Send + 'static,
    mut output: impl Write,
    socket: &Path,
) -> io::Result<()> {
    let connected =
        UnixStream::connect(socket).and_then(|stream| Ok((stream.try_clone()?, stream)));
    match connected {
        Ok((to_server, from_server)) => {
            thread::Builder::new().name("stdin".to_owned()).spawn(move || {
                copy(input, &to_server).ok();
                // The agent will send nothing more, but may still be waiting for answers.
                to_server.shutdown(Shutdown::Write).ok();
            })?;
            copy(from_server, output)
        }
        Err(err) => {
            answer_with_errors(BufReader::new(input), &mut output, &err)?;
            Err(err)
        }
    }
}

/// Copies bytes as soon as they arrive. A closed connection is not an error.
fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let copied = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n_bytes) => to.write_all(&buffer[..n_bytes]).and_then(|()| to.flush()),
            Err(err) => Err(err),
        };
        match copied {
            Err(err) if err.kind() == ErrorKind::Interrupted => {}
            Err(err) if is_gone(&err) => return Ok(()),
            copied => copied?,
        }
    }
}

fn is_gone(err: &io::Error) -> bool {
    matches!(err.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

fn answer_with_errors(
    mut input: impl BufRead,
    output: &mut impl Write,
    why: &io::Error,
) -> io::Result<()> {
    let mut line = Vec::new();
    while let Some(length) = read_line(&mut input, &mut line)? {
        let ids = match length {
            Length::Whole => requested_ids(&line),
            // The relay did not keep the part with the request's id.
            Length::Cut => vec![Value::Null],
        };
        for id in ids {
            let error = json!({
                "code": -32000,
                "message": "caretaker is not reachable",
                "data": {"reason": why.to_string()},
            });
            writeln!(output, "{}", json!({"jsonrpc": "2.0", "id": id, "error": error}))?;
        }
        output.flush()?;
    }
    Ok(())
}

/// Returns the ids of the requests in a line, which may be a batch. Notifications and answers have no id.
fn requested_ids(line: &[u8]) -> Vec<Value> {
    let messages = match serde_json::from_slice(line) {
        Ok(Value::Array(messages)) => messages,
        Ok(message) => vec![message],
        Err(_) => Vec::new(),
    };
    let requests = messages.iter().filter(|message| message["method"].is_string());
    requests.filter_map(|request| request.get("id").cloned()).collect()
}

enum Length {
    Whole,
    Cut,
}

/// Reads a line, but keeps no more than the longest line. Returns `None` at the end of the input.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<Length>> {
    line.clear();
    let mut length = Length::Whole;
    loop {
        let chunk = match input.fill_buf() {
            Ok(chunk) => chunk,
            Err(err) if err.kind() == ErrorKind::Interrupted => continue,
            Err(err) => return Err(err),
        };
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let n_bytes = end.map_or(chunk.len(), |end| end + 1);
        if line.len() + n_bytes <= MOST_LINE_BYTES {
            line.extend_from_slice(&chunk[..n_bytes]);
        } else {
            length = Length::Cut;
        }
        let is_over = chunk.is_empty();
        input.consume(n_bytes);
        if end.is_some() || is_over {
            let is_nothing = is_over && line.is_empty() && matches!(length, Length::Whole);
            return Ok((!is_nothing).then_some(length));
        }
    }
}

#[cfg(test)]
#[path = "mcp_relay_tests.rs"]
mod tests;
