//! Looking for a pattern in old conversations. What cannot match is not parsed.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value as Json;

use super::database::{GENERATIONS, PROMPTS, Place, Row};
use super::store::{Named, OldIdeStore};
use crate::model::Damage;
use crate::search::{FieldMatch, Matcher, search_json};
use crate::store::Hit;

/// One search through one store.
pub(super) struct Scan<'a> {
    store: &'a OldIdeStore,
    matcher: &'a Matcher,
    found: &'a (dyn Fn(Hit) -> ControlFlow<()> + Sync),
    is_over: AtomicBool,
}

impl<'a> Scan<'a> {
    pub(super) fn new(
        store: &'a OldIdeStore,
        matcher: &'a Matcher,
        found: &'a (dyn Fn(Hit) -> ControlFlow<()> + Sync),
    ) -> Self {
        Self { store, matcher, found, is_over: AtomicBool::new(false) }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Looks through the rows of one database.
    pub(super) fn rows(&self, place: &Place, mut rows: Vec<Row>) -> Vec<Damage> {
        // Prompts and generations are read together, so a word of either is a reason to read both.
        let is_typed = |row: &Row| row.key == PROMPTS || row.key == GENERATIONS;
        let may_match = |row: &Row| self.matcher.may_match_json(&row.value);
        let is_any_typed = rows.iter().any(|row| is_typed(row) && may_match(row));
        rows.retain(|row| if is_typed(row) { is_any_typed } else { may_match(row) });
        let (named, damage) = self.store.name(place, &rows);
        for conversation in &named {
            if self.conversation(conversation).is_break() {
                return damage;
            }
        }
        damage
    }

    fn conversation(&self, named: &Named<'_>) -> ControlFlow<()> {
        if let Some(found) = self.look(&named.kept.frame()) {
            self.report(&named.key, None, None, found)?;
        }
        let pieces = named.kept.pieces();
        let mut ids: Option<Vec<Option<String>>> = None;
        for (position, piece) in pieces.iter().enumerate() {
            let Some(found) = self.look(piece) else { continue };
            let ids = ids.get_or_insert_with(|| {
                named.kept.messages().into_iter().map(|message| message.id).collect()
            });
            let id = ids.get(position).cloned().flatten();
            self.report(&named.key, id, Some(position), found)?;
        }
        ControlFlow::Continue(())
    }

    fn look(&self, value: &Json) -> Option<FieldMatch> {
        if value.is_null() {
            return None;
        }
        search_json(self.matcher, value.to_string().as_bytes())
    }

    fn report(
        &self,
        key: &str,
        message_id: Option<String>,
        position: Option<usize>,
        found: FieldMatch,
    ) -> ControlFlow<()> {
        if self.is_over() {
            return ControlFlow::Break(());
        }
        let FieldMatch { field, snippet } = found;
        let flow = (self.found)(Hit { key: key.to_owned(), message_id, position, field, snippet });
        if flow.is_break() {
            self.is_over.store(true, Ordering::Relaxed);
        }
        flow
    }
}
