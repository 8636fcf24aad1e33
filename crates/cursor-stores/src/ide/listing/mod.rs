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
use crate::ide::database::pool::Pool;
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

impl Composer {
    pub(crate) fn of(value: &Value<'_>) -> Self {
        let summary = value.bytes().and_then(|bytes| {
            summarise(bytes).map(Box::new).ok_or_else(|| "is not JSON".to_owned())
        });
        match summary {
            _ if *value == Value::Tombstone => Self::Tombstone,
            Ok(summary) => Self::Summary(summary),
            Err(what) => Self::Damaged(what),
        }
    }

    pub(crate) fn summary(&self) -> Option<&Summary> {
        match self {
            Self::Summary(summary) => Some(summary),
            Self::Tombstone | Self::Damaged(_) => None,
        }
    }
}

/// Everything that a list needs.
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
    // Some rows were read before the pool noticed the damage. Salvaging may find more of them.
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

/// Reads one part of the inventory.
fn perform(pool: &Pool, task: &Task) -> Inventory {
    let mut part = Inventory::default();
    match task {
        Task::Composers(range) => {
            part.damage = pool.visit(Table::DiskKv, range, &mut |row| {
                if let Some(id) = row.key.strip_prefix(keys::COMPOSER) {
                    part.composers.insert(id.to_owned(), Composer::of(&row.value));
                }
                ControlFlow::Continue(())
            });
        }
        Task::Bubbles => {
            let range = keys::beginning_with(keys::BUBBLE);
            let walked = pool.with(|database| {
                database.skip(Table::DiskKv, range.clone(), &mut |key| {
                    Some(match keys::split(keys::BUBBLE, key) {
                        Some((id, _)) => {
                            part.with_bubbles.insert(id.to_owned());
                            keys::of_composer(keys::BUBBLE, id).end
                        }
                        None => keys::after(key),
                    })
                })
            });
            part.damage = pool.damage_of(&range, walked);
        }
        Task::Checkpoints => {
            let range = keys::beginning_with(keys::CHECKPOINT);
            let walked = pool.with(|database| {
                database.visit_keys(Table::DiskKv, &range, &mut |key, _| {
                    part.with_checkpoint
                        .extend(key.strip_prefix(keys::CHECKPOINT).map(str::to_owned));
                })
            });
            part.damage = pool.damage_of(&range, walked);
        }
        Task::Headers => match pool.with(|database| Headers::read(database, None)) {
            Ok(headers) => part.headers = headers,
            Err(err) => part.damage.push(Damage::new("composerHeaders", with_causes(&err))),
        },
    }
    part
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
    let has_writer = store.has_writer();
    let mut places: HashMap<String, Option<Workspace>> = HashMap::new();
    let mut workspace = |ids: &[Option<&str>]| {
        ids.iter().flatten().find_map(|id| {
            places
                .entry((*id).to_owned())
                .or_insert_with(|| workspace_of_id(&store.workspace_storage, id))
                .clone()
        })
    };
    let mut heads = make_heads(&opened.pool, &inventory, &mut damage, &mut |id, summary| {
        make_head(id, store.origin(), summary, &inventory.headers, has_writer, &mut workspace)
    });
    damage.extend(lost_conversations(&inventory));
    if opened.backup.is_some() {
        heads.iter_mut().for_each(|head| head.activity = Activity::Damaged);
    }
    add_workspaces(store, &inventory, &mut heads);
    link_subagents(&mut heads);
    (inventory, Listing { heads, damage })
}

fn make_heads(
    pool: &Pool,
    inventory: &Inventory,
    damage: &mut Vec<Damage>,
    make: &mut dyn FnMut(&str, &Summary) -> Head,
) -> Vec<Head> {
    let nothing = Summary::default();
    let composers = &inventory.composers;
    // Older builds' sub-agents have only bubbles. Other conversations without a composer lost it, and with it the order
    // of their bubbles.
    let rowless = inventory.with_bubbles.iter().filter(|id| !composers.contains_key(*id));
    let all = composers.iter().map(|(id, composer)| (id, Some(composer)));
    let mut heads = Vec::new();
    for (id, composer) in all.chain(rowless.map(|id| (id, None))) {
        let lost = match composer {
            Some(Composer::Tombstone) => continue,
            Some(Composer::Damaged(what)) => Some(what.as_str()),
            None if !id.starts_with(keys::TASK) => {
                Some("the row is missing, but its messages are not")
            }
            Some(Composer::Summary(_)) | None => None,
        };
        let summary = composer.and_then(Composer::summary);
        let mut head = make(id, summary.unwrap_or(&nothing));
        let has_checkpoint = inventory.with_checkpoint.contains(id);
        if summary.is_none() {
            head.shelf = Shelf::Shown;
        } else if head.shelf == Shelf::Empty
            && (inventory.with_bubbles.contains(id) || has_checkpoint && is_in_state(pool, id))
        {
            // The row says that the conversation is empty, but it has bubbles or an agent's state.
            head.shelf = Shelf::Shown;
            head.n_messages = None;
        }
        if composer.is_none() {
            let range = keys::of_composer(keys::BUBBLE, id);
            head.n_messages = pool.with(|database| database.count_keys(Table::DiskKv, &range)).ok();
        }
        // The agent's state may contain messages without a bubble.
        head.is_count_estimated = head.n_messages.is_some()
            && composer.is_some()
            && (has_checkpoint || summary.is_some_and(|summary| summary.is_count_estimated));
        if let Some(what) = lost {
            head.activity = Activity::Damaged;
            damage.push(Damage::new(keys::composer(id), what));
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
        let summary = inventory.composers.get(&head.id).and_then(Composer::summary);
        head.workspace = summary.and_then(|summary| summary.repository.clone());
    }
}

/// True if the agent's state contains messages.
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
