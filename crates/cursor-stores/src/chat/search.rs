//! Searches all chats for a pattern, without an index.
//!
//! ```text
//!  every blob ──► may hold it? ──no──► nothing more is read: most chats end here
//!                     │ yes
//!                     ▼
//!      the conversation, read as it is shown ──► found in a message: its position, its field
//!                     │ the blob holds it, but the visible part of the blob does not
//!                     ▼
//!      the blob itself ──► a field that is not shown, an orphan (`orphan:…`), a file, a todo
//! ```
//!
//! The store keeps the same words in the prompt and again in the turns. A search reports them once.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use ground::with_causes;

use crate::chat::listing::{ChatsRoot, FileState, ListedChat, MetaFile};
use crate::chat::messages::JsonMessage;
use crate::chat::reading::{Reading, meta_row, read_from, with_store};
use crate::chat::schema::references::BlobKind;
use crate::chat::store::{
    BlobId, Blobs, ChatStore, ChatStoreError, Fetched, Rows, Scanned, Visit, meta_in, reach,
    table_page, visit_rows,
};
use crate::database::{DatabaseFingerprint, ReadDatabaseError};
use crate::model::{Damage, Message, Part, Role};
use crate::parallel;
use crate::plain_file;
use crate::search::{FieldMatch, Matcher, Search, search_bytes, search_json};
use crate::store::{Extent, Found};

/// A larger store is searched on all cores.
const LARGE: u64 = 32 * 1024 * 1024;
/// The limit for one chat. A pattern that matches more blobs is too vague.
const MAX_CANDIDATES: usize = 20_000;

pub(crate) fn search(root: &ChatsRoot, matcher: &Matcher, found: Found<'_>) -> Vec<Damage> {
    let mut damage = Vec::new();
    let chats = root.chats(&mut damage);
    let search = Search::new(matcher, found);
    let lost = parallel::map(&chats, |chat| {
        if search.is_over() {
            return None;
        }
        ChatSearch { root, chat, matcher, search: &search }.run()
    });
    damage.extend(lost.into_iter().flatten());
    damage
}

/// The result of a quick scan of all blobs.
struct Scan {
    candidates: Vec<BlobId>,
    /// Which words occur anywhere.
    is_noted: Vec<bool>,
    is_whole: bool,
}

impl Scan {
    fn new(matcher: &Matcher) -> Self {
        Self { candidates: Vec::new(), is_noted: vec![false; matcher.n_terms()], is_whole: true }
    }

    fn add(&mut self, piece: Self) {
        self.candidates.extend(piece.candidates);
        self.is_whole &= piece.is_whole;
        for (is_noted, is_noted_there) in self.is_noted.iter_mut().zip(piece.is_noted) {
            *is_noted |= is_noted_there;
        }
    }
}

struct ChatSearch<'a> {
    root: &'a ChatsRoot,
    chat: &'a ListedChat,
    matcher: &'a Matcher,
    search: &'a Search<'a>,
}

/// A match in this chat.
struct ChatHit {
    position: Option<usize>,
    message_id: Option<String>,
    found: FieldMatch,
}

impl ChatHit {
    /// A match outside the messages.
    fn beside(message_id: Option<String>, found: FieldMatch) -> Self {
        Self { position: None, message_id, found }
    }
}

