//! A lost connection to the service: events on stdout, a notice for users on stderr.

use std::io::{self, Write};

use super::Turn;
use crate::process::ending::Ending;

const ENDPOINT: &str = "https://agentn.global.api5.cursor.sh";

/// The real agent fails after this many attempts.
const MOST_ATTEMPTS: u32 = 3;

impl Turn {
    /// Loses the connection and reconnects.
    pub fn reconnect(&self, attempt: u32) -> Result<(), Ending> {
        let mut stderr = io::stderr().lock();
        self.emit(&self.events.reconnecting(attempt, ENDPOINT))?;
        writeln!(stderr, "Connection lost, reconnecting to {ENDPOINT} (attempt {attempt})...")?;
        self.emit(&self.events.retry_starting(attempt))?;
        writeln!(stderr, "Retry attempt {attempt}...")?;
        self.emit(&self.events.reconnected())
    }

    /// Reconnects as many times as the real agent does, and then fails with this text on stderr.
    pub fn retry_in_vain(&self, complaint: &str) -> Result<(), Ending> {
        (1..=MOST_ATTEMPTS).try_for_each(|attempt| self.reconnect(attempt))?;
        Err(Ending::failure(complaint))
    }
}
