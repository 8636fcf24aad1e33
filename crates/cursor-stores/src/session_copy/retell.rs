//! Turns another store's conversation into a session of the command line agent: the same words, in the form that this
//! agent reads.
//!
//! Prompts and answers keep their words. Tool calls and their results become text: other stores name tools differently,
//! and a model must not see calls to tools that its agent does not have. Thoughts are left out, because a model accepts
//! only thoughts that it signed.

use prost::Message as _;
use serde_json::{Value as Json, json};

use super::error::CopyError;
use super::fork::{Forked, fork_name};
use super::new_session::NewSession;
use super::source::CopyTally;
use super::store_writer::StoreWriter;
use crate::chat::schema::{
    AgentConversationTurnStructure, AssistantMessage, ConversationStateStructure, ConversationStep,
    ConversationTurnStructure, Step, Turn, UserMessage,
};
use crate::chat::{BlobId, ChatMeta, PendingMessages};
use crate::model::{Conversation, Message, MessageKind, Part, Role, ToolCall};
use crate::session_copy::bundle::file_uri;

/// The most characters to keep of a tool's input or result.
const MAX_CHARACTERS: usize = 4_000;

/// Writes a conversation into a new session.
pub fn retell(conversation: &Conversation, target: &NewSession) -> Result<Forked, CopyError> {
    let staging = target.stage()?;
    let mut retelling = Retelling::new(StoreWriter::create(&staging.database())?, target);
    for message in &conversation.messages {
        retelling.add(message)?;
    }
    if retelling.state.root_prompt_messages_json.is_empty() {
        return Err(CopyError::NothingSaid);
    }
    retelling.end_turn()?;
    let Retelling { mut writer, state, tally, .. } = retelling;
    let root = put(&mut writer, &state.encode_to_vec())?;
    let created = conversation.head.created.map_or(target.now_ms, |created| created.at_ms);
    let title = conversation.head.title.as_deref().map(fork_name);
    let mut meta = ChatMeta::new(&target.id, created);
    meta.set_latest_root(root);
    if let Some(title) = &title {
        meta.set_name(title);
    }
    writer.finish(&meta)?;
    target.place(staging, title.as_deref(), Some(created))?;
    Ok(Forked {
        directory: target.directory(),
        root,
        title,
        n_prompt_messages: state.root_prompt_messages_json.len(),
        n_turns: state.turns.len(),
        pending: PendingMessages::default(),
        tally,
    })
}

/// A store, filled message by message.
struct Retelling<'a> {
    writer: StoreWriter,
    target: &'a NewSession,
    state: ConversationStateStructure,
    /// The current turn.
    turn: Option<AgentConversationTurnStructure>,
    tally: CopyTally,
}

impl<'a> Retelling<'a> {
    fn new(writer: StoreWriter, target: &'a NewSession) -> Self {
        let state = ConversationStateStructure {
            previous_workspace_uris: vec![file_uri(&target.workspace)],
            ..ConversationStateStructure::default()
        };
        Self { writer, target, state, turn: None, tally: CopyTally::default() }
    }

    fn add(&mut self, message: &Message) -> Result<(), CopyError> {
        use MessageKind::{Context, Orphan, Pending};
        // The agent has its own system prompt and inspects the workspace itself.
        if message.role == Role::System || matches!(message.kind, Context | Orphan | Pending) {
            return Ok(());
        }
        let text = text_of_message(message);
        if text.trim().is_empty() {
            return Ok(());
        }
        if message.role == Role::User {
            let query = format!("<user_query>\n{text}\n</user_query>");
            self.prompt_with(
                &json!({"role": "user", "content": [{"type": "text", "text": query}]}),
            )?;
            self.begin_turn(&text)
        } else {
            self.prompt_with(
                &json!({"role": "assistant", "content": [{"type": "text", "text": text}]}),
            )?;
            self.answer(text)
        }
    }

    fn put(&mut self, data: &[u8]) -> Result<Vec<u8>, CopyError> {
        self.tally.n_blobs += 1;
        self.tally.n_bytes += data.len() as u64;
        Ok(put(&mut self.writer, data)?.to_vec())
    }

