//! Writes stores in the shapes that Cursor writes, every generation of them, for tests and for the bench. No part of it
//! ships.
//!
//! Each builder takes what was said as plain values and writes files below a directory that stands for a home or for one
//! of Cursor's roots. Anything that goes wrong panics: there is nobody to report to but a test.
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
