//! S: kernel features that past escapes used, and the terminal.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CloneFlags, unshare};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::attempt::{Answer, Attempt, Evidence};
use crate::calls::{Arg, call, clone_and_end};
use crate::tries::{called, name_of, outcome};

const SESSION_KEYRING: i64 = -3;
const TIOCSTI: i64 = 0x5412;
const TIOCLINUX: i64 = 0x541C;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        id: "S1a",
        does: "makes a user namespace, in which it has every capability",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| in_child("unshare --user true"),
    },
    Attempt {
        id: "S1b",
        does: "clones itself into a new user namespace",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            let flags = i64::from(libc::CLONE_NEWUSER | libc::SIGCHLD);
            called(clone_and_end(libc::SYS_clone, &mut [Arg::Number(flags)]), "it was cloned")
        },
    },
    Attempt {
        id: "S1c",
        does: "hides the flags of a clone from the filters with clone3",
        held_by: &["ENOSYS"],
        evidence: Evidence::Inside,
        act: |_| {
            // The flags and the exit signal. The other nine fields are zero.
            let mut fields = [0_u64; 11];
            fields[0] = u64::from(libc::CLONE_NEWUSER.cast_unsigned());
            fields[4] = u64::from(libc::SIGCHLD.cast_unsigned());
            let mut bytes = fields.map(u64::to_ne_bytes).as_flattened().to_vec();
            let mut arguments = [Arg::Memory(&mut bytes), Arg::Number(88)];
            called(clone_and_end(libc::SYS_clone3, &mut arguments), "it was cloned")
        },
    },
    Attempt {
        id: "S1d",
        does: "makes a sandbox inside the sandbox",
        held_by: &["it failed"],
        evidence: Evidence::Inside,
        act: |_| match Command::new("bwrap").args(["--ro-bind", "/", "/", "true"]).output() {
            Ok(output) if output.status.success() => Answer::done("it was made"),
            Ok(_) => Answer::refused("it failed"),
            Err(error) => Answer::NotHere(format!("bwrap: {error}")),
        },
    },
    Attempt {
        id: "S1e",
        does: "makes its own network namespace",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| called(unshare(CloneFlags::CLONE_NEWNET), "it has one"),
    },
    Attempt {
        id: "S2a",
        does: "makes system calls that no filter sees, with io_uring",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            let mut parameters = [0_u8; 120];
            let mut arguments = [Arg::Number(4), Arg::Memory(&mut parameters)];
            called(call(libc::SYS_io_uring_setup, &mut arguments), "there is a ring")
        },
    },
    Attempt {
        id: "S2b",
        does: "finds the session's keyring",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            let mut arguments = [0, SESSION_KEYRING, 1].map(Arg::Number);
            called(call(libc::SYS_keyctl, &mut arguments), "it was found")
        },
    },
    Attempt {
        id: "S2c",
        does: "puts a key into the session's keyring",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            let mut value = *b"evil";
            let mut arguments = [
                Arg::Text(c"user"),
                Arg::Text(c"evil"),
                Arg::Memory(&mut value),
                Arg::Number(4),
                Arg::Number(SESSION_KEYRING),
            ];
            called(call(libc::SYS_add_key, &mut arguments), "it is there")
        },
    },
    Attempt {
        id: "S2d",
        does: "loads a program into the kernel",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            // BPF_MAP_CREATE of an array: type 2, key 4, value 4, one entry.
            let mut attributes = [2_u32, 4, 4, 1].map(u32::to_ne_bytes).as_flattened().to_vec();
            attributes.resize(128, 0);
            let mut arguments = [Arg::Number(0), Arg::Memory(&mut attributes), Arg::Number(128)];
            called(call(libc::SYS_bpf, &mut arguments), "it was loaded")
        },
    },
    Attempt {
        id: "S2e",
        does: "handles page faults itself, to win races in the kernel",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        // Only for faults in user mode, which every process may handle.
        act: |_| called(call(libc::SYS_userfaultfd, &mut [Arg::Number(1)]), "it handles them"),
    },
    Attempt {
        id: "S2f",
        does: "counts processor events",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            // PERF_TYPE_SOFTWARE, for this process, excluding the kernel and the hypervisor.
            let mut attributes = [0_u8; 128];
            attributes[0] = 1;
            attributes[4] = 128;
            attributes[40] = 0x60;
            let mut arguments = [
                Arg::Memory(&mut attributes),
                Arg::Number(0),
                Arg::Number(-1),
                Arg::Number(-1),
                Arg::Number(0),
            ];
            called(call(libc::SYS_perf_event_open, &mut arguments), "it counts")
        },
    },
    Attempt {
        id: "S2g",
        does: "controls another process with ptrace",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            with_child(|child| {
                const SEIZE: i64 = 0x4206;
                let mut arguments = [SEIZE, child, 0, 0].map(Arg::Number);
                call(libc::SYS_ptrace, &mut arguments)
            })
        },
    },
    Attempt {
        id: "S2h",
        does: "reads another process's memory",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| with_child(|child| memory_of(libc::SYS_process_vm_readv, child)),
    },
    Attempt {
        id: "S2i",
        does: "writes another process's memory",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| with_child(|child| memory_of(libc::SYS_process_vm_writev, child)),
    },
    Attempt {
        id: "S2j",
        does: "compares kernel objects of two processes",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            let own = i64::from(std::process::id());
            with_child(|child| call(libc::SYS_kcmp, &mut [own, child, 0, 0, 0].map(Arg::Number)))
        },
    },
    Attempt {
        id: "S2k",
        does: "takes a descriptor out of another process",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            with_child(|child| {
                let process = call(libc::SYS_pidfd_open, &mut [child, 0].map(Arg::Number))?;
                call(libc::SYS_pidfd_getfd, &mut [process, 0, 0].map(Arg::Number))
            })
        },
    },
    Attempt {
        id: "S2l",
        does: "watches other processes' file access with fanotify",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        // FAN_REPORT_FID, which every process may use.
        act: |_| {
            let mut arguments = [0x200, 0].map(Arg::Number);
            called(call(libc::SYS_fanotify_init, &mut arguments), "it watches")
        },
    },
    Attempt {
        id: "S2m",
        does: "turns off address randomisation",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            let mut arguments = [Arg::Number(0x004_0000)];
            called(call(libc::SYS_personality, &mut arguments), "it is off")
        },
    },
    Attempt {
        id: "S2n",
        does: "sets the placement of memory",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            let mut arguments = [0, 0, 0].map(Arg::Number);
            called(call(libc::SYS_set_mempolicy, &mut arguments), "it decided")
        },
    },
    Attempt {
        id: "S2o",
        does: "reads the kernel's log with a system call",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| {
            let mut log = [0_u8; 256];
            let mut arguments = [Arg::Number(3), Arg::Memory(&mut log), Arg::Number(256)];
            called(call(libc::SYS_syslog, &mut arguments), "it was read")
        },
    },
    Attempt {
        id: "S2p",
        does: "uses x32 call numbers, which no rule names",
        held_by: &["ENOSYS"],
        evidence: Evidence::Inside,
        act: |_| called(call(0x4000_0000 | libc::SYS_getpid, &mut []), "it was called"),
    },
    Attempt {
        id: "S3a",
        does: "opens a socket to the hypervisor",
        held_by: &["EAFNOSUPPORT"],
        evidence: Evidence::Inside,
        act: |_| socket(40, 1, 0),
    },
    Attempt {
        id: "S3b",
        does: "opens a socket for raw packets",
        held_by: &["EAFNOSUPPORT"],
        evidence: Evidence::Inside,
        act: |_| socket(17, 3, 0),
    },
    Attempt {
        id: "S3c",
        does: "opens a socket to the kernel's cryptography API",
        held_by: &["EAFNOSUPPORT"],
        evidence: Evidence::Inside,
        act: |_| socket(38, 5, 0),
    },
    Attempt {
        id: "S3d",
        does: "opens a raw internet socket",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| socket(2, 3, 1),
    },
    Attempt {
        id: "S3e",
        does: "opens sockets of forty other kinds",
        held_by: &["EAFNOSUPPORT"],
        evidence: Evidence::Inside,
        act: |_| {
            let others = (0..46).filter(|family| ![1, 2, 10, 16].contains(family));
            let kinds = others.flat_map(|family| [1, 2, 3, 5].map(|kind| (family, kind)));
            crate::tries::first_done(kinds.map(|(family, kind)| match socket(family, kind, 0) {
                Answer::Refused(_) => Answer::refused("EAFNOSUPPORT"),
                _ => Answer::done(format!("family {family}")),
            }))
        },
    },
    Attempt {
        id: "S4d",
        does: "opens the terminal that the supervisor was started from",
        held_by: &["ENXIO"],
        evidence: Evidence::NothingTyped,
        act: |_| {
            let terminal = File::options().read(true).write(true).open("/dev/tty");
            outcome(terminal, "it is open")
        },
    },
    Attempt {
        id: "S4a",
        does: "types into a terminal",
        held_by: &["EPERM"],
        evidence: Evidence::NothingTyped,
        act: |_| on_terminal(TIOCSTI),
    },
    Attempt {
        id: "S4b",
        does: "types into a terminal with a request number whose high bits are set",
        held_by: &["EPERM"],
        evidence: Evidence::NothingTyped,
        act: |_| on_terminal(1 << 32 | TIOCSTI),
    },
    Attempt {
        id: "S4c",
        does: "pastes into a console",
        held_by: &["EPERM"],
        evidence: Evidence::NothingTyped,
        act: |_| on_terminal(TIOCLINUX),
    },
];

