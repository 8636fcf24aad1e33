//! Lets git in a linked worktree lock `packed-refs`, although the repository is read-only.
//!
//! Since git 2.47 every commit deletes a ref, even one that does not exist, and locks `packed-refs` for that. So git
//! inside finds the shared part of the repository in a directory in memory, with links to the real files:
//!
//! ```text
//!   .git/worktrees/NAME/commondir ──► /run/repository.git ┬ config, hooks, objects, … ──► the repository
//!   (only inside)                                         └ packed-refs ──► 1 ──► … ──► 5 ──► the repository's
//! ```
//!
//! Before git locks a file, it follows at most five links. So the lock of `packed-refs` is `5.lock`, in memory, and
//! reads still find the real file.
//!
//! **Invariant:** git cannot replace a link in the chain. Otherwise `pack-refs` would write a private file, and delete
//! the loose refs on the host.

use std::path::{Path, PathBuf};

use super::Planner;
use crate::origin::Origin;
use crate::request::SHADOW_COMMON_DIR;
use crate::step::Step;

/// Locks are empty.
const SIZE: u64 = 1 << 20;
/// The names that git shares between worktrees. Each is a link, even if its target is missing. So git cannot create the
/// file in memory, where it would be lost after the run.
const SHARED: [&str; 11] = [
    "HEAD",
    "config",
    "hooks",
    "info",
    "lfs",
    "logs",
    "objects",
    "refs",
    "reftable",
    "shallow",
    "worktrees",
];
const CHAIN: [&str; 6] = ["packed-refs", "1", "2", "3", "4", "5"];
/// Git creates these to replace `packed-refs` and to collect garbage. Other implementations of git follow no links.
const BLOCKED: [&str; 3] = ["5.new", "gc.pid.lock", "packed-refs.lock"];

impl Planner<'_> {
    /// `names_common_dir` is the worktree's file that names the shared part.
    pub(super) fn git_locks(&mut self, common_dir: &Path, names_common_dir: PathBuf) {
        let text = String::from_utf8_lossy(SHADOW_COMMON_DIR);
        let (shadow, origin) = (PathBuf::from(text.trim_end()), &Origin::Always);
        let (dest, size, mode) = (shadow.clone(), SIZE, 0o755);
        self.push(Step::Tmpfs { dest, size, mode }, origin.clone());
        let shared = SHARED.iter().map(|name| (*name, common_dir.join(name)));
        let next = CHAIN.iter().skip(1).map(PathBuf::from).chain([common_dir.join("packed-refs")]);
        for (name, target) in shared.chain(CHAIN.into_iter().zip(next)) {
            self.push(Step::Symlink { target, dest: shadow.join(name) }, origin.clone());
        }
        let placeholders = &self.request.placeholders;
        for name in BLOCKED {
            self.cover(&placeholders.file, shadow.join(name), origin);
        }
        self.cover(&placeholders.shadow_common_dir, names_common_dir, origin);
    }
}
