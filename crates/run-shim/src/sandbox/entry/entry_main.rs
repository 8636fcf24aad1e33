//! The helper inside.
//!
//! The sandbox is still being set up meanwhile. Its loopback may not be up yet, which is bubblewrap's to do: it fails
//! where the address is there already. A socket may be bound to an address that will come.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;

use rustix::fs::fstat;
use rustix::net::{SendFlags, send};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::handing_over::{DOORS, HERE, IPC, NETWORK, SEGMENTS, hand_over, receive};
use super::owning_namespace::owning_user_namespace;
use crate::network::open_doors;

/// Limits of the kernel's that each user namespace has for itself: what every user has, and by how much a sandbox has less.
/// Whoever takes all of them takes them from every other program of the same user.
const SHARES: [(&str, &str, u64); 2] = [
    ("/proc/sys/fs/inotify/max_user_instances", "/proc/sys/user/max_inotify_instances", 4),
    ("/proc/sys/fs/inotify/max_user_watches", "/proc/sys/user/max_inotify_watches", 2),
];

/// The whole life of the process.
pub fn enter_sandbox_main() -> ExitCode {
    let shim = io::stdin();
    let Ok((kinds, namespaces)) = receive(shim.as_fd()) else { return ExitCode::FAILURE };
    if namespaces.is_empty() {
        return ExitCode::SUCCESS;
    }
    let find = |kind: u8| Some(&namespaces[kinds.iter().position(|found| *found == kind)?]);
    match work(find(IPC), find(NETWORK)).and_then(|made| made.hand_out(shim.as_fd())) {
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

/// What was made.
struct Made {
    segments: Option<OwnedFd>,
    doors: Vec<OwnedFd>,
}

fn work(ipc: Option<&OwnedFd>, network: Option<&OwnedFd>) -> Result<Made, Complaint> {
    let Some(some) = network.or(ipc) else {
        return Ok(Made { segments: None, doors: Vec::new() });
    };
    let owner = owning_user_namespace(some)
        .map_err(failed("the owner of the sandbox's namespaces cannot be found"))?;
    let is_own = is_our_own(owner.as_fd()).map_err(failed("our own namespace is not known"))?;
    if !is_own {
        let shares = shares();
        move_into_link_name_space(owner.as_fd(), Some(LinkNameSpaceType::User))
            .map_err(failed("the sandbox's user namespace cannot be entered"))?;
        // Where the host's settings cannot be written, as in many containers, the user's own limits are what holds.
        shares.iter().for_each(|(setting, most)| drop(fs::write(setting, most.to_string())));
    }
    // It is there to be counted; where it cannot be had, nothing else is the worse for it.
    let segments = ipc.and_then(|ipc| segments(ipc.as_fd()).ok());
    let doors = match network {
        Some(network) => {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(failed("the sandbox's network cannot be entered"))?;
            open_doors().map_err(|(step, error)| Complaint { step, error })?.into()
        }
        None => Vec::new(),
    };
    Ok(Made { segments, doors })
}

fn is_our_own(user_namespace: BorrowedFd<'_>) -> io::Result<bool> {
    let theirs = fstat(user_namespace)?;
    let ours = fs::metadata("/proc/self/ns/user")?;
    #[expect(clippy::useless_conversion, reason = "the fields differ in width between machines")]
    Ok((u64::from(theirs.st_dev), u64::from(theirs.st_ino)) == (ours.dev(), ours.ino()))
}

/// What of each limit is the sandbox's. To be read before it is entered.
fn shares() -> Vec<(&'static str, u64)> {
    let number = |path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    SHARES
        .into_iter()
        .filter_map(|(of_users, of_namespace, part)| {
            let most = [number(of_users), number(of_namespace)].into_iter().flatten().min()?;
            Some((of_namespace, (most / part).max(1)))
        })
        .collect()
}

/// A file of the kernel's shows the segments of the namespace that it was opened in, whoever reads it.
fn segments(ipc: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    move_into_link_name_space(ipc, Some(LinkNameSpaceType::InterProcessCommunication))?;
    Ok(File::open("/proc/sysvipc/shm")?.into())
}

impl Made {
    fn hand_out(&self, shim: BorrowedFd<'_>) -> Result<(), Complaint> {
        let mut word = vec![HERE];
        word.extend(self.segments.as_ref().map(|_| SEGMENTS));
        word.extend((!self.doors.is_empty()).then_some(DOORS));
        let made: Vec<BorrowedFd<'_>> =
            self.segments.iter().chain(&self.doors).map(AsFd::as_fd).collect();
        hand_over(shim, &word, &made).map_err(failed("what was made cannot be handed out"))
    }
}
