//! A flag that Ctrl-C sets, for work that must clean up before it ends.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use admission::command_error::{CommandError, OrFail};
use run_protocol::ExitCode;

use crate::running::interruption::TakenSignals;

/// Set when the user wants the work to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Takes over the signals. The second signal ends the process immediately.
    pub(crate) fn on_signals() -> Result<Self, CommandError> {
        let cancellation = Self::default();
        let signals = TakenSignals::block().or_fail(|| "cannot wait for signals")?;
        let asked = cancellation.clone();
        thread::spawn(move || {
            while signals.wait().is_ok() {
                if asked.0.swap(true, Ordering::Relaxed) {
                    std::process::exit(i32::from(ExitCode::Cancelled as u8));
                }
            }
        });
        Ok(cancellation)
    }

    pub(crate) fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// A writer that fails as soon as the user cancels.
    pub(crate) fn stopping<'a>(&'a self, out: &'a mut dyn Write) -> impl Write + 'a {
        Stopping { cancellation: self, out }
    }
}

struct Stopping<'a> {
    cancellation: &'a Cancellation,
    out: &'a mut dyn Write,
}

impl Write for Stopping<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.cancellation.is_asked_for() {
            return Err(io::Error::other("cancelled"));
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
