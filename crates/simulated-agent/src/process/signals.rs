//! A thread that waits for SIGINT and SIGTERM and ends the process.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::groups::ProcessGroups;
use super::stdout::Output;

/// The last line may take at most this long. A reader that stopped reading must not keep the process alive.
const LAST_LINE: Duration = Duration::from_millis(250);

/// Turns off the reaction to signals.
#[derive(Clone, Default)]
pub struct Ears {
    deaf: Arc<AtomicBool>,
}

impl Ears {
    /// Makes SIGINT and SIGTERM do nothing from now on.
    pub fn close(&self) {
        self.deaf.store(true, Ordering::SeqCst);
    }
}

/// Starts the thread. No signal is blocked or ignored, so children inherit nothing.
pub fn listen(output: Arc<Output>, processes: ProcessGroups) -> io::Result<Ears> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let ears = Ears::default();
    let deaf = Arc::clone(&ears.deaf);
    thread::spawn(move || {
        for signal in signals.forever() {
            if !deaf.load(Ordering::SeqCst) {
                end(signal, &output, &processes);
            }
        }
    });
    Ok(ears)
}

fn end(signal: i32, output: &Output, processes: &ProcessGroups) -> ! {
    // Stop stdout first. Otherwise the agent would print the deaths of the tools as their results.
    output.stop(LAST_LINE);
    processes.kill_all();
    if signal == SIGINT {
        io::stderr().write_all(b"Aborting operation...\n").ok();
    }
    std::process::exit(128 + signal)
}
