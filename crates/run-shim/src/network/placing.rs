//! Has the listening sockets made inside the sandbox, and takes them in.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::{TcpListener, UdpSocket, UnixStream};
use tokio::process::{Child, Command};

use super::Doors;
use super::doors_main::N_DOORS;
use super::handing_over::{HERE, hand_over, receive};

/// It takes a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// A helper that waits for a network namespace to enter. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct DoorMaker {
    process: Child,
    socket: UnixStream,
}

impl DoorMaker {
    /// Starts the helper. Takes as long as starting a program does.
    pub(crate) fn post() -> Result<Self, PlaceError> {
        let (ours, theirs) = StdUnixStream::pair().map_err(PlaceError::Sockets)?;
        ours.set_nonblocking(true).map_err(PlaceError::Sockets)?;
        let socket = UnixStream::from_std(ours).map_err(PlaceError::Sockets)?;
        let program = std::env::current_exe().map_err(PlaceError::Spawn)?;
        let process = Command::new(program)
            .arg("network-doors")
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(PlaceError::Spawn)?;
        Ok(Self { process, socket })
    }

    /// Has the listeners made in a network namespace.
    pub(crate) async fn place(self, namespace: OwnedFd) -> Result<Doors, PlaceError> {
        let Self { mut process, socket } = self;
        hand_over(socket.as_fd(), &[namespace.as_fd()]).map_err(PlaceError::Sockets)?;
        let answer = socket.async_io(Interest::READABLE, || receive(socket.as_fd()));
        let (said, sockets) = tokio::time::timeout(PATIENCE, answer)
            .await
            .map_err(|_| PlaceError::TooSlow)?
            .map_err(PlaceError::Sockets)?;
        // It ends by itself; somebody must take note of that.
        tokio::spawn(async move { process.wait().await.ok() });
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
