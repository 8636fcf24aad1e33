//! F: the host's private files, and places that the agent must not write. W: other sessions.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::attempt::{Answer, Attempt, Evidence, OTHER_SESSION};
use crate::calls::{Arg, call};
use crate::tries::{NOTHING, called, first_done, name_of, outcome, read, reveals, write};
use crate::world::World;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        id: "F1a",
        does: "reads the user's ssh key",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world| reveals(&world.in_home(".ssh/id_ed25519"), &world.secret),
    },
    Attempt {
        id: "F1b",
        does: "reads the user's own mcp.json, with the keys of other services",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world| reveals(&world.in_home(".cursor/mcp.json"), &world.secret),
    },
    Attempt {
        id: "F1c",
        does: "reads the user's .bashrc",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world| reveals(&world.in_home(".bashrc"), &world.secret),
    },
    Attempt {
        id: "F1d",
        does: "reads another of the user's projects",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world| reveals(&world.in_home("other/notes.txt"), &world.secret),
    },
    Attempt {
        id: "F1e",
        does: "reads a project next to its own",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world| reveals(&world.in_home("work/beside/notes.txt"), &world.secret),
    },
    Attempt {
        id: "F1f",
        does: "reads cloud credentials",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world| reveals(&world.in_home(".aws/credentials"), &world.secret),
    },
    Attempt {
        id: "F1k",
        does: "reads the token of a registry",
        held_by: &["nothing"],
        evidence: Evidence::Inside,
        act: |world| reveals(&world.in_home(".npmrc"), &world.secret),
    },
    Attempt {
        id: "F1g",
        does: "reads /etc/shadow",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |_| read(Path::new("/etc/shadow")),
    },
    Attempt {
        id: "F1h",
        does: "lists /root, /sys, /boot, /srv, /mnt and /var",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |_| {
            let places = ["/root", "/sys", "/boot", "/srv", "/mnt", "/var"];
            first_done(places.map(|place| outcome(fs::read_dir(place), place)))
        },
    },
    Attempt {
        id: "F1i",
        does: "lists the supervisor's journals",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world| outcome(fs::read_dir(world.state.join("runs")), "they are there"),
    },
    Attempt {
        id: "F1j",
        does: "dials a socket in the user's home",
        held_by: &["ENOENT"],
        evidence: Evidence::NobodyCame,
        act: |world| {
            let socket = world.home.join(&world.neighbour.socket);
            outcome(UnixStream::connect(socket), "a peer answered")
        },
    },
    Attempt {
        id: "F2a",
        does: "lists the directory that contains the user's home",
        held_by: &[NOTHING],
        evidence: Evidence::Inside,
        act: |world| lists(world.home.parent().unwrap_or(Path::new("/")), &["state", "world"]),
    },
    Attempt {
        id: "F2b",
        does: "lists the user's home",
        held_by: &[NOTHING],
        evidence: Evidence::Inside,
        act: |world| lists(&world.home, &[".ssh", ".aws", ".bashrc", "other"]),
    },
    Attempt {
        id: "F2c",
        does: "lists the directory that contains the workspace",
        held_by: &[NOTHING],
        evidence: Evidence::Inside,
        act: |world| lists(world.workspace.parent().unwrap_or(Path::new("/")), &["beside"]),
    },
    Attempt {
        id: "F3a",
        does: "writes below /usr",
        held_by: &["EROFS"],
        evidence: Evidence::Inside,
        act: |_| write(Path::new("/usr/src/evil")),
    },
    Attempt {
        id: "F3b",
        does: "writes a new file into /etc",
        held_by: &["EROFS"],
        evidence: Evidence::Inside,
        act: |_| write(Path::new("/etc/evil")),
    },
    Attempt {
        id: "F3c",
        does: "makes a directory in /",
        held_by: &["EROFS"],
        evidence: Evidence::Inside,
        act: |_| outcome(fs::create_dir("/evil"), "it was made"),
    },
    Attempt {
        id: "F3d",
        does: "writes a new file into /dev",
        held_by: &["EROFS"],
        evidence: Evidence::Inside,
        act: |_| write(Path::new("/dev/evil")),
    },
    Attempt {
        id: "F3e",
        does: "writes into /opt and /var/tmp",
        held_by: &["ENOENT", "EROFS"],
        evidence: Evidence::Inside,
        act: |_| first_done(["/opt/evil", "/var/tmp/evil"].map(|path| write(Path::new(path)))),
    },
    Attempt {
        id: "F3f",
        does: "changes the supervisor's own program",
        held_by: &["EROFS", "ETXTBSY", "EACCES"],
        evidence: Evidence::Inside,
        act: |world| {
            // Only open it: if the protection is missing, the program must stay as it is.
            let opened = fs::OpenOptions::new().append(true).open(&world.program);
            outcome(opened, "it could be written")
        },
    },
    Attempt {
        id: "F3g",
        does: "puts a program among the user's tools",
        held_by: &["EROFS"],
        evidence: Evidence::Intact(&[".local/bin/evil", ".local/bin/tool"]),
        act: |world| write(&world.in_home(".local/bin/evil")),
    },
    Attempt {
        id: "F4a",
        does: "reads /etc/shadow through a link in the workspace",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world| through_link(world, Path::new("/etc/shadow")),
    },
    Attempt {
        id: "F4b",
        does: "reads another project through a link in the workspace",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world| through_link(world, &world.in_home("other/notes.txt")),
    },
    Attempt {
        id: "F4c",
        does: "writes into another project through a link that the repository ships",
        held_by: &["ENOENT"],
        evidence: Evidence::Intact(&["other/notes.txt", "other/evil"]),
        act: |world| write(&world.in_workspace("shipped-link/evil")),
    },
    Attempt {
        id: "F4d",
        does: "hard-links a file from another project into the workspace",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world| {
            let own = world.in_workspace("hard-link");
            outcome(fs::hard_link(world.in_home("other/notes.txt"), own), "it was linked")
        },
    },
    Attempt {
        id: "F5a",
        does: "walks out through `..`",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world| {
            let up = "../".repeat(32);
            let target = world.home.join("other/notes.txt");
            let target = target.strip_prefix("/").unwrap_or(&target);
            reveals(&world.workspace.join(up).join(target), &world.secret)
        },
    },
    Attempt {
        id: "F5b",
        does: "walks out through /proc/self/root",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world| below(Path::new("/proc/self/root"), world),
    },
    Attempt {
        id: "F5c",
        does: "walks out through the root of the first process",
        held_by: &["ENOENT", "EACCES"],
        evidence: Evidence::Inside,
        act: |world| below(Path::new("/proc/1/root"), world),
    },
    Attempt {
        id: "F5d",
        does: "walks out through the working directory of the first process",
        held_by: &["ENOENT", "EACCES"],
        evidence: Evidence::Inside,
        act: |world| below(&Path::new("/proc/1/cwd").join("../".repeat(32)), world),
    },
    Attempt {
        id: "F5e",
        does: "opens a file by its handle, past every mount",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            let mut handle = [0_u8; 136];
            handle[0] = 128;
            let mut arguments = [Arg::Number(-100), Arg::Memory(&mut handle), Arg::Number(0)];
            called(call(nix::libc::SYS_open_by_handle_at, &mut arguments), "it was opened")
        },
    },
    Attempt {
        id: "F6a",
        does: "looks for descriptors that were left open",
        held_by: &[NOTHING],
        evidence: Evidence::Inside,
        act: |_| descriptors(Path::new("/proc/self/fd")),
    },
    Attempt {
        id: "F6b",
        does: "looks for files that the first process holds open",
        held_by: &[NOTHING, "EACCES", "ENOENT"],
        evidence: Evidence::Inside,
        act: |_| descriptors(Path::new("/proc/1/fd")),
    },
    Attempt {
        id: "W2a",
        does: "reads another session of the workspace",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world| {
            let answers = stores(world).map(|store| reveals(&store, &world.secret));
            let best = answers.reduce(|one, other| match one {
                Answer::Done(_) => one,
                _ => other,
            });
            best.unwrap_or(Answer::refused(NOTHING))
        },
    },
    Attempt {
        id: "W2b",
        does: "writes into another session of the workspace",
        held_by: &["ENOENT"],
        evidence: Evidence::Intact(&[OTHER_SESSION]),
        act: |world| {
            let written = stores(world).map(|store| {
                use std::io::Write;
                fs::OpenOptions::new().append(true).open(store)?.write_all(b"EVIL")
            });
            let written = written.reduce(std::io::Result::or);
            outcome(written.unwrap_or(Err(std::io::ErrorKind::NotFound.into())), "it was written")
        },
    },
    Attempt {
        id: "W2c",
        does: "looks for sessions of other workspaces",
        held_by: &[NOTHING],
        evidence: Evidence::Inside,
        act: |world| {
            let chats = world.in_home(".cursor/chats");
            let Ok(found) = fs::read_dir(chats) else { return Answer::refused(NOTHING) };
            let others = found
                .flatten()
                .filter(|entry| world.buckets.iter().all(|bucket| entry.file_name() != **bucket));
            match others.count() {
                0 => Answer::refused(NOTHING),
                count => Answer::done(format!("{count} of them")),
            }
        },
    },
];

