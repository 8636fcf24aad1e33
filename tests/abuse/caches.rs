//! K: the dependency caches, and credentials beside them.

use std::path::Path;

use crate::attempt::{Attempt, Evidence};
use crate::tries::{NOTHING, reveals, write};

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        id: "K1a",
        does: "reads credentials in a tools directory that the sandbox shows",
        held_by: &[NOTHING],
        evidence: Evidence::Inside,
        act: |world| reveals(&world.in_home(".local/bin/.npmrc"), &world.secret),
    },
    Attempt {
        id: "K1b",
        does: "reads credentials in a directory below such a directory",
        held_by: &[NOTHING],
        evidence: Evidence::Inside,
        act: |world| reveals(&world.in_home(".local/bin/etc/npmrc"), &world.secret),
    },
    Attempt {
        id: "K1c",
        does: "reads credentials in the host's dependency cache",
        held_by: &[NOTHING],
        evidence: Evidence::Inside,
        act: |world| {
            let path = Path::new("/run/seed/cargo/registry/cache/credentials.toml");
            reveals(path, &world.secret)
        },
    },
    Attempt {
        id: "K1d",
        does: "reads cargo's credentials beside its cache",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world| reveals(&world.in_home(".cargo/credentials.toml"), &world.secret),
    },
    Attempt {
        id: "K1e",
        does: "reads npm's credentials deep in a directory of Node versions",
        held_by: &[NOTHING],
        evidence: Evidence::Inside,
        act: |world| reveals(&world.in_home(".nvm/versions/node/v20.0.0/etc/npmrc"), &world.secret),
    },
    Attempt {
        id: "K2",
        does: "adds a package to the host's dependency cache",
        held_by: &["EROFS"],
        evidence: Evidence::Intact(&[".cargo/registry/cache/evil"]),
        act: |_| write(Path::new("/run/seed/cargo/registry/cache/evil")),
    },
    Attempt {
        id: "K3",
        does: "finds a file in its private cache that a run in another repository left in its own cache",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world| reveals(&world.in_home(".cargo/registry/poison"), &world.secret),
    },
];
