//! Writes a session into a bundle.

use std::io::{self, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::header::{BundleHeader, BundleOrigin};
use super::machine_paths::{MachinePaths, PathChange};
use super::moved::{LeftOutTally, NamingTally, moved};
use crate::chat::SessionMetaFile;
use crate::session_copy::error::CopyError;
use crate::session_copy::fork::check_prompt;
use crate::session_copy::fork_point::ForkPoint;
use crate::session_copy::source::{CopyTally, with_source};

/// The content of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundled {
    pub header: BundleHeader,
    pub tally: CopyTally,
    /// Blobs that still name a path on this machine.
    pub naming: NamingTally,
    /// Everything that was left out because it names a path on this machine.
    pub left_out: LeftOutTally,
}

/// Writes everything that the latest checkpoint leads to, with paths relative to the workspace. Calls `begin` for an
/// empty file, and again if the store changes during the read. Leaves out blobs whose hash is not their id, because no
/// reader could check them.
pub fn write_bundle<W: Write>(
    database: &Path,
    session: &str,
    origin: &BundleOrigin,
    paths: &MachinePaths,
    mut begin: impl FnMut() -> io::Result<W>,
) -> Result<(W, Bundled), CopyError> {
    with_source(database, |source| {
        source.check_whole()?;
        let meta = source.meta()?;
        let checkpoint = ForkPoint::Latest.resolve(source, &meta)?;
        check_prompt(source, &checkpoint)?;
        let moved = moved(source, checkpoint.id, PathChange::Departure(paths))?;
        let title = SessionMetaFile::read(&database.with_file_name("meta.json"))
            .ok()
            .and_then(|meta_file| meta_file.title);
        let mut header =
            BundleHeader::new(session, moved.root, &meta, title, origin.clone(), paths);
        header.n_blobs = moved.n_blobs;
        header.n_bytes = moved.n_bytes;
        let mut out = HashingWriter { inner: begin()?, hash: Sha256::new() };
        serde_json::to_writer(&mut out, &header).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        moved.visit(source, |_, data| {
            out.write_all(&(data.len() as u64).to_le_bytes())?;
            Ok(out.write_all(data)?)
        })?;
        let HashingWriter { mut inner, hash } = out;
        inner.write_all(&hash.finalize())?;
        inner.flush()?;
        let tally = CopyTally {
            n_blobs: moved.n_blobs,
            n_bytes: moved.n_bytes,
            n_source_blobs: source.ids.len() as u64,
            n_source_bytes: source.n_bytes(),
            n_damaged: moved.n_damaged,
        };
        Ok((inner, Bundled { header, tally, naming: moved.naming, left_out: moved.left_out }))
    })
}

struct HashingWriter<W> {
    inner: W,
    hash: Sha256,
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n_written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..n_written]);
        Ok(n_written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
