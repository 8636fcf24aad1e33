//! Reads a conversation from the blobs of its store.

use std::collections::{HashMap, HashSet};

use super::conversation_root::{ConversationRoot, find_root, other_messages, subagent_state};
use super::left_over::add_left_over;
use super::links::linked_messages;
use super::notes::{BearsOn, Notes};
use super::side_state;
use crate::chat::history::{
    Draft, Entry, EntryContent, Fate, HowMuch, Place, Span, TurnHistory, Window, answer_calls,
    assemble, interpolate_times, join_histories, list_messages, read_turns,
};
use crate::chat::listing::chat_head;
use crate::chat::messages::JsonMessage;
use crate::chat::schema::{ConversationStateStructure, ConversationSummary};
use crate::chat::store::{BlobId, Blobs, ChatMeta, Fetched, LatestRoot, reach};
use crate::model::{Conversation, Head, MessageKind, Moment, Parent, Part, Role};
use crate::store::{Branches, Extent};

/// A conversation, and the origins of its messages for a search.
pub(crate) struct Reading {
    pub(crate) conversation: Conversation,
    /// The message that each blob went into.
    pub(crate) sources: HashMap<BlobId, usize>,
    pub(crate) state: Option<Box<ConversationStateStructure>>,
    /// The blob that the meta row names.
    pub(crate) root_id: Option<BlobId>,
    pub(crate) is_prompt_damaged: bool,
}

/// The meta row, or why it cannot be read.
pub(crate) type MetaRow<'a> = Result<Option<&'a ChatMeta>, &'a str>;

/// Reads a conversation, or the conversation of a sub-agent whose state it contains. `head` has the facts from outside
/// the store. Returns `None` if there is no such sub-agent.
pub(crate) fn read_conversation(
    blobs: &Blobs<'_>,
    meta: MetaRow<'_>,
    mut head: Head,
    subagent: Option<&str>,
    extent: Extent,
) -> rusqlite::Result<Option<Reading>> {
    let mut notes = Notes::default();
    if let Ok(Some(meta)) = meta {
        chat_head::add_meta(&mut head, meta);
    }
    let latest = meta.map(LatestRoot::of_row);
    let mut root = find_root(blobs, latest.as_ref().map_err(|why| *why), &mut notes)?;
    if let Some(key) = subagent {
        let ConversationRoot::State(parent) = &root else { return Ok(None) };
        let Some(state) = subagent_state(blobs, parent, key, &mut notes)? else { return Ok(None) };
        head = subagent_head(&head, parent, key);
        let at = |ms: u64| i64::try_from(ms).ok().filter(|ms| *ms > 0).map(Moment::recorded);
        head.created = at(state.created_timestamp_ms);
        head.updated = at(state.last_used_timestamp_ms);
        head.add_model(state.model_id.as_deref().unwrap_or_default());
        root = ConversationRoot::State(Box::new(state.conversation_state.unwrap_or_default()));
    }
    let last_used_model =
        meta.ok().flatten().and_then(ChatMeta::last_used_model).filter(|_| subagent.is_none());
    let reader = Reader { blobs, notes, extent, read_before: HashSet::new() };
    let mut reading = reader.read(root, head, last_used_model)?;
    if extent.branches == Branches::WithOrphans && !reading.conversation.damage.is_empty() {
        add_left_over(blobs, &mut reading)?;
    }
    reading.root_id = latest.ok().and_then(|latest| latest.blob());
    Ok(Some(reading))
}

fn subagent_head(parent: &Head, state: &ConversationStateStructure, key: &str) -> Head {
    let runs = &state.subagent_runs_by_parent_tool_call_id;
    let run = runs.iter().find(|(_, run)| run.subagent_id.as_deref() == Some(key));
    let mut origin = parent.origins[0].clone();
    origin.key = Some(format!("{}#{key}", origin.key(parent)));
    let mut head = Head::new(format!("{}#{key}", parent.id), origin);
    head.title = run.and_then(|(_, run)| run.title.clone());
    head.workspace.clone_from(&parent.workspace);
    head.parent = Some(Parent {
        id: parent.id.clone(),
        tool_call_id: run.map(|(call_id, _)| call_id.clone()),
        type_name: None,
    });
    head
}

