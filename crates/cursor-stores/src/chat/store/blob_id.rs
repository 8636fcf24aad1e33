//! The name of a blob: the SHA-256 of its bytes.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// The SHA-256 of a blob's bytes. Shown and stored in the database as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId([u8; 32]);

/// Says why something is not a blob id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a blob id has 64 hex digits or 32 bytes")]
pub struct NotABlobId;

impl BlobId {
    /// The id of `data` as a blob.
    #[must_use]
    pub fn of(data: &[u8]) -> Self {
        Self(Sha256::digest(data).into())
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The raw bytes, as a field refers to the blob.
    #[must_use]
    pub fn to_vec(self) -> Vec<u8> {
        self.0.to_vec()
    }
}

/// Returns the ids among a field's values. Leaves out other values.
pub(crate) fn ids_of<'a>(values: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<BlobId> {
    values.into_iter().filter_map(|value| BlobId::try_from(value.as_slice()).ok()).collect()
}

impl From<[u8; 32]> for BlobId {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl TryFrom<&[u8]> for BlobId {
    type Error = NotABlobId;

    fn try_from(bytes: &[u8]) -> Result<Self, NotABlobId> {
        bytes.try_into().map(Self).map_err(|_| NotABlobId)
    }
}

impl FromStr for BlobId {
    type Err = NotABlobId;

    /// Reads 64 hex digits of either case.
    fn from_str(text: &str) -> Result<Self, NotABlobId> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| NotABlobId)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&hex::encode(self.0))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "BlobId({self})")
    }
}

impl serde::Serialize for BlobId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
