//! Lists all conversations: one pass over the composers on all cores, without reading messages.

pub(crate) mod headers;
pub(crate) mod heads;
pub(crate) mod summary;
pub(crate) mod workspaces;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;

use ground::with_causes;
use serde_json::Value as Json;

use self::headers::Headers;
use self::heads::{link_subagents, make_head};
use self::summary::{Summary, summarise};
use self::workspaces::workspace_of_id;
use super::agent::{find_root, says_something};
use super::database::{Table, Value};
use crate::ide::database::keys::{self, KeyRange};
use crate::ide::database::pool::{Pool, UsePoolError};
use crate::ide::store::{IdeStore, Opened};
use crate::model::{Activity, Damage, Head, Shelf, Workspace};
use crate::parallel;
use crate::store::Listing;

/// A row of `composerData`.
pub(crate) enum Composer {
    Summary(Box<Summary>),
    /// The user deleted the conversation.
    Tombstone,
    Damaged(String),
}

/// Everything that a list is made of.
#[derive(Default)]
pub(crate) struct Inventory {
    pub(crate) composers: HashMap<String, Composer>,
    /// Conversations that have bubbles.
    pub(crate) with_bubbles: BTreeSet<String>,
    /// Conversations that have an agent's state.
    with_checkpoint: BTreeSet<String>,
    pub(crate) headers: Headers,
    pub(crate) damage: Vec<Damage>,
}

enum Task {
    Composers(KeyRange),
    Bubbles,
    Headers,
    Checkpoints,
}

pub(crate) fn inventory(pool: &Pool) -> Inventory {
    let was_salvaged = pool.is_salvaged();
    let inventory = take_inventory(pool);
    // Some rows are from before the pool met the damage. Salvaging may find more of them.
    if pool.is_salvaged() && !was_salvaged { take_inventory(pool) } else { inventory }
}

fn take_inventory(pool: &Pool) -> Inventory {
    let mut tasks = vec![Task::Bubbles, Task::Headers, Task::Checkpoints];
    tasks.extend(keys::slices(keys::COMPOSER, 1).into_iter().map(Task::Composers));
    let mut whole = Inventory::default();
    for part in parallel::map(&tasks, |task| perform(pool, task)) {
        whole.composers.extend(part.composers);
        whole.with_bubbles.extend(part.with_bubbles);
        whole.with_checkpoint.extend(part.with_checkpoint);
        whole.damage.extend(part.damage);
        if !part.headers.is_empty() {
            whole.headers = part.headers;
        }
    }
    whole
}

/// Takes one part of the inventory.
fn perform(pool: &Pool, task: &Task) -> Inventory {
    let mut part = Inventory::default();
    match task {
        Task::Composers(range) => {
            part.damage = pool.visit(Table::DiskKv, range, &mut |row| {
                if let Some(id) = row.key.strip_prefix(keys::COMPOSER) {
                    part.composers.insert(id.to_owned(), read_composer(row.value));
                }
                ControlFlow::Continue(())
            });
        }
        Task::Bubbles => {
            let walked = pool.with(|database| {
                database.visit_composers(keys::BUBBLE, &mut |id| {
                    part.with_bubbles.insert(id.to_owned());
                })
            });
            part.damage = damage_of(pool, &keys::beginning_with(keys::BUBBLE), walked);
        }
        Task::Checkpoints => {
            let range = keys::beginning_with(keys::CHECKPOINT);
            let walked = pool.with(|database| {
                database.visit_keys(Table::DiskKv, &range, &mut |key, _| {
                    part.with_checkpoint
                        .extend(key.strip_prefix(keys::CHECKPOINT).map(str::to_owned));
                })
            });
            part.damage = damage_of(pool, &range, walked);
        }
        Task::Headers => match pool.with(|database| Headers::read(database, None)) {
            Ok(headers) => part.headers = headers,
            Err(err) => part.damage.push(Damage::new("composerHeaders", with_causes(&err))),
        },
    }
    part
}

/// The rows that a walk over the keys could not reach.
fn damage_of(pool: &Pool, range: &KeyRange, walked: Result<(), UsePoolError>) -> Vec<Damage> {
    match walked {
        Ok(()) => pool.lost(range),
        Err(err) => vec![Damage::new(format!("{}…", range.start), with_causes(&err))],
    }
}

fn read_composer(value: Value<'_>) -> Composer {
    match value {
        Value::Tombstone => Composer::Tombstone,
        Value::TooLarge { n_bytes } => {
            Composer::Damaged(format!("has {n_bytes} bytes, too many to read"))
        }
        Value::Bytes(bytes) => match summarise(bytes) {
            Some(summary) => Composer::Summary(Box::new(summary)),
            None => Composer::Damaged("is not JSON".to_owned()),
        },
    }
}

pub(crate) fn list(store: &IdeStore) -> Listing {
    match store.open() {
        Ok(opened) => list_opened(store, &opened).1,
        Err(err) => Listing {
            heads: Vec::new(),
            damage: vec![Damage::new("state.vscdb", with_causes(&err))],
        },
    }
}