struct Reader<'b, 'c> {
    blobs: &'b Blobs<'c>,
    notes: Notes,
    extent: Extent,
    /// Fingerprints of messages. An orphan that repeats a message with its keys in a different order is not shown.
    read_before: HashSet<BlobId>,
}

impl Reader<'_, '_> {
    fn read(
        mut self,
        root: ConversationRoot,
        mut head: Head,
        last_used_model: Option<&str>,
    ) -> rusqlite::Result<Reading> {
        let (entries, kind, state) = match root {
            ConversationRoot::State(state) => {
                let entries = list_messages(self.blobs, &state, &mut self.notes)?;
                (entries, MessageKind::Said, Some(state))
            }
            ConversationRoot::Messages { ids, kind } => (found_entries(ids), kind, None),
        };
        let (drafts, history) = self.history(&entries, kind, state.as_deref())?;
        let timings = state.as_ref().map(|state| state.turn_timings.as_slice()).unwrap_or_default();
        let mut drafts = drafts;
        let n_pending = state.as_ref().map_or(0, |state| state.pending_tool_calls.len());
        interpolate_times(
            &mut drafts,
            Span {
                created_ms: head.created.map(|at| at.at_ms),
                updated_ms: head.updated.map(|at| at.at_ms),
                n_ordinals: entries.len() + n_pending,
            },
        );
        if self.extent.branches == Branches::WithOrphans {
            let orphans = self.orphans(&entries, &drafts, state.as_deref())?;
            drafts.extend(orphans);
        }
        let assembled = assemble(drafts, &history, timings);
        if let Some(state) = state.as_deref() {
            chat_head::add_state(&mut head, state);
            chat_head::add_first_messages(&mut head, self.blobs, state)?;
        }
        let mut conversation = Conversation::new(head);
        conversation.messages = assembled.messages;
        conversation.turns = assembled.turns;
        if let Some(state) = state.as_deref() {
            side_state::add_side_state(self.blobs, state, &mut conversation, &mut self.notes)?;
        }
        self.finish_head(&mut conversation, last_used_model);
        let is_prompt_damaged = self.notes.is_prompt_damaged();
        conversation.damage = self.notes.into_damage();
        Ok(Reading {
            conversation,
            sources: assembled.sources,
            state,
            root_id: None,
            is_prompt_damaged,
        })
    }

    /// Joins the prompt and the turns, as far as the caller wants them.
    fn history(
        &mut self,
        entries: &[Entry],
        kind: MessageKind,
        state: Option<&ConversationStateStructure>,
    ) -> rusqlite::Result<(Vec<Draft>, TurnHistory)> {
        let n_wanted = self.extent.last;
        // Orphans are known only after everything else is read.
        let n_read = n_wanted.filter(|_| self.extent.branches == Branches::Current);
        let pending = state.map(|state| self.pending(state, entries.len())).unwrap_or_default();
        let mut drafts =
            self.load(entries, kind, n_read.map(|n_read| n_read.saturating_sub(pending.len())))?;
        let is_whole = drafts.len() >= entries.len();
        for draft in pending {
            // The prompt may already have the same answer, if the agent was killed between two roots.
            let is_same = |known: &Draft| {
                known.role == draft.role
                    && known.parts.len() == draft.parts.len()
                    && known
                        .parts
                        .iter()
                        .zip(&draft.parts)
                        .all(|(one, other)| one.part == other.part)
            };
            if !drafts.iter().rev().take(4).any(is_same) {
                drafts.push(draft);
            }
        }
        let (how_much, window) = match n_read {
            Some(n_read) if !is_whole || entries.is_empty() => {
                let n_parts: usize = drafts.iter().map(|draft| draft.parts.len().max(1)).sum();
                (HowMuch::Last(n_parts.max(4 * n_read) + 16), Window::End)
            }
            _ => (HowMuch::All, Window::Whole),
        };
        let history = match state {
            Some(state) => read_turns(self.blobs, state, how_much, &mut self.notes)?,
            None => TurnHistory::default(),
        };
        let mut drafts = join_histories(self.blobs, drafts, &history, window)?;
        if let Some(state) = state.filter(|_| window == Window::Whole) {
            self.add_summary(state, &mut drafts)?;
        }
        answer_calls(self.blobs, &mut drafts)?;
        // After a compaction, the system prompt is at the beginning of the new prompt, not of the conversation.
        if let Some(at) = drafts.iter().position(|draft| draft.role == Role::System) {
            drafts[at].ordinal = drafts[0].ordinal;
            drafts[..=at].rotate_right(1);
        }
        if let Some(n_wanted) = n_wanted {
            drafts.drain(..drafts.len().saturating_sub(n_wanted));
        }
        Ok((drafts, history))
    }

