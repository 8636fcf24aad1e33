//! Transcripts: `agent-transcripts` in all their layouts.

use crate::StorePlaces;
use crate::store::Discovered;

pub(crate) fn discover(_places: &StorePlaces) -> Vec<Discovered> {
    Vec::new()
}
