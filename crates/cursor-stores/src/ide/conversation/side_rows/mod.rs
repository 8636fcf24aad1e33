//! Rows that belong to a conversation's messages: a code block's changes, the files at a checkpoint, the context that
//! Cursor sent with a prompt. They become parts of the messages that refer to them.

mod contents;
mod line_diff;

use std::collections::HashMap;
use std::ops::ControlFlow;

use contents::{KnownFile, checkpoint_parts, context_parts, diff_parts};
use serde_json::Value as Json;

use super::bubble::{Bubble, read_bubble};
use super::gather::json_of;
use crate::ide::database::keys;
use crate::ide::database::pool::Pool;
use crate::ide::database::{Table, Value};
use crate::ide::lenient::{text, unpack};
use crate::model::{Damage, MessageKind, Part};
use crate::store::Extent;
use crate::workspace_json::workspace_of_uri;

/// The most bytes of these rows to read for one conversation, because checkpoints can be larger than all messages. The
/// rest is only counted.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// A longer original text is ignored.
const MAX_FIRST_BYTES: usize = 4 * 1024 * 1024;

/// Rows that are not part of a message, and damage.
#[derive(Default)]
pub(crate) struct Told {
    /// How many rows of each family are not part of any message.
    pub(crate) left: Vec<(String, u64)>,
    pub(crate) damage: Vec<Damage>,
}

/// Adds the rows to the messages. Rows that no message refers to become messages at the end, unless only the last
/// messages are wanted.
pub(crate) fn tell(
    pool: &Pool,
    id: &str,
    composer: &Json,
    extent: Extent,
    bubbles: &mut Vec<Bubble>,
) -> Told {
    let mut rows = SideRows::new(pool, id, composer, bubbles);
    let mut told = Told::default();
    for family in keys::SIDE_FAMILIES {
        let mut n_told = 0;
        if keys::TOLD_FAMILIES.contains(&family) {
            let read = match extent.last {
                None => rows.of_family(family, &mut told.damage),
                Some(_) => rows.referred_to(family),
            };
            for (row_id, value) in read {
                n_told += u64::from(rows.tell(family, &row_id, &value, bubbles, &mut told.damage));
            }
        }
        let n_left = count(pool, family, id).saturating_sub(n_told);
        if n_left > 0 {
            told.left.push((family.trim_end_matches(':').to_owned(), n_left));
        }
    }
    bubbles.extend(rows.without_place);
    told
}

/// Returns the number of rows that a family has in a conversation, from the keys alone.
fn count(pool: &Pool, family: &str, id: &str) -> u64 {
    let range = keys::of_composer(family, id);
    let counted = pool.with(|database| {
        let mut n_rows = 0;
        database.visit_keys(Table::DiskKv, &range, &mut |key, _| {
            let is_own = keys::split(family, key).is_some_and(|(owner, _)| owner == id);
            n_rows += u64::from(is_own);
        })?;
        Ok(n_rows)
    });
    counted.unwrap_or(0)
}

struct SideRows<'a> {
    pool: &'a Pool,
    id: &'a str,
    composer: &'a Json,
    /// The positions of the messages that refer to a row, by the row's family and id.
    places: HashMap<(&'static str, String), usize>,
    /// The files that diffs belong to, as the composer names them.
    files: HashMap<String, String>,
    first_texts: HashMap<String, Option<String>>,
    without_place: Vec<Bubble>,
    n_bytes: usize,
}

impl<'a> SideRows<'a> {
    fn new(pool: &'a Pool, id: &'a str, composer: &'a Json, bubbles: &[Bubble]) -> Self {
        let mut places = HashMap::new();
        let mut place_of = HashMap::new();
        for (place, bubble) in bubbles.iter().enumerate() {
            let own = bubble.message.id.iter().chain(&bubble.request_id);
            for row_id in own.clone() {
                places.entry((keys::REQUEST_CONTEXT, row_id.clone())).or_insert(place);
            }
            for row_id in &bubble.checkpoints {
                places.entry((keys::FILE_CHECKPOINT, row_id.clone())).or_insert(place);
            }
            if let Some(bubble_id) = &bubble.message.id {
                place_of.insert(bubble_id.as_str(), place);
            }
        }
        let mut files = HashMap::new();
        for (uri, block) in code_blocks(composer) {
            let Some(diff) = text(&block["diffId"]) else { continue };
            files.insert(diff.to_owned(), uri.to_owned());
            let place = text(&block["bubbleId"]).and_then(|bubble| place_of.get(bubble));
            if let Some(place) = place {
                places.insert((keys::BLOCK_DIFF, diff.to_owned()), *place);
            }
        }
        Self {
            pool,
            id,
            composer,
            places,
            files,
            first_texts: HashMap::new(),
            without_place: Vec::new(),
            n_bytes: 0,
        }
    }

    /// All rows of a family, up to the limit.
    fn of_family(
        &mut self,
        family: &'static str,
        damage: &mut Vec<Damage>,
    ) -> Vec<(String, Value<'static>)> {
        let mut rows = Vec::new();
        damage.extend(self.pool.visit_own(family, self.id, &mut |row_id, row| {
            if !self.has_room_for(&row.value) {
                return ControlFlow::Break(());
            }
            rows.push((row_id.to_owned(), row.value.into_owned()));
            ControlFlow::Continue(())
        }));
        rows
    }

