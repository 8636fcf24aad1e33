//! The values in a profile, each checked during parsing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

/// Lets serde read a type by its `FromStr`.
macro_rules! deserialize_from_text {
    ($($kind:ty),+) => {$(
        impl<'de> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}
pub(super) use deserialize_from_text;

deserialize_from_text!(
    Size,
    HostName,
    HostPattern,
    ProtectedName,
    ShownName,
    VariableName,
    VariablePattern
);

/// How the sandbox shows a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// The kind of sandbox around the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confinement {
    Bubblewrap,
    None,
}

/// How to treat protected names that do not exist when a run starts. The lesser value allows more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MissingNames {
    /// The agent may create them.
    Allowed,
    /// An empty read-only file or directory takes their place.
    Blocked,
}

/// The reaction to files that Caretaker should protect but cannot, or to hooks that do not apply. The lesser value
/// allows more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unprotected {
    Warn,
    Refuse,
}

/// The reaction to a user who is root. The lesser value allows more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RootCaller {
    Warn,
    Refuse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Namespace {
    User,
    Pid,
    Ipc,
    Uts,
    Cgroup,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ProcMount {
    Own,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DevMount {
    Minimal,
}

/// The access to things that no profile may make writable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnlyReadOnly {
    ReadOnly,
}

/// A number of bytes, written as `64M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

/// The machine's name inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostName(pub(crate) String);

/// A path on the host: absolute or below the home directory, with at most one `*` in its last name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostPattern {
    base: PatternBase,
    path: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PatternBase {
    Root,
    Home,
}

/// A path that the agent must not change, below the workspace or the git directory. A slash at the end marks a
/// directory. A path with a single name may have one `*`.
#[derive(Debug, Clone)]
pub(crate) struct ProtectedName {
    path: PathBuf,
    pub(crate) kind: ProtectedKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtectedKind {
    Directory,
    File,
}

/// A path in the repository's own `.cursor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownName(PathBuf);

/// A file in `/etc` that Caretaker writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum GeneratedFile {
    #[serde(rename = "/etc/passwd")]
    Passwd,
    #[serde(rename = "/etc/group")]
    Group,
    #[serde(rename = "/etc/nsswitch.conf")]
    NameService,
    #[serde(rename = "/etc/hosts")]
    Hosts,
    #[serde(rename = "/etc/resolv.conf")]
    Resolver,
}

/// The name of a variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VariableName(pub(crate) String);

/// The name of a variable, or a prefix and a `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VariablePattern(String);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, unit) = match text.as_bytes().last() {
            Some(b'K') => (&text[..text.len() - 1], 1 << 10),
            Some(b'M') => (&text[..text.len() - 1], 1 << 20),
            Some(b'G') => (&text[..text.len() - 1], 1 << 30),
            _ => (text, 1),
        };
        let count = digits.parse::<u64>().ok().filter(|count| *count > 0);
        count
            .and_then(|count| count.checked_mul(unit))
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not a size such as 64M or 1G"))
    }
}

impl FromStr for HostName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        match (1..=63).contains(&text.len()) && text.bytes().all(plain) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("`{text}` is not a host name of letters, digits and dashes")),
        }
    }
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (base, rest) = match (text.strip_prefix("~/"), text.strip_prefix('/')) {
            (Some(rest), _) => (PatternBase::Home, rest),
            (None, Some(rest)) => (PatternBase::Root, rest),
            (None, None) => return Err(format!("`{text}` begins with neither `/` nor `~/`")),
        };
        let path = plain_relative(rest)
            .ok_or_else(|| format!("`{text}` is not a plain path without `.` and `..`"))?;
        let in_parents = path.parent().map_or(0, |parent| stars(parent.as_os_str()));
        if in_parents > 0 || stars(path.as_os_str()) > 1 {
            return Err(format!("`{text}` may have one `*`, and only in its last name"));
        }
        Ok(Self { base, path })
    }
}

impl FromStr for ProtectedName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, kind) = match text.strip_suffix('/') {
            Some(path) => (path, ProtectedKind::Directory),
            None => (text, ProtectedKind::File),
        };
        let path = relative_path(path)?;
        let n_stars = stars(path.as_os_str());
        if n_stars > 1 || (n_stars == 1 && path.components().count() > 1) {
            return Err(format!(
                "`{text}` may have one `*`, and only in a path with a single name"
            ));
        }
        Ok(Self { path, kind })
    }
}

