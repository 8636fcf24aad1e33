//! Describes the conflicts that a merge leaves to the user.

use crate::tree_path::TreePath;

/// A path that a merge leaves alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub path: TreePath,
    pub why: String,
}

/// The states that a merge combines. They decide how to compare modes and how to describe a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    /// A worktree into a checkout. Modes differ between checkouts, so only the executable bit counts.
    Checkouts,
    /// One workspace at three moments; every bit of a mode counts. The text names the operation to revert: "the run".
    Since(&'static str),
    /// Like [`Self::Since`], but finishes an interrupted restore, which may have removed a file before replacing it.
    Finishing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConflictKind {
    SameLines,
    Changed,
    Mode,
    /// One side removes it, the other side changed it.
    ToBeRemoved,
    /// One side changes it, the other side removed it.
    Removed,
    /// One side creates it, but something else exists there.
    Made,
    /// A directory should become a file, but contains something new.
    HoldsMore,
    /// Its directory became a file.
    InFile,
    Repository,
    /// Its state at the end of the run is unknown.
    Unknown,
    Unreadable,
}

impl ConflictKind {
    pub(crate) fn why(self, setting: Setting) -> String {
        let what = match setting {
            Setting::Checkouts => return self.between_checkouts().to_owned(),
            Setting::Since(what) => what,
            Setting::Finishing => "the interruption",
        };
        match self {
            Self::SameLines => format!("changed after {what}, in the same lines"),
            Self::Changed => format!("changed after {what}"),
            Self::Mode => format!("its mode changed after {what}"),
            Self::ToBeRemoved => format!("made by {what} and changed after it"),
            Self::Removed => format!("changed by {what} and removed after it"),
            Self::Made => format!("removed by {what} and made again after it"),
            Self::HoldsMore => format!("something was put into it after {what}"),
            Self::InFile => "its directory is a file now".to_owned(),
            Self::Repository => format!("this repository changed after {what}"),
            Self::Unknown => format!("it was not saved at the end of {what}, and it changed"),
            Self::Unreadable => "it cannot be read".to_owned(),
        }
    }

    fn between_checkouts(self) -> &'static str {
        match self {
            Self::SameLines => "changed in both, in the same lines",
            Self::Changed | Self::Mode | Self::Repository | Self::Unknown => "changed in both",
            Self::ToBeRemoved => "removed in the worktree, changed in the checkout",
            Self::Removed => "changed in the worktree, removed in the checkout",
            Self::Made => "added in both, but different",
            Self::HoldsMore => {
                "a file in the worktree, but a directory with new content in the checkout"
            }
            Self::InFile => "its directory is a file now",
            Self::Unreadable => "it cannot be read in the checkout",
        }
    }
}
