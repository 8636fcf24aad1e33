//! The format of a bundle.
//!
//! ```text
//! {"format":"caretaker-session","version":2,…}\n    one line of JSON that describes the bundle
//! length (8 bytes, little endian)  data            once for each blob; its name is its SHA-256
//! …
//! SHA-256 of all bytes before it (32 bytes)        and nothing after it
//! ```
//!
//! Blobs are in the order they were written. They are not compressed, so nothing in a bundle can expand beyond its
//! size.
//!
//! Paths outside messages begin with `${workspace}` in a bundle, or are relative. In version 1 bundles they are paths
//! on the source machine, and stay unchanged.

use serde::{Deserialize, Serialize};

use super::machine_paths::MachinePaths;
use crate::chat::{BlobId, ChatMeta};

/// The version that this build writes, and the newest that it reads.
pub const BUNDLE_VERSION: u32 = 2;
/// The first version whose paths begin with a placeholder.
pub(crate) const WITHOUT_PATHS: u32 = 2;
pub(crate) const FORMAT: &str = "caretaker-session";
/// A real header is a few hundred bytes long.
pub(crate) const MAX_HEADER_BYTES: usize = 64 * 1024;

/// The description of a bundle. It contains no secret, and no path on the source machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleHeader {
    pub(crate) format: String,
    pub version: u32,
    /// The id of the session.
    pub session: String,
    /// The checkpoint, as 64 hex digits.
    pub root: String,
    pub n_blobs: u64,
    /// The total size of all blobs.
    pub n_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_model: Option<String>,
    pub origin: BundleOrigin,
}

/// The program that made a bundle, and the store that it read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleOrigin {
    /// The program and its version.
    pub program: String,
    /// The kind of store, such as `cli`.
    pub store: String,
    pub bundled_at_ms: i64,
}

impl BundleHeader {
    /// Takes only harmless keys from the row. An unknown key may be a secret, and the second machine must not get the
    /// first machine's permissions.
    pub(crate) fn new(
        session: &str,
        root: BlobId,
        meta: &ChatMeta,
        title: Option<String>,
        origin: BundleOrigin,
        paths: &MachinePaths,
    ) -> Self {
        // Names are often the first words of a prompt.
        let harmless = |text: &String| !paths.are_named_in(text.as_bytes());
        Self {
            format: FORMAT.to_owned(),
            version: BUNDLE_VERSION,
            session: session.to_owned(),
            root: root.to_string(),
            n_blobs: 0,
            n_bytes: 0,
            title: title.filter(harmless),
            name: meta.name().map(str::to_owned).filter(harmless),
            mode: meta.mode().map(str::to_owned),
            created_at_ms: meta.created_at_ms(),
            last_used_model: meta.last_used_model().map(str::to_owned),
            origin,
        }
    }

    /// Returns the meta row of the imported session.
    pub(crate) fn meta(&self, agent_id: &str, root: BlobId, now_ms: i64) -> ChatMeta {
        let mut meta = ChatMeta::new(agent_id, self.created_at_ms.unwrap_or(now_ms));
        meta.set_latest_root(root);
        if let Some(name) = &self.name {
            meta.set_name(name);
        }
        if let Some(mode) = &self.mode {
            meta.set_mode(mode);
        }
        if let Some(model) = &self.last_used_model {
            meta.set_last_used_model(model);
        }
        meta
    }
}

#[cfg(test)]
#[path = "header_tests.rs"]
pub(crate) mod tests;
