//! A repository on the host that an agent could write. Caretaker finds it like git, and checks it before git runs
//! there.
//!
//! ```text
//!   finding    root, git directory, common directory; a `.git` file is believed only if the other side agrees
//!   soundness  only directories and regular files where git reads and writes: no links, no FIFOs
//!   refs       reads and writes branches and tags, without following a link and without a reflog
//!   refs_kept  the refs before and after a run, and how an undo restores them
//!   cleaning   removes links, special files and hard links that a run left there
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
