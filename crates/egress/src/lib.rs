//! Decides what may leave a sandbox: which hosts an agent may reach, and which addresses they may have.
//!
//! ```text
//!   DNS query ────► dns_message ─────┐
//!   ClientHello ──► client_hello ────┼──► HostName ──► AllowList ──► address_guard ──► the address to dial
//!   CONNECT head ─► connect_request ─┘       └── the one value for the decision and for the dialling ──┘
//!                                    every decision ──► DecisionLog ──► few events for many decisions
//! ```
//!
//! **Invariant:** no I/O, no clock, no environment. The shim listens and dials.
//!
//! **Invariant:** this crate reads a name once and strictly. It refuses a malformed name and never repairs it.
//!
//! **Invariant:** no input makes this crate panic, loop, or keep more bytes than it got.

mod address_guard;
mod allow_list;
mod client_hello;
mod connect_request;
mod decision_log;
mod dns_message;

pub use address_guard::{ForbiddenAddress, check_address};
pub use allow_list::{AllowList, Listed};
pub use client_hello::{ClientHello, HelloError, LONGEST_HELLO, access_denied_alert, server_name};
pub use connect_request::{ConnectError, ConnectTarget, HeadState, LONGEST_HEAD, read_head};
pub use decision_log::{Decision, DecisionLog};
pub use dns_message::{DnsQuery, DnsReply, LONGEST_UDP_QUERY, QueryKind};
pub use run_protocol::{AllowedHost, AllowedHostError, HTTPS_PORT, HostName, HostNameError};
