//! Messages in an agent's database that no checkpoint leads to, because it is damaged or was replaced.

use super::checkpoint::{Blobs, split};
use crate::catalogue::said_already::SaidAlready;
use crate::model::{Conversation, Message, MessageKind};

/// Adds these messages at the end, in the order they were written, unless they are already shown.
pub(crate) fn add_unreached(conversation: &mut Conversation, blobs: &dyn Blobs) {
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
