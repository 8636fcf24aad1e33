//! Compaction: a summary replaces a long prompt.

use cursor_stores::chat::schema::{ConversationSummary, ConversationSummaryArchive};
use prost::Message;

use super::restore::Conversation;
use super::{CrashPoint, SessionError, SessionStore, messages};

impl SessionStore {
    /// Replaces the prompt with its summary and archives the old messages. Does nothing to an empty conversation.
    pub fn compact(&mut self, summary: &str) -> Result<(), SessionError> {
        let has_system =
            self.conversation.messages.first().is_some_and(|message| message["role"] == "system");
        let n_kept = usize::from(has_system);
        if self.conversation.messages.len() <= n_kept {
            return Ok(());
        }
        let n_messages = self.conversation.messages.len();
        let database = self.database()?;
        let message = messages::summary(summary);
        let message_id = database.put(message.to_string().as_bytes())?;
        let summary_id =
            database.put(&ConversationSummary { summary: summary.to_owned() }.encode_to_vec())?;
        let archive = ConversationSummaryArchive {
            summarized_messages: self.conversation.root.root_prompt_messages_json[n_kept..]
                .to_vec(),
            summary: summary.to_owned(),
            window_tail: 0,
            summary_message: message_id.to_vec(),
        };
        let archive_id = database.put(&archive.encode_to_vec())?;
        self.at(CrashPoint::MidCompaction);
        let Conversation { root, messages, .. } = &mut self.conversation;
        messages.truncate(n_kept);
        root.root_prompt_messages_json.truncate(n_kept);
        root.summary = Some(summary_id.to_vec());
        root.summary_archive = Some(archive_id.to_vec());
        root.summary_archives.push(archive_id.to_vec());
        root.self_summary_count += 1;
        root.message_count_at_last_compaction = Some(u32::try_from(n_messages).unwrap_or(u32::MAX));
        root.pending_tool_calls.clear();
        self.conversation.push(message_id, message);
        self.count_tokens();
        self.checkpoint()
    }
}

#[cfg(test)]
#[path = "compaction_tests.rs"]
mod tests;
