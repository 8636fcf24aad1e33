//! Finds the user namespace that owns another namespace.
//!
//! This needs `unsafe` for an ioctl that no safe crate offers. bubblewrap puts the agent into a user namespace below
//! the one that owns the network, so no file in `/proc` leads there.

#![expect(unsafe_code, reason = "an ioctl that no safe crate offers")]

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};

/// `NS_GET_USERNS` from linux/nsfs.h.
const NS_GET_USERNS: Opcode = opcode::none(0xb7, 0x1);

struct GetOwner;

// SAFETY: the call takes no argument and returns a new descriptor that no other code knows.
unsafe impl Ioctl for GetOwner {
    type Output = OwnedFd;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        NS_GET_USERNS
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(
        descriptor: IoctlOutput,
        _: *mut std::ffi::c_void,
    ) -> rustix::io::Result<OwnedFd> {
        // SAFETY: as above; rustix has already turned failures into errors.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }
}

/// Opens the user namespace that owns this one.
pub(super) fn owning_user_namespace(namespace: impl AsFd) -> io::Result<OwnedFd> {
    // SAFETY: `GetOwner` has the right shape for its opcode. The kernel refuses the call for any other kind of
    // descriptor.
    Ok(unsafe { ioctl(namespace, GetOwner) }?)
}
