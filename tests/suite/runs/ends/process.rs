//! Processes that a test signals. They cannot be mistaken for later processes with the same pid.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::stage::Stage;

pub(super) struct Process {
    pub(super) pid: i32,
    fd: OwnedFd,
}

impl Process {
    #[track_caller]
    pub(super) fn open(pid: i32) -> Self {
        match pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) {
            Ok(fd) => Self { pid, fd },
            Err(errno) => panic!("process {pid}: {errno}"),
        }
    }

    /// Returns `None` if the process is gone.
    pub(super) fn find(pid: i32) -> Option<Self> {
        let fd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        Some(Self { pid, fd })
    }

    /// Finds the shim of a run.
    pub(super) fn shim(stage: &Stage, run: &str) -> Self {
        Self::open(i32::try_from(stage.shim_pid(run)).unwrap())
    }

    /// Finds the first process of a run's sandbox in its journal.
    pub(super) fn first(stage: &Stage, run: &str) -> Self {
        let journal = stage.journal(run);
        let pid = journal.iter().find_map(|entry| entry.line["run"]["sandbox_pid"].as_i64());
        Self::open(i32::try_from(pid.unwrap()).unwrap())
    }

    /// Signals the process, if it still exists.
    pub(super) fn signal(&self, signal: Signal) {
        pidfd_send_signal(&self.fd, signal).ok();
    }

    /// Stops the process, and waits until it is stopped.
    pub(super) fn stop(&self) {
        self.signal(Signal::STOP);
        while !self.status("State:").starts_with('T') {
            std::thread::yield_now();
        }
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
        poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], None).unwrap();
    }

    pub(super) fn has_ended(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&now)).unwrap() == 1
    }

    pub(super) fn parent(&self) -> Self {
        Self::open(self.status("PPid:").parse().unwrap())
    }

    /// Waits until the process has a child with this name. A stand-in may have other children before it becomes the
    /// real program.
    pub(super) fn wait_for_child(&self, name: &str) -> Self {
        loop {
            if let Some(child) = self.child_named(name) {
                return child;
            }
            assert!(!self.has_ended(), "the process ended without a child `{name}`");
            std::thread::yield_now();
        }
    }

    /// Returns its command line, which is empty if the process is gone.
    pub(super) fn command(&self) -> String {
        let command = std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&command).replace('\0', " ")
    }

    /// Finds a child with this name.
    pub(super) fn child_named(&self, name: &str) -> Option<Self> {
        self.children().find(|child| {
            let comm = std::fs::read_to_string(format!("/proc/{}/comm", child.pid));
            comm.is_ok_and(|comm| comm.trim() == name)
        })
    }

    pub(super) fn any_child(&self) -> Option<Self> {
        self.children().next()
    }

    fn children(&self) -> impl Iterator<Item = Self> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid));
        let lists = tasks
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        let pids: Vec<i32> = lists
            .flat_map(|list| {
                list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
            })
            .collect();
        pids.into_iter().filter_map(Self::find)
    }

    fn status(&self, field: &str) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let value = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        value.trim().to_owned()
    }
}
