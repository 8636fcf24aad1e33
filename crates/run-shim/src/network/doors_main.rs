//! Makes the listening sockets inside the sandbox's network: `caretaker network-doors`, a process of a few milliseconds.
//!
//! A process with several threads cannot enter a user namespace, and the shim has no business in one. So this one enters,
//! binds, hands the sockets out and ends:
//!
//! ```text
//!   stdin   the sandbox's network namespace
//!   stdout  a socket to the shim: four descriptors and one byte, or a complaint
//! ```
//!
//! The sandbox is still being set up meanwhile. Its loopback may not be up yet, which is bubblewrap's to do: it fails
//! where the address is there already. A socket may be bound to an address that will come.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;

use rustix::net::sockopt::{set_ip_freebind, set_socket_reuseaddr};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    bind, listen, send, sendmsg, socket_with,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::owning_namespace::owning_user_namespace;
use super::{CONNECT_PORT, DNS_PORT, INSIDE, TLS_PORT};

/// What precedes the descriptors.
pub(super) const HERE: u8 = 0x06;
/// How many there are.
pub(super) const N_DOORS: usize = 4;

/// Connections that wait to be accepted; a burst of an installer's.
const BACKLOG: i32 = 1024;

/// The whole life of the process.
pub fn network_doors_main() -> ExitCode {
    let (namespace, shim) = (io::stdin(), io::stdout());
    let handed = doors(namespace.as_fd()).and_then(|doors| hand_out(shim.as_fd(), &doors));
    match handed {
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
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(N_DOORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let no_room = || io::Error::other("there is no room for them");
    if !control.push(SendAncillaryMessage::ScmRights(&doors)) {
        return Err(failed("the sockets cannot be handed out")(no_room()));
    }
    sendmsg(shim, &[IoSlice::new(&[HERE])], &mut control, SendFlags::NOSIGNAL)
        .map_err(failed("the sockets cannot be handed out"))?;
    Ok(())
}
