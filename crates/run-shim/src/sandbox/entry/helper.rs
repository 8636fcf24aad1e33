//! The shim's side of the entry helper: it starts the helper, sends it into the sandbox, and takes its descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::UnixStream;

use super::entry_main::enter_sandbox;
use super::handing_over::{DOORS, HERE, IPC, NETWORK, SEGMENTS, hand_over, receive};
use super::{Made, Namespaces};
use crate::network::Doors;
use crate::sandbox::forked::Forked;

/// The longest time for the helper. It usually takes a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why the helper could not prepare a sandbox.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EntryError {
    #[error("the sandbox's namespaces cannot be found")]
    Namespace(#[source] io::Error),
    #[error("the sandbox has no network of its own")]
    NotOwn,
    #[error("the helper that enters the sandbox could not be started")]
    Spawn(#[source] io::Error),
    #[error("the helper that enters the sandbox took longer than {} s", PATIENCE.as_secs())]
    TooSlow,
    #[error("{0}")]
    Refused(String),
    #[error("the helper's descriptors could not be received")]
    TakeOver(#[source] io::Error),
}

/// A helper that is waiting for its namespaces. Dropping this ends it.
#[derive(Debug)]
pub(crate) struct EntryHelper {
    process: Forked,
    socket: StdUnixStream,
}

impl EntryHelper {
    /// Starts the helper. Call it before this process has a second thread.
    pub(crate) fn post() -> Result<Self, EntryError> {
        let (socket, theirs) = StdUnixStream::pair().map_err(EntryError::TakeOver)?;
        socket.set_nonblocking(true).map_err(EntryError::TakeOver)?;
        let process = Forked::begin(theirs.into(), enter_sandbox).map_err(EntryError::Spawn)?;
        Ok(Self { process, socket })
    }

    /// Dismisses the helper, because there is no sandbox to enter.
    pub(crate) fn dismiss(self) {
        drop(self.socket);
        self.process.reap_when_ended();
    }

    /// Sends the helper into the namespaces, and takes its descriptors.
    pub(crate) async fn enter(self, namespaces: Namespaces) -> Result<Made, EntryError> {
        let Self { process, socket } = self;
        let made = Self::make(socket, &namespaces).await;
        if made.is_err() {
            process.kill();
        }
        process.reap_when_ended();
        made
    }

    async fn make(socket: StdUnixStream, namespaces: &Namespaces) -> Result<Made, EntryError> {
        let socket = UnixStream::from_std(socket).map_err(EntryError::TakeOver)?;
        let Namespaces { ipc, network } = namespaces;
        let entered = [(IPC, ipc), (NETWORK, network)];
        let entered =
            entered.iter().filter_map(|(kind, namespace)| Some((*kind, namespace.as_ref()?)));
        let (kinds, descriptors): (Vec<u8>, Vec<BorrowedFd<'_>>) =
            entered.map(|(kind, namespace)| (kind, namespace.as_fd())).unzip();
        if kinds.is_empty() {
            return Ok(Made::default());
        }
        hand_over(socket.as_fd(), &kinds, &descriptors).map_err(EntryError::TakeOver)?;
        let answer = socket.async_io(Interest::READABLE, || receive(socket.as_fd()));
        let (said, descriptors) = tokio::time::timeout(PATIENCE, answer)
            .await
            .map_err(|_| EntryError::TooSlow)?
            .map_err(EntryError::TakeOver)?;
        match said.split_first() {
            Some((&HERE, kinds)) => made(kinds, descriptors).map_err(EntryError::TakeOver),
            Some(_) => Err(EntryError::Refused(String::from_utf8_lossy(&said).into_owned())),
            None => {
                let silent = "the helper that enters the sandbox ended without a message";
                Err(EntryError::Refused(silent.to_owned()))
            }
        }
    }
}

/// Tells the descriptors apart.
fn made(kinds: &[u8], descriptors: Vec<OwnedFd>) -> io::Result<Made> {
    let mut descriptors = descriptors.into_iter();
    let segments = match kinds.contains(&SEGMENTS) {
        true => descriptors.next().map(Into::into),
        false => None,
    };
    let doors = match kinds.contains(&DOORS) {
        true => Some(Doors::from_sockets(descriptors)?),
        false => None,
    };
    Ok(Made { segments, doors })
}
