//! Turns a workspace path into the names under which Cursor keeps its sessions and project files.

use std::path::{Component, Path, PathBuf};

use md5::{Digest, Md5};
use sha2::Sha256;
use uuid::Uuid;

use crate::roots::CursorRoots;

/// The absolute physical path of a workspace, without a trailing slash. The caller has resolved its symlinks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath(PathBuf);

/// The hash that names a workspace's bucket. Released builds use MD5. The vendor's SDK moved from MD5 to SHA-256, and the
/// command line may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BucketHash {
    Md5,
    Sha256,
}

impl BucketHash {
    /// All known hashes, oldest first.
    pub const ALL: [Self; 2] = [Self::Md5, Self::Sha256];
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspacePathError {
    #[error("the workspace path `{}` is not absolute", .0.display())]
    NotAbsolute(PathBuf),
    #[error("the workspace path `{}` contains `..`, so it is not a physical path", .0.display())]
    NotPhysical(PathBuf),
    #[error("the workspace path `{}` is not UTF-8, and cursor-agent cannot resolve it", .0.display())]
    NotUtf8(PathBuf),
}

impl WorkspacePath {
    pub fn new(physical: &Path) -> Result<Self, WorkspacePathError> {
        if !physical.is_absolute() {
            return Err(WorkspacePathError::NotAbsolute(physical.to_path_buf()));
        }
        if physical.components().any(|component| component == Component::ParentDir) {
            return Err(WorkspacePathError::NotPhysical(physical.to_path_buf()));
        }
        // Collecting the components drops trailing and repeated slashes, which would change the bucket.
        Ok(Self(physical.components().collect()))
    }

    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// Returns the path as text, as JSON needs it.
    pub fn as_utf8(&self) -> Result<&str, WorkspacePathError> {
        self.0.to_str().ok_or_else(|| WorkspacePathError::NotUtf8(self.0.clone()))
    }

    /// Returns the directory name below `chats/` that released builds use: the MD5 of the bytes of the path, in hex.
    pub fn bucket(&self) -> String {
        self.bucket_by(BucketHash::Md5)
    }

    /// Returns the directory name below `chats/` of a build that uses this hash.
    pub fn bucket_by(&self, hash: BucketHash) -> String {
        let path = self.0.as_os_str().as_encoded_bytes();
        match hash {
            BucketHash::Md5 => hex::encode(Md5::digest(path)),
            BucketHash::Sha256 => hex::encode(Sha256::digest(path)),
        }
    }

    /// Returns true if a directory below `chats/` belongs to this workspace.
    pub fn has_bucket(&self, name: &str) -> bool {
        BucketHash::ALL.into_iter().any(|hash| self.bucket_by(hash) == name)
    }

    /// Returns the directory name below `projects/`: the path, with one dash for every run of characters other than
    /// `A-Za-z0-9`.
    ///
    /// Different paths may share a slug (`/a/b-c` and `/a/b/c`), and a path without any letters or digits has an empty
    /// slug. Cursor replaces UTF-16 units and this replaces bytes. Each run becomes one dash, so the result is the
    /// same.
    pub fn slug(&self) -> String {
        let bytes = self.0.as_os_str().as_encoded_bytes();
        let words =
            bytes.split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.map(String::from_utf8_lossy).collect::<Vec<_>>().join("-")
    }
}

/// The directory of one session: `<config>/chats/<bucket>/<uuid>`, or the directory of an `agent acp` session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionDir(PathBuf);

impl SessionDir {
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the database. It exists as soon as there is a conversation.
    pub fn store_db(&self) -> PathBuf {
        self.0.join("store.db")
    }

    /// Returns the path of the small description next to the database. Older builds and subagents write none.
    pub fn meta_json(&self) -> PathBuf {
        self.0.join("meta.json")
    }
}

/// The directory of one project: `<data>/projects/<slug>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectDir(PathBuf);

impl ProjectDir {
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn approvals(&self) -> PathBuf {
        self.0.join("mcp-approvals.json")
    }

    pub fn disabled_servers(&self) -> PathBuf {
        self.0.join("mcp-disabled.json")
    }

    pub fn trust_marker(&self) -> PathBuf {
        self.0.join(".workspace-trusted")
    }

    /// Returns the socket of the helper process that may outlive the agent.
    pub fn worker_socket(&self) -> PathBuf {
        self.0.join("worker.sock")
    }

    pub fn worker_log(&self) -> PathBuf {
        self.0.join("worker.log")
    }

    /// Returns the directory for shell output over the threshold.
    pub fn agent_tools(&self) -> PathBuf {
        self.0.join("agent-tools")
    }

    pub fn sdk_agent_store(&self) -> PathBuf {
        self.0.join("sdk-agent-store")
    }

    pub fn transcripts(&self) -> PathBuf {
        self.0.join("agent-transcripts")
    }

    pub fn transcript(&self, session: Uuid) -> PathBuf {
        self.transcripts().join(session.to_string()).join(format!("{session}.jsonl"))
    }

    pub fn subagent_transcripts(&self, session: Uuid) -> PathBuf {
        self.transcripts().join(session.to_string()).join("subagents")
    }
}

impl CursorRoots {
    /// Returns the directory where released builds keep all sessions of a workspace.
    pub fn chats_of(&self, workspace: &WorkspacePath) -> PathBuf {
        self.chats().join(workspace.bucket())
    }

    pub fn session_dir(&self, workspace: &WorkspacePath, session: Uuid) -> SessionDir {
        SessionDir(self.chats_of(workspace).join(session.to_string()))
    }

    /// Returns the project directory. Approvals and trust follow the project root (the top of the git tree, or else the
    /// workspace), but transcripts follow the workspace itself: if the two differ, look in both.
    pub fn project_dir(&self, root: &WorkspacePath) -> ProjectDir {
        let slug = root.slug();
        // Joining an empty name would add a slash. Node's `path.join` does not, and uses `projects` itself.
        ProjectDir(if slug.is_empty() { self.projects() } else { self.projects().join(slug) })
    }
}

#[cfg(test)]
#[path = "workspace_tests.rs"]
mod tests;
