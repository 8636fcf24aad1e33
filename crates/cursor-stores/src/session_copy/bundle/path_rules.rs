//! Where a session's blobs contain paths outside messages, and how to write such a blob without them.
//!
//! The code changes a blob field by field, in the order of its bytes. So it neither loses nor moves a field that this
//! build does not know. Blob kinds without a [`Shape`] contain only messages, and refer to no blob with one.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::machine_paths::PathChange;
use crate::chat::BlobId;
use crate::chat::schema::references::{BlobKind, visit_references};
use crate::chat::schema::wire::{WireValue, next_field, put_bytes_field};

/// An encoded message: a whole blob, or a message inside one.
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

/// How to treat a field when paths are removed.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// The field is unknown, or contains no path.
    Keep,
    /// A part of the conversation: paths in it stay.
    Said,
    /// The id of a blob that may contain paths.
    Blob(BlobKind),
    /// An encoded message with its own rules.
    Inner(Shape, Otherwise),
    Path(Otherwise),
    /// The id of a blob with a file's content or token counts. Removed if it names a path.
    Contents(Otherwise),
    /// Token counts in an unknown form. Removed if they name a path.
    Figures,
}

/// The part to remove together with a value that cannot stay.
#[derive(Debug, Clone, Copy)]
enum Otherwise {
    TheField,
    TheMessage,
}

/// The only table of fields that contain paths. `chat::schema::references` has the table of fields that refer to blobs.
fn rule(shape: Shape, number: u64) -> Rule {
    use Otherwise::*;
    use Rule::*;
    match (shape, number) {
        (Shape::Root, 2) => Blob(BlobKind::OldTurn),
        // `pending_tool_calls`; the agent's messages to its user; its goal; its skills.
        (Shape::Root, 4 | 23 | 25 | 28 | 29 | 32 | 35) => Said,
        (Shape::Root, 5) => Inner(Shape::Tokens, TheField),
        (Shape::Root, 8) => Blob(BlobKind::Turn),
        // `previous_workspace_uris`, `read_paths`.
        (Shape::Root, 9 | 18) => Path(TheField),
        (Shape::Root, 12) => Inner(Shape::FileEntry, TheField),
        (Shape::Root, 15) => Inner(Shape::NewFileEntry, TheField),
        (Shape::Root, 16) => Inner(Shape::SubagentEntry, TheField),
        (Shape::Root, 20) => Inner(Shape::PlanEntry, TheField),
        (Shape::Root, 21) => Inner(Shape::Repository, TheField),
        (Shape::Root, 30) => Inner(Shape::RunEntry, TheField),
        (Shape::Root, 31) => Inner(Shape::SubagentReference, TheField),
        // `prompt_context_usage_tree` and its snapshot: how many tokens each rule and file took.
        (Shape::Tokens, 4) => Figures,
        (Shape::Tokens, 5) => Contents(TheField),
        (Shape::FileEntry | Shape::NewFileEntry, 1) => Path(TheMessage),
        (Shape::FileEntry, 2) => Contents(TheMessage),
        (Shape::NewFileEntry, 2) => Inner(Shape::FileState, TheMessage),
        (Shape::FileState, 1 | 2) => Contents(TheMessage),
        (Shape::SubagentEntry, 2) => Inner(Shape::SubagentState, TheField),
        (Shape::SubagentState, 1) => Inner(Shape::Root, TheField),
        (Shape::SubagentReference, 2) => Blob(BlobKind::SubagentState),
        (Shape::PlanEntry, 2) => Inner(Shape::Plan, TheMessage),
        (Shape::Plan, 2) => Path(TheMessage),
        (Shape::Repository, 1) => Path(TheMessage),
        (Shape::RunEntry, 2) => Inner(Shape::Run, TheField),
        // `title` and `detail`, then `transcript_path` and `output_path`.
        (Shape::Run, 5 | 6) => Said,
        (Shape::Run, 7 | 8) => Path(TheField),
        (Shape::Turn, 1) => Inner(Shape::AgentTurn, TheField),
        (Shape::AgentTurn, 1) => Blob(BlobKind::UserMessage),
        // `subagent_dispatch_steps`.
        (Shape::AgentTurn, 8) => Said,
        (Shape::UserMessage, 10) => Blob(BlobKind::Root),
        (Shape::UserMessage, _) => Said,
        _ => Keep,
    }
}

