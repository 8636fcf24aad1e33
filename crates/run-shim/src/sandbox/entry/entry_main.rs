//! The entry helper's work inside the sandbox.
//!
//! bubblewrap is still setting up the sandbox at this time. The loopback may not be up yet, and only bubblewrap may
//! bring it up, because bubblewrap fails if the address already exists. The helper can bind a socket to an address that
//! does not exist yet.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::fs::fstat;
use rustix::net::{SendFlags, send};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::handing_over::{DOORS, HERE, IPC, NETWORK, SEGMENTS, hand_over, receive};
use super::owning_namespace::owning_user_namespace;
use crate::network::open_doors;

/// The kernel's limits per user namespace, and the part that a sandbox may use. A process that uses up a limit
/// leaves nothing for the user's other programs.
const SHARES: [(&str, &str, u64); 2] = [
    ("/proc/sys/fs/inotify/max_user_instances", "/proc/sys/user/max_inotify_instances", 4),
    ("/proc/sys/fs/inotify/max_user_watches", "/proc/sys/user/max_inotify_watches", 2),
];

/// The helper's main function: enters the sandbox's namespaces, and hands the descriptors that it opened to the shim.
pub(super) fn enter_sandbox() {
    let shim = io::stdin();
    let Ok((kinds, namespaces)) = receive(shim.as_fd()) else { return };
    if namespaces.is_empty() {
        return;
    }
    let find = |kind: u8| Some(&namespaces[kinds.iter().position(|found| *found == kind)?]);
    let made = work(find(IPC), find(NETWORK)).and_then(|made| made.hand_out(shim.as_fd()));
    if let Err(complaint) = made {
        // A dead shim needs no error message.
        send(shim.as_fd(), complaint.to_string().as_bytes(), SendFlags::NOSIGNAL).ok();
    }
}

/// The step that failed.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {error}")]
pub(super) struct Complaint {
    step: &'static str,
    error: io::Error,
}

pub(super) fn failed<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Complaint {
    move |error| Complaint { step, error: error.into() }
}

/// The opened descriptors.
struct Made {
    segments: Option<OwnedFd>,
    doors: Vec<OwnedFd>,
}

fn work(ipc: Option<&OwnedFd>, network: Option<&OwnedFd>) -> Result<Made, Complaint> {
    let Some(some) = network.or(ipc) else {
        return Ok(Made { segments: None, doors: Vec::new() });
    };
    let shares = shares();
    if enter_owner(some.as_fd())? {
        // In many containers the host's settings are read-only. Then only the user's own limits apply.
        shares.iter().for_each(|(setting, most)| drop(fs::write(setting, most.to_string())));
    }
    // The shim only uses this list to count memory, so an error does not matter.
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

/// Enters the user namespace that owns another namespace, unless it is the helper's own. Returns whether it entered.
pub(super) fn enter_owner(namespace: BorrowedFd<'_>) -> Result<bool, Complaint> {
    let owner = owning_user_namespace(namespace)
        .map_err(failed("the owner of the sandbox's namespaces cannot be found"))?;
    let is_own =
        is_our_own(owner.as_fd()).map_err(failed("cannot find the helper's own namespace"))?;
    if !is_own {
        move_into_link_name_space(owner.as_fd(), Some(LinkNameSpaceType::User))
            .map_err(failed("the sandbox's user namespace cannot be entered"))?;
    }
    Ok(!is_own)
}

fn is_our_own(user_namespace: BorrowedFd<'_>) -> io::Result<bool> {
    let theirs = fstat(user_namespace)?;
    let ours = fs::metadata("/proc/self/ns/user")?;
    #[expect(clippy::useless_conversion, reason = "the fields differ in width between machines")]
    Ok((u64::from(theirs.st_dev), u64::from(theirs.st_ino)) == (ours.dev(), ours.ino()))
}

/// Returns the sandbox's part of each limit. Read it before entering the sandbox.
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

/// Opens the kernel's list of segments. It shows the segments of the namespace in which it was opened, to any reader.
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
        hand_over(shim, &word, &made).map_err(failed("cannot pass the descriptors to the shim"))
    }
}
