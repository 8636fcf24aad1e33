//! The shim's own log, `shim.log`. It is the shim's stderr, with a limit.
//!
//! An agent can make the shim log the same thing again and again, for example by changing its login.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The largest log.
const MOST_BYTES: usize = 4 << 20;
const LAST_WORD: &[u8] = b"[caretaker: the rest was not kept]\n";

/// Starts logging.
pub(crate) fn start() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,rmcp=off"));
    let room = Arc::new(AtomicUsize::new(MOST_BYTES));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        // A log error, for example on a full disk, must not end the run.
        .log_internal_errors(false)
        .with_writer(move || Bounded { inner: io::stderr(), room: Arc::clone(&room) })
        .try_init()
        .ok();
}

/// Makes the run's log the shim's stderr. The process that started the shim has made the file.
pub(crate) fn write_to(path: &Path) {
    let log = OpenOptions::new().append(true).open(path);
    // The run does not depend on its log.
    log.and_then(|log| Ok(nix::unistd::dup2_stderr(&log)?)).ok();
}

/// Writes as long as there is room.
struct Bounded<W> {
    inner: W,
    /// The space that is left, which all writers share.
    room: Arc<AtomicUsize>,
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let take = |room: usize| Some(room.saturating_sub(line.len()));
        let room = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        match room.unwrap_or(0) {
            0 => {}
            room if room > line.len() => self.inner.write_all(line)?,
            _ => self.inner.write_all(LAST_WORD)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_says_so_once_and_grows_no_more() {
        let room = Arc::new(AtomicUsize::new(10));
        let mut log = Bounded { inner: Vec::new(), room };
        for _ in 0..5 {
            log.write_all(b"four").unwrap();
        }
        assert_eq!(log.inner, [b"fourfour".as_slice(), LAST_WORD].concat());
    }
}
