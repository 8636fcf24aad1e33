//! What the binary tells the daemon at its start, beside the host.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use admission::config::caps::Caps;
use admission::config::hooks::Hook;
use run_protocol::Budget;

/// The version of what is said over the socket. A client of another version is refused by name; raised when a client
/// that was not changed with it would misunderstand.
pub const PROTOCOL: u32 = 1;

/// The settings that the binary passes to a daemon at its start.
#[derive(Debug, Clone)]
pub struct DaemonConfig {
    /// An address of this machine's own to listen on as well.
    pub listen: Option<SocketAddr>,
    /// Our own program, which is the supervisor of each run.
    pub program: PathBuf,
    /// The user's caps; those set at run time win.
    pub caps: Caps,
    /// What all runs of a day may spend together.
    pub day_budget: Budget,
    /// What the runs of each group may spend together that was given no budget of its own.
    pub group_budget: Budget,
    /// What is called when something happens to a run.
    pub hooks: Vec<Hook>,
    /// How long a run waits to make up for one point of priority.
    pub ageing_ms: u64,
    /// Nothing is started when the state directory's disk has less room. Zero: never mind.
    pub min_free_bytes: u64,
    /// [`PROTOCOL`], except in tests.
    pub protocol: u32,
    /// The version of the program, for people.
    pub version: String,
    /// How many sockets were inherited, from descriptor 3 on.
    pub n_inherited: u32,
    /// Where to say that we are ready, as systemd names it.
    pub notify_socket: Option<OsString>,
}
