//! The session that a copy becomes.

use std::io;
use std::path::PathBuf;

use super::error::CopyError;
use super::staging::Staging;
use super::upkeep::gc::is_empty_session;
use crate::chat::SessionMetaFile;

/// The location and the name of a copy. The caller knows Cursor's directories and creates the id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// The directory that holds all buckets.
    pub chats: PathBuf,
    /// The name of the workspace's bucket.
    pub bucket: String,
    /// A UUID.
    pub id: String,
    /// The physical path of the workspace.
    pub workspace: String,
    /// Milliseconds since 1970.
    pub now_ms: i64,
}

impl NewSession {
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.chats.join(&self.bucket).join(&self.id)
    }

    /// Rejects a bucket or an id that could be a path to another place.
    pub(crate) fn check_names(&self) -> Result<(), CopyError> {
        let is_plain = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        if is_plain(&self.bucket) && is_plain(&self.id) {
            return Ok(());
        }
        Err(CopyError::Name { bucket: self.bucket.clone(), id: self.id.clone() })
    }

    /// Creates a hidden directory for writing the session.
    pub(crate) fn stage(&self) -> Result<Staging, CopyError> {
        self.check_names()?;
        Staging::inside(&self.chats).map_err(|source| self.unplaced(source))
    }

    /// Writes `meta.json` and gives the staged session its name. If Cursor already created the session's directory with
    /// only `meta.json` in it, replaces it.
    pub(crate) fn place(
        &self,
        staging: Staging,
        title: Option<&str>,
        created_at_ms: Option<i64>,
    ) -> Result<(), CopyError> {
        let directory = self.directory();
        let meta_file = self.meta_file(title, created_at_ms);
        let placed = staging.write_file("meta.json", meta_file.as_bytes()).and_then(|()| {
            if is_empty_session(&directory) {
                staging.exchange(&directory)
            } else {
                staging.place(&directory)
            }
        });
        placed.map_err(|source| self.unplaced(source))
    }

    fn unplaced(&self, source: io::Error) -> CopyError {
        CopyError::Place { path: self.directory(), source }
    }

    fn meta_file(&self, title: Option<&str>, created_at_ms: Option<i64>) -> String {
        SessionMetaFile {
            schema_version: Some(1),
            created_at_ms: created_at_ms.or(Some(self.now_ms)),
            has_conversation: Some(true),
            updated_at_ms: Some(self.now_ms),
            cwd: Some(self.workspace.clone()),
            title: title.map(str::to_owned),
            ..SessionMetaFile::default()
        }
        .to_json()
    }
}
