//! Ends an unfinished sandbox if the shim dies during the launch.
//!
//! bubblewrap binds itself to its parent's lifetime, and the first process of its sandbox to its own lifetime, but not
//! immediately. If the shim dies in between, that first process waits forever, although no agent runs in it. So a
//! second process, the guard, watches each launch. All processes of the launch are in the shim's process group until
//! the agent gets its own session:
//!
//! ```text
//!   shim ──► guard's stdin: one byte            "the agent is at the gate"  ──► the guard exits
//!            end of file                        "the shim is dead"          ──► SIGKILL to the shim's process group
//! ```

use std::io::{self, PipeWriter, Write};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgrp, getpid, setpgid};

use super::forked::Forked;

/// The guard of a launch. Dropping it without [`LaunchGuard::dismiss`] has the same effect as the shim's death.
#[derive(Debug)]
pub(crate) struct LaunchGuard {
    post: io::Result<Post>,
}

#[derive(Debug)]
enum Post {
    Stands {
        word: PipeWriter,
        process: Forked,
    },
    /// The shim shares its process group, for example because a user started it by hand.
    NotNeeded,
    /// The guard has exited.
    Left,
}

impl LaunchGuard {
    /// Starts a guard. Call it before this process has a second thread.
    pub(crate) fn post() -> Self {
        if getpgrp() != getpid() {
            return Self { post: Ok(Post::NotNeeded) };
        }
        let group = getpgrp();
        let post = io::pipe().and_then(|(reader, word)| {
            let process = Forked::begin(reader.into(), || guard(group))?;
            Ok(Post::Stands { word, process })
        });
        Self { post }
    }

    /// Checks that the guard exists. The launch must not begin without it.
    pub(crate) fn check(&mut self) -> io::Result<()> {
        match &self.post {
            Ok(Post::Stands { .. } | Post::NotNeeded) => Ok(()),
            Ok(Post::Left) => Err(io::Error::other("the guard was already dismissed")),
            Err(_) => std::mem::replace(&mut self.post, Ok(Post::Left)).map(drop),
        }
    }

    /// Dismisses the guard. By now, the kernel has bound the sandbox to the shim's lifetime, or there is no sandbox.
    pub(crate) fn dismiss(&mut self) {
        if let Ok(Post::Stands { mut word, process }) =
            std::mem::replace(&mut self.post, Ok(Post::Left))
        {
            // An error means that the guard is gone, which is fine.
            word.write_all(b"!").ok();
            process.reap_when_ended();
        }
    }
}

/// The guard's main function: kills the shim's process group if the shim dies without dismissing the guard.
fn guard(group: Pid) {
    // The guard must survive the signal that it sends.
    if setpgid(Pid::from_raw(0), Pid::from_raw(0)).is_err() {
        return;
    }
    let mut word = [0];
    loop {
        match nix::unistd::read(io::stdin().as_fd(), &mut word) {
            Ok(0) => break,
            Err(Errno::EINTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
    // An empty group needs no signal.
    killpg(group, Signal::SIGKILL).ok();
}