    /// Reads messages backwards from the last one, until there are enough.
    fn load(
        &mut self,
        entries: &[Entry],
        kind: MessageKind,
        n_wanted: Option<usize>,
    ) -> rusqlite::Result<Vec<Draft>> {
        let mut drafts = Vec::new();
        let mut n_shown = 0;
        for (ordinal, entry) in entries.iter().enumerate().rev() {
            if n_wanted.is_some_and(|n_wanted| n_shown >= n_wanted) {
                break;
            }
            for mut draft in self.drafts_of(entry, ordinal)?.into_iter().rev() {
                if draft.kind == MessageKind::Said {
                    draft.kind = kind;
                }
                n_shown += usize::from(!draft.parts.is_empty());
                drafts.push(draft);
            }
        }
        drafts.reverse();
        Ok(drafts)
    }

    fn drafts_of(&mut self, entry: &Entry, ordinal: usize) -> rusqlite::Result<Vec<Draft>> {
        let id = match &entry.content {
            EntryContent::Blob(id) => *id,
            EntryContent::Summary { archive, text } => {
                return Ok(vec![summary_draft(*archive, text.clone(), ordinal)]);
            }
        };
        let (place, bears_on) = (|| entry.place.to_string(), entry.place.bears_on());
        let Some(data) = self.notes.fetch(self.blobs, id, bears_on, &place)? else {
            return Ok(vec![Draft::lost(id, ordinal)]);
        };
        if let Some(message) = JsonMessage::parse(&data) {
            self.remember(&message);
            return Ok(vec![Draft::of_message(Some(id), message, ordinal)]);
        }
        let linked = linked_messages(self.blobs, &data)?;
        if linked.is_empty() {
            self.notes.add(bears_on, place(), format!("blob {id} is not a JSON message"));
            return Ok(vec![unreadable_draft(id, &data, ordinal)]);
        }
        let mut drafts = Vec::new();
        for linked in linked {
            if let Fetched::Data(data) = self.blobs.get(linked)?
                && let Some(message) = JsonMessage::parse(&data)
            {
                self.remember(&message);
                drafts.push(Draft::of_message(Some(linked), message, ordinal));
            }
        }
        Ok(drafts)
    }

    fn pending(&mut self, state: &ConversationStateStructure, from: usize) -> Vec<Draft> {
        let mut drafts = Vec::new();
        for (index, text) in state.pending_tool_calls.iter().enumerate() {
            let ordinal = from + index;
            let draft = match JsonMessage::parse(text.as_bytes()) {
                Some(message) => {
                    self.remember(&message);
                    Draft::of_message(None, message, ordinal)
                }
                None => {
                    self.notes.add(
                        BearsOn::History,
                        format!("pending_tool_calls[{index}]"),
                        "is not a JSON message",
                    );
                    let value = serde_json::Value::String(text.clone());
                    let mut draft = Draft::new(Role::Unknown, MessageKind::Pending, ordinal);
                    draft.parts.push(Part::Unknown { kind: "pending".to_owned(), value }.into());
                    draft
                }
            };
            drafts.push(Draft { kind: MessageKind::Pending, ..draft });
        }
        drafts
    }

