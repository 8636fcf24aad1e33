//! Fetches blobs, and records each problem.

use prost::Message;

use crate::chat::store::{BlobId, Blobs, Fetched};
use crate::model::Damage;

/// The effect of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BearsOn {
    /// The model's prompt is incomplete: the next turn fails.
    Prompt,
    /// Something to show, undo or look up is missing. The conversation can continue without it.
    History,
}

/// The damage found while reading a conversation.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    damage: Vec<Damage>,
    n_more: usize,
    /// True if a message of the prompt is missing or damaged.
    is_prompt_damaged: bool,
}

/// A file full of broken references would cause millions of notes.
const MAX_DAMAGE: usize = 500;

impl Notes {
    pub(crate) fn add(
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

    pub(crate) fn is_prompt_damaged(&self) -> bool {
        self.is_prompt_damaged
    }

    pub(crate) fn into_damage(mut self) -> Vec<Damage> {
        if self.n_more > 0 {
            let what = format!("{} more things are missing or damaged", self.n_more);
            self.damage.push(Damage::new("blobs", what));
        }
        self.damage
    }

    /// Reads the id that a field holds.
    pub(crate) fn id(
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
                format!("its reference has {} bytes and is not a blob id", bytes.len()),
            );
        }
        id
    }

    /// Decodes the blob that a field refers to. Records the reason if that fails.
    pub(crate) fn decode<M: Message + Default>(
        &mut self,
        blobs: &Blobs<'_>,
        bytes: &[u8],
        bears_on: BearsOn,
        place: &dyn Fn() -> String,
    ) -> rusqlite::Result<Option<(BlobId, M)>> {
        let Some(id) = self.id(bytes, bears_on, place) else { return Ok(None) };
        let Some(data) = self.fetch(blobs, id, bears_on, place)? else { return Ok(None) };
        match M::decode(data.as_slice()) {
            Ok(message) => Ok(Some((id, message))),
            Err(err) => {
                self.add(bears_on, place(), format!("does not decode: {err}"));
                Ok(None)
            }
        }
    }

    /// Returns the bytes of a blob, even if their hash is not its id: a text with one wrong letter is better than none.
    pub(crate) fn fetch(
        &mut self,
        blobs: &Blobs<'_>,
        id: BlobId,
        bears_on: BearsOn,
        place: &dyn Fn() -> String,
    ) -> rusqlite::Result<Option<Vec<u8>>> {
        let what = match blobs.get(id)? {
            Fetched::Data(data) => {
                if BlobId::of(&data) != id {
                    let what = format!("blob {id} is damaged or encrypted: its hash is not its id");
                    self.add(bears_on, place(), what);
                }
                return Ok(Some(data));
            }
            Fetched::Missing => format!("blob {id} is missing"),
            Fetched::TooLarge { bytes } => format!("blob {id} has {bytes} bytes, too many to read"),
            Fetched::Unreadable => format!("blob {id} is in a damaged part of the file"),
        };
        self.add(bears_on, place(), what);
        Ok(None)
    }
}
