//! Host names, and the entries of the allow-list.

mod allowed_host;
mod host_name;

pub use allowed_host::{AllowedHost, AllowedHostError, HTTPS_PORT};
pub use host_name::{HostName, HostNameError};
