//! What the sandbox of this machine can promise, and what it cannot: in the words of README, which a test compares.

use nix::unistd::Uid;
use sandbox_plan::{Network, Profile};

use crate::health::Finding;

/// What holds for runs with this profile, once a trial sandbox could be made.
pub(crate) fn of(profile: &Profile, uid: Uid) -> Vec<Finding> {
    vec![
        Finding::ok(
            "files",
            "an agent sees its workspace, its own session and programs, and nothing else of your files",
        ),
        Finding::ok("processes", "everything that an agent starts ends with its run"),
        privileges(uid),
        network(profile),
        Finding::ok(
            "beyond",
            "nowhere promised: the kernel itself is trusted, the agent can read its own login, and what it can reach can carry data out",
        ),
    ]
}

fn privileges(uid: Uid) -> Finding {
    if uid.is_root() {
        return Finding::warning(
            "privileges",
            "as root, it is weaker: what the agent creates belongs to root",
            "run as an ordinary user; in a workspace that belongs to one, root becomes that user",
        );
    }
    Finding::ok(
        "privileges",
        "no capabilities, no new privileges, no user namespaces, no set-user-id files",
    )
}

fn network(profile: &Profile) -> Finding {
    match profile.network() {
        Some(Network::Host) | None => Finding::warning(
            "network",
            "the network is the host's: loopback services, the local network and a cloud's metadata address are in reach",
            "see [network] in the profile: caretaker sandbox explain",
        ),
        Some(_) => Finding::ok("network", "the host's network is out of reach"),
    }
}
