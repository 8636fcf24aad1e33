//! A session of the command line from a conversation that another store keeps: the same words, in the shape that the
//! command line agent reads.
//!
//! Prompts and answers are told as they were said. What tools were asked and gave is told in words: other stores name
//! tools otherwise, and a model must not be shown calls of tools that its agent does not have. Thoughts are left out, since
//! models take back only those that they signed.

use prost::Message as _;
use serde_json::{Value as Json, json};

use super::fork::{ForkError, Forked, fork_name};
use super::machine_paths::file_uri;
use super::new_session::NewSession;
use super::reachable::CopyTally;
use super::staging::Staging;
use super::store_writer::StoreWriter;
use crate::chat::schema::ConversationStateStructure;
use crate::chat::turn_schema::{
    AgentConversationTurnStructure, AssistantMessage, ConversationStep, ConversationTurnStructure,
    Step, Turn, UserMessage,
};
use crate::chat::{BlobId, ChatMeta, PendingMessages};
use crate::model::{Conversation, Message, MessageKind, Part, Role, ToolCall};

/// Of what a tool was given or gave back, so much is told: characters.
const MOST_TOLD: usize = 4_000;

/// Writes a conversation into a new session.
pub fn retell(conversation: &Conversation, target: &NewSession) -> Result<Forked, ForkError> {
    if !target.has_plain_names() {
        return Err(ForkError::Name { bucket: target.bucket.clone(), id: target.id.clone() });
    }
    let directory = target.directory();
    let unplaced = |source| ForkError::Place { path: directory.clone(), source };
    let staging = Staging::inside(&target.chats).map_err(unplaced)?;
    let mut telling = Telling::new(StoreWriter::create(&staging.database())?, target);
    for message in &conversation.messages {
        telling.tell(message)?;
    }
    if telling.state.root_prompt_messages_json.is_empty() {
        return Err(ForkError::NothingSaid);
    }
    telling.end_turn()?;
    let Telling { mut writer, state, tally, .. } = telling;
    let root = put(&mut writer, &state.encode_to_vec())?;
    let created = conversation.head.created.map_or(target.now_ms, |created| created.at_ms);
    let title = conversation.head.title.as_deref().map(fork_name);
    let mut meta = ChatMeta::new(&target.id, created);
    meta.set_latest_root(root);
    if let Some(title) = &title {
        meta.set_name(title);
    }
    writer.finish(&meta)?;
    staging
        .write_file("meta.json", target.meta_file(title.as_deref(), Some(created)).as_bytes())
        .and_then(|()| staging.place(&directory))
        .map_err(unplaced)?;
    Ok(Forked {
        directory,
        root,
        title,
        n_prompt_messages: state.root_prompt_messages_json.len(),
        n_turns: state.turns.len(),
        pending: PendingMessages::default(),
        tally,
    })
}

/// A store that is filled message by message.
struct Telling<'a> {
    writer: StoreWriter,
    target: &'a NewSession,
    state: ConversationStateStructure,
    /// The turn that is being told.
    turn: Option<AgentConversationTurnStructure>,
    tally: CopyTally,
}

impl<'a> Telling<'a> {
    fn new(writer: StoreWriter, target: &'a NewSession) -> Self {
        let state = ConversationStateStructure {
            previous_workspace_uris: vec![file_uri(&target.workspace)],
            ..ConversationStateStructure::default()
        };
        Self { writer, target, state, turn: None, tally: CopyTally::default() }
    }

    fn tell(&mut self, message: &Message) -> Result<(), ForkError> {
        use MessageKind::{Context, Orphan, Pending};
        // The agent has a prompt of its own and looks at the workspace itself.
        if message.role == Role::System || matches!(message.kind, Context | Orphan | Pending) {
            return Ok(());
        }
        let text = told(message);
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

    fn put(&mut self, data: &[u8]) -> Result<Vec<u8>, ForkError> {
        self.tally.n_blobs += 1;
        self.tally.n_bytes += data.len() as u64;
        Ok(put(&mut self.writer, data)?.to_vec())
    }

    fn prompt_with(&mut self, message: &Json) -> Result<(), ForkError> {
        let id = self.put(message.to_string().as_bytes())?;
        self.state.root_prompt_messages_json.push(id);
        Ok(())
    }

    fn begin_turn(&mut self, prompt: &str) -> Result<(), ForkError> {
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

    /// What was said before the first prompt stands in no turn.
    fn answer(&mut self, text: String) -> Result<(), ForkError> {
        let said = Step::AssistantMessage(AssistantMessage { text, ..AssistantMessage::default() });
        let step = self.put(&ConversationStep { message: Some(said) }.encode_to_vec())?;
        if let Some(turn) = &mut self.turn {
            turn.steps.push(step);
        }
        Ok(())
    }

    fn end_turn(&mut self) -> Result<(), ForkError> {
        if let Some(turn) = self.turn.take() {
            let turn = ConversationTurnStructure { turn: Some(Turn::AgentConversationTurn(turn)) };
            let id = self.put(&turn.encode_to_vec())?;
            self.state.turns.push(id);
        }
        Ok(())
    }
}

fn put(writer: &mut StoreWriter, data: &[u8]) -> Result<BlobId, ForkError> {
    let id = BlobId::of(data);
    writer.put(id, data)?;
    Ok(id)
}

/// What a message says, in words.
fn told(message: &Message) -> String {
    let parts: Vec<String> = message.parts.iter().filter_map(told_part).collect();
    parts.join("\n\n")
}

fn told_part(part: &Part) -> Option<String> {
    match part {
        Part::Text { text } => Some(text.clone()),
        Part::Code { path, text, .. } => {
            let place = path.as_deref().unwrap_or_default();
            Some(format!("```{place}\n{text}\n```"))
        }
        Part::ToolCall(call) => Some(told_call(call)),
        Part::ToolResult { tool_name, result, .. } => {
            let name = tool_name.as_deref().unwrap_or("a tool");
            Some(format!("[{name} gave: {}]", cut(&text_of(&result.output))))
        }
        // The files to go back to are the editor's; nobody said them.
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

fn told_call(call: &ToolCall) -> String {
    let name = if call.tool.is_empty() { "a tool" } else { &call.tool };
    let asked = format!("[{name} was called with {}", cut(&text_of(&call.input)));
    let gave = call.result.as_ref().map(|result| match &result.error {
        Some(error) => format!("failed: {}", cut(error)),
        None => format!("gave: {}", cut(&text_of(&result.output))),
    });
    match gave {
        Some(gave) => format!("{asked}\n{gave}]"),
        None => format!("{asked}; no result is known]"),
    }
}

fn text_of(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST_TOLD) {
        Some((end, _)) => {
            format!("{} … ({} characters in all)", &text[..end], text.chars().count())
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "retell_tests.rs"]
mod tests;
