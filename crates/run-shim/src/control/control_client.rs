//! Sends requests to one run's shim over its control socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use run_protocol::{ControlReply, ControlRequest, RunId};

/// The shim must answer within this time. A healthy shim answers immediately.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest reply.
const LONGEST_REPLY: u64 = 64 * 1024;

/// Why a shim did not carry out a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    #[error("its socket cannot be reached")]
    Connect(#[source] io::Error),
    #[error("the connection to it broke")]
    Conversation(#[source] io::Error),
    #[error("another run answers on its socket")]
    WrongRun,
    #[error("this caretaker does not understand its answer")]
    Unexpected,
    #[error("it refused: {0}")]
    Refused(String),
}

/// Sends one request to the run's shim, and waits until the shim confirms it.
pub fn order(socket: &Path, run: RunId, request: &ControlRequest) -> Result<(), ControlError> {
    order_within(PATIENCE, socket, run, request)
}

/// Like [`order`], but with a deadline for the greeting. Once the request is sent, the shim has the usual time to
/// answer, because the same request sent twice may mean something else.
pub fn order_within(
    patience: Duration,
    socket: &Path,
    run: RunId,
    request: &ControlRequest,
) -> Result<(), ControlError> {
    let stream = UnixStream::connect(socket).map_err(ControlError::Connect)?;
    stream.set_read_timeout(Some(patience)).map_err(ControlError::Conversation)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(ControlError::Conversation)?;
    converse(stream, run, request)
}

fn converse(stream: UnixStream, run: RunId, request: &ControlRequest) -> Result<(), ControlError> {
    let broke_off = ControlError::Conversation;
    let mut replies = BufReader::new(&stream);
    match next_reply(&mut replies)? {
        ControlReply::Hello { run: answering, .. } if answering == run => {}
        ControlReply::Hello { .. } => return Err(ControlError::WrongRun),
        _ => return Err(ControlError::Unexpected),
    }
    stream.set_read_timeout(Some(PATIENCE)).map_err(broke_off)?;
    let mut line = serde_json::to_vec(request).map_err(|error| broke_off(error.into()))?;
    line.push(b'\n');
    (&stream).write_all(&line).map_err(broke_off)?;
    match next_reply(&mut replies)? {
        ControlReply::Ok => Ok(()),
        ControlReply::Refused { reason } => Err(ControlError::Refused(reason)),
        _ => Err(ControlError::Unexpected),
    }
}

fn next_reply(replies: &mut BufReader<&UnixStream>) -> Result<ControlReply, ControlError> {
    let mut line = Vec::new();
    let length = replies
        .take(LONGEST_REPLY)
        .read_until(b'\n', &mut line)
        .map_err(ControlError::Conversation)?;
    if length == 0 {
        return Err(ControlError::Conversation(io::ErrorKind::UnexpectedEof.into()));
    }
    serde_json::from_slice(&line).map_err(|_| ControlError::Unexpected)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use run_protocol::StopManner;

    use super::*;

    const STOP: ControlRequest = ControlRequest::Stop { manner: StopManner::Ladder };

    /// Plays a shim that sends these lines. Returns what it received.
    fn with_shim(run: RunId, says: &[&str]) -> (Result<(), ControlError>, String) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let says: String = says.iter().map(|line| format!("{line}\n")).collect();
        let shim = thread::spawn(move || {
            (&theirs).write_all(says.as_bytes()).unwrap();
            theirs.shutdown(std::net::Shutdown::Write).unwrap();
            let mut heard = String::new();
            (&theirs).read_to_string(&mut heard).unwrap();
            heard
        });
        let outcome = converse(ours, run, &STOP);
        (outcome, shim.join().unwrap())
    }

    fn hello(run: RunId) -> String {
        format!("{{\"reply\":\"hello\",\"run\":\"{run}\",\"journal\":1}}")
    }

    #[test]
    fn a_request_is_sent_after_the_greeting_and_confirmed() {
        let run = RunId::generate();
        let (outcome, heard) = with_shim(run, &[&hello(run), r#"{"reply":"ok"}"#]);
        assert!(outcome.is_ok());
        assert_eq!(heard, "{\"request\":\"stop\",\"manner\":\"ladder\"}\n");
    }

    #[test]
    fn another_run_gets_no_request() {
        let (outcome, heard) =
            with_shim(RunId::generate(), &[&hello(RunId::generate()), r#"{"reply":"ok"}"#]);
        assert!(matches!(outcome, Err(ControlError::WrongRun)));
        assert_eq!(heard, "");
    }

    #[test]
    fn a_refusal_an_unexpected_answer_and_silence_are_different_errors() {
        let run = RunId::generate();
        let hello = hello(run);
        let refused = r#"{"reply":"refused","reason":"over"}"#;
        let (outcome, _) = with_shim(run, &[&hello, refused]);
        assert!(matches!(outcome, Err(ControlError::Refused(reason)) if reason == "over"));
        let (outcome, _) = with_shim(run, &[&hello, "what?"]);
        assert!(matches!(outcome, Err(ControlError::Unexpected)));
        let (outcome, _) = with_shim(run, &[&hello]);
        assert!(matches!(outcome, Err(ControlError::Conversation(_))));
    }
}
