//! The turns of a conversation as the interface shows them: prompts, steps and commands, with their times.

use prost::Message;

use super::blob_id::BlobId;
use super::blobs::{Blobs, Fetched};
use super::integrity::BearsOn;
use super::notes::Notes;
use super::schema::ConversationStateStructure;
use super::tool_step;
use super::turn_schema::{
    AgentConversationTurnStructure, ConversationStep, ConversationTurnStructure, ShellCommand,
    ShellConversationTurnStructure, ShellOutput, Step, Turn, UserMessage,
};
use crate::model::canonical_tool;

/// What was read of the turns.
#[derive(Debug, Default)]
pub(super) struct TurnHistory {
    pub(super) turns: Vec<TurnRecord>,
    pub(super) items: Vec<TurnItem>,
    /// How many turns there are before those that were read.
    pub(super) n_before: usize,
}

#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct TurnRecord {
    /// Its blob.
    pub(super) id: Option<BlobId>,
    pub(super) request_id: Option<String>,
    pub(super) model: Option<String>,
}

/// A prompt, a step or a command, in the order of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TurnItem {
    /// The index of its turn among those that were read.
    pub(super) turn: usize,
    pub(super) blob: BlobId,
    /// Another blob that holds a part of it: a long text, or an output.
    pub(super) also: Option<BlobId>,
    pub(super) content: ItemContent,
    pub(super) started_at_ms: Option<i64>,
    pub(super) completed_at_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ItemContent {
    Prompt {
        text: String,
        is_simulated: bool,
    },
    Text(String),
    Thinking {
        text: String,
        duration_ms: Option<u64>,
    },
    /// Only what tells it apart; its arguments and its result are fetched when they are needed.
    Call {
        id: Option<String>,
        tool: String,
    },
    Shell {
        command: String,
        output: Option<ShellOutput>,
    },
}

/// How much of the turns to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HowMuch {
    All,
    /// At least so many items from the end, if there are that many.
    Last(usize),
}

enum Generation {
    Old,
    Current,
}

/// Reads the turns of a root from their end, and returns them in order.
pub(super) fn read_turns(
    blobs: &Blobs<'_>,
    root: &ConversationStateStructure,
    how_much: HowMuch,
    notes: &mut Notes,
) -> rusqlite::Result<TurnHistory> {
    let old = root.turns_old.iter().enumerate().map(|(index, id)| (index, id, Generation::Old));
    let current = root.turns.iter().enumerate().map(|(index, id)| (index, id, Generation::Current));
    let mut reader = TurnReader { blobs, notes, how_much, items: Vec::new() };
    let mut turns = Vec::new();
    let mut n_before = root.turns_old.len() + root.turns.len();
    for (index, bytes, generation) in old.chain(current).rev() {
        if reader.has_enough() {
            break;
        }
        n_before -= 1;
        let field = match generation {
            Generation::Old => "turns_old",
            Generation::Current => "turns",
        };
        let place = || format!("{field}[{index}]");
        // Items know their turn by its number from the end until all are there.
        let turn = turns.len();
        turns.push(reader.turn(bytes, generation, turn, &place)?.unwrap_or_default());
    }
    let mut items = reader.items;
    turns.reverse();
    items.reverse();
    for item in &mut items {
        item.turn = turns.len() - 1 - item.turn;
    }
    Ok(TurnHistory { turns, items, n_before })
}

struct TurnReader<'r, 'c> {
    blobs: &'r Blobs<'c>,
    notes: &'r mut Notes,
    how_much: HowMuch,
    /// From the last to the first.
    items: Vec<TurnItem>,
}

impl TurnReader<'_, '_> {
    fn has_enough(&self) -> bool {
        match self.how_much {
            HowMuch::All => false,
            HowMuch::Last(n_items) => self.items.len() >= n_items,
        }
    }

    fn turn(
        &mut self,
        bytes: &[u8],
        generation: Generation,
        turn: usize,
        place: &dyn Fn() -> String,
    ) -> rusqlite::Result<Option<TurnRecord>> {
        let Some((id, data)) = self.fetch(bytes, place)? else { return Ok(None) };
        let decoded = match generation {
            Generation::Old => AgentConversationTurnStructure::decode(data.as_slice())
                .map(|turn| Some(Turn::AgentConversationTurn(turn))),
            Generation::Current => {
                ConversationTurnStructure::decode(data.as_slice()).map(|turn| turn.turn)
            }
        };
        match decoded {
            Ok(Some(Turn::AgentConversationTurn(agent))) => {
                self.agent_turn(id, agent, turn, place).map(Some)
            }
            Ok(Some(Turn::ShellConversationTurn(shell))) => {
                self.shell_turn(&shell, turn, place)?;
                Ok(Some(TurnRecord { id: Some(id), ..TurnRecord::default() }))
            }
            // A kind of turn this build does not know.
            Ok(None) => Ok(Some(TurnRecord { id: Some(id), ..TurnRecord::default() })),
            Err(err) => {
                self.notes.add(BearsOn::History, place(), format!("does not decode: {err}"));
                Ok(None)
            }
        }
    }

    fn agent_turn(
        &mut self,
        id: BlobId,
        agent: AgentConversationTurnStructure,
        turn: usize,
        place: &dyn Fn() -> String,
    ) -> rusqlite::Result<TurnRecord> {
        let mut is_cut = false;
        for (index, step) in agent.steps.iter().enumerate().rev() {
            is_cut = self.has_enough();
            if is_cut {
                break;
            }
            self.step(step, turn, &|| format!("{}.steps[{index}]", place()))?;
        }
        if !is_cut && !agent.user_message.is_empty() {
            self.prompt(&agent.user_message, turn, &|| format!("{}.user_message", place()))?;
        }
        Ok(TurnRecord {
            id: Some(id),
            request_id: agent.request_id.filter(|id| !id.is_empty()),
            model: agent.routed_model_display_name.filter(|name| !name.is_empty()),
        })
    }

