//! The processes of a sandbox: the shim starts them, holds them at the gate, enters them, watches them and ends them.
//!
//! ```text
//!   shim ─┬─► launch guard                          ends an unfinished launch if the shim dies
//!         ├─► bwrap ─► first process ─► gate ─► agent
//!         ├─► entry helper                          opens sockets and files inside the namespaces
//!         ├─► bind-again                            mounts a file again after the host replaced it
//!         └─► keeper ─► gate ─► agent               in place of bwrap, without a sandbox
//! ```

pub(crate) mod descendants;
pub(crate) mod entry;
mod first_process;
mod forked;
pub(crate) mod gate;
mod held;
pub(crate) mod keeper;
pub(crate) mod launch_guard;
pub(crate) mod mount_watch;
mod orphans;
mod process;
mod record;
pub(crate) mod repair;
pub(crate) mod setup;
pub(crate) mod unconfined;
mod without_shim;

use entry::{EntryError, EntryHelper};
use launch_guard::LaunchGuard;

pub(crate) use held::{HeldSandbox, LaunchError, Launchable, Sandbox};
pub(crate) use process::SandboxProcess;
pub(crate) use record::{
    end_sandbox, forget_sandbox, has_sandbox, outlive_sandbox, was_killed_on_order,
};
pub(crate) use without_shim::{Supervision, kill_without_shim, supervision};

/// The processes that help to set up a sandbox.
#[derive(Debug)]
pub(crate) struct StandBy {
    pub(crate) guard: LaunchGuard,
    /// `None` once it has entered the sandbox.
    pub(crate) helper: Option<Result<EntryHelper, EntryError>>,
}

impl StandBy {
    /// Starts both. Call it before this process has a second thread.
    pub(crate) fn post() -> Self {
        Self { guard: LaunchGuard::post(), helper: Some(EntryHelper::post()) }
    }
}
