//! The messages in blobs as Cursor encodes them, and which of their fields refer to other blobs.

/// Declares messages and unions like the vendor's description: one line per field, with its number, name, type and
/// encoding.
macro_rules! messages {
    () => {};
    ($(#[$about:meta])* union $union:ident {
        $($(#[$note:meta])* $number:literal $member:ident($type:ty) [$($encoding:tt)+],)*
    } $($rest:tt)*) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, prost::Oneof)]
        pub enum $union {
            $($(#[$note])* #[prost($($encoding)+, tag = $number)] $member($type),)*
        }
        messages! { $($rest)* }
    };
    ($(#[$about:meta])* $message:ident {
        $($(#[$note:meta])* $($number:literal)? $field:ident: $type:ty [$($encoding:tt)+],)*
    } $($rest:tt)*) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, prost::Message)]
        pub struct $message {
            $($(#[$note])* #[prost($($encoding)+ $(, tag = $number)?)] pub $field: $type,)*
        }
        messages! { $($rest)* }
    };
}

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
