use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes a directory that only its owner can enter, and missing directories above it. Existing ones stay unchanged.
pub fn make_private_dir(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
