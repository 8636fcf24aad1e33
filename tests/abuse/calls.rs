//! Raw system calls that no safe wrapper offers.

#![expect(
    unsafe_code,
    reason = "refused system calls can only be shown by making them, and most of them have no wrapper"
)]

use nix::errno::Errno;
use nix::libc;

/// An argument of a system call.
pub(crate) enum Arg<'a> {
    Number(i64),
    Text(&'a std::ffi::CStr),
    Memory(&'a mut [u8]),
}

/// Makes a system call. Its output must fit into the memory that the caller lends.
pub(crate) fn call(number: i64, arguments: &mut [Arg<'_>]) -> Result<i64, Errno> {
    let mut words = [0_i64; 6];
    for (word, argument) in words.iter_mut().zip(arguments) {
        *word = match argument {
            Arg::Number(number) => *number,
            Arg::Text(text) => text.as_ptr().addr().cast_signed() as i64,
            Arg::Memory(memory) => memory.as_mut_ptr().addr().cast_signed() as i64,
        };
    }
    let [a, b, c, d, e, f] = words;
    // SAFETY: every address is memory that the caller lends us for the call, and the callers below lend each call as
    // much as the kernel writes.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    Errno::result(result)
}

/// Makes a process that exits immediately, with `clone` or `clone3`, and waits for it.
pub(crate) fn clone_and_end(number: i64, arguments: &mut [Arg<'_>]) -> Result<(), Errno> {
    match call(number, arguments)? {
        0 => {
            // SAFETY: ends the copy of this process, which has no other live thread, without running anything.
            unsafe { libc::_exit(0) }
        }
        child => {
            // SAFETY: waits for the child that was just made; no memory is shared with it.
            unsafe { libc::waitpid(child as libc::pid_t, std::ptr::null_mut(), libc::__WALL) };
            Ok(())
        }
    }
}

/// Reads a byte of System V shared memory.
pub(crate) fn shared_memory(key: i32) -> Result<u8, Errno> {
    // SAFETY: the kernel chooses where to attach the segment; one byte of it is read, and it is detached again.
    unsafe {
        let id = Errno::result(libc::shmget(key, 0, 0))?;
        let address = libc::shmat(id, std::ptr::null(), libc::SHM_RDONLY);
        if address.addr() == usize::MAX {
            return Err(Errno::last());
        }
        let byte = address.cast::<u8>().read_volatile();
        libc::shmdt(address);
        Ok(byte)
    }
}

/// Makes shared memory that other processes of the same user can read. It stays until [`remove_shared_memory`].
pub fn make_shared_memory(key: i32) -> Result<i32, Errno> {
    // SAFETY: asks for a segment; nothing is attached.
    Errno::result(unsafe { libc::shmget(key, 4096, libc::IPC_CREAT | libc::IPC_EXCL | 0o600) })
}

pub fn remove_shared_memory(id: i32) {
    // SAFETY: marks a segment for removal; no memory is passed.
    unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
}
