//! One model for the content of all stores: conversations, turns and messages.
//!
//! It is also the JSON that `sessions export` writes and reads, so its field names are a contract.

mod conversation;
mod damage;
mod head;
mod message;
mod model_name;
mod moment;
mod tool;
mod usage;

pub use conversation::{CONVERSATION_VERSION, Conversation, Todo, TodoState, Turn, TurnState};
pub use damage::Damage;
pub use head::{
    Activity, Head, Origin, Parent, PendingCall, Shelf, StoreKind, UnknownStoreKind, Workspace,
    WorkspacePlace,
};
pub use message::{Message, MessageKind, Part, Role};
pub(crate) use model_name::comparable_model;
pub use model_name::display_model;
pub use moment::{Confidence, Moment};
pub use tool::{ToolCall, ToolResult, ToolState, canonical_tool};
pub use usage::TokenUsage;
