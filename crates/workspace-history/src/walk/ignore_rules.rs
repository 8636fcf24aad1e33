//! Decides which files git would ignore, by git's rules but without git.
//!
//! This module reads the rules itself, without following a symlink or blocking on a FIFO. A snapshot keeps them, so
//! that a restore covers the same files.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde::{Deserialize, Serialize};

/// The largest rule file that this module reads.
pub(crate) const MOST_RULES: u64 = 256 * 1024;

/// The rules that one directory adds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub(crate) struct DirectoryRules {
    /// True if the directory is its own repository: the rules around it do not apply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_repository: bool,
    /// The texts of the rules, weakest first.
    pub(crate) texts: Vec<String>,
    /// The directory above the workspace that the rules are relative to. `None` for rules of the workspace itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) above: Option<PathBuf>,
}

impl DirectoryRules {
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_repository && self.texts.is_empty()
    }
}

/// The rules that apply in a directory: the nearest first, then those around it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleChain(Option<Rc<Link>>);

#[derive(Debug)]
struct Link {
    rules: Gitignore,
    around: RuleChain,
}

impl RuleChain {
    /// Adds rules for `directory`, an absolute path.
    pub(crate) fn within(&self, directory: &Path, text: &str) -> Self {
        let mut builder = GitignoreBuilder::new(directory);
        for line in text.lines() {
            // Skipping an invalid line covers too much rather than too little.
            builder.add_line(None, line).ok();
        }
        match builder.build() {
            Ok(rules) if !rules.is_empty() => {
                Self(Some(Rc::new(Link { rules, around: self.clone() })))
            }
            _ => self.clone(),
        }
    }

    /// Returns true if the rules ignore this name in a directory that is covered itself.
    pub(crate) fn passes_over(&self, path: &Path, is_directory: bool) -> bool {
        let mut chain = self;
        while let Some(link) = &chain.0 {
            match link.rules.matched(path, is_directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => chain = &link.around,
            }
        }
        false
    }
}