fn socket(family: i64, kind: i64, protocol: i64) -> Answer {
    called(call(libc::SYS_socket, &mut [family, kind, protocol].map(Arg::Number)), "it is open")
}

/// Tries a shell command. A namespace that it makes ends with it.
fn in_child(command: &str) -> Answer {
    match Command::new("sh").args(["-c", command]).stderr(Stdio::piped()).output() {
        Ok(output) if output.status.success() => Answer::done("it was made"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let is_refused = said.contains("Operation not permitted");
            Answer::refused(if is_refused { "EPERM" } else { said.trim() })
        }
        Err(error) => Answer::refused(name_of(&error)),
    }
}

/// Calls `act` on a sleeping child, then kills the child.
fn with_child(act: impl FnOnce(i64) -> Result<i64, Errno>) -> Answer {
    let child = Command::new("sleep").arg("60").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return Answer::NotHere(format!("sleep: {error}")),
    };
    let result = act(i64::from(child.id()));
    child.kill().ok();
    child.wait().ok();
    called(result, "it was done")
}

/// Tries to read or write eight bytes of the child's memory, at an address that is not mapped.
fn memory_of(number: i64, child: i64) -> Result<i64, Errno> {
    let mut local = [0_u8; 8];
    let address = local.as_mut_ptr().addr() as u64;
    let mut own = [address, 8].map(u64::to_ne_bytes).as_flattened().to_vec();
    // Nothing is mapped at this address. If the call gets far enough to notice, the sandbox allowed it.
    let mut other = [8_u64, 8].map(u64::to_ne_bytes).as_flattened().to_vec();
    let mut arguments = [
        Arg::Number(child),
        Arg::Memory(&mut own),
        Arg::Number(1),
        Arg::Memory(&mut other),
        Arg::Number(1),
        Arg::Number(0),
    ];
    match call(number, &mut arguments) {
        Err(Errno::EFAULT) => Ok(0),
        other => other,
    }
}