    fn prompt_with(&mut self, message: &Json) -> Result<(), CopyError> {
        let id = self.put(message.to_string().as_bytes())?;
        self.state.root_prompt_messages_json.push(id);
        Ok(())
    }

    fn begin_turn(&mut self, prompt: &str) -> Result<(), CopyError> {
        self.end_turn()?;
        let number = self.state.turns.len();
        let prompt = UserMessage {
            text: prompt.to_owned(),
            message_id: format!("{}-{number}", self.target.id),
            ..UserMessage::default()
        };
        let user_message = self.put(&prompt.encode_to_vec())?;
        self.turn = Some(AgentConversationTurnStructure {
            user_message,
            ..AgentConversationTurnStructure::default()
        });
        Ok(())
    }

    /// An answer before the first prompt belongs to no turn.
    fn answer(&mut self, text: String) -> Result<(), CopyError> {
        let said = Step::AssistantMessage(AssistantMessage { text, ..AssistantMessage::default() });
        let step = self.put(&ConversationStep { message: Some(said) }.encode_to_vec())?;
        if let Some(turn) = &mut self.turn {
            turn.steps.push(step);
        }
        Ok(())
    }

    fn end_turn(&mut self) -> Result<(), CopyError> {
        if let Some(turn) = self.turn.take() {
            let turn = ConversationTurnStructure { turn: Some(Turn::AgentConversationTurn(turn)) };
            let id = self.put(&turn.encode_to_vec())?;
            self.state.turns.push(id);
        }
        Ok(())
    }
}

fn put(writer: &mut StoreWriter, data: &[u8]) -> Result<BlobId, CopyError> {
    let id = BlobId::of(data);
    writer.put(id, data)?;
    Ok(id)
}

/// The text of a message.
fn text_of_message(message: &Message) -> String {
    let parts: Vec<String> = message.parts.iter().filter_map(text_of_part).collect();
    parts.join("\n\n")
}

fn text_of_part(part: &Part) -> Option<String> {
    match part {
        Part::Text { text } => Some(text.clone()),
        Part::Code { path, text, .. } => {
            let place = path.as_deref().unwrap_or_default();
            Some(format!("```{place}\n{text}\n```"))
        }
        Part::ToolCall(call) => Some(text_of_call(call)),
        Part::ToolResult { tool_name, result, .. } => {
            let name = tool_name.as_deref().unwrap_or("a tool");
            Some(format!("[{name} gave: {}]", cut(&text_of_value(&result.output))))
        }
        // A file checkpoint belongs to the editor, not to the conversation.
        Part::Attachment { kind, .. } if kind == "checkpoint" => None,
        Part::Attachment { kind, name, text } => {
            let name = name.as_deref().unwrap_or_default();
            let text = text.as_deref().map_or_else(String::new, |text| format!(":\n{}", cut(text)));
            Some(format!("[attached {kind} {name}{text}]"))
        }
        Part::Image { path, .. } => Some(format!(
            "[an image{}]",
            path.as_deref().map(|at| format!(": {at}")).unwrap_or_default()
        )),
        Part::Error { text } => Some(format!("[error: {text}]")),
        Part::Reasoning { .. } | Part::Todos { .. } | Part::Unknown { .. } => None,
    }
}

fn text_of_call(call: &ToolCall) -> String {
    let name = if call.tool.is_empty() { "a tool" } else { &call.tool };
    let asked = format!("[{name} was called with {}", cut(&text_of_value(&call.input)));
    let gave = call.result.as_ref().map(|result| match &result.error {
        Some(error) => format!("failed: {}", cut(error)),
        None => format!("gave: {}", cut(&text_of_value(&result.output))),
    });
    match gave {
        Some(gave) => format!("{asked}\n{gave}]"),
        None => format!("{asked}; no result is known]"),
    }
}

fn text_of_value(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => {
            format!("{} … ({} characters in all)", &text[..end], text.chars().count())
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "retell_tests.rs"]
mod tests;
