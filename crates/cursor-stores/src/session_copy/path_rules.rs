//! Where the blobs of a session keep paths beside what was said, and how such a blob is written anew without them.
//!
//! Messages are changed as they stand in the bytes, field by field, so that what this build does not know is neither lost
//! nor moved. Kinds that are not here hold only what was said, and lead to nothing that is here.

use std::borrow::Cow;

use prost::Message;

use super::machine_paths::PathChange;
use crate::chat::BlobId;
use crate::chat::references::BlobKind;
use crate::chat::schema::{ConversationStateStructure, SubagentPersistedState};
use crate::chat::turn_schema::{
    AgentConversationTurnStructure, ConversationTurnStructure, UserMessage,
};
use crate::chat::wire::{WireValue, next_field, put_bytes_field};

/// Blobs that hold paths, or lead to such.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Holder {
    Root,
    Turn,
    OldTurn,
    UserMessage,
    SubagentState,
}

/// Messages, whole blobs or within one.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Root,
    Tokens,
    FileEntry,
    NewFileEntry,
    FileState,
    SubagentEntry,
    SubagentState,
    SubagentReference,
    PlanEntry,
    Plan,
    Repository,
    RunEntry,
    Run,
    Turn,
    AgentTurn,
    UserMessage,
}

/// What a field is to somebody who takes paths out.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// It is not known, or holds no path.
    Keep,
    /// It is a message, or a part of one: what it names stays.
    Said,
    /// The id of a blob that holds paths.
    Blob(Holder),
    /// A message that is looked into.
    Inner(Shape, Otherwise),
    Path(Otherwise),
    /// The id of a blob with the content of a file, or with figures: not worth having if it names a path.
    Contents(Otherwise),
    /// Figures, in a form that is not known: the same.
    Figures,
}

/// What goes with something that cannot stay.
#[derive(Debug, Clone, Copy)]
enum Otherwise {
    TheField,
    TheMessage,
}

/// What a field of a message is: the one table of it. See also `chat::references`.
fn rule(shape: Shape, number: u64) -> Rule {
    use Otherwise::*;
    use Rule::*;
    match (shape, number) {
        (Shape::Root, 2) => Blob(Holder::OldTurn),
        // `pending_tool_calls`; what an agent tells its user; its goal; the skills it was given.
        (Shape::Root, 4 | 23 | 25 | 28 | 29 | 32 | 35) => Said,
        (Shape::Root, 5) => Inner(Shape::Tokens, TheField),
        (Shape::Root, 8) => Blob(Holder::Turn),
        // `previous_workspace_uris`, `read_paths`.
        (Shape::Root, 9 | 18) => Path(TheField),
        (Shape::Root, 12) => Inner(Shape::FileEntry, TheField),
        (Shape::Root, 15) => Inner(Shape::NewFileEntry, TheField),
        (Shape::Root, 16) => Inner(Shape::SubagentEntry, TheField),
        (Shape::Root, 20) => Inner(Shape::PlanEntry, TheField),
        (Shape::Root, 21) => Inner(Shape::Repository, TheField),
        (Shape::Root, 30) => Inner(Shape::RunEntry, TheField),
        (Shape::Root, 31) => Inner(Shape::SubagentReference, TheField),
        // `prompt_context_usage_tree` and its snapshot: which rules and files took how many tokens.
        (Shape::Tokens, 4) => Figures,
        (Shape::Tokens, 5) => Contents(TheField),
        (Shape::FileEntry | Shape::NewFileEntry, 1) => Path(TheMessage),
        (Shape::FileEntry, 2) => Contents(TheMessage),
        (Shape::NewFileEntry, 2) => Inner(Shape::FileState, TheMessage),
        (Shape::FileState, 1 | 2) => Contents(TheMessage),
        (Shape::SubagentEntry, 2) => Inner(Shape::SubagentState, TheField),
        (Shape::SubagentState, 1) => Inner(Shape::Root, TheField),
        (Shape::SubagentReference, 2) => Blob(Holder::SubagentState),
        (Shape::PlanEntry, 2) => Inner(Shape::Plan, TheMessage),
        (Shape::Plan, 2) => Path(TheMessage),
        (Shape::Repository, 1) => Path(TheMessage),
        (Shape::RunEntry, 2) => Inner(Shape::Run, TheField),
        // `title` and `detail`, then `transcript_path` and `output_path`.
        (Shape::Run, 5 | 6) => Said,
        (Shape::Run, 7 | 8) => Path(TheField),
        (Shape::Turn, 1) => Inner(Shape::AgentTurn, TheField),
        (Shape::AgentTurn, 1) => Blob(Holder::UserMessage),
        // `subagent_dispatch_steps`.
        (Shape::AgentTurn, 8) => Said,
        (Shape::UserMessage, 10) => Blob(Holder::Root),
        (Shape::UserMessage, _) => Said,
        _ => Keep,
    }
}

