//! Talks to the daemon over its socket: one request per connection, JSON both ways.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use admission::command_error::{CommandError, OrFail};
use admission::host::Host;
use caretaker_daemon::{PROTOCOL, Presence, QueueGate, presence};
use run_protocol::ExitCode;
use run_shim::http_exchange::exchange;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A live daemon answers within this time.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a daemon that holds its lock may take to start listening.
const COMING_UP: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A daemon that answers and speaks our protocol.
#[derive(Debug)]
pub(crate) struct DaemonClient {
    socket: PathBuf,
}

/// The daemon's refusal.
#[derive(Debug, Deserialize)]
struct RefusalBody {
    error: String,
    hint: Option<String>,
}

/// The error for a command that needs the daemon.
pub(crate) fn no_queue() -> CommandError {
    CommandError::new(ExitCode::DaemonUnavailable, "daemon not running")
        .hint("start it: caretaker daemon start")
}

impl DaemonClient {
    /// The daemon for this state directory, or `None` if none is running. Refuses a daemon that speaks a different
    /// protocol.
    pub(crate) fn find(host: &Host) -> Result<Option<Self>, CommandError> {
        let deadline = Instant::now() + COMING_UP;
        loop {
            let note = match daemon_presence(host)? {
                // If systemd listens on the socket, a connection starts the daemon.
                Presence::None => return Self::activate(&host.places.daemon_socket()),
                Presence::Held(note) => note,
            };
            if let Some(note) = note {
                if note.protocol != PROTOCOL {
                    return Err(other_protocol(note.protocol, &note.version));
                }
                let socket = note.socket.0;
                if UnixStream::connect(&socket).is_ok() {
                    return Ok(Some(Self { socket }));
                }
            }
            // The daemon is starting or has just ended: check its lock again.
            if Instant::now() > deadline {
                let what = "the daemon is running but does not answer";
                return Err(CommandError::new(ExitCode::DaemonUnavailable, what)
                    .hint("restart it: caretaker daemon restart"));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn activate(socket: &Path) -> Result<Option<Self>, CommandError> {
        #[derive(Deserialize)]
        struct Version {
            protocol: u32,
            version: String,
        }
        if UnixStream::connect(socket).is_err() {
            return Ok(None);
        }
        let daemon = Self { socket: socket.to_owned() };
        let found: Version = daemon.get("/v1/version")?;
        if found.protocol != PROTOCOL {
            return Err(other_protocol(found.protocol, &found.version));
        }
        Ok(Some(daemon))
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandError> {
        self.ask("GET", path, &[])
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, CommandError> {
        let body = serde_json::to_vec(body).map_err(|error| broke_off(error.into()))?;
        self.ask("POST", path, &body)
    }

    /// True if the daemon answers.
    pub(crate) fn answers(&self) -> bool {
        self.get::<serde_json::Value>("/v1/version").is_ok()
    }

    pub(crate) fn queue_gate(&self) -> Result<QueueGate, CommandError> {
        #[derive(Deserialize)]
        struct Gate {
            gate: QueueGate,
        }
        self.get::<Gate>("/v1/queue").map(|queue| queue.gate)
    }

    fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Result<T, CommandError> {
        let protocol = PROTOCOL.to_string();
        let headers = [("caretaker-protocol", protocol.as_str())];
        let request = format!("{method} {path}");
        let (status, answer) =
            exchange(&self.socket, &request, &headers, body, PATIENCE).map_err(broke_off)?;
        if (200..300).contains(&status) {
            return serde_json::from_slice(&answer).map_err(|error| broke_off(error.into()));
        }
        let refusal: RefusalBody = serde_json::from_slice(&answer).unwrap_or(RefusalBody {
            error: format!("the daemon refused the request with status {status}"),
            hint: None,
        });
        let code = match status {
            400 => ExitCode::Usage,
            404 => ExitCode::NotFound,
            409 => ExitCode::Conflict,
            426 | 503 => ExitCode::DaemonUnavailable,
            _ => ExitCode::Failed,
        };
        Err(CommandError::new(code, refusal.error).hint_if_any(refusal.hint))
    }
}

/// Checks whether a daemon is running.
pub(crate) fn daemon_presence(host: &Host) -> Result<Presence, CommandError> {
    presence(&host.state).or_fail(|| "cannot tell whether a daemon is running")
}

fn broke_off(error: io::Error) -> CommandError {
    CommandError::new(ExitCode::DaemonUnavailable, "the daemon does not answer").because(error)
}

/// The error for a daemon that speaks a different protocol. Its hint says which of the two programs to replace.
pub(crate) fn other_protocol(theirs: u32, version: &str) -> CommandError {
    let what = format!(
        "the running daemon is caretaker {version} with protocol {theirs}, but this caretaker speaks protocol {PROTOCOL}"
    );
    let hint = if theirs < PROTOCOL {
        "replace it: caretaker daemon restart; runs continue in the meantime"
    } else {
        "use the newer caretaker; this one can still run commands that only read"
    };
    CommandError::new(ExitCode::DaemonUnavailable, what).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_protocol_is_named_with_the_program_to_replace() {
        let older = other_protocol(0, "0.0.9").text();
        assert!(older.contains("0.0.9") && older.contains("daemon restart"), "{older}");
        let newer = other_protocol(99, "9.0.0");
        assert_eq!(newer.exit_code(), ExitCode::DaemonUnavailable);
        assert!(newer.text().contains("protocol 99"));
    }
}