// Two entries are equal if their paths are. The slash only marks a directory.
impl PartialEq for ProtectedName {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for ProtectedName {}

impl std::fmt::Display for ProtectedName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.path.display())
    }
}

impl FromStr for ShownName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = relative_path(text)?;
        match path.starts_with("mcp.json") {
            true => Err("`mcp.json` is always Caretaker's own".to_owned()),
            false => Ok(Self(path)),
        }
    }
}

impl FromStr for VariableName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        match !text.is_empty() && text.bytes().all(plain) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("`{text}` is not the name of a variable")),
        }
    }
}

impl FromStr for VariablePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let VariableName(name) = text.strip_suffix('*').unwrap_or(text).parse()?;
        if never_inherited(OsStr::new(&name)) {
            return Err(format!("`{text}` must not come from the host"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl HostPattern {
    /// Returns the path, which may not exist. For a pattern with a `*`, returns the paths that exist, in order.
    pub(crate) fn paths(&self, home: &Path) -> Vec<PathBuf> {
        let base = match self.base {
            PatternBase::Root => Path::new("/"),
            PatternBase::Home => home,
        };
        let path = base.join(&self.path);
        let (Some(parent), Some(name)) = (path.parent(), self.path.file_name()) else {
            return vec![path];
        };
        let Some(fits) = star_fits(name) else { return vec![path] };
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries
            .filter(|entry| fits(&entry.file_name()))
            .map(|entry| parent.join(entry.file_name()))
            .collect();
        found.sort();
        found
    }
}

impl ProtectedName {
    /// Returns the path, which may not exist. For a name with a `*`, returns the names that exist in the directory, in order.
    pub(crate) fn paths_in(&self, directory: &Path) -> Vec<PathBuf> {
        let Some(fits) = star_fits(self.path.as_os_str()) else { return vec![self.path.clone()] };
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name()).filter(|name| fits(name));
        let mut found: Vec<PathBuf> = names.map(PathBuf::from).collect();
        found.sort();
        found
    }

    /// Returns the path as written in the profile, with its `*`.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn has_star(&self) -> bool {
        stars(self.path.as_os_str()) > 0
    }
}

impl ShownName {
    pub(crate) fn as_path(&self) -> &Path {
        &self.0
    }
}

impl VariablePattern {
    pub(crate) fn fits(&self, name: &OsStr) -> bool {
        match self.0.strip_suffix('*') {
            Some(begin) => name.as_bytes().starts_with(begin.as_bytes()),
            None => name.as_bytes() == self.0.as_bytes(),
        }
    }
}

/// Returns true if a host variable must stay out of every sandbox.
///
/// Such variables load code, move the directories that Caretaker prepares, or name the host's sockets and keys.
pub(crate) fn never_inherited(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let prefixes: [&[u8]; 4] = [b"LD_", b"GIT_", b"DBUS_", b"XDG_"];
    matches!(name, b"NODE_OPTIONS" | b"SSH_AUTH_SOCK" | b"CURSOR_CONFIG_DIR" | b"CURSOR_DATA_DIR")
        || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

fn relative_path(text: &str) -> Result<PathBuf, String> {
    plain_relative(text).ok_or_else(|| format!("`{text}` is not a plain path below a directory"))
}

/// Parses a relative path that has only plain names.
pub(super) fn plain_relative(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let plain = path.components().all(|component| matches!(component, Component::Normal(_)));
    // `components` also accepts `a//b`, `a/./b` and `a/`. Only a plain path comes out unchanged.
    let again: PathBuf = path.components().collect();
    (plain && !text.is_empty() && !text.contains('\0') && again.as_os_str() == text)
        .then_some(again)
}

/// Returns a predicate that matches names against the pattern, or `None` if the pattern has no `*`.
pub(super) fn star_fits(pattern: &OsStr) -> Option<impl Fn(&OsStr) -> bool> {
    let star = pattern.as_bytes().iter().position(|byte| *byte == b'*')?;
    let (begin, end) = (&pattern.as_bytes()[..star], &pattern.as_bytes()[star + 1..]);
    Some(move |name: &OsStr| {
        let name = name.as_bytes();
        name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
    })
}

pub(super) fn stars(text: &OsStr) -> usize {
    text.as_bytes().iter().filter(|byte| **byte == b'*').count()
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;