    /// The rows of a family that messages refer to.
    fn referred_to(&mut self, family: &'static str) -> Vec<(String, Value<'static>)> {
        let mut ids: Vec<(usize, String)> = self
            .places
            .iter()
            .filter(|((of, _), _)| *of == family)
            .map(|((_, row_id), place)| (*place, row_id.clone()))
            .collect();
        ids.sort();
        let mut rows = Vec::new();
        for (_, row_id) in ids {
            let key = format!("{family}{}:{row_id}", self.id);
            let value = self.pool.with(|database| database.get(Table::DiskKv, &key));
            let Ok(Some(value)) = value else { continue };
            if !self.has_room_for(&value) {
                break;
            }
            rows.push((row_id, value));
        }
        rows
    }

    fn has_room_for(&mut self, value: &Value<'_>) -> bool {
        if let Value::Bytes(bytes) = value {
            self.n_bytes = self.n_bytes.saturating_add(bytes.len());
        }
        self.n_bytes <= MAX_BYTES
    }

    /// Adds the content of a row. Returns false if it has none.
    fn tell(
        &mut self,
        family: &'static str,
        row_id: &str,
        value: &Value<'_>,
        bubbles: &mut [Bubble],
        damage: &mut Vec<Damage>,
    ) -> bool {
        if *value == Value::Tombstone {
            return false;
        }
        let parts = match json_of(value) {
            Ok(row) => self.parts(family, row_id, &row),
            Err(what) => {
                damage.push(Damage::new(format!("{family}{}:{row_id}", self.id), what));
                value.bytes().ok().map(Part::damaged).into_iter().collect()
            }
        };
        if parts.is_empty() {
            return false;
        }
        let place = self.places.get(&(family, row_id.to_owned()));
        match place.and_then(|place| bubbles.get_mut(*place)) {
            Some(bubble) => {
                // The bubble itself may have the same attachments.
                let known = &mut bubble.message.parts;
                for part in parts {
                    if !known.contains(&part) {
                        known.push(part);
                    }
                }
            }
            None => self.without_place.push(alone(family, row_id, parts)),
        }
        true
    }

    fn parts(&mut self, family: &'static str, row_id: &str, row: &Json) -> Vec<Part> {
        match family {
            keys::BLOCK_DIFF => {
                let uri = self.files.get(row_id).cloned();
                let file = uri.map_or_else(KnownFile::default, |uri| self.file(&uri));
                diff_parts(row, &file)
            }
            keys::FILE_CHECKPOINT => checkpoint_parts(row, &mut |file| {
                uri_of(file).map_or_else(KnownFile::default, |uri| self.file(&uri))
            }),
            _ => context_parts(row),
        }
    }

    /// Returns what the composer knows about the file with this URI.
    fn file(&mut self, uri: &str) -> KnownFile {
        let path = workspace_of_uri(uri).map(|place| place.path);
        let first = match self.first_texts.get(uri) {
            Some(known) => known.clone(),
            None => {
                let first = self.first_text(uri);
                self.first_texts.insert(uri.to_owned(), first.clone());
                first
            }
        };
        KnownFile { path: path.or_else(|| Some(uri.to_owned())), first }
    }

    /// The text of a file before the conversation, from the composer or from a row that the composer names.
    fn first_text(&mut self, uri: &str) -> Option<String> {
        let state = &self.composer["originalFileStates"][uri];
        if let Some(content) = state["content"].as_str().filter(|text| !text.is_empty()) {
            return Some(content.to_owned()).filter(|text| text.len() <= MAX_FIRST_BYTES);
        }
        let key = text(&state["contentKey"])?;
        let value = self.pool.with(|database| database.get(Table::DiskKv, key)).ok()??;
        let Value::Bytes(bytes) = &value else { return None };
        if bytes.len() > MAX_FIRST_BYTES || !self.has_room_for(&value) {
            return None;
        }
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// A message for a row that no other message refers to.
fn alone(family: &str, row_id: &str, parts: Vec<Part>) -> Bubble {
    let kind = if family == keys::REQUEST_CONTEXT { 1 } else { 2 };
    let mut bubble = read_bubble(&serde_json::json!({"type": kind}), &Json::Null);
    bubble.message.id = Some(format!("{family}{row_id}"));
    bubble.message.kind = MessageKind::Context;
    bubble.message.parts = parts;
    bubble
}

/// Returns a composer's code blocks, each with the URI of its file. Some builds keep a list, others an object by
/// number.
fn code_blocks(composer: &Json) -> Vec<(&str, &Json)> {
    let files = composer["codeBlockData"].as_object().into_iter().flatten();
    files
        .flat_map(|(uri, blocks)| {
            let blocks: Vec<&Json> = match blocks {
                Json::Array(blocks) => blocks.iter().collect(),
                Json::Object(blocks) => blocks.values().collect(),
                _ => Vec::new(),
            };
            blocks.into_iter().map(move |block| (uri.as_str(), block))
        })
        .collect()
}

/// The URI under which the composer knows a file of a checkpoint.
fn uri_of(file: &Json) -> Option<String> {
    let uri = unpack(&file["uri"]);
    if let Some(uri) = text(&uri).or_else(|| text(&uri["external"])) {
        return Some(uri.to_owned());
    }
    let scheme = text(&uri["scheme"]).unwrap_or("file");
    let path = text(&uri["path"]).or_else(|| text(&uri["fsPath"]))?;
    let authority = text(&uri["authority"]).unwrap_or_default();
    Some(format!("{scheme}://{authority}{path}"))
}
