//! Puts bubbles in order: by the headers, then by their position in the composer, then by their times.

use std::collections::{HashMap, HashSet};

use serde_json::{Value as Json, json};

use super::bubble::{Bubble, read_bubble};
use super::composer::{capability_tools, fill_in, headers, id_of, inline_bubbles};
use super::gather::{Gathered, json_of};
use crate::ide::database::{Value, keys};
use crate::ide::lenient::{text, unpack};
use crate::model::{Damage, MessageKind, Part};
use crate::parallel;
use crate::store::Extent;

/// For fewer bubbles, starting threads takes longer than reading.
const MANY: usize = 48;

#[derive(Default)]
pub(crate) struct Assembled {
    pub(crate) bubbles: Vec<Bubble>,
    /// Bubbles that nothing refers to.
    pub(crate) orphans: Vec<Bubble>,
    pub(crate) n_orphans: u64,
    pub(crate) damage: Vec<Damage>,
}

pub(crate) fn assemble(id: &str, gathered: &Gathered, extent: Extent) -> Assembled {
    let mut assembled = Assembled::default();
    let composer = &gathered.composer;
    let inline = inline_bubbles(composer);
    let sources = Sources { id, gathered, tools: capability_tools(composer) };
    let by_id: HashMap<&str, &Json> =
        inline.iter().filter_map(|bubble| Some((id_of(bubble)?, *bubble))).collect();
    let headers = headers(composer);
    let skipped = headers.len().saturating_sub(extent.last.unwrap_or(usize::MAX));
    let mut seen: HashSet<&str> = HashSet::new();
    let mut wanted: Vec<(&Json, Option<&Json>)> = Vec::new();
    for (place, header) in headers.iter().enumerate() {
        if let Some(bubble_id) = text(&header["bubbleId"])
            && seen.insert(bubble_id)
            && place >= skipped
        {
            wanted.push((header, by_id.get(bubble_id).copied()));
        }
    }
    let read = |(header, inline): &(&Json, Option<&Json>)| sources.read(header, *inline);
    let found = if wanted.len() < MANY {
        wanted.iter().map(read).collect()
    } else {
        parallel::map(&wanted, read)
    };
    for (bubble, damage) in found {
        assembled.bubbles.extend(bubble);
        assembled.damage.extend(damage);
    }
    insert_inline(&mut assembled, &sources, &inline, &mut seen);
    let rest = sources.unreferenced(&seen, &mut assembled.damage);
    let has_order = !headers.is_empty() || !inline.is_empty();
    if has_order {
        assembled.orphans = rest;
        for orphan in &mut assembled.orphans {
            orphan.message.kind = MessageKind::Orphan;
        }
        assembled.n_orphans = assembled.orphans.len() as u64;
    } else {
        assembled.bubbles.extend(rest);
    }
    assembled
}

/// Inserts the bubbles that only the composer has, each after the bubble that precedes it there.
fn insert_inline<'a>(
    assembled: &mut Assembled,
    sources: &Sources<'_>,
    inline: &[&'a Json],
    seen: &mut HashSet<&'a str>,
) {
    let mut place = 0;
    for bubble in inline {
        let bubble_id = id_of(bubble);
        if let Some(bubble_id) = bubble_id
            && !seen.insert(bubble_id)
        {
            let is_same = |known: &Bubble| known.message.id.as_deref() == Some(bubble_id);
            place = assembled.bubbles.iter().position(is_same).map_or(place, |known| known + 1);
            continue;
        }
        let header = json!({"bubbleId": bubble_id, "type": bubble["type"]});
        let (bubble, damage) = sources.read(&header, Some(bubble));
        if let Some(bubble) = bubble {
            assembled.bubbles.insert(place.min(assembled.bubbles.len()), bubble);
            place += 1;
        }
        assembled.damage.extend(damage);
    }
}

/// Where pieces of a bubble may be.
struct Sources<'a> {
    id: &'a str,
    gathered: &'a Gathered,
    tools: HashMap<String, Json>,
}

impl Sources<'_> {
    /// Assembles a bubble, and says what is missing.
    fn read(&self, header: &Json, inline: Option<&Json>) -> (Option<Bubble>, Option<Damage>) {
        let bubble_id = text(&header["bubbleId"]).unwrap_or_default();
        let row = match self.gathered.bubbles.get(bubble_id) {
            Some(row) => json_of(&row.value),
            None if inline.is_some() => Ok(json!({})),
            None => Err("the row is missing".to_owned()),
        };
        let (mut bubble, damage) = match row {
            Ok(bubble) => (bubble, None),
            Err(what) => {
                let damage = Some(self.damage(bubble_id, what));
                let left = self.gathered.bubbles.get(bubble_id).and_then(|row| left_of(&row.value));
                if let (Some(left), None) = (left, inline) {
                    return (Some(damaged_bubble(header, left)), damage);
                }
                // The header may still have a few words of the message.
                match (inline, text(&header["grouping"]["textPreview"])) {
                    (Some(_), _) => (json!({}), damage),
                    (None, Some(preview)) => (json!({"text": preview}), damage),
                    (None, None) => return (None, damage),
                }
            }
        };
        if let Some(inline) = inline {
            fill_in(&mut bubble, inline);
        }
        if let Some(tool) = self.tools.get(bubble_id) {
            let mut data = unpack(&bubble["toolFormerData"]).into_owned();
            if data.is_object() {
                fill_in(&mut data, tool);
            } else {
                data.clone_from(tool);
            }
            bubble["toolFormerData"] = data;
        }
        (Some(read_bubble(&bubble, header)), damage)
    }

    /// Returns the rows that nothing refers to, sorted by time.
    fn unreferenced(&self, seen: &HashSet<&str>, damage: &mut Vec<Damage>) -> Vec<Bubble> {
        let mut rest: Vec<(Bubble, i64)> = Vec::new();
        for (bubble_id, row) in
            self.gathered.bubbles.iter().filter(|(id, _)| !seen.contains(id.as_str()))
        {
            match json_of(&row.value) {
                Ok(bubble) => {
                    rest.push((read_bubble(&bubble, &json!({"bubbleId": bubble_id})), row.rowid))
                }
                // Nothing refers to a deleted row, so nothing is lost.
                Err(_) if row.value == Value::Tombstone => {}
                Err(what) => {
                    damage.push(self.damage(bubble_id, what));
                    let header = json!({"bubbleId": bubble_id});
                    let left = left_of(&row.value);
                    rest.extend(left.map(|left| (damaged_bubble(&header, left), row.rowid)));
                }
            }
        }
        rest.sort_by_key(|(bubble, rowid)| {
            (bubble.message.at.map_or(i64::MIN, |at| at.at_ms), *rowid)
        });
        rest.into_iter().map(|(bubble, _)| bubble).collect()
    }

    fn damage(&self, bubble_id: &str, what: String) -> Damage {
        Damage::new(format!("{}{}:{bubble_id}", keys::BUBBLE, self.id), what)
    }
}

/// Returns the bytes of a row that is not JSON.
fn left_of(value: &Value<'_>) -> Option<Part> {
    value.bytes().ok().map(Part::damaged)
}

fn damaged_bubble(header: &Json, left: Part) -> Bubble {
    let mut bubble = read_bubble(&json!({}), header);
    bubble.message.parts = vec![left];
    bubble
}
