//! Ends what we are starting if we die while we start it.
//!
//! bubblewrap binds itself to its parent's life, and the first process of its sandbox to its own, but not at once: if we
//! die in between, that first process waits for ever for somebody who is gone. Nothing of the agent's runs in it, but it
//! stays. So for the time of a launch a second process of ours stands by. Everything that is being started is in our
//! process group until the agent gets a session of its own:
//!
//! ```text
//!   shim ──► guard's stdin: one byte            "the agent is at the gate"  ──► the guard goes home
//!            end of file                        "the shim is dead"          ──► SIGKILL to the shim's process group
//! ```

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::process::{ExitCode, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgrp, getpid};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

/// The guard of a launch: on its way, at its post, sent home.
#[derive(Debug)]
pub(crate) enum PostedGuard {
    OnItsWay(JoinHandle<io::Result<LaunchGuard>>),
    Stands(LaunchGuard),
    Home,
}

impl PostedGuard {
    /// Sends a guard to its post, in a thread of its own.
    pub(crate) fn post() -> Self {
        Self::OnItsWay(tokio::task::spawn_blocking(LaunchGuard::post))
    }

    /// Waits until the guard stands by. Nothing may be started before.
    pub(crate) async fn stands(&mut self) -> io::Result<()> {
        if let Self::OnItsWay(posted) = self {
            let posted = posted.await.map_err(io::Error::other).flatten();
            *self = Self::Home;
            *self = Self::Stands(posted?);
        }
        match self {
            Self::Stands(_) => Ok(()),
            _ => Err(io::Error::other("it was sent home")),
        }
    }

    /// Sends the guard home, wherever it is: the sandbox is bound to our life by the kernel, or there is none.
    pub(crate) async fn dismiss(&mut self) {
        self.stands().await.ok();
        if let Self::Stands(guard) = std::mem::replace(self, Self::Home) {
            guard.dismiss().await;
        }
    }
}

/// A guard that stands by. Dropping it without [`LaunchGuard::dismiss`] means the same as our death.
#[derive(Debug)]
pub(crate) struct LaunchGuard {
    process: Option<Child>,
}

impl LaunchGuard {
    /// Posts a guard; `None` in it where our process group is not ours alone, as when a person started us by hand.
    fn post() -> io::Result<Self> {
        if getpgrp() != getpid() {
            return Ok(Self { process: None });
        }
        let process = Command::new(std::env::current_exe()?)
            .arg("launch-guard")
            .arg(getpid().to_string())
            .env_clear()
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { process: Some(process) })
    }

    async fn dismiss(mut self) {
        if let Some(mut stdin) = self.process.as_mut().and_then(|process| process.stdin.take()) {
            stdin.write_all(b"!").await.ok();
        }
        if let Some(mut process) = self.process.take() {
            // Nobody waits for it, but somebody must take note of its end.
            tokio::spawn(async move { process.wait().await.ok() });
        }
    }
}

/// The whole life of a guard: `caretaker launch-guard <process group>`.
pub fn launch_guard_main(arguments: &[OsString]) -> ExitCode {
    let group =
        arguments.first().and_then(|group| group.to_str()).and_then(|group| group.parse().ok());
    let Some(group) = group.filter(|group: &i32| *group > 1) else { return ExitCode::FAILURE };
    let mut word = [0];
    loop {
        match nix::unistd::read(io::stdin().as_fd(), &mut word) {
            Ok(0) => break,
            Ok(_) => return ExitCode::SUCCESS,
            Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return ExitCode::FAILURE,
        }
    }
    // A group that is gone needs no signal.
    killpg(Pid::from_raw(group), Signal::SIGKILL).ok();
    ExitCode::SUCCESS
}
