//! Everything at once: one pass over the composers, split among all cores, and no look at what was said.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;

use ground::with_causes;
use serde_json::Value as Json;

use super::agent_state::{find_root, says_something};
use super::database::{Table, Value};
use super::headers::Headers;
use super::heads::{link_subagents, make_head};
use super::keys::{self, KeyRange};
use super::pool::{Pool, UsePoolError};
use super::summary::{Summary, summarise};
use super::workspaces::workspace_of_id;
use super::{IdeStore, Opened};
use crate::model::{Activity, Damage, Shelf, Workspace};
use crate::parallel;
use crate::store::Listing;

/// What a row of `composerData` is.
pub(super) enum Composer {
    Summary(Box<Summary>),
    /// Deleted by the user.
    Tombstone,
    Damaged(String),
}

/// Everything that a list is made of.
#[derive(Default)]
pub(super) struct Inventory {
    pub(super) composers: HashMap<String, Composer>,
    /// Those that have bubbles.
    pub(super) with_bubbles: BTreeSet<String>,
    /// Those that have the state of an agent.
    with_checkpoint: BTreeSet<String>,
    pub(super) headers: Headers,
    pub(super) damage: Vec<Damage>,
}

enum Task {
    Composers(KeyRange),
    Bubbles,
    Headers,
    Checkpoints,
}

enum Answer {
    Composers(Vec<(String, Composer)>, Vec<Damage>),
    Bubbles(BTreeSet<String>, Vec<Damage>),
    Checkpoints(BTreeSet<String>, Vec<Damage>),
    Headers(Headers),
    Failed(Damage),
}

pub(super) fn inventory(pool: &Pool) -> Inventory {
    let was_in_part = pool.is_in_part();
    let inventory = take_inventory(pool);
    // Some of it is from before the damage was met, and may lack what only the rest of it has.
    if pool.is_in_part() && !was_in_part { take_inventory(pool) } else { inventory }
}

fn take_inventory(pool: &Pool) -> Inventory {
    let mut tasks = vec![Task::Bubbles, Task::Headers, Task::Checkpoints];
    tasks.extend(keys::slices(keys::COMPOSER, 1).into_iter().map(Task::Composers));
    let mut inventory = Inventory::default();
    for answer in parallel::map(&tasks, |task| perform(pool, task)) {
        match answer {
            Answer::Composers(composers, damage) => {
                inventory.composers.extend(composers);
                inventory.damage.extend(damage);
            }
            Answer::Bubbles(composers, damage) => {
                inventory.with_bubbles = composers;
                inventory.damage.extend(damage);
            }
            Answer::Checkpoints(composers, damage) => {
                inventory.with_checkpoint = composers;
                inventory.damage.extend(damage);
            }
            Answer::Headers(headers) => inventory.headers = headers,
            Answer::Failed(damage) => inventory.damage.push(damage),
        }
    }
    inventory
}

fn perform(pool: &Pool, task: &Task) -> Answer {
    match task {
        Task::Composers(range) => {
            let mut composers = Vec::new();
            let damage = pool.visit(Table::DiskKv, range, &mut |row| {
                if let Some(id) = row.key.strip_prefix(keys::COMPOSER) {
                    composers.push((id.to_owned(), read_composer(row.value)));
                }
                ControlFlow::Continue(())
            });
            Answer::Composers(composers, damage)
        }
        Task::Bubbles => {
            let mut composers = BTreeSet::new();
            let walked = pool.with(|database| {
                database.visit_composers(keys::BUBBLE, &mut |id| {
                    composers.insert(id.to_owned());
                })
            });
            let range = keys::beginning_with(keys::BUBBLE);
            Answer::Bubbles(composers, damage_of(pool, &range, walked))
        }
        Task::Checkpoints => {
            let mut composers = BTreeSet::new();
            let range = keys::beginning_with(keys::CHECKPOINT);
            let walked = pool.with(|database| {
                database.visit_keys(Table::DiskKv, &range, &mut |key| {
                    composers.extend(key.strip_prefix(keys::CHECKPOINT).map(str::to_owned));
                    ControlFlow::Continue(())
                })
            });
            Answer::Checkpoints(composers, damage_of(pool, &range, walked))
        }
        Task::Headers => match pool.with(|database| Headers::read(database, None)) {
            Ok(headers) => Answer::Headers(headers),
            Err(err) => Answer::Failed(Damage::new("composerHeaders", with_causes(&err))),
        },
    }
}

