//! How other processes reach a shim: they start it, and they send requests to its socket.

pub mod control_client;
pub(crate) mod control_socket;
pub mod http_exchange;
pub(crate) mod orders;
pub(crate) mod sockets;
pub(crate) mod start_shim;
