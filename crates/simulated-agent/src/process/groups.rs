//! The agent's children. Each leads its own process group, so that nothing survives the agent unnoticed.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use super::lock;

/// `kill_all` waits at most this long for killed children to be reaped. SIGKILL takes microseconds.
const REAPING: Duration = Duration::from_secs(2);

/// A child's role for the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A shell that a tool call waits for.
    Foreground,
    /// A shell that outlived its tool call.
    Background,
    /// An MCP server, or a request to one.
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
        let leaders = self.live.iter().filter(|(_, role)| chosen(**role));
        leaders.filter(|(leader, _)| killpg(**leader, Signal::SIGKILL).is_ok()).count()
    }
}

impl ProcessGroups {
    /// Kills every child with its group, waits until they are gone, and refuses new ones. Returns how many it killed.
    ///
    /// A process that moved to its own session survives, as with the real agent.
    pub fn kill_all(&self) -> usize {
        let mut state = self.state();
        state.closed = true;
        let n_killed = state.kill(|_| true);
        drop(self.wait_while(state, REAPING, |state| !state.live.is_empty()));
        n_killed
    }

    /// Waits until no shell runs in the background, kills those that remain at the limit, and returns their number.
    pub fn wait_for_background(&self, limit: Duration) -> usize {
        let state = self.wait_while(self.state(), limit, |state| state.count(Role::Background) > 0);
        let n_aborted = state.kill(|role| role == Role::Background);
        drop(self.wait_while(state, REAPING, |state| state.count(Role::Background) > 0));
        n_aborted
    }

    #[cfg(test)]
    pub(crate) fn n_background(&self) -> usize {
        self.state().count(Role::Background)
    }

    /// Returns true after `kill_all`.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Starts a program as the leader of a new group.
    pub(crate) fn start(&self, command: &mut Command, role: Role) -> io::Result<ProcessGroup> {
        // Hold the lock during the start, so that `kill_all` does not miss the child.
        let mut state = self.state();
        if state.closed {
            return Err(io::Error::other("the agent is stopping"));
        }
        let child = command.process_group(0).spawn()?;
        let leader = Pid::from_raw(child.id().cast_signed());
        state.live.insert(leader, role);
        Ok(ProcessGroup { groups: self.clone(), leader, child, is_reaped: false })
    }

    /// Kills the group of this leader if it is still running.
    pub(crate) fn kill(&self, leader: Pid) {
        let state = self.state();
        if state.live.contains_key(&leader) {
            killpg(leader, Signal::SIGKILL).ok();
        }
    }

    /// Lets a shell continue without its tool call. Returns false if the shell has already ended.
    pub(crate) fn move_to_background(&self, leader: Pid) -> bool {
        self.state().live.get_mut(&leader).map(|role| *role = Role::Background).is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }

    fn wait_while<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        limit: Duration,
        mut condition: impl FnMut(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        // The clock cannot express every limit; a day is longer than any run.
        let limit = limit.min(Duration::from_secs(24 * 60 * 60));
        let waited = self.shared.changed.wait_timeout_while(state, limit, |state| condition(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// One child with its group. Dropping it before `wait` kills it.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    groups: ProcessGroups,
    leader: Pid,
    /// The caller may take its pipes.
    pub(crate) child: Child,
    is_reaped: bool,
}

impl ProcessGroup {
    pub(crate) fn leader(&self) -> Pid {
        self.leader
    }

    /// Waits for the leader and kills the rest of its group. `farewell` runs before the leader is reaped, for example
    /// to read the last output.
    pub(crate) fn wait(mut self, farewell: impl FnOnce()) -> io::Result<ExitStatus> {
        // Do not reap yet, because a zombie leader keeps its group's number from being reused.
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        while waitid(Id::Pid(self.leader), flags) == Err(Errno::EINTR) {}
        killpg(self.leader, Signal::SIGKILL).ok();
        farewell();
        self.kill_and_reap()
    }

    fn kill_and_reap(&mut self) -> io::Result<ExitStatus> {
        let mut state = self.groups.state();
        killpg(self.leader, Signal::SIGKILL).ok();
        let status = self.child.wait();
        self.is_reaped = true;
        state.live.remove(&self.leader);
        drop(state);
        self.groups.shared.changed.notify_all();
        status
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.kill_and_reap().ok();
        }
    }
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
