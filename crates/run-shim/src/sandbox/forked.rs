//! Small processes that begin as copies of the shim: the launch guard and the entry helper.
//!
//! A fork is ready immediately. Starting the program again would take more than a millisecond each time, on processors
//! that bubblewrap needs at the same moment. The price is that the shim must fork before it has a second thread.

#![expect(unsafe_code, reason = "fork, which is safe only in a process with one thread")]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::libc;
use nix::unistd::{ForkResult, dup2_stderr, dup2_stdin, dup2_stdout, fork};
use rustix::process::{Pid, Signal};

use super::first_process::FirstProcess;

/// The first descriptor after stdin, stdout and stderr.
const FIRST_OTHER_FD: libc::c_int = 3;

/// A forked copy of the shim that does other work.
#[derive(Debug)]
pub(crate) struct Forked {
    pid: Pid,
}

impl Forked {
    /// Runs `life` in a copy of this process. The copy keeps only `stdin`, and its output goes to `/dev/null`. Fails if
    /// this process has more than one thread.
    pub(super) fn begin(stdin: OwnedFd, life: impl FnOnce()) -> io::Result<Self> {
        if std::fs::read_dir("/proc/self/task")?.count() != 1 {
            return Err(io::Error::other("this process has more than one thread"));
        }
        let nowhere = std::fs::File::options().read(true).write(true).open("/dev/null")?;
        // SAFETY: this is the only thread, so the copy has no lock that another thread holds.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => {
                let pid = Pid::from_raw(child.as_raw()).ok_or(io::ErrorKind::NotFound)?;
                Ok(Self { pid })
            }
            ForkResult::Child => {
                // A panic must end the copy, not make it a second shim.
                let lived = catch_unwind(AssertUnwindSafe(|| {
                    keep_only(&stdin, &nowhere)?;
                    life();
                    io::Result::Ok(())
                }));
                // SAFETY: ends the copy immediately, without running the shim's own exit handlers.
                unsafe { libc::_exit(i32::from(!matches!(lived, Ok(Ok(()))))) }
            }
        }
    }

    /// Kills the copy. A process that is gone needs no signal.
    pub(super) fn kill(&self) {
        rustix::process::kill_process(self.pid, Signal::KILL).ok();
    }

    /// Reaps the copy whenever it ends. Until then, no other process gets its id.
    pub(super) fn reap_when_ended(self) {
        tokio::spawn(async move {
            if let Ok(process) = FirstProcess::open(self.pid) {
                process.ended().await;
                process.reap();
            }
        });
    }
}

/// Closes everything but stdin, and sends all output to `/dev/null`. If the copy kept the shim's pipes open, their
/// readers would miss the shim's end.
fn keep_only(stdin: &OwnedFd, nowhere: &impl AsFd) -> io::Result<()> {
    dup2_stdin(stdin)?;
    dup2_stdout(nowhere)?;
    dup2_stderr(nowhere)?;
    // SAFETY: this copy never uses or drops the owners of these descriptors again.
    unsafe { close_fds::close_open_fds(FIRST_OTHER_FD, &[]) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_more_than_one_thread_makes_no_copy() {
        let (reader, _writer) = io::pipe().unwrap();
        let refused = Forked::begin(reader.into(), || {}).unwrap_err();
        assert!(refused.to_string().contains("more than one thread"), "{refused}");
    }
}