impl Holder {
    const ALL: [Self; 5] =
        [Self::Root, Self::Turn, Self::OldTurn, Self::UserMessage, Self::SubagentState];

    pub(super) fn of_kind(kind: BlobKind) -> Option<Self> {
        Self::ALL.into_iter().find(|holder| holder.kind() == kind)
    }

    pub(super) fn kind(self) -> BlobKind {
        match self {
            Self::Root => BlobKind::Root,
            Self::Turn => BlobKind::Turn,
            Self::OldTurn => BlobKind::OldTurn,
            Self::UserMessage => BlobKind::UserMessage,
            Self::SubagentState => BlobKind::SubagentState,
        }
    }

    fn shape(self) -> Shape {
        match self {
            Self::Root => Shape::Root,
            Self::Turn => Shape::Turn,
            Self::OldTurn => Shape::AgentTurn,
            Self::UserMessage => Shape::UserMessage,
            Self::SubagentState => Shape::SubagentState,
        }
    }

    /// Tells whether Cursor would read the blob as this. It also bounds how deep messages are nested.
    fn can_be(self, data: &[u8]) -> bool {
        match self {
            Self::Root => ConversationStateStructure::decode(data).is_ok(),
            Self::Turn => ConversationTurnStructure::decode(data).is_ok(),
            Self::OldTurn => AgentConversationTurnStructure::decode(data).is_ok(),
            Self::UserMessage => UserMessage::decode(data).is_ok(),
            Self::SubagentState => SubagentPersistedState::decode(data).is_ok(),
        }
    }

    /// What has to be known before the blob can be written anew: what became of the blobs that it leads to, and whether
    /// contents may stay. Nothing, if it is not what it should be.
    pub(super) fn leads(self, data: &[u8]) -> Leads {
        let mut leads = Leads::default();
        if self.can_be(data) {
            visit(self.shape(), data, &mut |rule, value| match rule {
                Rule::Blob(holder) => {
                    leads.holders.extend(BlobId::try_from(value).ok().map(|id| (id, holder)));
                }
                Rule::Contents(_) => leads.contents.extend(BlobId::try_from(value)),
                _ => {}
            });
        }
        leads
    }

    /// Writes a blob anew. `None` if nothing changes, or if it is not what it should be.
    pub(super) fn rewritten(self, data: &[u8], rewriting: &mut Rewriting<'_>) -> Option<Vec<u8>> {
        if !self.can_be(data) {
            return None;
        }
        match rewriting.message(self.shape(), data) {
            Some(Fate::Changed(data)) => Some(data.into_owned()),
            _ => None,
        }
    }

    /// Tells whether something is in the blob, by `is_in`, that is no part of what was said.
    pub(super) fn has_beside_messages(self, data: &[u8], is_in: &dyn Fn(&[u8]) -> bool) -> bool {
        if !self.can_be(data) {
            return is_in(data);
        }
        let mut is_beside = false;
        let is_read = visit(self.shape(), data, &mut |rule, value| {
            is_beside |= !matches!(rule, Rule::Said | Rule::Inner(..)) && is_in(value);
        });
        is_beside || (!is_read && is_in(data))
    }
}

/// What a blob that holds paths leads to.
#[derive(Debug, Default)]
pub(super) struct Leads {
    pub(super) holders: Vec<(BlobId, Holder)>,
    pub(super) contents: Vec<BlobId>,
}

