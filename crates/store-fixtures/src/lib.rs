//! Writes stores in the shapes of every generation of Cursor, for tests and the benchmark. It does not ship.
//!
//! Each builder takes a conversation as plain values and writes files below a directory that represents a home or one
//! of Cursor's roots. Every error panics, because only tests use this.
#![expect(
    clippy::unwrap_used,
    reason = "only tests and the bench use this; a failure there should be loud"
)]

pub mod chat;
pub mod conversation;
pub mod ide;
pub mod ide_old;
pub mod sdk;
pub mod transcript;
mod writer;

pub use writer::{Closing, close, open_writer};

use writer::iso;