fn stores(world: &World) -> impl Iterator<Item = std::path::PathBuf> {
    let chats = world.in_home(".cursor/chats");
    let buckets = world.buckets.iter().map(move |bucket| chats.join(bucket));
    buckets.map(|bucket| bucket.join(&world.other_session).join("store.db"))
}

/// Looks for any of these names in a directory.
fn lists(directory: &Path, names: &[&str]) -> Answer {
    match fs::read_dir(directory) {
        Err(error) => Answer::refused(name_of(&error)),
        Ok(found) => {
            let found: Vec<_> = found.flatten().map(|entry| entry.file_name()).collect();
            match names.iter().find(|name| found.iter().any(|found| found == *name)) {
                Some(name) => Answer::done(format!("it saw {name}")),
                None => Answer::refused(NOTHING),
            }
        }
    }
}

fn through_link(world: &World, target: &Path) -> Answer {
    let link = world.in_workspace("own-link");
    fs::remove_file(&link).ok();
    match symlink(target, &link) {
        Ok(()) => read(&link),
        Err(error) => Answer::NotHere(format!("cannot make a link: {error}")),
    }
}

/// Reads another project's file below `root`, which may be the host's root.
fn below(root: &Path, world: &World) -> Answer {
    let target = world.home.join("other/notes.txt");
    reveals(&root.join(target.strip_prefix("/").unwrap_or(&target)), &world.secret)
}

/// Looks for open files and directories beyond the three standard descriptors.
fn descriptors(directory: &Path) -> Answer {
    let found = match fs::read_dir(directory) {
        Ok(found) => found,
        Err(error) => return Answer::refused(name_of(&error)),
    };
    for entry in found.flatten() {
        let is_usual =
            entry.file_name().to_str().is_some_and(|name| ["0", "1", "2"].contains(&name));
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        // Listing the directory opens the directory itself. Pipes and the like lead nowhere.
        if is_usual || target.starts_with("/proc") || !target.is_absolute() {
            continue;
        }
        return Answer::done(format!("{} is open", target.display()));
    }
    Answer::refused(NOTHING)
}
