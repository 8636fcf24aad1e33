//! Reads one chat: its latest state, its messages, everything stored next to them, and its raw records.

pub(crate) mod chat;
#[cfg(test)]
mod chat_tests;
pub(crate) mod conversation;
pub(crate) mod conversation_root;
pub(crate) mod left_over;
pub(crate) mod links;
pub(crate) mod notes;
pub(crate) mod raw;
pub(crate) mod side_state;
#[cfg(test)]
mod survival_tests;

pub(crate) use chat::{meta_row, read_from, with_store};
pub(crate) use conversation::Reading;
pub(crate) use notes::{BearsOn, Notes};
