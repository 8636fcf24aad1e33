//! A repository on the host that an agent could write: found as git finds it, and looked through before git is run there.
//!
//! ```text
//!   finding    root, git directory, common directory; what a `.git` file says is believed only where the other side agrees
//!   soundness  nothing but directories and regular files where git reads and writes: no links, no FIFOs
//!   refs       what all branches and tags are; written without following a link and without a reflog
//!   cleaning   what a run put there that is no directory and no file of its own goes
//! ```

mod cleaning;
mod finding;
mod refs;
mod refs_kept;
mod soundness;

pub(crate) use cleaning::{Irregular, IrregularKind, LookedThrough, irregular_opened_up, remove};
pub use finding::{Repository, RepositoryError};
pub(crate) use refs::resolve;
pub use refs::{RefProblem, Refs};
pub(crate) use refs_kept::{
    KeptDirectory, KeptRepository, directories_of, is_gone, repositories_at,
};
pub use refs_kept::{RefChange, RefPlan, RefsKept, RefsRestored, RefsSide};
