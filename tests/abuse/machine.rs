//! P4-P6: the machine itself, mounts, and files that let others act as their owner.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmod, fchmodat, mknod};

use crate::attempt::{Answer, Attempt, Evidence};
use crate::calls::{Arg, call};
use crate::tries::{NOTHING, called, first_done, name_of, outcome, own_file, read};
use crate::world::World;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        id: "P4a",
        does: "names the program that the kernel runs as root when something crashes",
        held_by: &["EROFS", "EACCES"],
        evidence: Evidence::Inside,
        act: |_| same_again("/proc/sys/kernel/core_pattern"),
    },
    Attempt {
        id: "P4b",
        does: "presses the kernel's emergency key",
        held_by: &["EROFS", "EACCES", "EPERM"],
        evidence: Evidence::Inside,
        act: |_| match Path::new("/proc/sysrq-trigger").exists() {
            true => outcome(fs::write("/proc/sysrq-trigger", "h"), "it was pressed"),
            false => Answer::NotHere("this kernel has no such key".to_owned()),
        },
    },
    Attempt {
        id: "P4c",
        does: "reads the kernel's memory",
        held_by: &["ENOENT", "EACCES", "EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            let memories = ["/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port"];
            first_done(memories.map(|path| outcome(fs::File::open(path), path)))
        },
    },
    Attempt {
        id: "P4d",
        does: "reads the kernel's log",
        held_by: &["ENOENT", "EACCES", "EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            first_done(["/dev/kmsg", "/proc/kmsg"].map(|path| outcome(fs::File::open(path), path)))
        },
    },
    Attempt {
        id: "P4e",
        does: "looks for disks",
        held_by: &[NOTHING],
        evidence: Evidence::Inside,
        act: |_| {
            let devices = fs::read_dir("/dev").into_iter().flatten().flatten();
            let is_disk =
                |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_block_device());
            match devices.filter(is_disk).count() {
                0 => Answer::refused(NOTHING),
                count => Answer::done(format!("{count} of them")),
            }
        },
    },
    Attempt {
        id: "P4f",
        does: "changes one of the kernel's memory settings",
        held_by: &["EROFS", "EACCES"],
        evidence: Evidence::Inside,
        act: |_| same_again("/proc/sys/vm/overcommit_memory"),
    },
    Attempt {
        id: "P4g",
        does: "reads which firmware and hardware the machine has",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |_| read(Path::new("/sys/class/dmi/id/modalias")),
    },
    Attempt {
        id: "P5a",
        does: "unmounts the run's .cursor",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |world| {
            let dot_cursor = world.in_workspace(".cursor");
            called(umount2(&dot_cursor, MntFlags::MNT_DETACH), "it was unmounted")
        },
    },
    Attempt {
        id: "P5b",
        does: "makes / writable again",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND;
            called(mount(None::<&str>, "/", None::<&str>, flags, None::<&str>), "it is writable")
        },
    },
    Attempt {
        id: "P5c",
        does: "mounts its own file system",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            let flags = MsFlags::empty();
            called(mount(Some("none"), "/tmp", Some("tmpfs"), flags, None::<&str>), "it is there")
        },
    },
    Attempt {
        id: "P5d",
        does: "makes a device",
        held_by: &["EPERM"],
        evidence: Evidence::NoSetId,
        act: |world| {
            let device = libc::makedev(1, 3);
            let path = world.in_workspace("device");
            called(mknod(&path, SFlag::S_IFCHR, Mode::S_IRUSR, device), "it was made")
        },
    },
    Attempt {
        id: "P5e",
        does: "changes its root",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| called(nix::unistd::chroot("/"), "it was changed"),
    },
    Attempt {
        id: "P5f",
        does: "enters the mount namespace of the first process",
        held_by: &["EPERM", "EACCES", "ENOENT"],
        evidence: Evidence::Inside,
        act: |_| match fs::File::open("/proc/1/ns/mnt") {
            Ok(namespace) => called(setns(namespace, CloneFlags::empty()), "it was entered"),
            Err(error) => Answer::refused(name_of(&error)),
        },
    },
    Attempt {
        id: "P5g",
        does: "swaps its root",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| called(nix::unistd::pivot_root("/tmp", "/tmp"), "it was swapped"),
    },
    Attempt {
        id: "P5h",
        does: "makes a file system with fsopen",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            let mut arguments = [Arg::Text(c"tmpfs"), Arg::Number(0)];
            called(call(libc::SYS_fsopen, &mut arguments), "it was made")
        },
    },
    Attempt {
        id: "P5i",
        does: "copies a mount with open_tree",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            let mut arguments = [Arg::Number(-100), Arg::Text(c"/tmp"), Arg::Number(1)];
            called(call(libc::SYS_open_tree, &mut arguments), "it was taken")
        },
    },
    Attempt {
        id: "P5j",
        does: "makes a mount writable with mount_setattr",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            // Clears MOUNT_ATTR_RDONLY.
            let mut attributes = [0_u8; 32];
            attributes[8] = 1;
            let mut arguments = [
                Arg::Number(-100),
                Arg::Text(c"/"),
                Arg::Number(0),
                Arg::Memory(&mut attributes),
                Arg::Number(32),
            ];
            called(call(libc::SYS_mount_setattr, &mut arguments), "it is writable")
        },
    },
    Attempt {
        id: "P6a",
        does: "makes a set-user-id file with chmod",
        held_by: &["EPERM"],
        evidence: Evidence::NoSetId,
        act: |world| {
            on_own_file(world, |path| {
                fchmodat(nix::fcntl::AT_FDCWD, path, SET_USER, FchmodatFlags::FollowSymlink)
            })
        },
    },
    Attempt {
        id: "P6b",
        does: "makes a set-group-id file with fchmod",
        held_by: &["EPERM"],
        evidence: Evidence::NoSetId,
        act: |world| {
            on_own_file(world, |path| {
                let file = open(path, OFlag::O_RDONLY, Mode::empty())?;
                fchmod(file, Mode::S_ISGID.union(Mode::S_IRWXU))
            })
        },
    },
    Attempt {
        id: "P6c",
        does: "makes a set-user-id file with fchmodat2",
        held_by: &["EPERM"],
        evidence: Evidence::NoSetId,
        act: |world| {
            on_own_file(world, |path| {
                let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())
                    .map_err(|_| nix::errno::Errno::EINVAL)?;
                let mode = Arg::Number(SET_USER.bits().into());
                let mut arguments = [Arg::Number(-100), Arg::Text(&path), mode, Arg::Number(0)];
                call(libc::SYS_fchmodat2, &mut arguments).map(|_| ())
            })
        },
    },
    Attempt {
        id: "P6d",
        does: "creates a file that is set-user-id from the start",
        held_by: &["EPERM"],
        evidence: Evidence::NoSetId,
        act: |world| {
            let path = world.in_workspace("born-set-id");
            fs::remove_file(&path).ok();
            let flags = OFlag::O_CREAT | OFlag::O_WRONLY;
            called(open(&path, flags, SET_USER), "it was made")
        },
    },
    Attempt {
        id: "P6e",
        does: "creates a set-user-id file with mknod",
        held_by: &["EPERM"],
        evidence: Evidence::NoSetId,
        act: |world| {
            let path = world.in_workspace("node-set-id");
            fs::remove_file(&path).ok();
            called(mknod(&path, SFlag::S_IFREG, SET_USER, 0), "it was made")
        },
    },
    Attempt {
        id: "P6f",
        does: "hides a set-user-id mode from the filters with openat2",
        held_by: &["ENOSYS"],
        evidence: Evidence::NoSetId,
        act: |world| {
            let path = world.in_workspace("hidden-set-id");
            fs::remove_file(&path).ok();
            let Ok(path) = std::ffi::CString::new(path.into_os_string().into_encoded_bytes())
            else {
                return Answer::NotHere("the path has a NUL byte".to_owned());
            };
            let flags = u64::from((libc::O_CREAT | libc::O_WRONLY).cast_unsigned());
            let how = [flags, u64::from(SET_USER.bits()), 0].map(u64::to_ne_bytes);
            let mut how = how.as_flattened().to_vec();
            let mut arguments =
                [Arg::Number(-100), Arg::Text(&path), Arg::Memory(&mut how), Arg::Number(24)];
            called(call(libc::SYS_openat2, &mut arguments), "it was made")
        },
    },
    Attempt {
        id: "P6g",
        does: "gives a file capabilities",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |world| {
            on_own_file(world, |path| {
                // Version 2, effective, CAP_NET_RAW.
                let value = [0x0200_0001_u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes);
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(path, "security.capability", value.as_flattened(), flags)
                    .map_err(|errno| nix::errno::Errno::from_raw(errno.raw_os_error()))
            })
        },
    },
];

const SET_USER: Mode = Mode::S_ISUID.union(Mode::S_IRWXU);

/// Writes a file in the workspace and calls `act` on it.
fn on_own_file(world: &World, act: impl Fn(&Path) -> nix::Result<()>) -> Answer {
    let path = world.in_workspace("own-program");
    match own_file(&path) {
        Ok(()) => called(act(&path), "it was made"),
        Err(error) => Answer::NotHere(format!("could not write the file: {error}")),
    }
}

/// Writes the current content back, so that success changes nothing.
fn same_again(path: &str) -> Answer {
    let written = fs::read(path).and_then(|value| fs::write(path, value));
    outcome(written, "it was written")
}
