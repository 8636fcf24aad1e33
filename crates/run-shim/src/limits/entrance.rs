//! Lets a child enter the control groups of its run before it becomes bubblewrap.
//!
//! Everything that bubblewrap starts is then in the groups from the beginning. Moving processes later makes the kernel
//! delay every fork and every exit on the machine until all processors have passed a quiescent point, which takes
//! milliseconds. A single thread that moves itself does not wait.

#![expect(unsafe_code, reason = "code between fork and exec, which no safe crate offers for this")]

use std::fs::File;
use std::io::Write;

use tokio::process::Command;

/// The open files that a thread uses to move itself into a run's groups. Empty if that is not possible.
#[derive(Debug, Default)]
pub(crate) struct Entrance(Vec<File>);

impl Entrance {
    pub(super) fn by(doors: Vec<File>) -> Self {
        Self(doors)
    }

    /// Lets the child of this command enter the groups. Call it before descriptors are mapped, because a mapping may
    /// take the number of one of these files.
    pub(crate) fn enter_first(self, command: &mut Command) {
        let enter = move || {
            for mut door in &self.0 {
                // Zero stands for the writing thread. If this fails, the shim moves the child later, and reports
                // errors.
                door.write_all(b"0").ok();
            }
            Ok(())
        };
        // SAFETY: between fork and exec, only code that is safe in a signal handler may run. This code writes to an
        // open descriptor: no allocation, no lock.
        unsafe { command.pre_exec(enter) };
    }
}
