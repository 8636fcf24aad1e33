//! Mounts a file read-only over itself inside a running sandbox, to restore a lost protection.
//!
//! The shim starts its own program for this, because a process with several threads cannot enter a user namespace.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use ground::command::{Bounds, run};
use ground::with_causes;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::entry_main::{Complaint, enter_owner, failed};
use super::mount_attributes::make_read_only;

/// The name of this entry point: `caretaker bind-again <pid> <path>`.
pub const BIND_ENTRY: &str = "bind-again";

/// Mounts `path` in the mount namespace of the process `init`. The caller must verify the mount.
pub(crate) fn bind_again(init: u32, path: &Path, within: Duration) -> Result<(), String> {
    let mut command = Command::new("/proc/self/exe");
    command.arg(BIND_ENTRY).arg(init.to_string()).arg(path).env_clear().current_dir("/");
    let answer = run(&mut command, None, Bounds::of_question(within))
        .map_err(|error| with_causes(&error))?;
    match answer.status.success() {
        true => Ok(()),
        false => Err(answer.stderr_text().trim().to_owned()),
    }
}

/// The main function of the process that makes the mount.
pub fn bind_main(init: &str, path: &Path) -> ExitCode {
    match bind(init, path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            writeln!(std::io::stderr(), "{complaint}").ok();
            ExitCode::FAILURE
        }
    }
}

fn bind(init: &str, path: &Path) -> Result<(), Complaint> {
    let namespace = File::open(format!("/proc/{init}/ns/mnt"))
        .map_err(failed("the sandbox's mounts cannot be found"))?;
    enter_owner(namespace.as_fd())?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))
        .map_err(failed("the sandbox's mounts cannot be entered"))?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(CWD, path, flags, Mode::empty(), resolve)
        .map_err(failed("the file cannot be opened inside the sandbox"))?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let mount = open_tree(&file, "", flags).map_err(failed("a mount cannot be made"))?;
    make_read_only(&mount).map_err(failed("the mount cannot be made read-only"))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&mount, "", &file, "", flags).map_err(failed("the file cannot be mounted"))
}
