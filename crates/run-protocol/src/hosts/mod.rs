//! Names of hosts, and the entries of a list of them.

mod allowed_host;
mod host_name;

pub use allowed_host::{AllowedHost, AllowedHostError, HTTPS_PORT};
pub use host_name::{HostName, HostNameError};