/// Types a letter into its own terminal. A process that may do this may do it to any terminal that it has open.
fn on_terminal(request: i64) -> Answer {
    let (master, terminal) = match own_terminal() {
        Ok(pair) => pair,
        Err(error) => return Answer::NotHere(format!("no terminal: {error}")),
    };
    // If this became our controlling terminal, closing the master would kill us.
    std::mem::forget(master);
    // For TIOCLINUX the same byte is a harmless request.
    let mut letter = *b"\x07EVIL\n";
    let mut arguments =
        [Arg::Number(terminal.as_raw_fd().into()), Arg::Number(request), Arg::Memory(&mut letter)];
    match call(libc::SYS_ioctl, &mut arguments) {
        // On this kernel, no process can type into a terminal.
        Err(Errno::EIO) => {
            Answer::NotHere("this kernel lets no process type into a terminal".to_owned())
        }
        result => called(result, "it was typed"),
    }
}

fn own_terminal() -> std::io::Result<(OwnedFd, File)> {
    // Only the first process of a session gets a terminal by opening one.
    nix::unistd::setsid().ok();
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let name = name.to_str().map_err(std::io::Error::other)?;
    // Without O_NOCTTY it becomes our controlling terminal if we have none, and a process may type only into its own.
    let terminal = File::options().read(true).write(true).open(name)?;
    Ok((master, terminal))
}
