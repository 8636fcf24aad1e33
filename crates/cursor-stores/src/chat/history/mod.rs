//! A conversation's messages in order. A store has two histories: the prompt list and the turns.
//!
//! ```text
//! prompt_list ──► drafts ─┐
//! turn_history ─► items ──┴─► alignment ─► joined_history ─► answered_calls ─► message_times ─► turn_assembly
//! ```

pub(crate) mod alignment;
pub(crate) mod answered_calls;
pub(crate) mod draft;
pub(crate) mod joined_history;
pub(crate) mod message_times;
pub(crate) mod prompt_list;
pub(crate) mod turn_assembly;
pub(crate) mod turn_history;

pub(crate) use answered_calls::answer_calls;
pub(crate) use draft::{Draft, Fate};
pub(crate) use joined_history::{Window, join_histories};
pub(crate) use message_times::{Span, interpolate_times};
pub(crate) use prompt_list::{Entry, EntryContent, Place, list_messages};
pub(crate) use turn_assembly::assemble;
pub(crate) use turn_history::{HowMuch, TurnHistory, read_turns};
