//! Everything that can be wrong with a store. `sessions verify`, `repair`, `gc` and tests all use these findings.

use serde::Serialize;

use super::resumability::NotResumable;
use crate::chat::store::BlobId;

/// A problem with a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StoreFinding {
    /// The store cannot be opened.
    Unreadable {
        why: String,
    },
    /// Pages are inconsistent, or some rows cannot be reached.
    FileDamaged {
        why: String,
    },
    /// The newest changes may be missing from this check.
    LogUnreadable,
    MetaMissing,
    MetaUnreadable {
        why: String,
    },
    /// The row and the directory name different sessions.
    AgentIdDiffers {
        agent_id: String,
    },
    /// There is no checkpoint: a resume begins an empty conversation.
    RootAbsent,
    RootMalformed {
        text: String,
    },
    RootMissing {
        id: BlobId,
    },
    /// Encrypted or corrupt, too large, or in a damaged part of the file.
    RootDamaged {
        id: BlobId,
    },
    RootUndecodable {
        id: BlobId,
        why: String,
    },
    /// There is no other finding, but a resume would fail.
    NotResumable {
        why: NotResumable,
    },
    /// A field names a blob that does not exist.
    Dangling {
        id: BlobId,
        place: Place,
    },
    /// Its hash is not its id: encrypted or corrupt.
    HashMismatch {
        id: BlobId,
        place: Place,
    },
    /// The blob is not of the kind that the referring field requires.
    NotOfKind {
        id: BlobId,
        why: String,
        place: Place,
    },
    /// In a damaged part of the file, or larger than any blob.
    BlobUnreadable {
        id: BlobId,
        place: Place,
    },
    /// The reference is not a blob id.
    MalformedId {
        n_bytes: usize,
        place: Place,
    },
    /// Bytes in a reachable blob name this blob, but its hash is not its id.
    NamedHashMismatch {
        id: BlobId,
    },
    /// There are more references than in any real store. The check did not follow all of them.
    CutShort,
}

/// The field that refers to a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    pub blob: BlobId,
    /// For example `turns[3]`.
    pub field: String,
    /// True if the blob is in the model's prompt, so that the next turn fails without it.
    pub is_prompt: bool,
}

/// The effect of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The conversation can continue without it.
    History,
    /// The conversation cannot continue.
    Memory,
}

impl StoreFinding {
    #[must_use]
    pub fn severity(&self) -> Severity {
        let costs_memory = match self {
            Self::Unreadable { .. }
            | Self::MetaMissing
            | Self::MetaUnreadable { .. }
            | Self::RootAbsent
            | Self::RootMalformed { .. }
            | Self::RootMissing { .. }
            | Self::RootDamaged { .. }
            | Self::RootUndecodable { .. }
            | Self::NotResumable { .. } => true,
            Self::Dangling { place, .. }
            | Self::HashMismatch { place, .. }
            | Self::NotOfKind { place, .. }
            | Self::BlobUnreadable { place, .. }
            | Self::MalformedId { place, .. } => place.is_prompt,
            Self::FileDamaged { .. }
            | Self::LogUnreadable
            | Self::AgentIdDiffers { .. }
            | Self::NamedHashMismatch { .. }
            | Self::CutShort => false,
        };
        if costs_memory { Severity::Memory } else { Severity::History }
    }
}
