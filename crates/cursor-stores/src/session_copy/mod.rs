//! Copies of sessions: forks, bundles for another machine, and the mending and tidying of stores by way of a copy.
//!
//! ```text
//!                     ┌─► fork ────► staging ──► a new session, placed whole
//! store.db ─► Source ─┼─► bundle ──► one file ─► import ─► staging ─► a new session, or what an old one lacks
//!  (read-only) reach  ├─► verify ──► findings, and the best root to mend with
//!                     └─► repair, gc ─► staging ─► checked ─► exchanged with the original in one step
//! ```
//!
//! **Invariant:** what a copy leaves out is what nothing in it names. Any 32 bytes and any 64 hex digits, anywhere in a
//! carried blob, that are the id of a blob of the store carry that blob too.
//!
//! **Invariant:** a session appears whole, under its name, or not at all; one that is replaced is there at every moment.
//!
//! **Invariant:** a bundle names the machine it is from only in what was said. Paths that a session keeps beside that are
//! told from the workspace, and become those of the workspace where it is imported; what cannot be told so stays behind,
//! and is counted. So is what this build does not know and cannot change.
//!
//! **Invariant:** the encryption key of a store goes nowhere but into a store on the same machine.

mod bundle;
mod bundle_reader;
mod bundle_writer;
mod fork;
mod fork_point;
#[cfg(test)]
mod format_tests;
mod gc;
mod id_set;
mod import;
mod machine_paths;
mod moved;
mod new_session;
mod path_rules;
mod reachable;
mod repair;
mod replace;
mod retell;
mod root_candidates;
mod root_relation;
mod staging;
mod store_update;
mod store_writer;
#[cfg(test)]
mod test_sessions;
mod verify;

pub use bundle::{BUNDLE_VERSION, BundleHeader, BundleOrigin};
pub use bundle_reader::{BundleReader, ReadBundleError};
pub use bundle_writer::{Bundled, WriteBundleError, write_bundle};
pub use fork::{ForkError, Forked, fork};
pub use fork_point::{ForkPoint, ForkPointError};
pub use gc::{
    CollectError, Collected, Droppable, Original, Untouchable, collect, droppable,
    is_abandoned_session,
};
pub use import::{ImportError, Imported, import};
pub use machine_paths::MachinePaths;
pub use moved::{LeftOutTally, NamingTally};
pub use new_session::NewSession;
pub use reachable::{CopySourceError, CopyTally};
pub use repair::{RepairAction, RepairError, RepairPlan, Repaired, plan_repair, repair};
pub use replace::ReplaceError;
pub use retell::retell;
pub use root_candidates::RootCandidate;
pub use staging::{Leftover, leftovers};
pub use store_writer::WriteStoreError;
pub use verify::{Place, Severity, StoreFinding, StoreVerdict, verify_at_a_glance, verify_store};

use std::path::Path;

use crate::chat::Writers;

/// Tells whether another process has a store open for writing. Our own readers do not count.
#[must_use]
pub fn is_open_for_writing(database: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let log = crate::database_fingerprint::with_suffix(database, "-wal");
    let identities = [database, log.as_path()].into_iter().filter_map(|file| {
        let metadata = crate::plain_file::inspect(file).ok()?;
        Some((metadata.dev(), metadata.ino()))
    });
    Writers::default().has_any(identities) || crate::database_holders::is_open_for_writing(database)
}
