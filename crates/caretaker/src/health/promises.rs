//! The promises of the sandbox on this machine, in the words of `sandbox/README.md`. A test compares them.

use nix::unistd::Uid;

use crate::health::Finding;

/// The promises that hold once a trial sandbox works, for every network mode and all limits.
pub(crate) fn of(uid: Uid) -> Vec<Finding> {
    vec![
        Finding::ok(
            "files",
            "an agent sees its workspace, its own session, programs, the package caches that its workspace uses, and none of your other files",
        ),
        Finding::ok("processes", "everything that an agent starts ends with its run"),
        privileges(uid),
        Finding::ok(
            "beyond",
            "under every profile, Caretaker trusts the kernel, the agent can read its own login, and anything that it can reach can carry data out",
        ),
    ]
}

fn privileges(uid: Uid) -> Finding {
    if uid.is_root() {
        return Finding::warning(
            "privileges",
            "the sandbox is weaker if root starts it: the agent's files belong to root",
            "run as an ordinary user; in a workspace that belongs to one, root becomes that user",
        );
    }
    Finding::ok(
        "privileges",
        "no capabilities, no new privileges, no user namespaces, no set-user-id files",
    )
}