    /// Adds the text of the last summary, if no message has it.
    fn add_summary(
        &mut self,
        state: &ConversationStateStructure,
        drafts: &mut Vec<Draft>,
    ) -> rusqlite::Result<()> {
        let Some(bytes) = state.summary.as_deref().filter(|id| !id.is_empty()) else {
            return Ok(());
        };
        let place = || "summary".to_owned();
        let decoded = self.notes.decode(self.blobs, bytes, BearsOn::History, &place)?;
        let Some((id, ConversationSummary { summary: text })) = decoded else { return Ok(()) };
        let summaries = drafts.iter_mut().filter(|draft| draft.kind == MessageKind::Summary);
        for draft in summaries {
            if draft.text().contains(text.trim()) {
                draft.sources.push(id);
                return Ok(());
            }
        }
        let at = drafts.iter().take_while(|draft| draft.kind == MessageKind::Context).count();
        let ordinal = drafts.get(at).map_or(0, |draft| draft.ordinal);
        drafts.insert(at, summary_draft(id, text, ordinal));
        Ok(())
    }

    /// Finds messages that the conversation no longer leads to, each once.
    fn orphans(
        &mut self,
        entries: &[Entry],
        drafts: &[Draft],
        state: Option<&ConversationStateStructure>,
    ) -> rusqlite::Result<Vec<Draft>> {
        let mut known: HashSet<BlobId> =
            drafts.iter().flat_map(|draft| draft.sources.iter().copied()).collect();
        known.extend(entries.iter().filter_map(|entry| match entry.content {
            EntryContent::Blob(id) => Some(id),
            EntryContent::Summary { .. } => None,
        }));
        if let Some(state) = state {
            known.extend(reach(self.blobs, state)?.into_keys());
        }
        let mut orphans = Vec::new();
        for (id, message) in other_messages(self.blobs, &|id| known.contains(id))? {
            if self.remember(&message) {
                orphans.push(Draft {
                    kind: MessageKind::Orphan,
                    ..Draft::of_message(Some(id), message, 0)
                });
            }
        }
        answer_calls(self.blobs, &mut orphans)?;
        Ok(orphans)
    }

    /// Remembers a message, and returns true if it is new. Only a read with orphans compares messages.
    fn remember(&mut self, message: &JsonMessage) -> bool {
        self.extent.branches == Branches::WithOrphans
            && self.read_before.insert(message.fingerprint())
    }

    fn finish_head(&self, conversation: &mut Conversation, last_used_model: Option<&str>) {
        let messages = &conversation.messages;
        let is_counted = |message: &&crate::model::Message| {
            matches!(message.role, Role::User | Role::Assistant)
                && !matches!(message.kind, MessageKind::Context | MessageKind::Orphan)
        };
        if self.extent.last.is_none() {
            conversation.head.n_messages = Some(messages.iter().filter(is_counted).count() as u64);
        }
        let models = messages.iter().filter_map(|message| message.model.as_deref());
        let routed = conversation.turns.iter().filter_map(|turn| turn.model.as_deref());
        for model in models.chain(routed).chain(last_used_model) {
            chat_head::add_model(&mut conversation.head, model);
        }
    }
}

fn found_entries(ids: Vec<BlobId>) -> Vec<Entry> {
    let entry = |(index, id)| Entry { content: EntryContent::Blob(id), place: Place::Found(index) };
    ids.into_iter().enumerate().map(entry).collect()
}

fn summary_draft(id: BlobId, text: String, ordinal: usize) -> Draft {
    let mut draft = Draft::new(Role::User, MessageKind::Summary, ordinal);
    draft.id = Some(id);
    draft.sources.push(id);
    draft.parts.push(Part::Text { text }.into());
    draft
}

/// Shows the readable text of a damaged message.
fn unreadable_draft(id: BlobId, data: &[u8], ordinal: usize) -> Draft {
    let mut draft = Draft::new(Role::Unknown, MessageKind::Said, ordinal);
    draft.id = Some(id);
    draft.sources.push(id);
    draft.fate = Fate::Lost;
    draft.parts.push(Part::damaged(data).into());
    draft
}
