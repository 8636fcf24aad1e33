//! What may leave a sandbox: which hosts, as whom they are asked for, and at which addresses they may be.
//!
//! ```text
//!   DNS query ────► dns_message ─────┐
//!   ClientHello ──► client_hello ────┼──► HostName ──► AllowList ──► address_guard ──► the address to dial
//!   CONNECT head ─► connect_request ─┘       └── the one value for the decision and for the dialling ──┘
//!                                    every decision ──► Ledger ──► few events, however many decisions
//! ```
//!
//! **Invariant:** no I/O, no clock, no environment. Whoever listens and dials is elsewhere.
//!
//! **Invariant:** a name is read once, strictly. What is not plainly a name is refused, never mended.
//!
//! **Invariant:** no input makes it panic, loop, or keep more than it was given.

mod address_guard;
mod allow_list;
mod client_hello;
mod connect_request;
mod dns_message;
mod ledger;

pub use address_guard::{ForbiddenAddress, check_address};
pub use allow_list::{AllowList, Listed};
pub use client_hello::{ClientHello, HelloError, LONGEST_HELLO, access_denied_alert, server_name};
pub use connect_request::{ConnectError, ConnectTarget, HeadState, LONGEST_HEAD, read_head};
pub use dns_message::{DnsQuery, DnsReply, LONGEST_UDP_QUERY, QueryKind};
pub use ledger::{Decision, Ledger};
pub use run_protocol::{AllowedHost, AllowedHostError, HTTPS_PORT, HostName, HostNameError};