/// Returns the shape of a blob kind that may contain paths, or refer to blobs that do.
fn shape_of(kind: BlobKind) -> Option<Shape> {
    match kind {
        BlobKind::Root => Some(Shape::Root),
        BlobKind::Turn => Some(Shape::Turn),
        BlobKind::OldTurn => Some(Shape::AgentTurn),
        BlobKind::UserMessage => Some(Shape::UserMessage),
        BlobKind::SubagentState => Some(Shape::SubagentState),
        _ => None,
    }
}

pub(crate) fn may_hold_paths(kind: BlobKind) -> bool {
    shape_of(kind).is_some()
}

/// Returns the shape of a blob that Cursor would read as this kind. Decoding it also limits how deep messages are
/// nested.
fn checked_shape(kind: BlobKind, data: &[u8]) -> Option<Shape> {
    shape_of(kind).filter(|_| visit_references(kind, data, &mut |_| {}).is_ok())
}

/// Finds the blobs whose new form must be known before this blob can be rewritten. Finds none if this blob does not
/// decode.
pub(crate) fn leads(kind: BlobKind, data: &[u8]) -> Leads {
    let mut leads = Leads::default();
    let Some(shape) = checked_shape(kind, data) else { return leads };
    visit(shape, data, &mut |rule, value| match rule {
        Rule::Blob(kind) => {
            leads.holders.extend(BlobId::try_from(value).ok().map(|id| (id, kind)));
        }
        Rule::Contents(_) => leads.contents.extend(BlobId::try_from(value)),
        _ => {}
    });
    leads
}

/// Tells whether `is_in` finds anything in the blob outside the conversation.
pub(crate) fn has_beside_messages(
    kind: BlobKind,
    data: &[u8],
    is_in: &dyn Fn(&[u8]) -> bool,
) -> bool {
    let Some(shape) = checked_shape(kind, data) else { return is_in(data) };
    let mut is_beside = false;
    let is_read = visit(shape, data, &mut |rule, value| {
        is_beside |= !matches!(rule, Rule::Said | Rule::Inner(..)) && is_in(value);
    });
    is_beside || (!is_read && is_in(data))
}

/// The blobs that a blob with paths refers to.
#[derive(Debug, Default)]
pub(crate) struct Leads {
    /// Blobs that may contain paths too.
    pub(crate) holders: Vec<(BlobId, BlobKind)>,
    /// File contents and token counts.
    pub(crate) contents: Vec<BlobId>,
}

/// Calls `with` for each field with bytes, in a message and in the messages inside it. Returns `false` if the bytes are
/// not fields.
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

/// Everything needed to rewrite a blob.
pub(crate) struct Rewriting<'a> {
    pub(crate) change: PathChange<'a>,
    /// The new ids of rewritten blobs.
    pub(crate) becomes: &'a HashMap<(BlobId, BlobKind), BlobId>,
    /// File contents and token counts that name a path.
    pub(crate) forbidden: &'a HashSet<BlobId>,
    /// Called with everything that cannot stay.
    pub(crate) left_out: &'a mut dyn FnMut(LeftOut<'_>),
}

/// Something that a copy leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeftOut<'a> {
    Path(&'a [u8]),
    Contents(BlobId),
    Figures,
}

/// The treatment of a value.
enum Fate<'d> {
    Same,
    Changed(Cow<'d, [u8]>),
    Gone(Otherwise),
}

impl Rewriting<'_> {
    /// Rewrites a blob. Returns `None` if nothing changes, or if the blob does not decode.
    pub(crate) fn rewritten(&mut self, kind: BlobKind, data: &[u8]) -> Option<Vec<u8>> {
        match self.message(checked_shape(kind, data)?, data) {
            Some(Fate::Changed(data)) => Some(data.into_owned()),
            _ => None,
        }
    }

    /// Returns `None` if the bytes are not fields.
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
            Rule::Blob(kind) => {
                let id = BlobId::try_from(value).ok();
                match id.and_then(|id| self.becomes.get(&(id, kind))) {
                    Some(new) if new.as_bytes() != value => Fate::Changed(new.to_vec().into()),
                    _ => Fate::Same,
                }
            }
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
                Ok(id) if self.forbidden.contains(&id) => {
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
