//! Conversations of older IDEs, kept in each workspace's `state.vscdb`.

use crate::StorePlaces;
use crate::store::Discovered;

pub(crate) fn discover(_places: &StorePlaces) -> Vec<Discovered> {
    Vec::new()
}
