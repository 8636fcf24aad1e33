//! Copies of sessions: forks, bundles for another machine, and repaired or smaller stores.
//!
//! ```text
//!                     ┌─► fork ────► staging ──► a new session, complete from the start
//! store.db ─► Source ─┼─► bundle ──► one file ─► import ─► staging ─► a new session, or additions to an old one
//!  (read-only) reach  ├─► verify ──► findings, and the best root for a repair
//!                     └─► repair, gc ─► staging ─► checked ─► exchanged with the original in one step
//! ```
//!
//! **Invariant:** a copy leaves out only blobs that nothing in it names. If any 32 bytes or 64 hex digits in a copied
//! blob are the id of a blob in the store, the copy contains that blob too.
//!
//! **Invariant:** a new session appears complete, under its name, or not at all. While a session is replaced, one
//! version of it always exists.
//!
//! **Invariant:** a bundle names its source machine only in messages. Other paths become relative to the workspace, and
//! an import inserts its own workspace. Paths that cannot become relative are left out, and the bundle counts them. It
//! also counts blobs that this build does not know and cannot change.
//!
//! **Invariant:** a store's encryption key is copied only to a store on the same machine.

mod bundle;
mod error;
mod fork;
mod fork_point;
mod id_set;
mod new_session;
mod retell;
mod source;
mod staging;
mod store_writer;
#[cfg(test)]
mod test_sessions;
mod upkeep;

pub use crate::chat::{Place, Severity, StoreFinding};
pub use bundle::header::{BUNDLE_VERSION, BundleHeader, BundleOrigin};
pub use bundle::import::{ImportError, Imported, import};
pub use bundle::machine_paths::MachinePaths;
pub use bundle::moved::{LeftOutTally, NamingTally};
pub use bundle::reader::{BundleReader, ReadBundleError};
pub use bundle::writer::{Bundled, write_bundle};
pub use error::{CopyError, WriteStoreError};
pub use fork::{Forked, fork};
pub use fork_point::ForkPoint;
pub use new_session::NewSession;
pub use retell::retell;
pub use source::CopyTally;
pub use staging::{Leftover, leftovers};
pub use upkeep::gc::{
    Collected, Droppable, Original, Untouchable, collect, droppable, is_abandoned_session,
};
pub use upkeep::repair::{RepairAction, RepairPlan, Repaired, plan_repair, repair};
pub use upkeep::root_candidates::RootCandidate;
pub use upkeep::verify::{StoreVerdict, verify_at_a_glance, verify_store};

use std::path::Path;

use crate::chat::Writers;

/// Tells whether another process has a store open for writing. Readers in this process do not count.
#[must_use]
pub fn is_open_for_writing(database: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let log = crate::database::with_suffix(database, "-wal");
    let identities = [database, log.as_path()].into_iter().filter_map(|file| {
        let metadata = crate::plain_file::inspect(file).ok()?;
        Some((metadata.dev(), metadata.ino()))
    });
    Writers::default().has_any(identities) || crate::database::is_open_for_writing(database)
}