impl ChatSearch<'_> {
    /// Searches the chat. Returns the damage that prevented a complete search.
    fn run(&self) -> Option<Damage> {
        let files = &self.chat.files;
        let place = || format!("{}/store.db", self.chat.key);
        if self.search_meta_file().is_break() {
            return None;
        }
        match &files.database {
            FileState::Missing => return None,
            FileState::Refused(why) => return Some(Damage::new(place(), why.clone())),
            FileState::Plain { .. } => {}
        }
        if self.is_certainly_absent() {
            return None;
        }
        // Report hits only when all of them come from the same state of the store.
        match with_store(&files.database_path(), |store| self.hits(store)) {
            Ok((hits, is_whole)) => {
                for hit in hits {
                    if self.report(hit).is_break() {
                        break;
                    }
                }
                (!is_whole).then(|| {
                    Damage::new(
                        place(),
                        "the file is damaged; only its readable pages were searched",
                    )
                })
            }
            Err(err) => Some(Damage::new(place(), with_causes(&err))),
        }
    }

    /// Scans the pages of a small store that has no writer. Opening a database takes ten times as long, and most chats
    /// do not contain the pattern.
    fn is_certainly_absent(&self) -> bool {
        let files = &self.chat.files;
        if files.database.n_bytes() >= LARGE || !files.is_closed() {
            return false;
        }
        let Some(file) = read_unchanged(&files.database_path()) else { return false };
        let mut is_noted = vec![false; self.matcher.n_terms()];
        let may_be_there = |is_noted: &[bool]| is_noted.iter().all(|is_noted| *is_noted);
        let Some(meta) = meta_in(&file).and_then(|meta| serde_json::to_vec(&meta).ok()) else {
            return false;
        };
        self.matcher.note_terms(&meta, &mut is_noted);
        let visited = table_page(&file, "blobs").and_then(|page| {
            visit_rows(&file, page, &mut |row| {
                self.matcher.note_terms(row, &mut is_noted);
                if may_be_there(&is_noted) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
        });
        visited.is_some() && !may_be_there(&is_noted)
    }

    fn search_meta_file(&self) -> ControlFlow<()> {
        let MetaFile::Read(meta_file) = &self.chat.files.meta_file else {
            return ControlFlow::Continue(());
        };
        match search_json(self.matcher, meta_file.to_json().as_bytes()) {
            Some(found) => self.report(ChatHit::beside(None, found.below("meta.json"))),
            None => ControlFlow::Continue(()),
        }
    }

    fn report(&self, ChatHit { position, message_id, found }: ChatHit) -> ControlFlow<()> {
        self.search.report(&self.chat.key, message_id, position, found)
    }

    fn hits(&self, store: &ChatStore) -> Result<(Vec<ChatHit>, bool), ReadDatabaseError> {
        let mut hits = Vec::new();
        let meta = meta_row(store)?.ok().flatten();
        // Serialized without the encryption key, so that no search finds it.
        let meta_json =
            meta.as_ref().and_then(|meta| serde_json::to_vec(meta).ok()).unwrap_or_default();
        if let Some(found) = search_json(self.matcher, &meta_json) {
            hits.push(ChatHit::beside(None, found.below("meta")));
        }
        let (candidates, is_whole) = self.candidates(store)?;
        if candidates.is_empty() {
            return Ok((hits, is_whole));
        }
        let head = self.chat.files.head(self.root.kind, &self.chat.key, &self.chat.id);
        let Some(reading) = read_from(store, &head, None, Extent::default())? else {
            return Ok((hits, is_whole));
        };
        store.at_once(|blobs| self.add_hits(blobs, &reading, &candidates, &mut hits))?;
        Ok((hits, is_whole))
    }

    /// Returns the blobs that may contain some of the words, if every word occurs somewhere, and whether the scan saw
    /// all blobs.
    fn candidates(&self, store: &ChatStore) -> Result<(Vec<BlobId>, bool), ReadDatabaseError> {
        let Scan { mut candidates, is_noted, is_whole } = self.scan_all(store)?;
        if !is_noted.iter().all(|is_noted| *is_noted) {
            candidates.clear();
        }
        Ok((candidates, is_whole))
    }

    fn scan_all(&self, store: &ChatStore) -> Result<Scan, ReadDatabaseError> {
        if self.chat.files.database.n_bytes() + self.chat.files.wal.n_bytes() < LARGE {
            return store.at_once(|blobs| self.scan(blobs, Rows::ALL));
        }
        let pieces = store.at_once(|blobs| blobs.pieces(parallel::n_cores() * 4))?;
        let scanned = parallel::map(&pieces, |rows| {
            // Each thread has its own connection and sees its own state of the store. `add_hits` reads the candidates
            // again in one state.
            with_store(&self.chat.files.database_path(), |store| {
                store.at_once(|blobs| self.scan(blobs, *rows))
            })
        });
        let mut all = Scan::new(self.matcher);
        for piece in scanned {
            match piece {
                Ok(piece) => all.add(piece),
                Err(ChatStoreError::Read(err)) => return Err(err),
                Err(_) => return Err(ReadDatabaseError::Changed),
            }
        }
        Ok(all)
    }

    fn scan(&self, blobs: &Blobs<'_>, rows: Rows) -> rusqlite::Result<Scan> {
        let mut scan = Scan::new(self.matcher);
        let scanned = blobs.scan(rows, &mut |id, data| {
            if self.matcher.note_terms(data, &mut scan.is_noted) {
                scan.candidates.push(id);
            }
            if scan.candidates.len() < MAX_CANDIDATES {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        scan.is_whole = scanned == Scanned::Whole;
        Ok(scan)
    }

    fn add_hits(
        &self,
        blobs: &Blobs<'_>,
        reading: &Reading,
        candidates: &[BlobId],
        hits: &mut Vec<ChatHit>,
    ) -> rusqlite::Result<()> {
        let n_before = hits.len();
        let messages = &reading.conversation.messages;
        let mut is_found = vec![false; messages.len()];
        for (position, message) in messages.iter().enumerate() {
            if let Some(found) = search_message(self.matcher, message) {
                is_found[position] = true;
                let message_id = message.id.clone();
                hits.push(ChatHit { position: Some(position), message_id, found });
            }
        }
        let reached = match &reading.state {
            Some(state) => reach(blobs, state)?,
            None => HashMap::new(),
        };
        let mut rest = Vec::new();
        for id in candidates {
            let Fetched::Data(data) = blobs.get(*id)? else { continue };
            let message = reading.sources.get(id).copied();
            if message.is_some_and(|position| is_found[position]) {
                continue;
            }
            let Some(found) = search_blob(self.matcher, &data) else { continue };
            if let Some(position) = message {
                is_found[position] = true;
                let message_id = messages[position].id.clone();
                hits.push(ChatHit { position: Some(position), message_id, found });
            } else if let Some(reached) = reached.get(id) {
                let Visit { kind, field, .. } = &reached.visit;
                if !matches!(kind, BlobKind::Turn | BlobKind::OldTurn) {
                    hits.push(ChatHit::beside(Some(id.to_string()), found.below(field)));
                }
            } else if JsonMessage::parse(&data).is_some_and(|message| message.role != Role::Unknown)
            {
                let field = format!("orphan:{}", found.field);
                hits.push(ChatHit::beside(Some(id.to_string()), FieldMatch { field, ..found }));
            } else {
                rest.push((*id, found));
            }
        }
        // Roots and earlier turns repeat words from elsewhere. They count as a hit only if there is no other hit.
        let is_latest = |(id, _): &(BlobId, FieldMatch)| reading.root_id == Some(*id);
        let best = rest.iter().position(is_latest).or((!rest.is_empty()).then_some(0));
        if hits.len() == n_before
            && let Some(best) = best
        {
            let field = if is_latest(&rest[best]) { "root" } else { "orphan:blob" }.to_owned();
            let (id, found) = rest.swap_remove(best);
            hits.push(ChatHit::beside(Some(id.to_string()), FieldMatch { field, ..found }));
        }
        Ok(())
    }
}

/// Reads a whole file, unless the file changes during the read.
fn read_unchanged(path: &Path) -> Option<Vec<u8>> {
    let before = DatabaseFingerprint::of(path).ok()?;
    let file = plain_file::read_at_most(path, LARGE).ok()?;
    (DatabaseFingerprint::of(path).ok()? == before).then_some(file)
}

/// Searches the visible parts of a message. Words may be in different parts.
fn search_message(matcher: &Matcher, message: &Message) -> Option<FieldMatch> {
    let parts: Vec<serde_json::Value> = message
        .parts
        .iter()
        .map(|part| {
            let name = match part {
                Part::Text { text } => return serde_json::json!({ "text": text }),
                Part::Reasoning { text, .. } => return serde_json::json!({ "thinking": text }),
                Part::ToolCall(_) => "tool",
                Part::ToolResult { .. } => "tool_result",
                Part::Image { .. } => "image",
                Part::Attachment { .. } => "attachment",
                Part::Code { .. } => "code",
                Part::Todos { .. } => "todos",
                Part::Error { .. } => "error",
                Part::Unknown { .. } => "unknown",
            };
            serde_json::json!({ name: part })
        })
        .collect();
    search_json(matcher, &serde_json::to_vec(&parts).unwrap_or_default())
}

/// Searches a blob of any kind.
fn search_blob(matcher: &Matcher, data: &[u8]) -> Option<FieldMatch> {
    if data.first() == Some(&b'{') {
        return search_json(matcher, data);
    }
    search_bytes(matcher, "", data)
}
