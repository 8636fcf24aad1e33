//! The settings that the binary passes to the daemon, besides the host.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use admission::config::caps::Caps;
use admission::config::hooks::Hook;
use run_protocol::Budget;

/// The version of the protocol on the socket. The daemon refuses clients with a different version. Raise it when an
/// older client would misunderstand the daemon.
pub const PROTOCOL: u32 = 1;

/// The settings that the binary passes to the daemon when it starts.
#[derive(Debug, Clone)]
pub struct DaemonConfig {
    /// A loopback address to listen on as well.
    pub listen: Option<SocketAddr>,
    /// Caretaker's own program, which is also the shim of each run.
    pub program: PathBuf,
    /// The configured caps; caps that a user sets at run time take precedence.
    pub caps: Caps,
    /// The budget for all runs in a day.
    pub day_budget: Budget,
    /// The budget for each group that has no budget of its own.
    pub group_budget: Budget,
    /// The user's hooks.
    pub hooks: Vec<Hook>,
    /// How long a run must wait to make up for one point of priority.
    pub ageing_ms: u64,
    /// The daemon starts no run if the state directory's disk has less free space than this. Zero turns the check off.
    pub min_free_bytes: u64,
    /// [`PROTOCOL`], except in tests.
    pub protocol: u32,
    /// The version of the program, for users to read.
    pub version: String,
    /// The number of sockets inherited from systemd, starting at descriptor 3.
    pub n_inherited: u32,
    /// The socket through which the daemon tells systemd that it is ready.
    pub notify_socket: Option<OsString>,
}
