//! What a hostile agent is told of the host, so that it knows where to look.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The word on the command line of the process next door.
pub const NEIGHBOUR: &str = "neighbour";

/// A directory of the host's is open under this number where descriptors are not closed.
pub const LEAKED_DESCRIPTOR: i32 = 200;

/// Paths are the same inside and outside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct World {
    pub home: PathBuf,
    pub workspace: PathBuf,
    /// Caretaker's own directory.
    pub state: PathBuf,
    /// Where the sockets of all runs are.
    pub sockets: PathBuf,
    /// The supervisor's program.
    pub program: PathBuf,
    /// A word that is in every file of the host that is nobody's business, and in the supervisor's environment.
    pub secret: String,
    /// The agent's own key: it may have it, and no command line may.
    pub key: String,
    /// The bucket of the workspace's sessions, and one of them that is not the run's.
    pub bucket: String,
    pub other_session: String,
    pub host_name: String,
    /// The identity of the machine's network namespace.
    pub machine_network: u64,
    /// Whether the host's `/proc/sys` can be written, by whoever may.
    pub has_writable_settings: bool,
    /// How much may be written to each of the memory file systems.
    pub space_bytes: u64,
    pub neighbour: Neighbour,
}

/// A process of the same user on the host, with what others can reach of it.
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

    /// Whether we are in another network than the machine's. Where not, nothing may be sent anywhere.
    pub fn is_apart(&self) -> bool {
        network_namespace().is_ok_and(|own| own != self.machine_network)
    }
}

/// The identity of the network namespace that we are in.
pub fn network_namespace() -> io::Result<u64> {
    Ok(std::fs::metadata("/proc/self/ns/net")?.ino())
}
