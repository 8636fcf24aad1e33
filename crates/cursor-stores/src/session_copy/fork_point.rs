//! From which moment of a conversation a copy is made.

use prost::Message;

use super::reachable::{CopySourceError, Source};
use crate::chat::schema::ConversationStateStructure;
use crate::chat::turn_schema::{
    AgentConversationTurnStructure, ConversationTurnStructure, Turn, UserMessage,
};
use crate::chat::{BlobId, ChatMeta, Fetched, LatestRoot};

/// A moment of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForkPoint {
    Latest,
    /// Before the prompt of this turn; the first is 1.
    BeforeTurn(usize),
    /// Before the turn that this message is a part of: an id of a message, of a blob, or the beginning of one. The id of
    /// a checkpoint is that checkpoint.
    At(String),
}

/// Says why there is no such moment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkPointError {
    #[error(transparent)]
    Source(#[from] CopySourceError),
    #[error("nothing was checkpointed yet, so that there is nothing to copy")]
    NoRoot,
    #[error("the checkpoint {id} is not in the store")]
    RootMissing { id: String },
    #[error("the checkpoint {id} is encrypted or corrupt")]
    RootDamaged { id: BlobId },
    #[error("the checkpoint {id} does not decode")]
    RootUndecodable { id: BlobId, source: prost::DecodeError },
    #[error("the conversation has {n_turns} turns, and no turn {turn}")]
    NoSuchTurn { turn: usize, n_turns: usize },
    #[error("no message and no checkpoint of the conversation is called `{name}`")]
    NoSuchMessage { name: String },
    #[error("`{name}` is the beginning of several names")]
    Ambiguous { name: String },
    #[error("the store does not say what was there before turn {turn}")]
    NoStateBefore { turn: usize },
    #[error("nothing was said before turn {turn}")]
    NothingBefore { turn: usize },
}

/// A checkpoint that a copy is made of.
#[derive(Debug)]
pub(super) struct Checkpoint {
    pub(super) id: BlobId,
    pub(super) state: ConversationStateStructure,
}

impl ForkPoint {
    pub(super) fn resolve(
        &self,
        source: &Source,
        meta: &ChatMeta,
    ) -> Result<Checkpoint, ForkPointError> {
        let latest = latest_checkpoint(source, meta);
        match self {
            Self::Latest => latest,
            Self::BeforeTurn(turn) => before_turn(source, &latest?.state, *turn),
            Self::At(name) => at(source, latest, name),
        }
    }
}

/// Reads the checkpoint that the meta row names.
pub(super) fn latest_checkpoint(
    source: &Source,
    meta: &ChatMeta,
) -> Result<Checkpoint, ForkPointError> {
    match meta.latest_root() {
        LatestRoot::Absent => Err(ForkPointError::NoRoot),
        LatestRoot::Malformed(id) => Err(ForkPointError::RootMissing { id }),
        LatestRoot::Blob(id) => checkpoint(source, id),
    }
}

fn checkpoint(source: &Source, id: BlobId) -> Result<Checkpoint, ForkPointError> {
    let data = match source.fetch(id)? {
        Fetched::Data(data) => data,
        Fetched::Missing => return Err(ForkPointError::RootMissing { id: id.to_string() }),
        Fetched::TooLarge { .. } | Fetched::Unreadable => {
            return Err(ForkPointError::RootDamaged { id });
        }
    };
    if BlobId::of(&data) != id {
        return Err(ForkPointError::RootDamaged { id });
    }
    let state = ConversationStateStructure::decode(data.as_slice())
        .map_err(|source| ForkPointError::RootUndecodable { id, source })?;
    Ok(Checkpoint { id, state })
}

