//! Makes a mount read-only before any process can reach it.
//!
//! This needs `unsafe` for a system call that no safe crate offers. A remount would come too late: for a moment, the
//! agent could open the file for writing.

#![expect(unsafe_code, reason = "a system call that no safe crate offers")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;

/// Makes a detached mount read-only, without set-user-id programs and devices.
pub(super) fn make_read_only(mount: &OwnedFd) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the kernel reads the empty path and the attributes, both of which outlive the call, and writes nothing.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
