//! The sandbox of a run as processes: started, held at our gate, entered, watched, ended.
//!
//! ```text
//!   shim ─┬─► launch guard                          ends what is being started if the shim dies meanwhile
//!         ├─► bwrap ─► first process ─► gate ─► agent
//!         ├─► entry helper                          makes what must be made inside the namespaces
//!         └─► keeper ─► gate ─► agent               in place of bwrap, without a sandbox
//! ```

pub(crate) mod descendants;
pub(crate) mod entry;
mod first_process;
pub(crate) mod gate;
mod held;
pub(crate) mod keeper;
pub(crate) mod launch_guard;
pub(crate) mod mount_watch;
mod orphans;
mod process;
mod record;
pub(crate) mod unconfined;
mod without_shim;

pub(crate) use held::{HeldSandbox, LaunchError, Launchable, Sandbox};
pub(crate) use process::SandboxProcess;
pub(crate) use record::{end_sandbox, forget_sandbox, has_sandbox, was_killed_on_order};
pub(crate) use without_shim::{Supervision, kill_without_shim, supervision};
