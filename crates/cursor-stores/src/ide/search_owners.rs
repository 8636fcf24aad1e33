//! Whose a blob is. Blobs are named by their content, so nothing in them tells; found out only for what was found.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Mutex;

use super::agent_message::read_agent_message;
use super::agent_state::{blob, blob_content, blob_id_of, inline_root_bytes};
use super::database::{MAX_VALUE_BYTES, Table, Value, Vscdb, read_row};
use super::keys;
use super::lenient::{parse, text};
use super::pool::Pool;
use crate::chat::BlobId;
use crate::chat::references::{BlobKind, visit_references};
use crate::parallel;
use crate::read_only_database::ReadDatabaseError;
use crate::search::Snippet;

/// A find in a blob.
pub(super) struct BlobHit {
    pub(super) blob_id: String,
    pub(super) rowid: i64,
    pub(super) is_json: bool,
    pub(super) request_id: Option<String>,
    pub(super) field: String,
    pub(super) snippet: Snippet,
}

impl BlobHit {
    /// More are given out before the search is over, so that memory is bounded.
    pub(super) const MAX_HELD: usize = 20_000;
    /// For more than these it is not asked what prompt came before them.
    const MAX_TRACED: usize = 500;
}

/// How far back the prompt of a message is looked for.
const MAX_ROWS_BACK: i64 = 500;

/// Blobs that are looked for, and the conversations that were found to have them.
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

/// Returns the conversation of every hit, where one is known.
pub(super) fn find_owners(pool: &Pool, hits: &[BlobHit]) -> Vec<Option<String>> {
    let ids: Vec<Option<BlobId>> = hits.iter().map(|hit| hit.blob_id.parse().ok()).collect();
    let open = ids.iter().flatten().copied().collect();
    let wanted = Mutex::new(Wanted { open, owners: HashMap::new() });
    let roots = current_roots(pool, &wanted);
    for depth in [Depth::Roots, Depth::Turns] {
        if !is_empty(&wanted) {
            parallel::map(&roots, |(owner, root)| walk(pool, owner, root, depth, &wanted));
        }
    }
    if !is_empty(&wanted) {
        let older = older_roots(pool, &wanted);
        parallel::map(&older, |(owner, root)| walk(pool, owner, root, Depth::Roots, &wanted));
    }
    let owners = wanted.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).owners;
    let mut found: Vec<Option<String>> =
        ids.iter().map(|id| owners.get(id.as_ref()?).cloned()).collect();
    by_request(pool, hits, &mut found);
    found
}

fn is_empty(wanted: &Mutex<Wanted>) -> bool {
    lock(wanted).open.is_empty()
}

fn lock(wanted: &Mutex<Wanted>) -> std::sync::MutexGuard<'_, Wanted> {
    wanted.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The states that conversations are in now, as bytes.
