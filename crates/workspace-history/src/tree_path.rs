//! Paths relative to a workspace, as raw bytes.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use run_protocol::BytesPath;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path below the workspace: names joined by `/`, none of them empty. The workspace itself is the empty path.
///
/// Sorted by bytes, so that a directory comes before everything in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TreePath(Vec<u8>);

impl TreePath {
    pub fn join(&self, name: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Returns the directory that contains this path, or `None` for the workspace itself.
    pub fn parent(&self) -> Option<Self> {
        if self.0.is_empty() {
            return None;
        }
        let end = self.0.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        Some(Self(self.0[..end].to_vec()))
    }

    /// Returns the last name of the path.
    pub fn name(&self) -> &[u8] {
        let start = self.0.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        &self.0[start..]
    }

    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
    }

    /// Returns true if this is `directory` or a path below it.
    pub fn is_within(&self, directory: &Self) -> bool {
        match self.0.strip_prefix(directory.0.as_slice()) {
            Some(rest) => directory.0.is_empty() || rest.is_empty() || rest[0] == b'/',
            None => false,
        }
    }

    /// Parses a path from a file that others may have written. Returns `None` if it leads anywhere but down.
    pub fn checked(bytes: &[u8]) -> Option<Self> {
        let is_plain = |name: &[u8]| !name.is_empty() && name != b"." && name != b"..";
        let is_sound = bytes.split(|byte| *byte == b'/').all(is_plain) && !bytes.contains(&0);
        is_sound.then(|| Self(bytes.to_vec()))
    }
}

impl From<&str> for TreePath {
    fn from(path: &str) -> Self {
        Self(path.as_bytes().to_vec())
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl Serialize for TreePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        BytesPath::from(self.as_path()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TreePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let path = BytesPath::deserialize(deserializer)?;
        let bytes = path.0.as_os_str().as_bytes();
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        Self::checked(bytes)
            .ok_or_else(|| serde::de::Error::custom("the path leads out of the workspace"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_knows_its_parent_its_name_and_the_directories_around_it() {
        let path = TreePath::from("a/b/c");
        assert_eq!((path.parent(), path.name()), (Some("a/b".into()), b"c".as_slice()));
        assert_eq!(TreePath::from("a").parent(), Some(TreePath::default()));
        assert_eq!(TreePath::default().parent(), None);
        assert_eq!(TreePath::default().join(b"a").join(b"b"), "a/b".into());
        assert!(path.is_within(&"a".into()) && path.is_within(&TreePath::default()));
        assert!(!TreePath::from("ab").is_within(&"a".into()));
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_refused() {
        for bad in ["", "/a", "a//b", "a/../b", "..", "./a", "a/", "a\0b"] {
            assert_eq!(TreePath::checked(bad.as_bytes()), None, "{bad:?}");
        }
        assert!(serde_json::from_str::<TreePath>("\"../x\"").is_err());
        assert_eq!(serde_json::from_str::<TreePath>("\"a/b\"").unwrap(), "a/b".into());
    }
}
