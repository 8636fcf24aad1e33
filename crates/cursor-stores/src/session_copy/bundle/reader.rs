//! Reads a bundle. Nothing in it is trusted before it is checked.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::header::{BUNDLE_VERSION, BundleHeader, FORMAT, MAX_HEADER_BYTES};
use crate::chat::{BlobId, MAX_BLOB_BYTES};
use crate::plain_file::{self, PlainFileError};

/// A bundle whose header was read.
#[derive(Debug)]
pub struct BundleReader {
    input: BufReader<File>,
    hash: Sha256,
    header: BundleHeader,
    root: BlobId,
    /// The bytes left in the file.
    n_bytes_left: u64,
}

/// Says what is wrong with a bundle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadBundleError {
    #[error("the bundle is not a readable file")]
    File(#[from] PlainFileError),
    #[error("the bundle cannot be read")]
    Read(#[source] io::Error),
    #[error("the file is not a session bundle")]
    NotABundle,
    #[error("the bundle has version {version}; this program reads versions up to {BUNDLE_VERSION}")]
    TooNew { version: u64 },
    #[error("the bundle's header is invalid: {what}")]
    Header { what: &'static str },
    #[error("the bundle ends too early")]
    Truncated,
    #[error("the bundle has bytes after its end")]
    Trailing,
    #[error("blob {index} says it has {n_bytes} bytes, more than a blob can have")]
    BlobTooLarge { index: u64, n_bytes: u64 },
    #[error("the bundle has blob {index} twice")]
    Repeated { index: u64 },
    #[error("the bundle's blobs do not match its header")]
    Count,
    #[error("the bundle's hash does not match its content: the file was damaged or changed")]
    WrongHash,
}

const HASH_BYTES: u64 = 32;

impl BundleReader {
    pub fn open(path: &Path) -> Result<Self, ReadBundleError> {
        let file = plain_file::open(path)?;
        let n_bytes = file.metadata().map_err(ReadBundleError::Read)?.len();
        let mut input = BufReader::with_capacity(256 * 1024, file);
        let mut line = Vec::new();
        input
            .by_ref()
            .take(MAX_HEADER_BYTES as u64)
            .read_until(b'\n', &mut line)
            .map_err(ReadBundleError::Read)?;
        if line.last() != Some(&b'\n') {
            return Err(ReadBundleError::NotABundle);
        }
        let (header, root) = parse_header(&line)?;
        let n_bytes_left =
            n_bytes.checked_sub(line.len() as u64).ok_or(ReadBundleError::Truncated)?;
        Ok(Self { input, hash: Sha256::new_with_prefix(&line), header, root, n_bytes_left })
    }

    #[must_use]
    pub fn header(&self) -> &BundleHeader {
        &self.header
    }

    pub(crate) fn root(&self) -> BlobId {
        self.root
    }

    /// Calls `visit` with every blob. Fails unless everything matches the header and the hash. The caller must not
    /// trust a blob before this returns. Keeps only one blob in memory at a time.
    pub(crate) fn visit_all<E: From<ReadBundleError>>(
        &mut self,
        mut visit: impl FnMut(BlobId, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut seen = HashSet::new();
        let mut n_bytes_all = 0_u64;
        let mut data = Vec::new();
        for index in 0..self.header.n_blobs {
            let mut length = [0; 8];
            self.read_hashed(&mut length)?;
            let n_bytes = u64::from_le_bytes(length);
            if n_bytes > MAX_BLOB_BYTES as u64 {
                return Err(ReadBundleError::BlobTooLarge { index, n_bytes }.into());
            }
            if n_bytes > self.n_bytes_left {
                return Err(ReadBundleError::Truncated.into());
            }
            data.resize(usize::try_from(n_bytes).unwrap_or(usize::MAX), 0);
            self.read_hashed(&mut data)?;
            n_bytes_all += n_bytes;
            let id = BlobId::of(&data);
            if !seen.insert(id) {
                return Err(ReadBundleError::Repeated { index }.into());
            }
            visit(id, &data)?;
        }
        if n_bytes_all != self.header.n_bytes {
            return Err(ReadBundleError::Count.into());
        }
        Ok(self.check_end()?)
    }

    fn check_end(&mut self) -> Result<(), ReadBundleError> {
        if self.n_bytes_left < HASH_BYTES {
            return Err(ReadBundleError::Truncated);
        }
        let mut recorded = [0; HASH_BYTES as usize];
        self.read(&mut recorded)?;
        let actual: [u8; 32] = self.hash.clone().finalize().into();
        if actual != recorded {
            return Err(ReadBundleError::WrongHash);
        }
        match self.input.read(&mut [0]).map_err(ReadBundleError::Read)? {
            0 => Ok(()),
            _ => Err(ReadBundleError::Trailing),
        }
    }

    fn read_hashed(&mut self, buffer: &mut [u8]) -> Result<(), ReadBundleError> {
        self.read(buffer)?;
        self.hash.update(&*buffer);
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<(), ReadBundleError> {
        let n_bytes = buffer.len() as u64;
        self.n_bytes_left =
            self.n_bytes_left.checked_sub(n_bytes).ok_or(ReadBundleError::Truncated)?;
        self.input.read_exact(buffer).map_err(|err| match err.kind() {
            io::ErrorKind::UnexpectedEof => ReadBundleError::Truncated,
            _ => ReadBundleError::Read(err),
        })
    }
}

fn parse_header(line: &[u8]) -> Result<(BundleHeader, BlobId), ReadBundleError> {
    let json: serde_json::Value =
        serde_json::from_slice(line).map_err(|_| ReadBundleError::NotABundle)?;
    if json["format"] != FORMAT {
        return Err(ReadBundleError::NotABundle);
    }
    match json["version"].as_u64() {
        Some(version) if version > u64::from(BUNDLE_VERSION) => {
            return Err(ReadBundleError::TooNew { version });
        }
        Some(1..) => {}
        _ => return Err(ReadBundleError::NotABundle),
    }
    let refused = |what| ReadBundleError::Header { what };
    let header: BundleHeader = serde_json::from_value(json)
        .map_err(|_| refused("a field is missing or has the wrong type"))?;
    if !is_session_id(&header.session) {
        return Err(refused("its session is not a UUID"));
    }
    let root = header.root.parse().map_err(|_| refused("its root is not a blob id"))?;
    Ok((header, root))
}

/// Returns true for a UUID in its usual form, which cannot be a path.
fn is_session_id(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}
