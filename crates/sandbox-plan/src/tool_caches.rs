//! The dependency caches that a workspace needs: which tools it uses, and which of their directories the host has.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType};

use crate::host_path::{self, Directory, FileKind, Found};
use crate::origin::{Origin, Sourced};
use crate::profile::{CachePath, CacheTool, Links, Profile, VariableName};

/// The directory inside with the seeds, one directory for each tool.
pub const SEEDS_INSIDE: &str = "/run/seed";

/// The search for a tool's files ends after this many entries. A launch waits for it.
const MOST_ENTRIES: usize = 5_000;
/// The search goes this many levels below the workspace.
const DEEPEST: usize = 2;
/// Directories that hold dependencies, not the workspace's own files.
const DEPENDENCIES: [&str; 4] = ["node_modules", "target", "venv", "vendor"];

/// The cache of one tool.
#[derive(Debug, Clone)]
pub struct ToolCache {
    pub tool: String,
    pub seeds: Vec<Seed>,
    pub links: Links,
    pub private: Vec<PrivatePart>,
    /// Directories at their own paths, read-only.
    pub(crate) show: Vec<Seed>,
    /// Variables that are always set, and variables for a run that reaches no registry.
    pub(crate) set: Vec<(String, String, Origin)>,
    pub(crate) offline: Vec<(String, String, Origin)>,
}

/// A directory of the host's cache, shown read-only.
#[derive(Debug, Clone)]
pub struct Seed {
    /// Its path below the tool's directory. Empty for the directory itself.
    pub relative: PathBuf,
    /// Its physical path on the host.
    pub source: PathBuf,
    /// Its path inside.
    pub inside: PathBuf,
    pub(crate) found: Found,
    pub(crate) origin: Origin,
}

/// A directory of the private cache, writable at the tool's own path, or a lock file.
#[derive(Debug, Clone)]
pub struct PrivatePart {
    /// Its path below the tool's directory. Empty for the directory itself.
    pub relative: PathBuf,
    pub is_directory: bool,
    /// Its path inside.
    pub inside: PathBuf,
    pub(crate) origin: Origin,
}

impl ToolCache {
    /// Finds the caches for a workspace. Follows no symlink in the workspace. `variable` returns the run's own variables.
    pub fn find(
        profile: &Profile,
        workspace: &Path,
        home: &Path,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Vec<Self> {
        let rules = profile.rules().and_then(|rules| rules.caches.as_ref());
        let Some(rules) = rules.filter(|rules| rules.r#use.value) else { return Vec::new() };
        let names = names_in(workspace);
        let is_used = |tool: &CacheTool| {
            let fits =
                |name: &PathBuf| tool.detect.iter().any(|it| it.value.fits(name.as_os_str()));
            names.iter().any(fits)
        };
        let used = rules.tool.iter().filter(|(_, tool)| is_used(tool));
        let caches = used.filter_map(|(name, tool)| {
            let at = tool_home(tool, home, variable)?;
            // The agent can write the workspace anyway.
            (!at.starts_with(workspace) && !workspace.starts_with(&at))
                .then(|| Self::of(&name.0, tool, &at))
        });
        caches.collect()
    }

    fn of(name: &str, tool: &CacheTool, home: &Path) -> Self {
        let seeds_inside = Path::new(SEEDS_INSIDE).join(name);
        let directories = |rules: &[Sourced<CachePath>], inside: &Path| {
            let paths = rules.iter().flat_map(|rule| {
                let paths = rule.value.paths_in(home).into_iter();
                paths.map(|relative| (relative, rule.origin.clone()))
            });
            let found = paths.filter_map(|(relative, origin)| {
                // These directories are the user's own, so links in their paths are too.
                let (source, found) = host_path::resolve(&home.join(&relative)).ok()??;
                let inside = joined(inside, &relative);
                Some(Seed { relative, source, inside, found, origin })
            });
            found.collect::<Vec<_>>()
        };
        let is_directory = |seed: &Seed| seed.found.kind == FileKind::Directory;
        let mut seeds = directories(&tool.seed, &seeds_inside);
        seeds.retain(is_directory);
        let private = tool.private.iter().flat_map(|rule| {
            rule.value.paths_in(home).into_iter().map(|relative| PrivatePart {
                inside: joined(home, &relative),
                relative,
                is_directory: rule.value.is_directory,
                origin: rule.origin.clone(),
            })
        });
        let variables = |all: &BTreeMap<VariableName, Sourced<String>>| {
            let filled = |text: &str| text.replace("{home}", &home.to_string_lossy());
            let all = all
                .iter()
                .map(|(name, rule)| (name.0.clone(), filled(&rule.value), rule.origin.clone()));
            all.collect()
        };
        Self {
            tool: name.to_owned(),
            links: tool.links.as_ref().map(|links| links.value).unwrap_or_default(),
            seeds,
            private: private.collect(),
            show: directories(&tool.show, home),
            set: variables(&tool.set),
            offline: variables(&tool.offline),
        }
    }
}

/// Returns the tool's directory: as its variable says, else the usual one.
fn tool_home(
    tool: &CacheTool,
    home: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<PathBuf> {
    let named = tool.variable.as_ref().and_then(|name| variable(&name.value.0));
    let named = named.map(PathBuf::from).filter(|path| host_path::is_plain(path));
    named.or_else(|| tool.home.as_ref()?.value.paths(home).into_iter().next())
}

fn joined(base: &Path, relative: &Path) -> PathBuf {
    if relative.as_os_str().is_empty() { base.to_owned() } else { base.join(relative) }
}

/// Returns the names of the files in the workspace and in the first levels below it.
fn names_in(workspace: &Path) -> BTreeSet<PathBuf> {
    let mut names = BTreeSet::new();
    let Ok(root) = Directory::open(workspace) else { return names };
    let mut pending = VecDeque::from([(PathBuf::new(), 0)]);
    let mut n_entries = 0;
    while let Some((at, depth)) = pending.pop_front() {
        let Ok(opened) = root.open_to_list(&at) else { continue };
        let Ok(entries) = Dir::read_from(&opened) else { continue };
        for entry in entries.flatten() {
            n_entries += 1;
            if n_entries > MOST_ENTRIES {
                return names;
            }
            let name = PathBuf::from(entry.file_name().to_string_lossy().into_owned());
            let is_hidden = name.as_os_str().as_encoded_bytes().starts_with(b".");
            let has_dependencies = DEPENDENCIES.iter().any(|other| name == Path::new(other));
            match entry.file_type() {
                FileType::Directory if depth < DEEPEST && !is_hidden && !has_dependencies => {
                    pending.push_back((at.join(name), depth + 1));
                }
                FileType::Directory => {}
                _ => {
                    names.insert(name);
                }
            }
        }
    }
    names
}
