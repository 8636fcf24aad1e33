//! A conversation's turns as the interface shows them: prompts, steps and commands, with their times.

use prost::Message;

use crate::chat::messages::tool_step;
use crate::chat::reading::{BearsOn, Notes};
use crate::chat::schema::{
    AgentConversationTurnStructure, ConversationStateStructure, ConversationStep,
    ConversationTurnStructure, ShellCommand, ShellConversationTurnStructure, ShellOutput, Step,
    Turn, UserMessage,
};
use crate::chat::store::{BlobId, Blobs};
use crate::model::canonical_tool;

/// The turns that were read.
#[derive(Debug, Default)]
pub(crate) struct TurnHistory {
    pub(crate) turns: Vec<TurnRecord>,
    pub(crate) items: Vec<TurnItem>,
    /// How many turns come before them.
    pub(crate) n_before: usize,
}

#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct TurnRecord {
    /// The turn's blob.
    pub(crate) id: Option<BlobId>,
    pub(crate) request_id: Option<String>,
    pub(crate) model: Option<String>,
}

/// A prompt, a step or a command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TurnItem {
    /// The index of the item's turn among the turns read.
    pub(crate) turn: usize,
    pub(crate) blob: BlobId,
    /// Another blob with a part of the item: a long text, or an output.
    pub(crate) also: Option<BlobId>,
    pub(crate) content: ItemContent,
    pub(crate) started_at_ms: Option<i64>,
    pub(crate) completed_at_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ItemContent {
    Prompt {
        text: String,
        is_simulated: bool,
    },
    Text(String),
    Thinking {
        text: String,
        duration_ms: Option<u64>,
    },
    /// Only enough to identify the call. Its arguments and its result are fetched on demand.
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
pub(crate) enum HowMuch {
    All,
    /// At least this many items from the end.
    Last(usize),
}

enum Generation {
    Old,
    Current,
}

/// Reads the turns of a root from the last to the first, and returns them in order.
pub(crate) fn read_turns(
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
        // Until all turns are read, an item counts its turn from the end.
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
    /// In reverse order.
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
        let decoded = match generation {
            Generation::Old => self
                .decode(bytes, place)?
                .map(|(id, agent)| (id, Some(Turn::AgentConversationTurn(agent)))),
            Generation::Current => self
                .decode::<ConversationTurnStructure>(bytes, place)?
                .map(|(id, turn)| (id, turn.turn)),
        };
        let Some((id, decoded)) = decoded else { return Ok(None) };
        match decoded {
            Some(Turn::AgentConversationTurn(agent)) => {
                return self.agent_turn(id, agent, turn, place).map(Some);
            }
            Some(Turn::ShellConversationTurn(shell)) => self.shell_turn(&shell, turn, place)?,
            // A kind of turn this build does not know.
            None => {}
        }
        Ok(Some(TurnRecord { id: Some(id), ..TurnRecord::default() }))
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
        self.notes.decode(self.blobs, bytes, BearsOn::History, place)
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

/// Returns one name for tools that the two histories may name differently: steps have no `Write`.
pub(crate) fn comparable_tool(name: &str) -> String {
    match canonical_tool(name).as_str() {
        "write" => "edit".to_owned(),
        tool => tool.to_owned(),
    }
}

fn signed(ms: Option<u64>) -> Option<i64> {
    ms.filter(|ms| *ms > 0).and_then(|ms| i64::try_from(ms).ok())
}
