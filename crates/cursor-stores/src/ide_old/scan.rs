//! Searches old conversations. Rows that cannot match are not parsed.

use std::ops::ControlFlow;

use super::database::{GENERATIONS, PROMPTS, Place, Row};
use super::store::{Named, OldIdeStore};
use crate::model::Damage;
use crate::search::{Search, search_value};

impl OldIdeStore {
    /// Searches the rows of one database.
    pub(super) fn search_rows(
        &self,
        search: &Search<'_>,
        place: &Place,
        mut rows: Vec<Row>,
    ) -> Vec<Damage> {
        // Prompts and generations are read together, so a match in either row is a reason to read both.
        let is_typed = |row: &Row| row.key == PROMPTS || row.key == GENERATIONS;
        let may_match = |row: &Row| search.matcher.may_match_json(&row.value);
        let is_any_typed = rows.iter().any(|row| is_typed(row) && may_match(row));
        rows.retain(|row| if is_typed(row) { is_any_typed } else { may_match(row) });
        let (named, damage) = self.name(place, &rows);
        let _flow = named.iter().try_for_each(|named| search_conversation(search, named));
        damage
    }
}

fn search_conversation(search: &Search<'_>, named: &Named<'_>) -> ControlFlow<()> {
    if let Some(found) = search_value(search.matcher, &named.kept.frame()) {
        search.report(&named.key, None, None, found)?;
    }
    let mut ids: Option<Vec<Option<String>>> = None;
    for (position, piece) in named.kept.pieces().iter().enumerate() {
        let Some(found) = search_value(search.matcher, piece) else { continue };
        let ids = ids.get_or_insert_with(|| {
            named.kept.messages().into_iter().map(|message| message.id).collect()
        });
        let id = ids.get(position).cloned().flatten();
        search.report(&named.key, id, Some(position), found)?;
    }
    ControlFlow::Continue(())
}
