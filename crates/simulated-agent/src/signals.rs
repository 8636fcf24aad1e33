//! SIGINT and SIGTERM, taken by a thread of their own: no handler, no unsafe code.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};

use crate::output::Output;
use crate::tools::ProcessGroups;

/// A reader that stopped reading holds up the end of the line for so long at most.
const LAST_LINE: Duration = Duration::from_millis(250);

/// Whether signals are heeded.
#[derive(Clone, Default)]
pub struct Ears {
    deaf: Arc<AtomicBool>,
}

impl Ears {
    /// From now on SIGINT and SIGTERM do nothing.
    pub fn close(&self) {
        self.deaf.store(true, Ordering::SeqCst);
    }
}

/// Begins to heed signals. Must come before any other thread starts: threads inherit the mask.
pub fn listen(output: Arc<Output>, processes: ProcessGroups) -> nix::Result<Ears> {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    signals.thread_block()?;
    let ears = Ears::default();
    let deaf = Arc::clone(&ears.deaf);
    thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            if !deaf.load(Ordering::SeqCst) {
                end(signal, &output, &processes);
            }
        }
    });
    Ok(ears)
}

fn end(signal: Signal, output: &Output, processes: &ProcessGroups) -> ! {
    // Stop talking before the tools die, else their deaths would be reported as results.
    output.stop(LAST_LINE);
    processes.kill_all();
    if signal == Signal::SIGINT {
        io::stderr().write_all(b"Aborting operation...\n").ok();
    }
    std::process::exit(128 + signal as i32)
}
