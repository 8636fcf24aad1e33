//! bubblewrap or a keeper, and the processes below it.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sandbox_plan::SandboxPlan;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::first_process::{FirstProcess, end_adopted};
use super::record::{Ends, SandboxRecord};
use crate::limits::HeldProcesses;
use crate::sandbox::mount_watch::MountWatch;

/// The time for bubblewrap to report the agent's exit code after its sandbox is dead.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// bwrap and its namespace.
///
/// **Invariant:** [`SandboxProcess::wait`] returns only when the first process of the namespace is dead, and with it
/// all others.
pub(crate) struct SandboxProcess {
    bwrap: Child,
    status: StatusLines,
    first: FirstProcess,
    record: SandboxRecord,
    /// Ends the agent of a keeper that died first.
    ends_kept: Option<JoinHandle<()>>,
    /// When the shim saw that the namespace was dead.
    dead_since: Option<Instant>,
}

/// bubblewrap's reports on `--json-status-fd`.
pub(super) struct StatusLines(Lines<BufReader<pipe::Receiver>>);

/// One line of the reports.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Status {
    pub(super) child_pid: Option<i32>,
    pub(super) exit_code: Option<i32>,
}

impl StatusLines {
    pub(super) fn new(pipe: pipe::Receiver) -> Self {
        Self(BufReader::new(pipe).lines())
    }

    pub(super) async fn next(&mut self) -> Option<Status> {
        let line = self.0.next_line().await.ok().flatten()?;
        serde_json::from_str(&line).ok()
    }
}

impl SandboxProcess {
    /// Wraps a bubblewrap that has reported the first process of its namespace.
    pub(super) async fn new(
        bwrap: Child,
        status: StatusLines,
        first: Pid,
        ends: Ends,
    ) -> io::Result<Self> {
        let opened = match ends {
            Ends::WithItsFirst => FirstProcess::open_in_namespace(first),
            Ends::WhenAsked => FirstProcess::open(first),
        };
        match opened {
            Ok(first) => {
                let record = SandboxRecord::of(first.pid, ends);
                Ok(Self { bwrap, status, first, record, ends_kept: None, dead_since: None })
            }
            Err(error) => {
                end_unheard(bwrap).await;
                Err(error)
            }
        }
    }

    /// The host pid of the namespace's first process.
    pub(super) fn first(&self) -> Pid {
        self.first.pid
    }

    pub(super) fn record(&self) -> &SandboxRecord {
        &self.record
    }

    /// Returns whether the namespace is alive.
    pub(super) fn is_alive(&self) -> bool {
        self.first.is_alive()
    }

    /// Returns whether bubblewrap is alive. If the shim dies, bubblewrap ends the sandbox.
    pub(super) fn is_held(&mut self) -> bool {
        matches!(self.bwrap.try_wait(), Ok(None))
    }

    /// Returns bwrap and all current processes below it.
    pub(super) fn all(&self) -> io::Result<HeldProcesses> {
        let bwrap = self.bwrap.id().ok_or(io::ErrorKind::NotFound)?;
        let mut all = vec![bwrap];
        let mut next = 0;
        while let Some(pid) = all.get(next) {
            for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
                let children = std::fs::read_to_string(thread?.path().join("children"))?;
                all.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            }
            next += 1;
        }
        Ok(HeldProcesses { all, init: pid_number(self.first.pid) })
    }

    /// Watches the mounts of the plan.
    pub(crate) fn watch_mounts(&self, plan: &Arc<SandboxPlan>) -> io::Result<MountWatch> {
        MountWatch::new(Arc::clone(plan), pid_number(self.first.pid))
    }

    /// Signals the agent. bwrap would kill everything at once, and the namespace's first process would ignore the
    /// signal.
    pub(crate) fn signal_agent(&self, signal: Signal) -> io::Result<()> {
        let first = self.first.pid.as_raw_nonzero();
        let children = std::fs::read_to_string(format!("/proc/{first}/task/{first}/children"))?;
        // The first child is the agent. Later ones are orphans that the first process adopted.
        let payload = children
            .split_whitespace()
            .find_map(|pid| pid.parse().ok().and_then(Pid::from_raw))
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let payload = pidfd_open(payload, PidfdFlags::empty())?;
        Ok(pidfd_send_signal(&payload, signal)?)
    }

    /// Kills the whole namespace.
    pub(crate) fn kill(&mut self) {
        self.first.signal(self.record.ends.signal());
        // The agent may have stopped its keeper, which then gets no signal until it continues.
        self.first.signal(Signal::CONT);
    }

    /// Waits for the end of the sandbox. If bubblewrap ends first, it ends the sandbox. Cancel safe.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        if self.dead_since.is_none() {
            tokio::select! {
                biased;
                () = self.first.ended() => {}
                _ = self.bwrap.wait() => {
                    self.end_what_is_left();
                    self.first.ended().await;
                }
            }
            self.end_what_is_left();
            if let Some(ends_kept) = &mut self.ends_kept {
                ends_kept.await.ok();
            }
            // The runtime reaps a keeper. The first process of a namespace is bubblewrap's child, or the shim adopted
            // it.
            if self.record.ends == Ends::WithItsFirst {
                self.first.reap();
            }
        }
        let dead_since = *self.dead_since.get_or_insert_with(Instant::now);
        if tokio::time::timeout_at(dead_since + LAST_WORDS, self.bwrap.wait()).await.is_err() {
            tracing::warn!("bubblewrap is stuck, and its sandbox is dead");
            self.bwrap.start_kill().ok();
        }
        self.bwrap.wait().await
    }

    /// If bubblewrap or the keeper is gone, ends the processes that it left. For a loop that may never reach the wait,
    /// because the agent prints without end.
    pub(crate) fn end_if_unheld(&mut self) {
        if !self.is_held() {
            self.end_what_is_left();
        }
    }

    /// Ends the remaining processes if bubblewrap died before it bound the sandbox to its own lifetime, or a keeper
    /// died before its agent.
    fn end_what_is_left(&mut self) {
        match self.record.ends {
            Ends::WithItsFirst => self.first.signal(Signal::KILL),
            Ends::WhenAsked => {
                let record = &self.record;
                self.ends_kept.get_or_insert_with(|| {
                    let record = record.clone();
                    tokio::task::spawn_blocking(move || {
                        if let Err(error) = record.end_kept() {
                            tracing::warn!(%error, "the keeper died before its agent");
                        }
                    })
                });
            }
        }
    }

    /// Waits until bubblewrap or the first process of its sandbox is gone. Cancel safe.
    pub(super) async fn lost(&mut self) {
        tokio::select! {
            _ = self.bwrap.wait() => {}
            () = self.first.ended() => {}
        }
    }

    /// Returns the agent's exit code when the sandbox has ended. `None` if the agent never ran, or was killed from
    /// outside.
    pub(crate) async fn exit_code(&mut self) -> Option<i32> {
        let mut exit_code = None;
        while let Some(status) = self.status.next().await {
            exit_code = status.exit_code.or(exit_code);
        }
        exit_code
    }
}

impl Drop for SandboxProcess {
    /// Kills a sandbox if the shim did not wait for its end.
    fn drop(&mut self) {
        self.first.signal(self.record.ends.signal());
    }
}

/// Ends a bubblewrap that never reported the first process of its namespace, and that process too.
pub(super) async fn end_unheard(mut bwrap: Child) {
    bwrap.kill().await.ok();
    end_adopted().await;
}

pub(super) fn pid_number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}