    fn prompt(
        &mut self,
        bytes: &[u8],
        turn: usize,
        place: &dyn Fn() -> String,
    ) -> rusqlite::Result<()> {
        let Some((blob, message)) = self.decode::<UserMessage>(bytes, place)? else {
            return Ok(());
        };
        let mut text = message.text;
        let mut also = None;
        if text.is_empty()
            && let Some(id) = message.text_blob_id.as_deref().filter(|id| !id.is_empty())
            && let Some((id, data)) = self.fetch(id, &|| format!("{}.text_blob_id", place()))?
        {
            also = Some(id);
            text = String::from_utf8_lossy(&data).into_owned();
        }
        self.items.push(TurnItem {
            turn,
            blob,
            also,
            content: ItemContent::Prompt {
                text,
                is_simulated: message.is_simulated_msg == Some(true),
            },
            started_at_ms: signed(message.started_at_ms),
            completed_at_ms: signed(message.completed_at_ms),
        });
        Ok(())
    }

    fn step(
        &mut self,
        bytes: &[u8],
        turn: usize,
        place: &dyn Fn() -> String,
    ) -> rusqlite::Result<()> {
        let Some((blob, step)) = self.decode::<ConversationStep>(bytes, place)? else {
            return Ok(());
        };
        let (content, started, completed) = match step.message {
            Some(Step::AssistantMessage(message)) => {
                (ItemContent::Text(message.text), message.started_at_ms, message.completed_at_ms)
            }
            Some(Step::ThinkingMessage(message)) => {
                let duration_ms =
                    Some(u64::from(message.duration_ms)).filter(|duration| *duration > 0);
                let content = ItemContent::Thinking { text: message.text, duration_ms };
                (content, message.started_at_ms, message.completed_at_ms)
            }
            Some(Step::ToolCall(call)) => {
                let id = tool_step::call_id(&call).map(str::to_owned);
                let content =
                    ItemContent::Call { id, tool: comparable_tool(tool_step::tool_name(&call)) };
                (content, call.started_at_ms, call.completed_at_ms)
            }
            // A kind of step this build does not know.
            None => return Ok(()),
        };
        let (started_at_ms, completed_at_ms) = (signed(started), signed(completed));
        self.items.push(TurnItem {
            turn,
            blob,
            also: None,
            content,
            started_at_ms,
            completed_at_ms,
        });
        Ok(())
    }

    fn shell_turn(
        &mut self,
        shell: &ShellConversationTurnStructure,
        turn: usize,
        place: &dyn Fn() -> String,
    ) -> rusqlite::Result<()> {
        let command_place = || format!("{}.shell_command", place());
        let Some((blob, command)) =
            self.decode::<ShellCommand>(&shell.shell_command, &command_place)?
        else {
            return Ok(());
        };
        let output = if shell.shell_output.is_empty() {
            None
        } else {
            self.decode(&shell.shell_output, &|| format!("{}.shell_output", place()))?
        };
        let (also, output): (Option<BlobId>, Option<ShellOutput>) = output.unzip();
        let content = ItemContent::Shell { command: command.command, output };
        self.items.push(TurnItem {
            turn,
            blob,
            also,
            content,
            started_at_ms: None,
            completed_at_ms: None,
        });
        Ok(())
    }

    fn decode<M: Message + Default>(
        &mut self,
        bytes: &[u8],
        place: &dyn Fn() -> String,
    ) -> rusqlite::Result<Option<(BlobId, M)>> {
        let Some((id, data)) = self.fetch(bytes, place)? else { return Ok(None) };
        match M::decode(data.as_slice()) {
            Ok(message) => Ok(Some((id, message))),
            Err(err) => {
                self.notes.add(BearsOn::History, place(), format!("does not decode: {err}"));
                Ok(None)
            }
        }
    }

    fn fetch(
        &mut self,
        bytes: &[u8],
        place: &dyn Fn() -> String,
    ) -> rusqlite::Result<Option<(BlobId, Vec<u8>)>> {
        let Some(id) = self.notes.id(bytes, BearsOn::History, place) else { return Ok(None) };
        let data = self.notes.fetch(self.blobs, id, BearsOn::History, place)?;
        Ok(data.map(|data| (id, data)))
    }
}

/// The step of a call, once more, for what was not kept of it.
pub(super) fn fetch_call_step(
    blobs: &Blobs<'_>,
    id: BlobId,
) -> rusqlite::Result<Option<Box<super::tool_schema::ToolCall>>> {
    let Fetched::Data(data) = blobs.get(id)? else { return Ok(None) };
    Ok(match ConversationStep::decode(data.as_slice()).ok().and_then(|step| step.message) {
        Some(Step::ToolCall(call)) => Some(call),
        _ => None,
    })
}

/// One word for tools that the two histories may call differently: steps know no `Write`.
pub(super) fn comparable_tool(name: &str) -> String {
    match canonical_tool(name).as_str() {
        "write" => "edit".to_owned(),
        tool => tool.to_owned(),
    }
}

fn signed(ms: Option<u64>) -> Option<i64> {
    ms.filter(|ms| *ms > 0).and_then(|ms| i64::try_from(ms).ok())
}
