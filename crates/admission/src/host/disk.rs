//! Free disk space.

use std::io;
use std::path::Path;

use nix::sys::statvfs::statvfs;

/// The bytes that an ordinary user can still write to the file system of `path`. The path need not exist yet.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for existing in path.ancestors() {
        match statvfs(existing) {
            Ok(found) => return Ok(found.blocks_available() * found.fragment_size()),
            Err(errno) => last = errno.into(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_path_has_the_room_of_its_nearest_existing_parent() {
        let directory = tempfile::tempdir().unwrap();
        assert!(free_bytes(&directory.path().join("not/yet")).unwrap() > 0);
    }
}