fn before_turn(
    source: &Source,
    state: &ConversationStateStructure,
    turn: usize,
) -> Result<Checkpoint, ForkPointError> {
    let turns = read_turns(source, state)?;
    let no_such_turn = ForkPointError::NoSuchTurn { turn, n_turns: turns.len() };
    let read = turn.checked_sub(1).and_then(|index| turns.get(index)).ok_or(no_such_turn)?;
    let before = read.before.ok_or(ForkPointError::NoStateBefore { turn })?;
    let checkpoint = checkpoint(source, before)?;
    if checkpoint.state.root_prompt_messages_json.is_empty() {
        return Err(ForkPointError::NothingBefore { turn });
    }
    Ok(checkpoint)
}

fn at(
    source: &Source,
    latest: Result<Checkpoint, ForkPointError>,
    name: &str,
) -> Result<Checkpoint, ForkPointError> {
    let is_meant = |id: &BlobId| id.to_string().starts_with(&name.to_ascii_lowercase());
    // A checkpoint can be named even where the latest is lost.
    if let Ok(id) = name.parse()
        && let Ok(found) = checkpoint(source, id)
        && is_of_a_conversation(source, &found.state)
    {
        return Ok(found);
    }
    let latest = latest?.state;
    let turns = read_turns(source, &latest)?;
    let mut meant: Vec<usize> = Vec::new();
    for (index, turn) in turns.iter().enumerate() {
        if turn.message_id.as_deref() == Some(name) || turn.blobs.iter().any(is_meant) {
            meant.push(index + 1);
        }
    }
    if meant.is_empty() {
        let prompt = ids_of(&latest.root_prompt_messages_json);
        for position in (0..prompt.len()).filter(|position| is_meant(&prompt[*position])) {
            if let Some(turn) = turn_of_prompt_message(source, &turns, &prompt, position)?
                && !meant.contains(&turn)
            {
                meant.push(turn);
            }
        }
    }
    match meant.as_slice() {
        [turn] => before_turn(source, &latest, *turn),
        [] => Err(ForkPointError::NoSuchMessage { name: name.to_owned() }),
        _ => Err(ForkPointError::Ambiguous { name: name.to_owned() }),
    }
}

/// A turn that was looked into.
struct ReadTurn {
    message_id: Option<String>,
    /// The blobs of the turn, of its prompt and of its steps.
    blobs: Vec<BlobId>,
    /// The checkpoint before its prompt.
    before: Option<BlobId>,
}

fn read_turns(
    source: &Source,
    state: &ConversationStateStructure,
) -> Result<Vec<ReadTurn>, CopySourceError> {
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

/// The last turn before whose prompt the messages up to this one were not all there yet.
fn turn_of_prompt_message(
    source: &Source,
    turns: &[ReadTurn],
    prompt: &[BlobId],
    position: usize,
) -> Result<Option<usize>, CopySourceError> {
    for (index, turn) in turns.iter().enumerate().rev() {
        let Some(before) = turn.before.and_then(|id| checkpoint(source, id).ok()) else { continue };
        let known = ids_of(&before.state.root_prompt_messages_json);
        if known.len() <= position && prompt.starts_with(&known) {
            return Ok(Some(index + 1));
        }
    }
    Ok(None)
}

/// Any bytes may decode as some message; a checkpoint's prompt is there.
fn is_of_a_conversation(source: &Source, state: &ConversationStateStructure) -> bool {
    let prompt = &state.root_prompt_messages_json;
    !prompt.is_empty()
        && ids_of(prompt).len() == prompt.len()
        && ids_of(prompt).iter().all(|id| source.ids.contains(id))
}

fn ids_of<'a>(bytes: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<BlobId> {
    bytes.into_iter().filter_map(|bytes| BlobId::try_from(bytes.as_slice()).ok()).collect()
}

fn data_of(source: &Source, id: &[u8]) -> Result<Option<Vec<u8>>, CopySourceError> {
    let Ok(id) = BlobId::try_from(id) else { return Ok(None) };
    Ok(match source.fetch(id)? {
        Fetched::Data(data) if BlobId::of(&data) == id => Some(data),
        _ => None,
    })
}
