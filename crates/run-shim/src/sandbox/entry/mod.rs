//! Prepares the namespaces of a sandbox from inside, before the agent's release.
//!
//! A process with several threads cannot enter a user namespace, and the shim should not. So a helper process does it,
//! within a few milliseconds:
//!
//! ```text
//!   shim ──► helper's stdin, a socket: the sandbox's namespaces     end of file: the shim is dead, or needs nothing
//!            helper: enters, sets the namespace's own limits, opens the list of its shared memory, listens in its
//!            network
//!   shim ◄── stdin: those descriptors, or an error
//! ```
//!
//! The shim forks it before there is a sandbox, so no launch waits for its start.

mod bind_again;
mod entry_main;
mod handing_over;
mod helper;
mod mount_attributes;
mod owning_namespace;

use std::fs::File;
use std::os::fd::OwnedFd;

pub(crate) use bind_again::bind_again;
pub use bind_again::{BIND_ENTRY, bind_main};
pub(crate) use helper::{EntryError, EntryHelper};

use crate::network::Doors;

/// The namespaces that a sandbox does not share with the host.
#[derive(Debug)]
pub(crate) struct Namespaces {
    /// Its segments of shared memory.
    pub(crate) ipc: Option<OwnedFd>,
    /// Its network, if the shim is the agent's way out.
    pub(crate) network: Option<OwnedFd>,
}

/// The descriptors from inside.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// The list of the sandbox's shared memory segments. Each read returns the current list.
    pub(crate) segments: Option<File>,
    /// The sockets that listen inside.
    pub(crate) doors: Option<Doors>,
}