/// What is missing after a walk over keys alone.
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

pub(super) fn list(store: &IdeStore) -> Listing {
    match store.open() {
        Ok(opened) => list_opened(store, &opened).1,
        Err(err) => Listing {
            heads: Vec::new(),
            damage: vec![Damage::new("state.vscdb", with_causes(&err))],
        },
    }
}

pub(super) fn list_opened(store: &IdeStore, opened: &Opened) -> (Inventory, Listing) {
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
        let mut head =
            make_head(id, store.origin(), summary, &inventory.headers, writer, &mut workspace);
        if matches!(composer, Composer::Damaged(_)) {
            head.activity = Activity::Damaged;
            head.shelf = Shelf::Shown;
        } else if head.shelf == Shelf::Empty
            && (inventory.with_bubbles.contains(id)
                || inventory.with_checkpoint.contains(id) && is_in_state(&opened.pool, id))
        {
            // It says that it is empty, and its bubbles or its agent say that it is not.
            head.shelf = Shelf::Shown;
            head.n_messages = None;
        }
        // What the model was given may have messages that no bubble has.
        head.is_count_estimated = head.n_messages.is_some()
            && (summary.is_count_estimated || inventory.with_checkpoint.contains(id));
        heads.push(head);
    }
    // Sub-agents of older builds have bubbles only; others that do have lost the row that puts those in order.
    for id in inventory.with_bubbles.iter().filter(|id| !inventory.composers.contains_key(*id)) {
        let mut head =
            make_head(id, store.origin(), &nothing, &inventory.headers, writer, &mut workspace);
        head.shelf = Shelf::Shown;
        let range = keys::of_composer(keys::BUBBLE, id);
        head.n_messages =
            opened.pool.with(|database| database.count_keys(Table::DiskKv, &range)).ok();
        if !id.starts_with(keys::TASK) {
            head.activity = Activity::Damaged;
            damage.push(Damage::new(
                format!("{}{id}", keys::COMPOSER),
                "the row is missing, its messages are not",
            ));
        }
        heads.push(head);
    }
    damage.extend(lost_conversations(&inventory));
    if opened.backup.is_some() {
        heads.iter_mut().for_each(|head| head.activity = Activity::Damaged);
    }
    let is_homeless =
        heads.iter().any(|head| head.workspace.is_none() && head.shelf != Shelf::Empty);
    if is_homeless {
        let links = store.links();
        for head in &mut heads {
            head.workspace = head.workspace.take().or_else(|| links.workspace(&head.id).cloned());
            head.title = head.title.take().or_else(|| links.title(&head.id).map(str::to_owned));
        }
    }
    for head in heads.iter_mut().filter(|head| head.workspace.is_none()) {
        if let Some(Composer::Summary(summary)) = inventory.composers.get(&head.id) {
            head.workspace.clone_from(&summary.repository);
        }
    }
    link_subagents(&mut heads);
    (inventory, Listing { heads, damage })
}

/// Tells whether the state of an agent holds messages.
fn is_in_state(pool: &Pool, id: &str) -> bool {
    let root = pool.with(|database| find_root(database, id, &Json::Null));
    root.is_ok_and(|root| root.is_some_and(|root| says_something(&root)))
}

/// What a catalogue names and nothing is there of.
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
                    format!("`{title}` is in the catalogue and nowhere else"),
                )
            })
        })
        .collect();
    damage.sort_unstable_by(|one, other| one.place.cmp(&other.place));
    damage
}
