//! The listening sockets inside the sandbox's network. `sandbox::entry` opens them there and passes them to the shim.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;

use rustix::net::sockopt::{set_ip_freebind, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
use tokio::net::{TcpListener, UdpSocket};

use super::{CONNECT_PORT, DNS_PORT, INSIDE, TLS_PORT};

const N_DOORS: usize = 4;

/// The most connections that may wait. Installers open many at once.
const BACKLOG: i32 = 1024;

/// Sockets that listen inside the sandbox.
#[derive(Debug)]
pub(crate) struct Doors {
    pub(super) names: UdpSocket,
    pub(super) names_over_tcp: TcpListener,
    pub(super) tls: TcpListener,
    pub(super) connect: TcpListener,
}

impl Doors {
    /// Takes the sockets from [`open_doors`], in the same order.
    pub(crate) fn from_sockets(sockets: impl Iterator<Item = OwnedFd>) -> io::Result<Self> {
        let sockets: [OwnedFd; N_DOORS] = sockets
            .collect::<Vec<_>>()
            .try_into()
            .map_err(|_| io::Error::other("expected four sockets"))?;
        let [names, names_over_tcp, tls, connect] = sockets;
        let listener = |socket: OwnedFd| TcpListener::from_std(socket.into());
        Ok(Self {
            names: UdpSocket::from_std(names.into())?,
            names_over_tcp: listener(names_over_tcp)?,
            tls: listener(tls)?,
            connect: listener(connect)?,
        })
    }
}

/// Opens the sockets in the network of this process. An error names the step that failed.
pub(crate) fn open_doors() -> Result<[OwnedFd; N_DOORS], (&'static str, io::Error)> {
    let at = |step: &'static str| move |error| (step, error);
    Ok([
        open(SocketType::DGRAM, DNS_PORT).map_err(at("no socket for names"))?,
        open(SocketType::STREAM, DNS_PORT).map_err(at("no listener for names"))?,
        open(SocketType::STREAM, TLS_PORT).map_err(at("no listener for TLS"))?,
        open(SocketType::STREAM, CONNECT_PORT).map_err(at("no listener for the proxy"))?,
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
