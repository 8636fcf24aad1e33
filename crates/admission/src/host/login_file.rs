//! The login file of the user's own cursor-agent.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use cursor_home::{CursorRoots, Login};

/// A real login file has a few hundred bytes.
const LARGEST: u64 = 256 * 1024;

/// The first login file that contains a token.
pub fn find(roots: &CursorRoots) -> Option<PathBuf> {
    roots.auth_files().into_iter().find(|file| has_token(file))
}

fn has_token(file: &Path) -> bool {
    // Check before opening: opening a FIFO would block.
    if !std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let mut content = Vec::new();
    let read = File::open(file).and_then(|file| file.take(LARGEST).read_to_end(&mut content));
    read.is_ok() && Login::parse(&content).is_ok()
}
