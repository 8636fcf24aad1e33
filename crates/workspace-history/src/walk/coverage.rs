//! Decides which files of a workspace a snapshot covers.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::file_tree::OpenDirectory;
use crate::snapshot::Snapshot;
use crate::tree_path::TreePath;
use crate::walk::ignore_rules::{DirectoryRules, MOST_RULES, RuleChain};

/// At most this many directories above the workspace may have rules.
const MOST_ABOVE: usize = 32;

/// The files that a snapshot covers.
pub(crate) enum Coverage<'a> {
    /// Everything that git does not ignore now, and everything that it tracks.
    AsGitWould {
        /// Loaded when the rules first ignore something. In many workspaces they never do.
        tracked: LazyCell<BTreeSet<TreePath>, Box<dyn FnOnce() -> BTreeSet<TreePath> + 'a>>,
        /// The user's own rules for all repositories.
        everywhere: Option<String>,
    },
    /// Everything that an earlier snapshot covered, or would have covered.
    As {
        earlier: &'a Snapshot,
        /// Also covers these repositories, although they belong to git.
        repositories: &'a [TreePath],
    },
}

/// Returns true if git would treat this name as `.git`.
pub(crate) fn is_git(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git")
}

impl Coverage<'_> {
    /// Returns the rules from above the workspace.
    pub(crate) fn above(&self, workspace: &Path) -> Vec<DirectoryRules> {
        match self {
            Self::As { .. } => Vec::new(),
            Self::AsGitWould { everywhere, .. } => {
                let mut found = Vec::new();
                if let Some(text) = everywhere {
                    found.push(DirectoryRules {
                        is_repository: false,
                        texts: vec![text.clone()],
                        above: Some(workspace.to_owned()),
                    });
                }
                found.extend(rules_above(workspace));
                found
            }
        }
    }

    /// Returns the rules that a directory adds.
    pub(crate) fn rules_in(
        &self,
        path: &TreePath,
        directory: &OpenDirectory,
        names: &[Vec<u8>],
    ) -> DirectoryRules {
        match self {
            Self::As { earlier, .. } => earlier.rules.get(path).cloned().unwrap_or_default(),
            Self::AsGitWould { .. } => {
                let mut rules = DirectoryRules::default();
                if names.iter().any(|name| name == b".git") {
                    rules.is_repository = !path.as_bytes().is_empty();
                    rules.texts.extend(exclude_file(directory));
                }
                if names.iter().any(|name| name == b".gitignore") {
                    rules.texts.extend(directory.small_text(b".gitignore", MOST_RULES));
                }
                rules
            }
        }
    }

    /// Returns true if this path is covered regardless of the rules.
    pub(crate) fn is_listed(&self, path: &TreePath) -> bool {
        match self {
            Self::AsGitWould { tracked, .. } => tracked.contains(path),
            // Something else now exists where the earlier snapshot has a file, and blocks that file.
            Self::As { earlier, .. } => earlier.entries.contains_key(path),
        }
    }

    /// Returns true if this file is covered although it belongs to git.
    pub(crate) fn covers_git(&self, path: &TreePath) -> bool {
        match self {
            Self::AsGitWould { .. } => false,
            Self::As { repositories, .. } => {
                repositories.iter().any(|repository| path.is_within(repository))
            }
        }
    }

    /// Returns true if an ignored directory is covered with everything in it, because the earlier snapshot has a file
    /// at its path.
    pub(crate) fn is_in_the_way(&self, path: &TreePath) -> bool {
        match self {
            Self::AsGitWould { .. } => false,
            Self::As { earlier, .. } => {
                earlier.entries.get(path).is_some_and(|entry| !entry.is_directory())
            }
        }
    }

    /// Returns true if an ignored directory contains something that is covered.
    pub(crate) fn lists_something_in(&self, directory: &TreePath) -> bool {
        let from = directory.join(b"");
        let is_within = |path: &TreePath| path.is_within(directory) && path != directory;
        match self {
            Self::AsGitWould { tracked, .. } => tracked.range(from..).next().is_some_and(is_within),
            Self::As { earlier, .. } => {
                earlier.entries.range(from..).next().is_some_and(|(path, _)| is_within(path))
            }
        }
    }
}

/// Adds the rules of a directory to the rules around it.
pub(crate) fn chain(
    around: &RuleChain,
    everywhere: &RuleChain,
    rules: &DirectoryRules,
    directory: &Path,
) -> RuleChain {
    let base = rules.above.as_deref().unwrap_or(directory);
    let mut chain = if rules.is_repository { everywhere.clone() } else { around.clone() };
    for text in &rules.texts {
        chain = chain.within(base, text);
    }
    chain
}

/// Reads `.git/info/exclude` of a repository whose `.git` is a directory.
fn exclude_file(directory: &OpenDirectory) -> Option<String> {
    use rustix::fs::{Mode, OFlags, ResolveFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let file =
        rustix::fs::openat2(directory.fd(), ".git/info/exclude", flags, Mode::empty(), resolve);
    let file = std::fs::File::from(file.ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    file.take(MOST_RULES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the rules of the directories between the workspace and the root of the repository around it, outermost
/// first. Empty if the workspace is itself a root, or not in a repository.
fn rules_above(workspace: &Path) -> Vec<DirectoryRules> {
    let is_root = |directory: &Path| directory.join(".git").symlink_metadata().is_ok();
    let mut between: Vec<PathBuf> = Vec::new();
    let mut at = workspace;
    while !is_root(at) {
        match at.parent() {
            Some(parent) if between.len() < MOST_ABOVE => {
                between.push(parent.to_owned());
                at = parent;
            }
            _ => return Vec::new(),
        }
    }
    let rules_of = |directory: PathBuf| {
        let tree = crate::file_tree::FileTree::open(&directory).ok()?;
        let open = tree.directory(&TreePath::default()).ok()?;
        let mut texts = Vec::new();
        if is_root(&directory) {
            texts.extend(exclude_file(&open));
        }
        texts.extend(open.small_text(b".gitignore", MOST_RULES));
        Some(DirectoryRules { is_repository: false, texts, above: Some(directory) })
    };
    between.into_iter().rev().filter_map(rules_of).collect()
}
