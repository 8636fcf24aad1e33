//! `[caches]`: which parts of the host's dependency caches the sandbox shows, and where the tools write.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

use super::comparison::has_more;
use super::values::{
    HostPattern, VariableName, deserialize_from_text, plain_relative, star_fits, stars,
};
use crate::origin::Sourced;

/// The section. A profile without it shows no cache and masks nothing.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CacheRules {
    pub(crate) r#use: Sourced<bool>,
    pub(crate) mask: Vec<Sourced<FileName>>,
    #[serde(default)]
    pub(crate) tool: BTreeMap<ToolName, CacheTool>,
}

/// A tool with a cache of its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CacheTool {
    pub(crate) detect: Vec<Sourced<FileName>>,
    /// The tool's directory on the host. Without it, only `variable` names the directory.
    pub(crate) home: Option<Sourced<HostPattern>>,
    pub(crate) variable: Option<Sourced<VariableName>>,
    #[serde(default)]
    pub(crate) show: Vec<Sourced<CachePath>>,
    #[serde(default)]
    pub(crate) seed: Vec<Sourced<CachePath>>,
    pub(crate) links: Option<Sourced<Links>>,
    #[serde(default)]
    pub(crate) private: Vec<Sourced<CachePath>>,
    #[serde(default)]
    pub(crate) set: BTreeMap<VariableName, Sourced<String>>,
    #[serde(default)]
    pub(crate) offline: BTreeMap<VariableName, Sourced<String>>,
}

/// The links to the seed that the shim makes in the private cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Links {
    /// None. The tool itself reads the seed.
    #[default]
    None,
    /// One for each file.
    Files,
    /// One for each entry of the seed.
    Directories,
}

/// A tool's name. It becomes the name of a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ToolName(pub(crate) String);

/// The name of a file in any directory, with at most one `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileName(String);

/// A path below a tool's directory, or `.` for the directory itself. Its last name may have one `*`. A slash at the end
/// marks a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CachePath {
    path: PathBuf,
    pub(crate) is_directory: bool,
}

deserialize_from_text!(ToolName, FileName, CachePath);

impl FromStr for ToolName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        match !text.is_empty() && text.bytes().all(plain) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!(
                "`{text}` is not a tool name: use lowercase letters, digits and dashes"
            )),
        }
    }
}

impl FromStr for FileName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = plain_relative(text).is_some_and(|path| path.components().count() == 1);
        match is_name && stars(OsStr::new(text)) <= 1 {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("`{text}` is not a file name with at most one `*`")),
        }
    }
}

impl FromStr for CachePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "." {
            return Ok(Self { path: PathBuf::new(), is_directory: true });
        }
        let (plain, is_directory) =
            text.strip_suffix('/').map_or((text, false), |plain| (plain, true));
        let path = plain_relative(plain)
            .ok_or_else(|| format!("`{text}` is neither `.` nor a plain path below a directory"))?;
        let in_parents = path.parent().map_or(0, |parent| stars(parent.as_os_str()));
        if in_parents > 0 || stars(path.as_os_str()) > 1 {
            return Err(format!("`{text}` may have one `*`, and only in its last name"));
        }
        Ok(Self { path, is_directory })
    }
}

impl FileName {
    pub(crate) fn fits(&self, name: &OsStr) -> bool {
        let pattern = OsStr::new(&self.0);
        star_fits(pattern).map_or_else(|| name == pattern, |fits| fits(name))
    }
}

impl CachePath {
    /// Returns the path, which may not exist. For a path with a `*`, returns the paths that exist below `home`, in order.
    pub(crate) fn paths_in(&self, home: &Path) -> Vec<PathBuf> {
        let Some(fits) = self.path.file_name().and_then(star_fits) else {
            return vec![self.path.clone()];
        };
        let parent = self.path.parent().unwrap_or(Path::new(""));
        let entries = std::fs::read_dir(home.join(parent)).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name()).filter(|name| fits(name));
        let mut found: Vec<PathBuf> = names.map(|name| parent.join(name)).collect();
        found.sort();
        found
    }
}

impl CacheRules {
    /// Returns true if this section allows more than `other`.
    pub(super) fn is_wider_than(&self, other: Option<&Self>) -> bool {
        let Some(other) = other else { return self.r#use.value };
        let shows_more = || {
            self.tool.iter().any(|(name, tool)| {
                other.tool.get(name).is_none_or(|other| tool.is_wider_than(other))
            })
        };
        let is_used = self.r#use.value;
        has_more(&other.mask, &self.mask) || is_used && (!other.r#use.value || shows_more())
    }
}

impl CacheTool {
    fn is_wider_than(&self, other: &Self) -> bool {
        let value = |text: &Sourced<String>| text.value.clone();
        let differs = |one: &BTreeMap<VariableName, Sourced<String>>,
                       other: &BTreeMap<VariableName, Sourced<String>>| {
            !one.iter()
                .map(|(name, text)| (name, value(text)))
                .eq(other.iter().map(|(name, text)| (name, value(text))))
        };
        has_more(&self.detect, &other.detect)
            || self.home.as_ref().map(|it| &it.value) != other.home.as_ref().map(|it| &it.value)
            || self.variable.as_ref().map(|it| &it.value)
                != other.variable.as_ref().map(|it| &it.value)
            || self.links.as_ref().map(|it| it.value) != other.links.as_ref().map(|it| it.value)
            || has_more(&self.show, &other.show)
            || has_more(&self.seed, &other.seed)
            || has_more(&self.private, &other.private)
            || differs(&self.set, &other.set)
            || differs(&self.offline, &other.offline)
    }
}
