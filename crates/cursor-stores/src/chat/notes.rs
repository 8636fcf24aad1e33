//! Fetching blobs while noting what is wrong with them.

use super::blob_id::BlobId;
use super::blobs::{Blobs, Fetched};
use super::integrity::BearsOn;
use crate::model::Damage;

/// What is wrong with a conversation, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Notes {
    damage: Vec<Damage>,
    n_more: usize,
    /// Something that the model is prompted with is not as it should be.
    is_prompt_damaged: bool,
}

/// A file of nothing but broken references has millions.
const MAX_DAMAGE: usize = 500;

impl Notes {
    pub(super) fn add(
        &mut self,
        bears_on: BearsOn,
        place: impl Into<String>,
        what: impl Into<String>,
    ) {
        self.is_prompt_damaged |= bears_on == BearsOn::Prompt;
        if self.damage.len() < MAX_DAMAGE {
            self.damage.push(Damage::new(place, what));
        } else {
            self.n_more += 1;
        }
    }

    pub(super) fn is_prompt_damaged(&self) -> bool {
        self.is_prompt_damaged
    }

    pub(super) fn into_damage(mut self) -> Vec<Damage> {
        if self.n_more > 0 {
            let what = format!("{} more things are missing or damaged", self.n_more);
            self.damage.push(Damage::new("blobs", what));
        }
        self.damage
    }

    /// Reads the id that a field holds.
    pub(super) fn id(
        &mut self,
        bytes: &[u8],
        bears_on: BearsOn,
        place: &dyn Fn() -> String,
    ) -> Option<BlobId> {
        let id = BlobId::try_from(bytes).ok();
        if id.is_none() {
            self.add(
                bears_on,
                place(),
                format!("its reference has {} bytes and is no blob id", bytes.len()),
            );
        }
        id
    }

    /// Returns the bytes of a blob. If they are not what the id says they are returned all the same, and it is noted:
    /// a text with one wrong letter is better than none.
    pub(super) fn fetch(
        &mut self,
        blobs: &Blobs<'_>,
        id: BlobId,
        bears_on: BearsOn,
        place: &dyn Fn() -> String,
    ) -> rusqlite::Result<Option<Vec<u8>>> {
        match blobs.get(id)? {
            Fetched::Data(data) => {
                if BlobId::of(&data) != id {
                    self.add(
                        bears_on,
                        place(),
                        format!("blob {id} is damaged or encrypted: its hash is not its id"),
                    );
                }
                Ok(Some(data))
            }
            Fetched::Missing => {
                self.add(bears_on, place(), format!("blob {id} is missing"));
                Ok(None)
            }
            Fetched::TooLarge { bytes } => {
                self.add(
                    bears_on,
                    place(),
                    format!("blob {id} has {bytes} bytes, too many to read"),
                );
                Ok(None)
            }
            Fetched::Unreadable => {
                self.add(bears_on, place(), format!("blob {id} is in a damaged part of the file"));
                Ok(None)
            }
        }
    }
}
