//! Messages in an agent's own database that nothing leads to: the checkpoint that did is damaged, or was replaced.

use super::checkpoint::{Blobs, split};
use crate::model::{Conversation, Message, MessageKind};
use crate::said_already::SaidAlready;

/// Adds them at the end, in the order of their writing, but for what is shown already.
pub(super) fn add_unreached(conversation: &mut Conversation, blobs: &dyn Blobs) {
    let mut said = SaidAlready::by(&conversation.messages);
    let messages = blobs.messages().into_iter().map(|(_, message)| message);
    for exchange in split(messages) {
        for message in exchange.prompts.into_iter().chain(exchange.answers) {
            if !said.has(&message) {
                said.add(&message);
                conversation.messages.push(Message { kind: MessageKind::Orphan, ..message });
            }
        }
    }
}