/// Calls `with` with each field that has bytes, of a message and of those within. `false` if the bytes are not fields.
fn visit(shape: Shape, data: &[u8], with: &mut dyn FnMut(Rule, &[u8])) -> bool {
    let mut rest = data;
    while !rest.is_empty() {
        let Some(field) = next_field(&mut rest) else { return false };
        let WireValue::Bytes(value) = field.value else { continue };
        let rule = rule(shape, field.number);
        with(rule, value);
        if let Rule::Inner(inner, _) = rule
            && !visit(inner, value, with)
        {
            return false;
        }
    }
    true
}

/// What is known when a blob is written anew.
pub(super) struct Rewriting<'a> {
    pub(super) change: PathChange<'a>,
    /// What a blob became.
    pub(super) becomes: &'a dyn Fn(BlobId, Holder) -> BlobId,
    /// Whether a blob with contents may stay.
    pub(super) may_stay: &'a dyn Fn(BlobId) -> bool,
    /// Told of whatever cannot stay.
    pub(super) left_out: &'a mut dyn FnMut(LeftOut<'_>),
}

/// Something that was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftOut<'a> {
    Path(&'a [u8]),
    Contents(BlobId),
    Figures,
}

/// What becomes of a value.
enum Fate<'d> {
    Same,
    Changed(Cow<'d, [u8]>),
    Gone(Otherwise),
}

impl Rewriting<'_> {
    /// `None` if the bytes are not fields.
    fn message<'d>(&mut self, shape: Shape, data: &'d [u8]) -> Option<Fate<'d>> {
        let mut out = Vec::with_capacity(data.len());
        let mut is_changed = false;
        let mut rest = data;
        while !rest.is_empty() {
            let field = next_field(&mut rest)?;
            let fate = match field.value {
                WireValue::Bytes(value) => self.value(rule(shape, field.number), value)?,
                WireValue::Number(_) => Fate::Same,
            };
            match fate {
                Fate::Same => out.extend_from_slice(field.raw),
                Fate::Changed(value) => {
                    is_changed = true;
                    put_bytes_field(&mut out, field.number, &value);
                }
                Fate::Gone(Otherwise::TheField) => is_changed = true,
                Fate::Gone(Otherwise::TheMessage) => return Some(Fate::Gone(Otherwise::TheField)),
            }
        }
        Some(if is_changed { Fate::Changed(out.into()) } else { Fate::Same })
    }

    fn value<'d>(&mut self, rule: Rule, value: &'d [u8]) -> Option<Fate<'d>> {
        Some(match rule {
            Rule::Keep | Rule::Said => Fate::Same,
            Rule::Blob(holder) => match BlobId::try_from(value) {
                Ok(id) => {
                    let new = (self.becomes)(id, holder);
                    if new == id {
                        Fate::Same
                    } else {
                        Fate::Changed(new.as_bytes().to_vec().into())
                    }
                }
                Err(_) => Fate::Same,
            },
            Rule::Inner(shape, otherwise) => match self.message(shape, value)? {
                Fate::Gone(_) => Fate::Gone(otherwise),
                fate => fate,
            },
            Rule::Path(otherwise) => {
                let place = std::str::from_utf8(value).ok();
                match place.and_then(|place| self.change.of_place(place)) {
                    Some(Cow::Borrowed(_)) => Fate::Same,
                    Some(Cow::Owned(place)) => Fate::Changed(place.into_bytes().into()),
                    None => {
                        (self.left_out)(LeftOut::Path(value));
                        Fate::Gone(otherwise)
                    }
                }
            }
            Rule::Contents(otherwise) => match BlobId::try_from(value) {
                Ok(id) if !(self.may_stay)(id) => {
                    (self.left_out)(LeftOut::Contents(id));
                    Fate::Gone(otherwise)
                }
                _ => Fate::Same,
            },
            Rule::Figures if self.change.forbids(value) => {
                (self.left_out)(LeftOut::Figures);
                Fate::Gone(Otherwise::TheField)
            }
            Rule::Figures => Fate::Same,
        })
    }
}
