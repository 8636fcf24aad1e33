//! Makes the listening sockets inside the sandbox's network: `caretaker network-doors`, a process of a few milliseconds.
//!
//! A process with several threads cannot enter a user namespace, and the shim has no business in one. So this one enters,
//! binds, hands the sockets out and ends:
//!
//! ```text
//!   shim ──► stdin, a socket: one byte and the sandbox's network namespace     end of file: the shim is dead, or needs none
//!   shim ◄── stdin: one byte and four descriptors, or a complaint
//! ```
//!
//! It is started before there is a sandbox, so that nobody waits for its start.
//!
//! The sandbox is still being set up meanwhile. Its loopback may not be up yet, which is bubblewrap's to do: it fails
//! where the address is there already. A socket may be bound to an address that will come.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;

use rustix::net::sockopt::{set_ip_freebind, set_socket_reuseaddr};
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, bind, listen, send, socket_with,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::handing_over::{hand_over, receive};
use super::owning_namespace::owning_user_namespace;
use super::{CONNECT_PORT, DNS_PORT, INSIDE, TLS_PORT};

/// How many sockets there are.
pub(super) const N_DOORS: usize = 4;

/// Connections that wait to be accepted; a burst of an installer's.
const BACKLOG: i32 = 1024;

/// The whole life of the process.
pub fn network_doors_main() -> ExitCode {
    let shim = io::stdin();
    let Ok((_, namespaces)) = receive(shim.as_fd()) else { return ExitCode::FAILURE };
    let Some(namespace) = namespaces.into_iter().next() else { return ExitCode::SUCCESS };
    match doors(namespace.as_fd()).and_then(|doors| hand_out(shim.as_fd(), &doors)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            // A shim that is gone needs no complaint.
            send(shim.as_fd(), complaint.to_string().as_bytes(), SendFlags::NOSIGNAL).ok();
            ExitCode::FAILURE
        }
    }
}

/// Which step failed.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {error}")]
struct Complaint {
    step: &'static str,
    error: io::Error,
}

fn failed<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Complaint {
    move |error| Complaint { step, error: error.into() }
}

fn doors(namespace: BorrowedFd<'_>) -> Result<[OwnedFd; N_DOORS], Complaint> {
    let owner = owning_user_namespace(namespace)
        .map_err(failed("the owner of the sandbox's network cannot be found"))?;
    move_into_link_name_space(owner.as_fd(), Some(LinkNameSpaceType::User))
        .map_err(failed("the sandbox's user namespace cannot be entered"))?;
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
        .map_err(failed("the sandbox's network cannot be entered"))?;
    Ok([
        open(SocketType::DGRAM, DNS_PORT).map_err(failed("no socket for names"))?,
        open(SocketType::STREAM, DNS_PORT).map_err(failed("no listener for names"))?,
        open(SocketType::STREAM, TLS_PORT).map_err(failed("no listener for TLS"))?,
        open(SocketType::STREAM, CONNECT_PORT).map_err(failed("no listener for the proxy"))?,
    ])
}

fn open(kind: SocketType, port: u16) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, kind, flags, None)?;
    set_socket_reuseaddr(&socket, true)?;
    set_ip_freebind(&socket, true)?;
    bind(&socket, &SocketAddrV4::new(INSIDE, port))?;
    if kind == SocketType::STREAM {
        listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}

fn hand_out(shim: BorrowedFd<'_>, doors: &[OwnedFd; N_DOORS]) -> Result<(), Complaint> {
    let doors = doors.each_ref().map(AsFd::as_fd);
    hand_over(shim, &doors).map_err(failed("the sockets cannot be handed out"))
}
