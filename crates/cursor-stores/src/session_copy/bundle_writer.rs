//! Writing a session into one file.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;

use memchr::memmem::Finder;
use sha2::{Digest, Sha256};

use super::bundle::{BundleHeader, BundleOrigin};
use super::fork::{ForkError, check_prompt};
use super::fork_point::ForkPoint;
use super::reachable::{AsSourceError, CopySourceError, CopyTally, with_source};
use crate::chat::{BlobId, SessionMetaFile};

/// What a bundle holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundled {
    pub header: BundleHeader,
    pub tally: CopyTally,
    /// How many blobs name one of the paths that were asked about.
    pub n_naming_paths: u64,
}

/// Says why a bundle was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteBundleError {
    #[error(transparent)]
    Session(#[from] ForkError),
    #[error("the bundle cannot be written")]
    Write(#[from] io::Error),
}

impl From<CopySourceError> for WriteBundleError {
    fn from(err: CopySourceError) -> Self {
        Self::Session(err.into())
    }
}

impl AsSourceError for WriteBundleError {
    fn as_source_error(&self) -> Option<&CopySourceError> {
        match self {
            Self::Session(err) => err.as_source_error(),
            Self::Write(_) => None,
        }
    }
}

/// Writes what the latest checkpoint leads to. `begin` gives an empty file, again if the store changed and all has to be
/// written anew. Blobs whose hash is not their id stay behind: nobody could check them.
pub fn write_bundle<W: Write>(
    database: &Path,
    session: &str,
    origin: &BundleOrigin,
    told_about: &[String],
    mut begin: impl FnMut() -> io::Result<W>,
) -> Result<(W, Bundled), WriteBundleError> {
    let finders: Vec<Finder<'_>> =
        told_about.iter().filter(|path| path.len() > 1).map(Finder::new).collect();
    with_source(database, |source| {
        source.check_whole()?;
        let meta = source.meta()?;
        let checkpoint = ForkPoint::Latest.resolve(source, &meta).map_err(ForkError::from)?;
        check_prompt(source, &checkpoint)?;
        let mut reach = source.reach(checkpoint.id)?;
        let damaged: HashSet<BlobId> = reach.damaged.iter().copied().collect();
        let tally = source.tally(&reach);
        reach.ids.retain(|id| !damaged.contains(id) && !reach.unreadable.contains(id));
        let title = SessionMetaFile::read(&database.with_file_name("meta.json"))
            .ok()
            .and_then(|meta_file| meta_file.title);
        let mut header = BundleHeader::new(session, checkpoint.id, &meta, title, origin.clone());
        header.n_blobs = reach.ids.len() as u64;
        header.n_bytes = source.n_bytes_of(&reach.ids);
        let mut out = HashingWriter { inner: begin()?, hash: Sha256::new() };
        serde_json::to_writer(&mut out, &header).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        let mut n_naming_paths = 0;
        source.visit::<WriteBundleError>(
            |id| reach.ids.contains(id),
            |_, data| {
                n_naming_paths +=
                    u64::from(finders.iter().any(|finder| finder.find(data).is_some()));
                out.write_all(&(data.len() as u64).to_le_bytes())?;
                Ok(out.write_all(data)?)
            },
        )?;
        let HashingWriter { mut inner, hash } = out;
        inner.write_all(&hash.finalize())?;
        inner.flush()?;
        let tally = CopyTally { n_blobs: header.n_blobs, n_bytes: header.n_bytes, ..tally };
        Ok((inner, Bundled { header, tally, n_naming_paths }))
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
