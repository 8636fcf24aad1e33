//! The messages in blobs as Cursor encodes them, and which of their fields refer to other blobs.

mod conversation_state;
pub(crate) mod decode;
mod json_value;
mod known_tool;
pub mod references;
#[cfg(test)]
pub(crate) mod schema_tests;
mod tool;
mod turn;
pub(crate) mod wire;
pub(crate) mod wire_json;

pub use conversation_state::*;
pub use json_value::*;
pub use known_tool::*;
pub use tool::*;
pub use turn::*;