pub(crate) fn list_opened(store: &IdeStore, opened: &Opened) -> (Inventory, Listing) {
    let mut inventory = inventory(&opened.pool);
    let mut damage: Vec<Damage> = opened.damage().into_iter().collect();
    damage.append(&mut inventory.damage);
    let writer = store.writer();
    let mut places: HashMap<String, Option<Workspace>> = HashMap::new();
    let mut workspace = |ids: &[Option<&str>]| {
        ids.iter().flatten().find_map(|id| {
            places
                .entry((*id).to_owned())
                .or_insert_with(|| workspace_of_id(&store.workspace_storage, id))
                .clone()
        })
    };
    let mut make = |id: &str, summary: &Summary| -> Head {
        make_head(id, store.origin(), summary, &inventory.headers, writer, &mut workspace)
    };
    let mut heads = heads_of_composers(&opened.pool, &inventory, &mut make, &mut damage);
    heads.extend(heads_without_composer(&opened.pool, &inventory, &mut make, &mut damage));
    damage.extend(lost_conversations(&inventory));
    if opened.backup.is_some() {
        heads.iter_mut().for_each(|head| head.activity = Activity::Damaged);
    }
    add_workspaces(store, &inventory, &mut heads);
    link_subagents(&mut heads);
    (inventory, Listing { heads, damage })
}

/// Makes a head from its id and summary.
type MakeHead<'a> = dyn FnMut(&str, &Summary) -> Head + 'a;

fn heads_of_composers(
    pool: &Pool,
    inventory: &Inventory,
    make: &mut MakeHead<'_>,
    damage: &mut Vec<Damage>,
) -> Vec<Head> {
    let mut heads = Vec::new();
    let nothing = Summary::default();
    for (id, composer) in &inventory.composers {
        let summary = match composer {
            Composer::Tombstone => continue,
            Composer::Summary(summary) => summary,
            Composer::Damaged(what) => {
                damage.push(Damage::new(format!("{}{id}", keys::COMPOSER), what.clone()));
                &nothing
            }
        };
        let mut head = make(id, summary);
        if matches!(composer, Composer::Damaged(_)) {
            head.activity = Activity::Damaged;
            head.shelf = Shelf::Shown;
        } else if head.shelf == Shelf::Empty
            && (inventory.with_bubbles.contains(id)
                || inventory.with_checkpoint.contains(id) && is_in_state(pool, id))
        {
            // The row says that the conversation is empty, but it has bubbles or an agent's state.
            head.shelf = Shelf::Shown;
            head.n_messages = None;
        }
        // The agent's state may hold messages without a bubble.
        head.is_count_estimated = head.n_messages.is_some()
            && (summary.is_count_estimated || inventory.with_checkpoint.contains(id));
        heads.push(head);
    }
    heads
}

/// Sub-agents of older builds have only bubbles. Other conversations without a composer lost it, and with it the order of
/// their bubbles.
fn heads_without_composer(
    pool: &Pool,
    inventory: &Inventory,
    make: &mut MakeHead<'_>,
    damage: &mut Vec<Damage>,
) -> Vec<Head> {
    let mut heads = Vec::new();
    let nothing = Summary::default();
    for id in inventory.with_bubbles.iter().filter(|id| !inventory.composers.contains_key(*id)) {
        let mut head = make(id, &nothing);
        head.shelf = Shelf::Shown;
        let range = keys::of_composer(keys::BUBBLE, id);
        head.n_messages = pool.with(|database| database.count_keys(Table::DiskKv, &range)).ok();
        if !id.starts_with(keys::TASK) {
            head.activity = Activity::Damaged;
            damage.push(Damage::new(
                format!("{}{id}", keys::COMPOSER),
                "the row is missing, but its messages are not",
            ));
        }
        heads.push(head);
    }
    heads
}

/// Adds the workspaces that the conversations do not name themselves.
fn add_workspaces(store: &IdeStore, inventory: &Inventory, heads: &mut [Head]) {
    let is_homeless =
        heads.iter().any(|head| head.workspace.is_none() && head.shelf != Shelf::Empty);
    if is_homeless {
        let links = store.links();
        for head in &mut *heads {
            head.workspace = head.workspace.take().or_else(|| links.workspace(&head.id).cloned());
            head.title = head.title.take().or_else(|| links.title(&head.id).map(str::to_owned));
        }
    }
    for head in heads.iter_mut().filter(|head| head.workspace.is_none()) {
        if let Some(Composer::Summary(summary)) = inventory.composers.get(&head.id) {
            head.workspace.clone_from(&summary.repository);
        }
    }
}

/// True if the agent's state holds messages.
fn is_in_state(pool: &Pool, id: &str) -> bool {
    let root = pool.with(|database| find_root(database, id, &Json::Null));
    root.is_ok_and(|root| root.is_some_and(|root| says_something(&root)))
}

/// Conversations that exist only in a catalogue.
fn lost_conversations(inventory: &Inventory) -> Vec<Damage> {
    let mut lost: HashSet<&String> = inventory.headers.ids().collect();
    lost.retain(|id| {
        !inventory.composers.contains_key(*id) && !inventory.with_bubbles.contains(*id)
    });
    let mut damage: Vec<Damage> = lost
        .into_iter()
        .filter_map(|id| {
            let summary = &inventory.headers.get(id)?.summary;
            let was_never_begun =
                summary.is_draft || summary.title.is_none() || summary.is_subagent;
            (!was_never_begun).then(|| {
                let title = summary.title.as_deref().unwrap_or_default();
                Damage::new(
                    format!("composerHeaders:{id}"),
                    format!("`{title}` is only in the catalogue"),
                )
            })
        })
        .collect();
    damage.sort_unstable_by(|one, other| one.place.cmp(&other.place));
    damage
}