fn current_roots(pool: &Pool, wanted: &Mutex<Wanted>) -> Vec<(String, Vec<u8>)> {
    let mut roots = checkpoint_roots(pool, keys::CHECKPOINT, wanted);
    let known: HashSet<String> = roots.iter().map(|(owner, _)| owner.clone()).collect();
    let inline = parallel::map(&keys::slices(keys::COMPOSER, 1), |slice| {
        let mut roots = Vec::new();
        let _damage = pool.visit(Table::DiskKv, slice, &mut |row| {
            if let Value::Bytes(bytes) = row.value
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
    roots.extend(inline.into_iter().flatten());
    roots
}

/// The states that conversations were in before.
fn older_roots(pool: &Pool, wanted: &Mutex<Wanted>) -> Vec<(String, Vec<u8>)> {
    checkpoint_roots(pool, keys::BUBBLE_CHECKPOINT, wanted)
}

fn checkpoint_roots(pool: &Pool, family: &str, wanted: &Mutex<Wanted>) -> Vec<(String, Vec<u8>)> {
    let mut checkpoints: Vec<(String, BlobId)> = Vec::new();
    let _damage = pool.visit(Table::DiskKv, &keys::beginning_with(family), &mut |row| {
        if let Value::Bytes(bytes) = row.value
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// What a root itself refers to, and its archives.
    Roots,
    /// Also what its turns do, each of which has to be read.
    Turns,
}

fn walk(pool: &Pool, owner: &str, root: &[u8], depth: Depth, wanted: &Mutex<Wanted>) {
    let mut pending: Vec<(BlobKind, BlobId)> = Vec::new();
    let refer = |kind: BlobKind, bytes: &[u8], pending: &mut Vec<(BlobKind, BlobId)>| {
        let mut ids = Vec::new();
        // What does not decode refers to nothing.
        let _decoded = visit_references(kind, bytes, &mut |reference| {
            if let Ok(id) = BlobId::try_from(reference.id) {
                ids.push((reference.kind, id));
            }
        });
        let mut wanted = lock(wanted);
        for (kind, id) in ids {
            wanted.offer(id, owner);
            let leads_on = match kind {
                BlobKind::Archive | BlobKind::SubagentState => true,
                BlobKind::Turn | BlobKind::OldTurn | BlobKind::UserMessage | BlobKind::Step => {
                    depth == Depth::Turns
                }
                // An earlier state: what it has and the latest has not is looked for by other ways.
                _ => false,
            };
            if leads_on {
                pending.push((kind, id));
            }
        }
    };
    refer(BlobKind::Root, root, &mut pending);
    let mut seen = HashSet::new();
    while let Some((kind, id)) = pending.pop() {
        if !seen.insert(id) || is_empty(wanted) {
            continue;
        }
        if let Ok(Some(bytes)) = pool.with(|database| blob(database, id)) {
            refer(kind, &bytes, &mut pending);
        }
    }
}

/// Messages that no state refers to any more: by the request of their turn, which a bubble has too.
fn by_request(pool: &Pool, hits: &[BlobHit], found: &mut [Option<String>]) {
    let mut requests: HashMap<usize, String> = HashMap::new();
    let mut n_traced = 0;
    for (number, hit) in
        hits.iter().enumerate().filter(|(number, hit)| found[*number].is_none() && hit.is_json)
    {
        let request = match &hit.request_id {
            Some(request) => Some(request.clone()),
            None if n_traced < BlobHit::MAX_TRACED => {
                n_traced += 1;
                pool.with(|database| request_before(database, hit.rowid)).ok().flatten()
            }
            None => None,
        };
        requests.extend(request.map(|request| (number, request)));
    }
    if requests.is_empty() {
        return;
    }
    let wanted: HashSet<&[u8]> = requests.values().map(String::as_bytes).collect();
    let owners = parallel::map(&keys::slices(keys::BUBBLE, 2), |slice| {
        let mut owners: HashMap<String, String> = HashMap::new();
        let _damage = pool.visit(Table::DiskKv, slice, &mut |row| {
            if let Value::Bytes(bytes) = row.value {
                for request in strings_of(bytes, "requestId") {
                    if wanted.contains(request)
                        && let Some((owner, _)) = keys::split(keys::BUBBLE, row.key)
                    {
                        owners.insert(
                            String::from_utf8_lossy(request).into_owned(),
                            owner.to_owned(),
                        );
                    }
                }
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

/// What stands as text under a name anywhere in JSON, without decoding it: ids have no escapes.
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

/// The request of the prompt that was written last before a message.
fn request_before(database: &Vscdb, rowid: i64) -> Result<Option<String>, ReadDatabaseError> {
    let sql = format!(
        "SELECT rowid, blob, octet_length(value), CASE WHEN blob IS NOT NULL AND octet_length(value) <= {MAX_VALUE_BYTES} \
         THEN value END FROM (SELECT rowid, CASE WHEN key >= ?2 AND key < ?3 THEN key END AS blob, value \
         FROM cursorDiskKV WHERE rowid < ?1 ORDER BY rowid DESC LIMIT {MAX_ROWS_BACK})"
    );
    let range = keys::beginning_with(keys::BLOB);
    database.database.read(|connection| {
        let mut request = None;
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query((rowid, &range.start, &range.end))?;
        while let Some(row) = rows.next()? {
            let flow = read_row(row, &mut |row| {
                if let Value::Bytes(bytes) = row.value
                    && let Some(message) = read_agent_message("", &blob_content(bytes))
                    && message.request_id.is_some()
                {
                    request = message.request_id;
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })?;
            if flow.is_break() {
                break;
            }
        }
        Ok(request)
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_text_is_found_by_its_name_however_the_json_is_spaced() {
        let json = br#"{"requestId":"a","x":[{"requestId" : "b"}],"requestId":7,"y":"requestId","requestId":"c"#;
        let found: Vec<&[u8]> = strings_of(json, "requestId").collect();
        assert_eq!(found, [b"a", b"b"]);
    }
}
