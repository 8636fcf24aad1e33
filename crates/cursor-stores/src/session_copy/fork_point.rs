//! The point in a conversation where a copy starts.

use prost::Message;

use super::error::CopyError;
use super::source::Source;
use crate::chat::schema::{
    AgentConversationTurnStructure, ConversationStateStructure, ConversationTurnStructure, Turn,
    UserMessage,
};
use crate::chat::store::{RootProblem, ids_of};
use crate::chat::{BlobId, ChatMeta, LatestRoot};

/// A point in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForkPoint {
    Latest,
    /// Before the prompt of this turn. The first turn is 1.
    BeforeTurn(usize),
    /// Before the turn of this message. The text is the id of a message or a blob, or the beginning of an id. A
    /// checkpoint's id means that checkpoint.
    At(String),
}

/// A checkpoint to copy.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) id: BlobId,
    pub(crate) state: ConversationStateStructure,
}

impl ForkPoint {
    pub(crate) fn resolve(
        &self,
        source: &Source,
        meta: &ChatMeta,
    ) -> Result<Checkpoint, CopyError> {
        let latest = latest_checkpoint(source, meta);
        match self {
            Self::Latest => latest,
            Self::BeforeTurn(turn) => before_turn(source, &latest?.state, *turn),
            Self::At(name) => at(source, latest, name),
        }
    }
}

/// Reads the checkpoint that the meta row names.
pub(crate) fn latest_checkpoint(source: &Source, meta: &ChatMeta) -> Result<Checkpoint, CopyError> {
    match meta.latest_root() {
        LatestRoot::Absent => Err(CopyError::NoRoot),
        LatestRoot::Malformed(id) => Err(CopyError::RootMissing { id }),
        LatestRoot::Blob(id) => checkpoint(source, id),
    }
}

fn checkpoint(source: &Source, id: BlobId) -> Result<Checkpoint, CopyError> {
    let state = source.fetch(id)?.state(id).map_err(|problem| match problem {
        RootProblem::Missing => CopyError::RootMissing { id: id.to_string() },
        RootProblem::HashMismatch | RootProblem::Unreadable => CopyError::RootDamaged { id },
        RootProblem::Undecodable(source) => CopyError::RootUndecodable { id, source },
    })?;
    Ok(Checkpoint { id, state })
}

fn before_turn(
    source: &Source,
    state: &ConversationStateStructure,
    turn: usize,
) -> Result<Checkpoint, CopyError> {
    let turns = read_turns(source, state)?;
    let no_such_turn = CopyError::NoSuchTurn { turn, n_turns: turns.len() };
    let read = turn.checked_sub(1).and_then(|index| turns.get(index)).ok_or(no_such_turn)?;
    let before = read.before.ok_or(CopyError::NoStateBefore { turn })?;
    let checkpoint = checkpoint(source, before)?;
    if checkpoint.state.root_prompt_messages_json.is_empty() {
        return Err(CopyError::NothingBefore { turn });
    }
    Ok(checkpoint)
}

fn at(
    source: &Source,
    latest: Result<Checkpoint, CopyError>,
    name: &str,
) -> Result<Checkpoint, CopyError> {
    let is_match = |id: &BlobId| id.to_string().starts_with(&name.to_ascii_lowercase());
    // The user can name a checkpoint even if the latest one is lost.
    if let Ok(id) = name.parse()
        && let Ok(found) = checkpoint(source, id)
        && is_of_a_conversation(source, &found.state)
    {
        return Ok(found);
    }
    let latest = latest?.state;
    let turns = read_turns(source, &latest)?;
    let mut matches: Vec<usize> = Vec::new();
    for (index, turn) in turns.iter().enumerate() {
        if turn.message_id.as_deref() == Some(name) || turn.blobs.iter().any(is_match) {
            matches.push(index + 1);
        }
    }
    if matches.is_empty() {
        let prompt = ids_of(&latest.root_prompt_messages_json);
        for position in (0..prompt.len()).filter(|position| is_match(&prompt[*position])) {
            if let Some(turn) = turn_of_prompt_message(source, &turns, &prompt, position)?
                && !matches.contains(&turn)
            {
                matches.push(turn);
            }
        }
    }
    match matches.as_slice() {
        [turn] => before_turn(source, &latest, *turn),
        [] => Err(CopyError::NoSuchMessage { name: name.to_owned() }),
        _ => Err(CopyError::Ambiguous { name: name.to_owned() }),
    }
}

/// The ids in a turn.
struct ReadTurn {
    message_id: Option<String>,
    /// The blobs of the turn, of its prompt and of its steps.
    blobs: Vec<BlobId>,
    /// The checkpoint before the turn's prompt.
    before: Option<BlobId>,
}

fn read_turns(
    source: &Source,
    state: &ConversationStateStructure,
) -> Result<Vec<ReadTurn>, CopyError> {
    let mut turns = Vec::new();
    let old = state.turns_old.iter().map(|bytes| (bytes, decode_old_turn as TurnDecoder));
    let current = state.turns.iter().map(|bytes| (bytes, decode_turn as TurnDecoder));
    for (bytes, decode) in old.chain(current) {
        let mut turn = ReadTurn { message_id: None, blobs: ids_of([bytes]), before: None };
        let agent_turn = data_of(source, bytes)?.and_then(|data| decode(&data));
        if let Some(agent_turn) = agent_turn {
            turn.blobs.extend(ids_of([&agent_turn.user_message]));
            turn.blobs.extend(ids_of(&agent_turn.steps));
            let message = data_of(source, &agent_turn.user_message)?
                .and_then(|data| UserMessage::decode(data.as_slice()).ok());
            if let Some(message) = message {
                turn.before = BlobId::try_from(message.conversation_state_blob_id.as_slice()).ok();
                turn.message_id = Some(message.message_id).filter(|id| !id.is_empty());
            }
        }
        turns.push(turn);
    }
    Ok(turns)
}

type TurnDecoder = fn(&[u8]) -> Option<AgentConversationTurnStructure>;

fn decode_turn(data: &[u8]) -> Option<AgentConversationTurnStructure> {
    match ConversationTurnStructure::decode(data).ok()?.turn? {
        Turn::AgentConversationTurn(turn) => Some(turn),
        Turn::ShellConversationTurn(_) => None,
    }
}

fn decode_old_turn(data: &[u8]) -> Option<AgentConversationTurnStructure> {
    AgentConversationTurnStructure::decode(data).ok()
}

/// Finds the last turn whose prompt came before this message.
fn turn_of_prompt_message(
    source: &Source,
    turns: &[ReadTurn],
    prompt: &[BlobId],
    position: usize,
) -> Result<Option<usize>, CopyError> {
    for (index, turn) in turns.iter().enumerate().rev() {
        let Some(before) = turn.before.and_then(|id| checkpoint(source, id).ok()) else { continue };
        let known = ids_of(&before.state.root_prompt_messages_json);
        if known.len() <= position && prompt.starts_with(&known) {
            return Ok(Some(index + 1));
        }
    }
    Ok(None)
}

/// Any bytes may decode as a message. A real checkpoint has a prompt whose messages exist.
fn is_of_a_conversation(source: &Source, state: &ConversationStateStructure) -> bool {
    let prompt = &state.root_prompt_messages_json;
    !prompt.is_empty()
        && ids_of(prompt).len() == prompt.len()
        && ids_of(prompt).iter().all(|id| source.ids.contains(id))
}

fn data_of(source: &Source, id: &[u8]) -> Result<Option<Vec<u8>>, CopyError> {
    let Ok(id) = BlobId::try_from(id) else { return Ok(None) };
    source.intact(id)
}
