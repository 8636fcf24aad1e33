//! Which files git would pass over, by the same rules, without asking git.
//!
//! The rules are read by us: no symlink is followed to them, a FIFO in their place holds nobody up, and they can be kept
//! with a snapshot, so that what was covered when it was taken is covered when it is put back.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde::{Deserialize, Serialize};

/// The most that is read of one file of rules.
pub(crate) const MOST_RULES: u64 = 256 * 1024;

/// The rules that begin to hold in one directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub(crate) struct DirectoryRules {
    /// A repository of its own, where the rules of those around it do not hold.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_repository: bool,
    /// Texts of rules, the weakest first.
    pub(crate) texts: Vec<String>,
    /// Relative to which directory, where that is not the one they are kept under: above the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) above: Option<PathBuf>,
}

impl DirectoryRules {
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_repository && self.texts.is_empty()
    }
}

/// The rules that hold at some place: the nearest first, then those around.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleChain(Option<Rc<Link>>);

#[derive(Debug)]
struct Link {
    rules: Gitignore,
    around: RuleChain,
}

impl RuleChain {
    /// The rules within `directory`, an absolute path.
    pub(crate) fn within(&self, directory: &Path, text: &str) -> Self {
        let mut builder = GitignoreBuilder::new(directory);
        for line in text.lines() {
            // A line that is no pattern to us covers too much rather than too little.
            builder.add_line(None, line).ok();
        }
        match builder.build() {
            Ok(rules) if !rules.is_empty() => {
                Self(Some(Rc::new(Link { rules, around: self.clone() })))
            }
            _ => self.clone(),
        }
    }

    /// Whether something in a directory that is covered itself is passed over.
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
