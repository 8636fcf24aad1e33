//! Joins the two histories: the prompt messages, and everything that only the turns record.

use std::collections::HashMap;

use super::alignment::{Atom, AtomKind, Counterpart, align, align_ends};
use super::draft::{Draft, DraftPart, Fate, shell_turn};
use super::turn_history::{ItemContent, TurnHistory, TurnItem, comparable_tool};
use crate::chat::messages::tool_step;
use crate::chat::store::Blobs;
use crate::model::{MessageKind, Moment, Part, Role};

/// Did the reader read the whole conversation?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Window {
    Whole,
    /// Only its end. Items in the turns before the first shared item are not wanted.
    End,
}

/// Joins the prompt messages and the turns. The result has everything from both, and nothing twice.
pub(crate) fn join_histories(
    blobs: &Blobs<'_>,
    drafts: Vec<Draft>,
    history: &TurnHistory,
    window: Window,
) -> rusqlite::Result<Vec<Draft>> {
    let counterparts = counterparts(&drafts, history, window);
    let is_joint = counterparts.iter().any(|place| matches!(place, Counterpart::Same(_)));
    let first_wanted = match window {
        Window::Whole => 0,
        Window::End if drafts.is_empty() => 0,
        Window::End if !is_joint => history.items.len(),
        Window::End => counterparts
            .iter()
            .position(|place| matches!(place, Counterpart::Same(_)))
            .unwrap_or_default(),
    };
    let next_same = next_same(&counterparts, &history.items);
    let mut joiner =
        Joiner { blobs, drafts, previous: None, insertions: Vec::new(), new: Vec::new() };
    for (at, item) in history.items.iter().enumerate().skip(first_wanted) {
        match counterparts[at] {
            Counterpart::Same(location) => joiner.same(location, item),
            Counterpart::Within(location) => joiner.drafts[location.draft].sources.push(item.blob),
            Counterpart::Absent => joiner.absent(item, next_same[at])?,
        }
    }
    Ok(joiner.finish())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Location {
    draft: usize,
    /// `None` for the whole message.
    part: Option<usize>,
}

/// Finds the next shared item, and its turn, for every item.
fn next_same(
    places: &[Counterpart<Location>],
    items: &[TurnItem],
) -> Vec<Option<(Location, usize)>> {
    let mut next = None;
    let mut all: Vec<_> = places
        .iter()
        .zip(items)
        .rev()
        .map(|(place, item)| {
            if let Counterpart::Same(location) = place {
                next = Some((*location, item.turn));
            }
            next
        })
        .collect();
    all.reverse();
    all
}

fn counterparts(
    drafts: &[Draft],
    history: &TurnHistory,
    window: Window,
) -> Vec<Counterpart<Location>> {
    let texts: Vec<String> = drafts
        .iter()
        .map(|draft| if draft.is_prompt() { draft.text() } else { String::new() })
        .collect();
    let tools: HashMap<&str, String> = drafts
        .iter()
        .flat_map(|draft| &draft.parts)
        .filter_map(|part| match &part.part {
            Part::ToolCall(call) => Some((call.name.as_str(), comparable_tool(&call.name))),
            _ => None,
        })
        .collect();
    let mut locations = Vec::new();
    let mut in_prompt = Vec::new();
    for (draft_at, draft) in drafts.iter().enumerate() {
        if draft.is_prompt() {
            locations.push(Location { draft: draft_at, part: None });
            let (id, text) = (draft.request_id.as_deref(), texts[draft_at].as_str());
            in_prompt.push(Atom { kind: AtomKind::Prompt, id, text });
        } else if draft.role == Role::Assistant {
            for (part_at, part) in draft.parts.iter().enumerate() {
                let Some(atom) = part_atom(&part.part, &tools) else { continue };
                locations.push(Location { draft: draft_at, part: Some(part_at) });
                in_prompt.push(atom);
            }
        }
    }
    let mut in_turns = Vec::new();
    let mut items = Vec::new();
    for (at, item) in history.items.iter().enumerate() {
        if let Some(atom) = item_atom(item, history) {
            items.push(at);
            in_turns.push(atom);
        }
    }
    let mut places = vec![Counterpart::Absent; history.items.len()];
    let counterparts = match window {
        Window::Whole => align(&in_prompt, &in_turns),
        Window::End => align_ends(&in_prompt, &in_turns),
    };
    for (item, counterpart) in items.into_iter().zip(counterparts) {
        places[item] = counterpart.map(|at| locations[at]);
    }
    places
}

fn part_atom<'a>(part: &'a Part, tools: &'a HashMap<&str, String>) -> Option<Atom<'a>> {
    Some(match part {
        Part::Text { text } => Atom { kind: AtomKind::Text, id: None, text },
        Part::Reasoning { text, .. } => Atom { kind: AtomKind::Thinking, id: None, text },
        Part::ToolCall(call) => {
            let text = tools.get(call.name.as_str()).map_or("", String::as_str);
            Atom { kind: AtomKind::Call, id: call.id.as_deref(), text }
        }
        _ => return None,
    })
}

fn item_atom<'a>(item: &'a TurnItem, history: &'a TurnHistory) -> Option<Atom<'a>> {
    Some(match &item.content {
        ItemContent::Prompt { text, .. } => {
            let id = history.turns.get(item.turn).and_then(|turn| turn.request_id.as_deref());
            Atom { kind: AtomKind::Prompt, id, text }
        }
        ItemContent::Text(text) => Atom { kind: AtomKind::Text, id: None, text },
        ItemContent::Thinking { text, .. } => Atom { kind: AtomKind::Thinking, id: None, text },
        ItemContent::Call { id, tool } => {
            Atom { kind: AtomKind::Call, id: id.as_deref(), text: tool }
        }
        ItemContent::Shell { .. } => return None,
    })
}

struct Joiner<'b, 'c> {
    blobs: &'b Blobs<'c>,
    drafts: Vec<Draft>,
    /// The position of the last shared item.
    previous: Option<Location>,
    insertions: Vec<Insertion>,
    new: Vec<NewDraft>,
}

/// A part to insert before another part of a message.
struct Insertion {
    before: Location,
    part: DraftPart,
    item: TurnItem,
}

/// A message that only the turns have.
struct NewDraft {
    /// The index of the draft after this message.
    slot: usize,
    draft: Draft,
}

impl Joiner<'_, '_> {
    fn same(&mut self, location: Location, item: &TurnItem) {
        self.drafts[location.draft].annotate(location.part, item);
        self.previous = Some(location);
    }

    fn absent(&mut self, item: &TurnItem, next: Option<(Location, usize)>) -> rusqlite::Result<()> {
        let Some((role, part)) = self.part_of(item)? else { return Ok(()) };
        let from = self.previous.map_or(0, |previous| previous.draft + 1);
        let to = next.map_or(self.drafts.len(), |(location, _)| location.draft).max(from);
        let lost = self.drafts[from..to].iter().position(|draft| draft.fate == Fate::Lost);
        let next_in_turn =
            next.filter(|(location, turn)| *turn == item.turn && location.part.is_some());
        match (lost, next_in_turn) {
            (None, Some((before, _))) if role == Role::Assistant => {
                self.insertions.push(Insertion { before, part, item: item.clone() });
            }
            (Some(lost), _) => self.add_new(from + lost, role, part, item),
            (None, _) => {
                let slot = self.slot_after(from, to);
                self.add_new(slot, role, part, item);
            }
        }
        Ok(())
    }

    fn part_of(&self, item: &TurnItem) -> rusqlite::Result<Option<(Role, DraftPart)>> {
        let part = match &item.content {
            ItemContent::Prompt { text, .. } => {
                return Ok(Some((Role::User, Part::text(text.clone()).into())));
            }
            ItemContent::Shell { command, output } => {
                return Ok(Some((Role::User, shell_turn(command, output.as_ref()).into())));
            }
            ItemContent::Text(text) if text.trim().is_empty() => return Ok(None),
            ItemContent::Text(text) => Part::text(text.clone()),
            ItemContent::Thinking { text, duration_ms: None } if text.is_empty() => {
                return Ok(None);
            }
            ItemContent::Thinking { text, duration_ms } => Part::Reasoning {
                text: text.clone(),
                duration_ms: *duration_ms,
                is_redacted: text.is_empty(),
            },
            ItemContent::Call { .. } => {
                let Some(step) = tool_step::call_step(self.blobs, item.blob.as_bytes())? else {
                    return Ok(None);
                };
                let mut call = tool_step::tool_call(self.blobs, &step)?;
                call.started = item.started_at_ms.map(Moment::recorded);
                Part::ToolCall(call)
            }
        };
        Ok(Some((Role::Assistant, part.into())))
    }

    /// Finds the slot after everything that belongs to earlier messages: results, and the context at the beginning.
    fn slot_after(&self, from: usize, to: usize) -> usize {
        let belongs = |draft: &&Draft| {
            draft.is_only_results() || from == 0 && draft.kind == MessageKind::Context
        };
        from + self.drafts[from..to].iter().take_while(belongs).count()
    }

    fn add_new(&mut self, slot: usize, role: Role, part: DraftPart, item: &TurnItem) {
        let continues = |new: &NewDraft| {
            new.slot == slot
                && role == Role::Assistant
                && new.draft.role == role
                && new.draft.turn == Some(item.turn)
        };
        if !self.new.last().is_some_and(continues) {
            let ordinal =
                self.drafts.get(slot).or(self.drafts.last()).map_or(0, |draft| draft.ordinal);
            let mut draft = Draft::new(role, MessageKind::Said, ordinal);
            draft.id = Some(item.blob);
            self.new.push(NewDraft { slot, draft });
        }
        if let Some(NewDraft { draft, .. }) = self.new.last_mut() {
            draft.parts.push(part);
            draft.annotate(Some(draft.parts.len() - 1), item);
        }
    }

    fn finish(self) -> Vec<Draft> {
        let Self { mut drafts, insertions, new, .. } = self;
        // Backwards, so that an insertion does not move the earlier positions.
        for Insertion { before, part, item } in insertions.into_iter().rev() {
            let draft = &mut drafts[before.draft];
            let at = before.part.unwrap_or_default().min(draft.parts.len());
            draft.parts.insert(at, part);
            draft.annotate(Some(at), &item);
        }
        let mut joined = Vec::with_capacity(drafts.len() + new.len());
        let mut new = new.into_iter().peekable();
        for (slot, draft) in drafts.into_iter().enumerate() {
            while let Some(new) = new.next_if(|new| new.slot <= slot) {
                joined.push(new.draft);
            }
            joined.push(draft);
        }
        joined.extend(new.map(|new| new.draft));
        joined
    }
}
