//! L1, L3: space. Fills each memory file system, and uses up a resource that the kernel counts per user.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use rustix::fs::inotify;

use crate::attempt::{Answer, Attempt, Evidence};
use crate::tries::{name_of, outcome};
use crate::world::World;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        id: "L1c",
        does: "fills /tmp",
        held_by: &["ENOSPC"],
        evidence: Evidence::Inside,
        act: |world| fill(Path::new("/tmp"), world),
    },
    Attempt {
        id: "L1d",
        does: "fills /dev/shm",
        held_by: &["ENOSPC"],
        evidence: Evidence::Inside,
        act: |world| fill(Path::new("/dev/shm"), world),
    },
    Attempt {
        id: "L1e",
        does: "fills the private home",
        held_by: &["ENOSPC"],
        evidence: Evidence::Inside,
        act: |world| fill(&world.home, world),
    },
    Attempt {
        id: "L1f",
        does: "fills /run",
        held_by: &["ENOSPC"],
        evidence: Evidence::Inside,
        act: |world| fill(Path::new("/run"), world),
    },
    Attempt {
        id: "L1g",
        does: "fills the directory that contains the workspace",
        held_by: &["ENOSPC"],
        evidence: Evidence::Inside,
        act: |world| fill(world.workspace.parent().unwrap_or(Path::new("/")), world),
    },
    Attempt {
        id: "L3a",
        does: "takes half of its user's inotify instances on this machine",
        held_by: &["EMFILE"],
        evidence: Evidence::Inside,
        act: take_inotify_instances,
    },
];

/// Takes only half, and only for a moment, because other programs need some too.
fn take_inotify_instances(world: &World) -> Answer {
    if !world.has_writable_settings {
        return Answer::NotHere("kernel settings are read-only here".to_owned());
    }
    let most = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").unwrap_or_default();
    match most.trim().parse::<usize>() {
        Ok(most @ 8..=2_048) => {
            let instances: Result<Vec<_>, _> =
                (0..most / 2).map(|_| inotify::init(inotify::CreateFlags::CLOEXEC)).collect();
            outcome(instances.map_err(io::Error::from), "they were taken")
        }
        _ => Answer::NotHere(
            "the user's limit is too large or too small for one process to test".to_owned(),
        ),
    }
}

/// Writes twice as much as should fit.
fn fill(directory: &Path, world: &World) -> Answer {
    let path = directory.join("filler");
    let result = write_until_full(&path, 2 * world.space_bytes);
    fs::remove_file(&path).ok();
    match result {
        Ok(()) => Answer::done("there is room for more"),
        Err(error) => Answer::refused(name_of(&error)),
    }
}

fn write_until_full(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let piece = vec![7; 64 * 1024];
    for _ in 0..bytes.div_ceil(piece.len() as u64) {
        file.write_all(&piece)?;
    }
    Ok(())
}
