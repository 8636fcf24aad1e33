//! The beginning of a turn: the user's prompt, and before it the answers to unfinished calls.

use cursor_stores::chat::schema::{
    AgentConversationTurnStructure, ConversationStateStructure, ConversationTokenDetails,
    UserMessage,
};
use cursor_stores::chat::{BlobId, LatestRoot, WritableStore};
use ground::now_ms;
use prost::Message;
use serde_json::Value;
use uuid::Uuid;

use super::restore::Conversation;
use super::writer::OpenTurn;
use super::{CrashPoint, SessionError, SessionStore, messages, pending_messages};

impl SessionStore {
    /// Writes the user's prompt. First marks calls that an earlier process left unfinished as interrupted.
    pub fn begin_turn(&mut self, prompt: &str, request_id: &str) -> Result<(), SessionError> {
        if let Some(id) = self.conversation.hole {
            return Err(SessionError::BlobNotFound { id });
        }
        self.create_database()?;
        let message_id = Uuid::new_v4().to_string();
        let user_message = if self.conversation.messages.is_empty() {
            self.write_first_user_message(prompt, &message_id)?
        } else {
            self.write_next_user_message(prompt, &message_id)?
        };
        self.add_message(messages::user_query(prompt, request_id))?;
        self.describe_session();
        let user_message_id = self.is_dated().then_some(message_id);
        self.turn = Some(OpenTurn::new(
            prompt,
            AgentConversationTurnStructure {
                user_message: user_message.to_vec(),
                request_id: Some(request_id.to_owned()),
                user_message_id,
                ..AgentConversationTurnStructure::default()
            },
        ));
        self.at(match self.meta.latest_root() {
            LatestRoot::Absent => CrashPoint::BeforeFirstRoot,
            LatestRoot::Blob(_) | LatestRoot::Malformed(_) => CrashPoint::AfterUserMessage,
        });
        Ok(())
    }

    fn create_database(&mut self) -> Result<(), SessionError> {
        if self.database.is_none() {
            self.create_directory()?;
            let database = WritableStore::open(&self.directory.store_db())?;
            database.put_meta(self.meta.to_hex_row())?;
            self.database = Some(database);
            self.at(CrashPoint::StoreCreated);
        }
        Ok(())
    }

    /// Also writes the state before the prompt, which no checkpoint has written yet.
    fn write_first_user_message(
        &mut self,
        prompt: &str,
        message_id: &str,
    ) -> Result<BlobId, SessionError> {
        let system = messages::system();
        let user_info = messages::user_info(&self.workspace);
        let id_of = |message: &Value| BlobId::of(message.to_string().as_bytes());
        let (system_id, user_info_id) = (id_of(&system), id_of(&user_info));
        let before = ConversationStateStructure {
            root_prompt_messages_json: vec![system_id.to_vec(), user_info_id.to_vec()],
            token_details: Some(ConversationTokenDetails::default()),
            ..ConversationStateStructure::default()
        };
        let before_bytes = before.encode_to_vec();
        let user_message = self.user_message(prompt, message_id, BlobId::of(&before_bytes));
        let database = self.database()?;
        // The order of a real store: the message precedes the state to which it refers.
        let id = database.put(&user_message.encode_to_vec())?;
        database.put(user_info.to_string().as_bytes())?;
        database.put(&before_bytes)?;
        database.put(system.to_string().as_bytes())?;
        self.conversation =
            Conversation { root: before, messages: vec![system, user_info], hole: None };
        Ok(id)
    }

    fn write_next_user_message(
        &mut self,
        prompt: &str,
        message_id: &str,
    ) -> Result<BlobId, SessionError> {
        let state_before = match self.meta.latest_root() {
            LatestRoot::Blob(id) => id,
            // The previous turn got no answer, so its prompt was never part of a root.
            LatestRoot::Absent | LatestRoot::Malformed(_) => {
                self.database()?.put(&self.conversation.root.encode_to_vec())?
            }
        };
        let user_message = self.user_message(prompt, message_id, state_before);
        let id = self.database()?.put(&user_message.encode_to_vec())?;
        for pending in pending_messages(&self.conversation) {
            self.add_message(messages::committed(&pending))?;
            for call in messages::pending_calls(&pending) {
                let after_ms =
                    call.started_ms.map_or(0, |started_ms| now_ms().saturating_sub(started_ms));
                self.add_message(messages::interrupted_result(
                    &call.tool_name,
                    &call.call_id,
                    after_ms,
                ))?;
            }
        }
        self.conversation.root.pending_tool_calls.clear();
        Ok(id)
    }

    pub(super) fn user_message(
        &self,
        prompt: &str,
        message_id: &str,
        state_before: BlobId,
    ) -> UserMessage {
        UserMessage {
            text: prompt.to_owned(),
            message_id: message_id.to_owned(),
            selected_context: Some(Vec::new()),
            mode: self.facts.mode.in_root().into(),
            conversation_state_blob_id: state_before.to_vec(),
            started_at_ms: self.is_dated().then(now_ms),
            ..UserMessage::default()
        }
    }

    /// Sets the facts about the session that every root repeats.
    fn describe_session(&mut self) {
        let is_dated = self.is_dated();
        let root = &mut self.conversation.root;
        root.mode = Some(self.facts.mode.in_root().into());
        let uri = file_uri(&self.workspace.display().to_string());
        if !root.previous_workspace_uris.contains(&uri) {
            root.previous_workspace_uris.push(uri);
        }
        if is_dated {
            root.conversation_started_timestamp_ms.get_or_insert(self.facts.started_ms);
            root.conversation_started_time_zone.get_or_insert_with(|| self.facts.time_zone.clone());
        }
    }
}

fn file_uri(path: &str) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}
