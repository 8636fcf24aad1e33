//! Conversations of the current IDE: `globalStorage/state.vscdb`, and what workspaces know about them.
//!
//! ```text
//! composerData:<composer>  ── order ──►  bubbleId:<composer>:<bubble>     what was said, one row each
//!     │ or inline, in older builds
//!     └─ conversationState, agentKv:checkpoint:<composer> ──► agentKv:blob:<sha256>   what the model was given
//! composerHeaders, ItemTable, workspaceStorage/*  ──►  titles, times, workspaces
//! ```

mod account;
mod agent;
mod conversation;
mod database;
mod lenient;
mod listing;
mod raw;
mod search;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use conversation::bubble::read_bubble;
pub(crate) use conversation::composer::capability_tools;
pub(crate) use database::pool::Pool;
pub(crate) use database::{Check, MAX_VALUE_BYTES, Table, Value, Vscdb, keys};
pub(crate) use store::discover;

/// Reads arbitrary bytes as a value of every family.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_row(bytes: &[u8]) {
    drop(listing::summary::summarise(bytes));
    drop(agent::message::read_agent_message("", &agent::blob_content(bytes)));
    agent::blob_id_of(bytes);
    drop(agent::inline_root(&String::from_utf8_lossy(bytes)));
    for json in [lenient::parse(bytes), lenient::parse_object(bytes)].into_iter().flatten() {
        drop(conversation::bubble::read_bubble(&json, &json));
        for bubble in conversation::composer::inline_bubbles(&json) {
            drop(conversation::bubble::read_bubble(bubble, &json));
        }
        drop(conversation::composer::capability_tools(&json));
    }
}
