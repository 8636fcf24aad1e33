//! The hostile agent's knowledge of the host.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The word on the neighbour's command line.
pub const NEIGHBOUR: &str = "neighbour";

/// The descriptor number under which one of the host's directories is open, unless the gate closes it.
pub const LEAKED_DESCRIPTOR: i32 = 200;

/// The facts that the agent has. Paths are the same inside and outside the sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct World {
    pub home: PathBuf,
    pub workspace: PathBuf,
    /// Caretaker's own directory.
    pub state: PathBuf,
    /// The directory with the sockets of all runs.
    pub sockets: PathBuf,
    /// The shim's program.
    pub program: PathBuf,
    /// A word in each of the host's private files, and in the shim's environment.
    pub secret: String,
    /// The agent's own key: the agent may have it, but no command line may.
    pub key: String,
    /// The buckets of the workspace's sessions, and a session in each that is not the run's. Most agents use the first.
    pub buckets: Vec<String>,
    pub other_session: String,
    pub host_name: String,
    /// The identity of the machine's network namespace.
    pub machine_network: u64,
    /// True if the host's `/proc/sys` can be written at all.
    pub has_writable_settings: bool,
    /// The size of each memory file system.
    pub space_bytes: u64,
    pub neighbour: Neighbour,
}

/// A process of the same user on the host, and everything through which other processes can reach it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Neighbour {
    pub pid: i32,
    pub port: u16,
    pub port_6: Option<u16>,
    pub abstract_name: String,
    /// Relative to the home directory.
    pub socket: PathBuf,
    pub shared_memory: i32,
}

impl World {
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }

    pub(crate) fn in_home(&self, path: &str) -> PathBuf {
        self.home.join(path)
    }

    pub(crate) fn in_workspace(&self, path: &str) -> PathBuf {
        self.workspace.join(path)
    }

    /// True if we are not in the machine's network. In the machine's network, we must not send anything.
    pub fn is_apart(&self) -> bool {
        network_namespace().is_ok_and(|own| own != self.machine_network)
    }
}

/// The identity of our network namespace.
pub fn network_namespace() -> io::Result<u64> {
    Ok(std::fs::metadata("/proc/self/ns/net")?.ino())
}
