//! The daemon as a process: its lock, its sockets, and the connections of clients.

pub(crate) mod connections;
pub(crate) mod instance;
pub(crate) mod serve;
mod systemd;
pub(crate) mod unknown_clients;
