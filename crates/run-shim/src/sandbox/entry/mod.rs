//! What must be done inside the namespaces of a sandbox before its agent is let go.
//!
//! A process with several threads cannot enter a user namespace, and the shim has no business in one. So a helper does it,
//! `caretaker enter-sandbox`, a process of a few milliseconds:
//!
//! ```text
//!   shim ──► helper's stdin, a socket: the sandbox's namespaces     end of file: the shim is dead, or needs nothing
//!            helper: enters, sets the limits that are the namespace's own, opens what shows its segments of shared
//!            memory, listens in its network
//!   shim ◄── stdin: those descriptors, or a complaint
//! ```
//!
//! It is started before there is a sandbox, so that nobody waits for its start.

mod entry_main;
mod handing_over;
mod helper;
mod owning_namespace;

use std::fs::File;
use std::os::fd::OwnedFd;

pub use entry_main::enter_sandbox_main;
pub(crate) use helper::{EntryError, EntryHelper};

use crate::network::Doors;

/// Namespaces of a sandbox, those that it has for itself.
#[derive(Debug)]
pub(crate) struct Namespaces {
    /// Its segments of shared memory.
    pub(crate) ipc: Option<OwnedFd>,
    /// Its network, where the way out begins there.
    pub(crate) network: Option<OwnedFd>,
}

/// What was made inside.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Lists the sandbox's segments of shared memory, as they are whenever it is read.
    pub(crate) segments: Option<File>,
    /// What listens inside for us.
    pub(crate) doors: Option<Doors>,
}
