//! The hostile agent's knowledge of the host.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The word on the command line of the neighbour.
pub const NEIGHBOUR: &str = "neighbour";

/// A directory of the host is open under this number if descriptors are not closed.
pub const LEAKED_DESCRIPTOR: i32 = 200;

/// Paths are the same inside and outside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct World {
    pub home: PathBuf,
    pub workspace: PathBuf,
    /// Caretaker's own directory.
    pub state: PathBuf,
    /// The directory of the sockets of all runs.
    pub sockets: PathBuf,
    /// The shim's program.
    pub program: PathBuf,
    /// A word in every private file of the host, and in the shim's environment.
    pub secret: String,
    /// The agent's own key: the agent may have it, but no command line may.
    pub key: String,
    /// The bucket of the workspace's sessions, and one session that is not the run's.
    pub bucket: String,
    pub other_session: String,
    pub host_name: String,
    /// The identity of the machine's network namespace.
    pub machine_network: u64,
    /// True if the host's `/proc/sys` can be written at all.
    pub has_writable_settings: bool,
    /// How much may be written to each of the memory file systems.
    pub space_bytes: u64,
    pub neighbour: Neighbour,
}

/// A process of the same user on the host, with everything that others can reach of it.
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

    /// True if we are in another network than the machine's. If not, nothing may be sent anywhere.
    pub fn is_apart(&self) -> bool {
        network_namespace().is_ok_and(|own| own != self.machine_network)
    }
}

/// The identity of our network namespace.
pub fn network_namespace() -> io::Result<u64> {
    Ok(std::fs::metadata("/proc/self/ns/net")?.ino())
}
