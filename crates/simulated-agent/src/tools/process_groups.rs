//! Children of the simulated agent, each the leader of a process group of its own, so that none outlives it unseen.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::launch::{Launch, Pipes};

/// How long `kill_all` waits for killed children to be reaped; SIGKILL needs microseconds.
const REAPING: Duration = Duration::from_secs(2);

/// What a child is to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A shell that a tool call is waiting for.
    Foreground,
    /// A shell that outlived its tool call.
    Background,
    /// An MCP server.
    Server,
}

/// The live children of one agent. Clones share the same children.
///
/// **Invariant:** a process group is signalled only while its leader is unreaped, so a reused pid is never hit.
#[derive(Debug, Clone, Default)]
pub struct ProcessGroups {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    live: BTreeMap<Pid, Role>,
    closed: bool,
}

impl State {
    fn count(&self, role: Role) -> usize {
        self.live.values().filter(|live| **live == role).count()
    }

    fn kill(&self, mut chosen: impl FnMut(Role) -> bool) -> usize {
        let leaders =
            self.live.iter().filter(|(_, role)| chosen(**role)).map(|(leader, _)| *leader);
        leaders.filter(|leader| killpg(*leader, Signal::SIGKILL).is_ok()).count()
    }
}

impl ProcessGroups {
    /// Kills every child with its group, waits until they are gone, and refuses new ones. Returns how many there were.
    ///
    /// What a child moved into a session of its own is not reached, as with the real agent.
    pub fn kill_all(&self) -> usize {
        let mut state = self.state();
        state.closed = true;
        let n_killed = state.kill(|_| true);
        drop(self.wait_while(state, REAPING, |state| !state.live.is_empty()));
        n_killed
    }

    /// Returns the number of shells that run in the background.
    pub fn n_background(&self) -> usize {
        self.state().count(Role::Background)
    }

    /// Waits until no shell runs in the background; those still there at the limit are killed. Returns how many those were.
    pub fn wait_for_background(&self, limit: Duration) -> usize {
        let state = self.wait_while(self.state(), limit, |state| state.count(Role::Background) > 0);
        let n_aborted = state.kill(|role| role == Role::Background);
        drop(self.wait_while(state, REAPING, |state| state.count(Role::Background) > 0));
        n_aborted
    }

    /// Returns whether `kill_all` was called.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Starts a program as the leader of a new group.
    pub(crate) fn start(
        &self,
        launch: &Launch<'_>,
        role: Role,
    ) -> io::Result<(ProcessGroup, Pipes)> {
        // Held across the start: a child must not appear behind the back of `kill_all`.
        let mut state = self.state();
        if state.closed {
            return Err(io::Error::other("the agent is stopping"));
        }
        let (leader, pipes) = launch.start()?;
        state.live.insert(leader, role);
        Ok((ProcessGroup { groups: self.clone(), leader, reaped: false }, pipes))
    }

    /// Kills the group of this leader if it still runs.
    pub(crate) fn kill(&self, leader: Pid) {
        let state = self.state();
        if state.live.contains_key(&leader) {
            killpg(leader, Signal::SIGKILL).ok();
        }
    }

    /// Lets a shell run on without its tool call. Returns false if it has ended already.
    pub(crate) fn move_to_background(&self, leader: Pid) -> bool {
        self.state().live.get_mut(&leader).map(|role| *role = Role::Background).is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        limit: Duration,
        mut condition: impl FnMut(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        // A limit too far away to be expressed is no limit; a day is longer than any run.
        let limit = limit.min(Duration::from_secs(24 * 60 * 60));
        let waited = self.shared.changed.wait_timeout_while(state, limit, |state| condition(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(i32),
    Signal(Signal),
}

/// One child with its group. Dropped before `wait`, it is killed.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    groups: ProcessGroups,
    leader: Pid,
    reaped: bool,
}

impl ProcessGroup {
    pub(crate) fn leader(&self) -> Pid {
        self.leader
    }

    /// Waits for the leader and kills what it left behind in its group. What is to be done before the end counts as
    /// over, such as reading the last output, is done in `farewell`.
    pub(crate) fn wait(mut self, farewell: impl FnOnce()) -> Exit {
        // Not reaped yet: a zombie leader keeps the number of the group from being reused.
        retry(|| waitid(Id::Pid(self.leader), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)).ok();
        killpg(self.leader, Signal::SIGKILL).ok();
        farewell();
        self.kill_and_reap()
    }

    fn kill_and_reap(&mut self) -> Exit {
        let mut state = self.groups.state();
        killpg(self.leader, Signal::SIGKILL).ok();
        let status = retry(|| waitid(Id::Pid(self.leader), WaitPidFlag::WEXITED));
        self.reaped = true;
        state.live.remove(&self.leader);
        drop(state);
        self.groups.shared.changed.notify_all();
        match status {
            Ok(WaitStatus::Exited(_, code)) => Exit::Code(code),
            Ok(WaitStatus::Signaled(_, signal, _)) => Exit::Signal(signal),
            // Nobody else reaps our children; what cannot be known is not called a success.
            _ => Exit::Code(1),
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill_and_reap();
        }
    }
}

fn retry<T>(mut call: impl FnMut() -> nix::Result<T>) -> nix::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            done => return done,
        }
    }
}

#[cfg(test)]
#[path = "process_groups_tests.rs"]
mod tests;
