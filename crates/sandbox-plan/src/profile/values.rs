//! The values that a profile's text is made of, each checked when it is read.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

/// Whether a mount can be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// Whether the agent is put into a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confinement {
    Bubblewrap,
    None,
}

/// What becomes of protected names that do not exist when a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MissingNames {
    /// The agent may create them.
    Allowed,
    /// Something empty and read-only is in their place.
    Blocked,
}

/// What is done about what stays unprotected because nothing can protect it, or nobody knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unprotected {
    Warn,
    Refuse,
}

/// What is done when the run would be root's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RootCaller {
    Warn,
    Refuse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// What must not be anything else, whatever a profile wishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnlyReadOnly {
    ReadOnly,
}

/// A number of bytes, written as `64M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

/// A machine's name inside.
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

/// A path below the workspace or the git directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RelativeName(PathBuf);

/// Something that is kept as it is: a path below the workspace or the git directory. A slash at its end says that it is a
/// directory where it exists; one `*` may stand in a name that is not below another.
#[derive(Debug, Clone)]
pub(crate) struct ProtectedName {
    path: PathBuf,
    pub(crate) kind: ProtectedKind,
}

/// What something that is protected is, where it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtectedKind {
    Directory,
    File,
}

/// Something of the repository's own `.cursor`, by its path in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownName(RelativeName);

/// The name of a variable, or the beginning of one and a `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VariablePattern(String);

impl FromStr for Namespace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "user" => Self::User,
            "pid" => Self::Pid,
            "ipc" => Self::Ipc,
            "uts" => Self::Uts,
            "cgroup" => Self::Cgroup,
            other => {
                return Err(format!(
                    "`{other}` is not one of the namespaces user, pid, ipc, uts, cgroup"
                ));
            }
        })
    }
}

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

impl FromStr for RelativeName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        plain_relative(text)
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not a plain path below a directory"))
    }
}

impl FromStr for ProtectedName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, kind) = match text.strip_suffix('/') {
            Some(path) => (path, ProtectedKind::Directory),
            None => (text, ProtectedKind::File),
        };
        let path = plain_relative(path)
            .ok_or_else(|| format!("`{text}` is not a plain path below a directory"))?;
        let n_stars = stars(path.as_os_str());
        if n_stars > 1 || (n_stars == 1 && path.components().count() > 1) {
            return Err(format!("`{text}` may have one `*`, and only in a name by itself"));
        }
        Ok(Self { path, kind })
    }
}

// The slash says what it is, not which: `!.vscode` takes `.vscode/` away.
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
        let name: RelativeName = text.parse()?;
        match name.as_path().starts_with("mcp.json") {
            true => Err("`mcp.json` is always ours".to_owned()),
            false => Ok(Self(name)),
        }
    }
}

impl FromStr for VariablePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.strip_suffix('*').unwrap_or(text);
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(format!("`{text}` is not the name of a variable"));
        }
        if never_inherited(OsStr::new(name)) {
            return Err(format!("`{text}` is never taken from the host"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl HostPattern {
    /// Returns the paths meant, whether they exist or not; of a `*`, those that exist, in order.
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

impl RelativeName {
    pub(crate) fn as_path(&self) -> &Path {
        &self.0
    }
}

impl ProtectedName {
    /// Returns the paths meant, whether they exist or not; of a `*`, those that exist in the directory, in order.
    pub(crate) fn paths_in(&self, directory: &Path) -> Vec<PathBuf> {
        let Some(fits) = star_fits(self.path.as_os_str()) else { return vec![self.path.clone()] };
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name()).filter(|name| fits(name));
        let mut found: Vec<PathBuf> = names.map(PathBuf::from).collect();
        found.sort();
        found
    }

    /// As it was written, with its `*`.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn has_star(&self) -> bool {
        stars(self.path.as_os_str()) > 0
    }
}

impl ShownName {
    pub(crate) fn as_path(&self) -> &Path {
        self.0.as_path()
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

/// Tells whether a variable of the host may under no profile enter a sandbox.
///
/// They would load code, move the directories that we prepare, or name sockets and keys of the host.
pub(crate) fn never_inherited(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let prefixes: [&[u8]; 4] = [b"LD_", b"GIT_", b"DBUS_", b"XDG_"];
    matches!(name, b"NODE_OPTIONS" | b"SSH_AUTH_SOCK" | b"CURSOR_CONFIG_DIR" | b"CURSOR_DATA_DIR")
        || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns a relative path as it was written, if it has only plain names.
fn plain_relative(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let plain = path.components().all(|component| matches!(component, Component::Normal(_)));
    // Components swallow `a//b`, `a/./b` and `a/`; written again they must be the same.
    let again: PathBuf = path.components().collect();
    (plain && !text.is_empty() && !text.contains('\0') && again.as_os_str() == text)
        .then_some(again)
}

/// Returns what tells whether a name fits one that has a `*`; `None` if it has none.
fn star_fits(pattern: &OsStr) -> Option<impl Fn(&OsStr) -> bool> {
    let star = pattern.as_bytes().iter().position(|byte| *byte == b'*')?;
    let (begin, end) = (&pattern.as_bytes()[..star], &pattern.as_bytes()[star + 1..]);
    Some(move |name: &OsStr| {
        let name = name.as_bytes();
        name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
    })
}

fn stars(text: &OsStr) -> usize {
    text.as_bytes().iter().filter(|byte| **byte == b'*').count()
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;
