//! Finds the conversations that own blobs with a match. A blob is named by its content and does not know its owner.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Mutex;

use crate::chat::BlobId;
use crate::chat::schema::references::{BlobKind, visit_references};
use crate::database::ReadDatabaseError;
use crate::ide::agent::message::read_agent_message;
use crate::ide::agent::{blob, blob_content, blob_id_of, inline_root_bytes};
use crate::ide::database::keys;
use crate::ide::database::pool::Pool;
use crate::ide::database::{Neighbours, Table, Value, Vscdb};
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
    /// With this many, the search reports them before it goes on, so that memory is bounded.
    pub(crate) const MAX_HELD: usize = 20_000;
    /// For this many matches the search looks for the prompt before them.
    const MAX_TRACED: usize = 500;
}

/// How many rows back to look for the prompt of a message.
const MAX_ROWS_BACK: u32 = 500;

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

/// Returns the conversation of every hit, where one is known.
pub(crate) fn find_owners(pool: &Pool, hits: &[BlobHit]) -> Vec<Option<String>> {
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

/// The current states of conversations, as bytes.
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

/// The earlier states of conversations.
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
    /// The blobs that a root and its archives refer to.
    Roots,
    /// Also the blobs that its turns refer to. Each turn has to be read.
    Turns,
}

fn walk(pool: &Pool, owner: &str, root: &[u8], depth: Depth, wanted: &Mutex<Wanted>) {
    let mut pending: Vec<(BlobKind, BlobId)> = Vec::new();
    let refer = |kind: BlobKind, bytes: &[u8], pending: &mut Vec<(BlobKind, BlobId)>| {
        let mut ids = Vec::new();
        // A blob that does not decode refers to nothing.
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
                // Earlier states are searched later, in their own step.
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

/// Finds the owners of messages that no state refers to: a bubble has the same request id.
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

/// The strings under a name anywhere in JSON, found without decoding it: ids have no escapes.
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

/// The request of the last prompt before a message.
fn request_before(database: &Vscdb, rowid: i64) -> Result<Option<String>, ReadDatabaseError> {
    let mut request = None;
    database.visit_blobs(Neighbours::Before(rowid, MAX_ROWS_BACK), &mut |row| {
        if let Value::Bytes(bytes) = row.value
            && let Some(message) = read_agent_message("", &blob_content(bytes))
            && message.request_id.is_some()
        {
            request = message.request_id;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(request)
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
