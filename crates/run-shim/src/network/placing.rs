//! Has the listening sockets made inside the sandbox, and takes them in.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::Interest;
use tokio::net::{TcpListener, UdpSocket, UnixStream};
use tokio::process::Command;

use super::Doors;
use super::doors_main::{HERE, N_DOORS};

/// It takes a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
const LONGEST_COMPLAINT: usize = 1024;

/// Why there is no network for a sandbox that needs one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    #[error("the sandbox's network cannot be found")]
    Namespace(#[source] io::Error),
    #[error("the sandbox has no network of its own")]
    NotOwn,
    #[error("the helper that listens inside could not be started")]
    Spawn(#[source] io::Error),
    #[error("the helper that listens inside took longer than {} s", PATIENCE.as_secs())]
    TooSlow,
    #[error("{0}")]
    Refused(String),
    #[error("the listening sockets could not be taken over")]
    Sockets(#[source] io::Error),
}

/// Places the listeners into a network namespace.
pub(crate) async fn place(namespace: OwnedFd) -> Result<Doors, PlaceError> {
    let (ours, theirs) = StdUnixStream::pair().map_err(PlaceError::Sockets)?;
    ours.set_nonblocking(true).map_err(PlaceError::Sockets)?;
    let ours = UnixStream::from_std(ours).map_err(PlaceError::Sockets)?;
    let program = std::env::current_exe().map_err(PlaceError::Spawn)?;
    let mut helper = Command::new(program)
        .arg("network-doors")
        .env_clear()
        .stdin(Stdio::from(namespace))
        .stdout(Stdio::from(OwnedFd::from(theirs)))
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(PlaceError::Spawn)?;
    let received =
        tokio::time::timeout(PATIENCE, ours.async_io(Interest::READABLE, || take(&ours)))
            .await
            .map_err(|_| PlaceError::TooSlow)?
            .map_err(PlaceError::Sockets)?;
    // It ends by itself; somebody must take note of that.
    tokio::spawn(async move { helper.wait().await.ok() });
    let (said, sockets) = received;
    if said != [HERE] {
        let complaint = String::from_utf8_lossy(&said).into_owned();
        let silent = "the helper that listens inside ended without a word".to_owned();
        return Err(PlaceError::Refused(if said.is_empty() { silent } else { complaint }));
    }
    let sockets: [OwnedFd; N_DOORS] = sockets
        .try_into()
        .map_err(|_| PlaceError::Sockets(io::Error::other("there are not four of them")))?;
    doors(sockets).map_err(PlaceError::Sockets)
}

fn take(ours: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut said = [0; LONGEST_COMPLAINT];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(N_DOORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut room = [IoSliceMut::new(&mut said)];
    let received = recvmsg(ours.as_fd(), &mut room, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut sockets = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            sockets.extend(descriptors);
        }
    }
    Ok((said[..received.bytes].to_vec(), sockets))
}

fn doors([names, names_over_tcp, tls, connect]: [OwnedFd; N_DOORS]) -> io::Result<Doors> {
    let listener = |socket: OwnedFd| TcpListener::from_std(socket.into());
    Ok(Doors {
        names: UdpSocket::from_std(names.into())?,
        names_over_tcp: listener(names_over_tcp)?,
        tls: listener(tls)?,
        connect: listener(connect)?,
    })
}
