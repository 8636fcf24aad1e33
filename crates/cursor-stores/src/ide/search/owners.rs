//! Finds the conversations that own blobs with a match. A blob is named by its content and does not know its owner.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Mutex;

use crate::chat::BlobId;
use crate::ide::agent::prompt_rows::{MAX_ROWS, RowsByRequest};
use crate::ide::agent::{blob, blob_id_of, inline_root_bytes, walk_state};
use crate::ide::database::keys;
use crate::ide::database::pool::Pool;
use crate::ide::database::{Table, Value};
use crate::ide::lenient::{parse, text};
use crate::parallel::{self, lock};
use crate::search::FieldMatch;

/// A match in a blob.
pub(crate) struct BlobHit {
    pub(crate) blob_id: String,
    pub(crate) rowid: i64,
    pub(crate) is_json: bool,
    pub(crate) request_id: Option<String>,
    pub(crate) found: FieldMatch,
}

impl BlobHit {
    /// At this many hits, the search reports them before it continues, to limit memory.
    pub(crate) const MAX_HELD: usize = 20_000;
}

/// A conversation, and the bytes of one of its states.
type Root = (String, Vec<u8>);

/// Blobs without a known owner, and the owners found so far.
struct Wanted {
    open: HashSet<BlobId>,
    owners: HashMap<BlobId, String>,
}

impl Wanted {
    fn offer(&mut self, id: BlobId, owner: &str) {
        if self.open.remove(&id) {
            self.owners.insert(id, owner.to_owned());
        }
    }
}

/// Returns the conversation of every hit, where one is known. `prompts` finds the prompts in the database.
pub(crate) fn find_owners(
    pool: &Pool,
    hits: &[BlobHit],
    prompts: &dyn Fn() -> std::sync::Arc<RowsByRequest>,
) -> Vec<Option<String>> {
    let ids: Vec<Option<BlobId>> = hits.iter().map(|hit| hit.blob_id.parse().ok()).collect();
    let open = ids.iter().flatten().copied().collect();
    let wanted = Mutex::new(Wanted { open, owners: HashMap::new() });
    let is_done = || lock(&wanted).open.is_empty();
    // Search the earlier states last: they repeat the current ones, except for messages that the user has replaced.
    for family in [keys::CHECKPOINT, keys::BUBBLE_CHECKPOINT] {
        let mut roots = checkpoint_roots(pool, family, &wanted);
        if family == keys::CHECKPOINT {
            let known = roots.iter().map(|(owner, _)| owner.clone()).collect();
            roots.extend(inline_roots(pool, &known));
        }
        parallel::map(&roots, |(owner, root)| {
            walk_state(root, &mut |visit| {
                lock(&wanted).offer(visit.id, owner);
                let is_needed = visit.kind.leads_on() && !is_done();
                is_needed.then(|| pool.with(|database| blob(database, visit.id)).ok()).flatten()?
            });
        });
        if is_done() {
            break;
        }
    }
    let owners = std::mem::take(&mut lock(&wanted).owners);
    let mut found: Vec<Option<String>> =
        ids.iter().map(|id| owners.get(id.as_ref()?).cloned()).collect();
    by_request(pool, hits, prompts, &mut found);
    found
}

/// Returns the conversation states that composer rows contain, except for the conversations in `known`.
fn inline_roots(pool: &Pool, known: &HashSet<String>) -> Vec<Root> {
    let roots = parallel::map(&keys::slices(keys::COMPOSER, 1), |slice| {
        let mut roots = Vec::new();
        let _damage = pool.visit(Table::DiskKv, slice, &mut |row| {
            if let Value::Bytes(bytes) = &row.value
                && let Some(owner) =
                    row.key.strip_prefix(keys::COMPOSER).filter(|owner| !known.contains(*owner))
                && strings_of(bytes, "conversationState").any(|state| state.starts_with(b"~"))
                && let Some(composer) = parse(bytes)
                && let Some(root) = text(&composer["conversationState"]).and_then(inline_root_bytes)
            {
                roots.push((owner.to_owned(), root));
            }
            ControlFlow::Continue(())
        });
        roots
    });
    roots.into_iter().flatten().collect()
}

