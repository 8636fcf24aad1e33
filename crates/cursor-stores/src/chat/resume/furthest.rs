//! Finds the newest state of a conversation that has several stores.

use std::path::Path;

use super::resumability::{Depth, resume_point};

/// Returns the index of the first directory whose store can be resumed and has everything that the others have. `None`
/// if there is none, or if one of the stores cannot be resumed: it may have more than it shows.
#[must_use]
pub fn furthest(directories: &[impl AsRef<Path>]) -> Option<usize> {
    let points = directories.iter().map(|directory| {
        let store_db = directory.as_ref().join("store.db");
        resume_point(&store_db, None, Depth::Whole).ok()
    });
    let points = points.collect::<Option<Vec<_>>>()?;
    points.iter().position(|one| points.iter().all(|other| one.ancestry.extends(&other.ancestry)))
}

#[cfg(test)]
#[path = "furthest_tests.rs"]
mod tests;
