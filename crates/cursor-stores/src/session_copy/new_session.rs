//! The session that a copy becomes.

use std::path::PathBuf;

use crate::chat::SessionMetaFile;

/// Where a copy goes, and under which name. Given, not found out: the caller knows Cursor's roots and draws the id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// The directory that holds all buckets.
    pub chats: PathBuf,
    /// The name of the workspace's bucket in it.
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

    /// Tells whether bucket and id are names, and lead nowhere else.
    pub(super) fn has_plain_names(&self) -> bool {
        let is_plain = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        is_plain(&self.bucket) && is_plain(&self.id)
    }

    /// The small file beside the store.
    pub(super) fn meta_file(&self, title: Option<&str>, created_at_ms: Option<i64>) -> String {
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