fn checkpoint_roots(pool: &Pool, family: &str, wanted: &Mutex<Wanted>) -> Vec<Root> {
    let mut checkpoints: Vec<(String, BlobId)> = Vec::new();
    let _damage = pool.visit(Table::DiskKv, &keys::beginning_with(family), &mut |row| {
        if let Value::Bytes(bytes) = &row.value
            && let Some(id) = blob_id_of(bytes)
        {
            let owner = match keys::split(family, row.key) {
                Some((owner, _)) if family == keys::BUBBLE_CHECKPOINT => owner,
                _ => row.key.strip_prefix(family).unwrap_or_default(),
            };
            checkpoints.push((owner.to_owned(), id));
        }
        ControlFlow::Continue(())
    });
    let roots = parallel::map(&checkpoints, |(owner, id)| {
        lock(wanted).offer(*id, owner);
        let root = pool.with(|database| blob(database, *id)).ok().flatten()?;
        Some((owner.clone(), root))
    });
    roots.into_iter().flatten().collect()
}

/// Finds the owners of messages that no state refers to: a bubble has the request id of the message, or of the last
/// prompt before it.
fn by_request(
    pool: &Pool,
    hits: &[BlobHit],
    prompts: &dyn Fn() -> std::sync::Arc<RowsByRequest>,
    found: &mut [Option<String>],
) {
    let is_open =
        |(_, (hit, found)): &(usize, (&BlobHit, &Option<String>))| found.is_none() && hit.is_json;
    let open: Vec<usize> =
        hits.iter().zip(&*found).enumerate().filter(is_open).map(|(number, _)| number).collect();
    if open.is_empty() {
        return;
    }
    let prompts = prompts();
    let mut rows: Vec<(i64, &String)> = prompts.iter().map(|(id, row)| (*row, id)).collect();
    rows.sort_unstable();
    let request_of = |hit: &BlobHit| {
        hit.request_id.clone().or_else(|| {
            let (row, id) = rows[..rows.partition_point(|(row, _)| *row <= hit.rowid)].last()?;
            (hit.rowid - row < i64::from(MAX_ROWS)).then(|| (*id).clone())
        })
    };
    let requests: Vec<(usize, String)> =
        open.into_iter().filter_map(|number| Some((number, request_of(&hits[number])?))).collect();
    let wanted: HashSet<&[u8]> = requests.iter().map(|(_, id)| id.as_bytes()).collect();
    let owners = parallel::map(&keys::slices(keys::BUBBLE, 2), |slice| {
        let mut owners: HashMap<String, String> = HashMap::new();
        let _damage = pool.visit(Table::DiskKv, slice, &mut |row| {
            if let Value::Bytes(bytes) = &row.value
                && let Some((owner, _)) = keys::split(keys::BUBBLE, row.key)
            {
                let named = strings_of(bytes, "requestId").filter(|id| wanted.contains(id));
                owners.extend(
                    named.map(|id| (String::from_utf8_lossy(id).into_owned(), owner.to_owned())),
                );
            }
            ControlFlow::Continue(())
        });
        owners
    });
    let owners: HashMap<String, String> = owners.into_iter().flatten().collect();
    for (number, request) in requests {
        found[number] = owners.get(&request).cloned();
    }
}

/// Finds the strings under a name anywhere in JSON, without decoding it: ids have no escapes.
fn strings_of<'a>(json: &'a [u8], name: &str) -> impl Iterator<Item = &'a [u8]> {
    let quoted = format!("\"{name}\"");
    let n_name = quoted.len();
    let places: Vec<usize> = memchr::memmem::find_iter(json, &quoted).collect();
    places.into_iter().filter_map(move |at| {
        let value = json[at + n_name..].trim_ascii_start().strip_prefix(b":")?;
        let text = value.trim_ascii_start().strip_prefix(b"\"")?;
        Some(&text[..memchr::memchr(b'"', text)?])
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_strings_of_a_key_are_found_however_the_json_is_spaced() {
        let json = br#"{"requestId":"a","x":[{"requestId" : "b"}],"requestId":7,"y":"requestId","requestId":"c"#;
        let found: Vec<&[u8]> = strings_of(json, "requestId").collect();
        assert_eq!(found, [b"a", b"b"]);
    }
}
