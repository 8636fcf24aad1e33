//! How others reach a shim: they start it, they ask it and order it by its socket, and it writes to them by the same.

pub mod control_client;
pub(crate) mod control_socket;
pub mod http_exchange;
pub(crate) mod orders;
pub(crate) mod sockets;
pub(crate) mod start_shim;
