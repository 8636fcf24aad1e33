//! The helper as the shim sees it: posted, sent in, and asked what it made.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use super::handing_over::{DOORS, HERE, IPC, NETWORK, SEGMENTS, hand_over, receive};
use super::{Made, Namespaces};
use crate::network::Doors;

/// It takes a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why nothing could be made inside a sandbox that needs it.
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
    #[error("what the helper made could not be taken over")]
    TakeOver(#[source] io::Error),
}

/// A helper that waits for namespaces to enter. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct EntryHelper {
    process: Child,
    socket: UnixStream,
}

impl EntryHelper {
    /// Starts the helper. Takes as long as starting a program does.
    pub(crate) fn post() -> Result<Self, EntryError> {
        let (ours, theirs) = StdUnixStream::pair().map_err(EntryError::TakeOver)?;
        ours.set_nonblocking(true).map_err(EntryError::TakeOver)?;
        let socket = UnixStream::from_std(ours).map_err(EntryError::TakeOver)?;
        let program = std::env::current_exe().map_err(EntryError::Spawn)?;
        let process = Command::new(program)
            .arg("enter-sandbox")
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(EntryError::Spawn)?;
        Ok(Self { process, socket })
    }

    /// Has it enter, and takes what it makes.
    pub(crate) async fn enter(self, namespaces: Namespaces) -> Result<Made, EntryError> {
        let Self { mut process, socket } = self;
        let Namespaces { ipc, network } = &namespaces;
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
        // It ends by itself; somebody must take note of that.
        tokio::spawn(async move { process.wait().await.ok() });
        match said.split_first() {
            Some((&HERE, kinds)) => made(kinds, descriptors).map_err(EntryError::TakeOver),
            Some(_) => Err(EntryError::Refused(String::from_utf8_lossy(&said).into_owned())),
            None => {
                let silent = "the helper that enters the sandbox ended without a word";
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
