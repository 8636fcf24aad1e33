//! All stores on a machine as one list of conversations.

mod merge;
mod places;
pub(crate) mod said_already;
mod same_conversation;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ground::with_causes;

use self::merge::{is_whole_in_first, merge_conversations, merge_heads};
use self::same_conversation::{place_of, tell_apart};
use crate::model::{Activity, Conversation, Damage, Head, Origin, StoreKind};
use crate::parallel;
use crate::search::Matcher;
use crate::store::{
    ConversationStore, Discovered, Extent, Hit, Listing, ReadConversationError, SkippedPlace,
};
use crate::{chat, export, ide, ide_old, sdk, transcript};

pub use places::StorePlaces;
pub use same_conversation::{is_same_conversation, sdk_directory};

/// The stores that were found.
pub struct Catalogue {
    stores: Vec<Box<dyn ConversationStore>>,
    skipped: Vec<SkippedPlace>,
    others: Vec<OtherPlace>,
    absent: Vec<PathBuf>,
}

/// A place next to the stores that holds no conversation.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct OtherPlace {
    pub path: run_protocol::BytesPath,
    /// A clause that says what the place is.
    pub what: String,
}

/// Every conversation once, and the parts that could not be listed.
#[derive(Debug, Default)]
pub struct CatalogueListing {
    /// In no particular order. Includes sub-agents, drafts and empty conversations.
    pub heads: Vec<Head>,
    pub damage: Vec<StoreDamage>,
}

/// A part of a store that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct StoreDamage {
    pub store: StoreKind,
    pub path: run_protocol::BytesPath,
    #[serde(flatten)]
    pub damage: crate::model::Damage,
}

/// A match, and the store where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueHit<'a> {
    pub store: StoreKind,
    pub path: &'a std::path::Path,
    pub hit: Hit,
}

impl Catalogue {
    /// Opens the stores of these kinds at all places. An empty list means all kinds.
    #[must_use]
    pub fn open(places: &StorePlaces, kinds: &[StoreKind]) -> Self {
        let discovered = [
            chat::discover,
            ide::discover,
            ide_old::discover,
            sdk::discover,
            transcript::discover,
            export::discover,
        ]
        .into_iter()
        .flat_map(|discover| discover(places));
        let StorePlaces { others, chats, acp_sessions, projects, cursor_user_dirs, .. } = places;
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        let asked = [chats, acp_sessions, projects, cursor_user_dirs].into_iter().flatten();
        let mut catalogue = Self {
            stores: Vec::new(),
            skipped: Vec::new(),
            others: others
                .iter()
                .filter(|(path, _)| is_there(path))
                .map(|(path, what)| OtherPlace { path: path.as_path().into(), what: what.clone() })
                .collect(),
            absent: asked.filter(|path| !is_there(path)).cloned().collect(),
        };
        let is_wanted = |kind: StoreKind| kinds.is_empty() || kinds.contains(&kind);
        for found in discovered {
            match found {
                Discovered::Store(store) if is_wanted(store.kind()) => catalogue.stores.push(store),
                Discovered::Skipped(place) if is_wanted(place.store) => {
                    catalogue.skipped.push(place)
                }
                Discovered::Store(_) | Discovered::Skipped(_) => {}
            }
        }
        catalogue
    }

    pub fn stores(&self) -> impl Iterator<Item = &dyn ConversationStore> {
        self.stores.iter().map(AsRef::as_ref)
    }

    /// Returns places that belong to conversations but hold none.
    #[must_use]
    pub fn others(&self) -> &[OtherPlace] {
        &self.others
    }

    /// Returns places that do not exist.
    #[must_use]
    pub fn absent(&self) -> &[PathBuf] {
        &self.absent
    }

    #[must_use]
    pub fn skipped(&self) -> &[SkippedPlace] {
        &self.skipped
    }

    /// Lists all conversations. A conversation in several stores appears once, with several origins.
    #[must_use]
    pub fn list(&self) -> CatalogueListing {
        self.list_in(|_| true)
    }

    /// Like [`Self::list`], but only for the stores that `is_meant` selects.
    #[must_use]
    pub fn list_in(&self, is_meant: impl Fn(&dyn ConversationStore) -> bool) -> CatalogueListing {
        // One SDK id may mean several conversations, and a transcript belongs to only one of them. Only all SDK stores
        // together tell which.
        let is_akin = |kind: StoreKind| matches!(kind, StoreKind::Sdk | StoreKind::Transcript);
        let needs_sdk = self.stores().any(|store| is_akin(store.kind()) && is_meant(store));
        let stores: Vec<&dyn ConversationStore> = self
            .stores()
            .filter(|store| is_meant(*store) || needs_sdk && store.kind() == StoreKind::Sdk)
            .collect();
        let listings = parallel::map(&stores, |store| store.list());
        let mut damage = Vec::new();
        let mut places: HashMap<String, Vec<usize>> = HashMap::new();
        let mut heads: Vec<Head> = Vec::new();
        for (store, Listing { heads: listed, damage: lost }) in stores.into_iter().zip(listings) {
            damage.extend(lost.into_iter().map(|damage| StoreDamage {
                store: store.kind(),
                path: store.path().into(),
                damage,
            }));
            for head in listed {
                let of_same_id = places.entry(head.id.clone()).or_default();
                match place_of(&head, &heads, of_same_id) {
                    Some(place) => merge_heads(&mut heads[place], head),
                    None => {
                        of_same_id.push(heads.len());
                        heads.push(head);
                    }
                }
            }
        }
        tell_apart(&mut heads, &places);
        heads.retain(|head| {
            let mut stores = head.origins.iter().filter_map(|origin| self.store_of(origin));
            !needs_sdk || stores.any(&is_meant)
        });
        CatalogueListing { heads, damage }
    }

    /// Fills in what a list leaves out because it would have to open files.
    pub fn complete(&self, heads: &mut [Head]) {
        let completed = parallel::map(heads, |head| {
            let mut head = head.clone();
            for origin in head.origins.clone() {
                if let Some(store) = self.store_of(&origin) {
                    store.complete(&mut head);
                }
            }
            // Only reading all stores shows which one has the most messages.
            head.is_count_estimated |=
                head.origins.len() > 1 && head.n_messages.is_some() && !is_whole_in_first(&head);
            head
        });
        heads.clone_from_slice(&completed);
    }

    /// Adds all models that answered to complete heads. This may take as long as a search.
    pub fn add_models(&self, heads: &mut [Head]) {
        let known = parallel::map(heads, |head| {
            let mut head = head.clone();
            for origin in head.origins.clone() {
                if let Some(store) = self.store_of(&origin) {
                    for model in store.models(origin.key(&head)) {
                        head.add_model(&model);
                    }
                }
            }
            head
        });
        heads.clone_from_slice(&known);
    }

    /// Reads a conversation from all stores that have it. Each field comes from the store that knows it best.
    pub fn read(&self, head: &Head, extent: Extent) -> Result<Conversation, ReadConversationError> {
        let mut read: Option<Conversation> = None;
        let mut failures: Vec<(&Origin, ReadConversationError)> = Vec::new();
        for origin in &head.origins {
            let Some(store) = self.store_of(origin) else { continue };
            match store.read(origin.key(head), extent) {
                Ok(conversation) => {
                    read = Some(match read {
                        None => conversation,
                        Some(known) => merge_conversations(known, conversation, extent),
                    });
                }
                Err(error) => failures.push((origin, error)),
            }
        }
        let Some(mut conversation) = read else {
            let first = failures.into_iter().next().map(|(_, error)| error);
            return Err(
                first.unwrap_or_else(|| ReadConversationError::Missing(head.id.clone().into()))
            );
        };
        // If several conversations share an id, all but one are listed under a new id, which their stores do not know.
        if head.origins.iter().any(|origin| origin.key.as_ref() == Some(&conversation.head.id)) {
            conversation.head.id.clone_from(&head.id);
            conversation.head.origins.clone_from(&head.origins);
        }
        // If one store fails, tell the user, even if another store has a part of the conversation.
        for (origin, error) in failures {
            let ReadConversationError::Unreadable { source, .. } = error else { continue };
            let place = origin.path.as_ref().display().to_string();
            conversation.damage.push(Damage::new(place, with_causes(&*source)));
            if conversation.head.activity != Activity::Live {
                conversation.head.activity = Activity::Damaged;
            }
            if !conversation.head.origins.contains(origin) {
                conversation.head.origins.push(origin.clone());
            }
        }
        Ok(conversation)
    }

    /// Returns the sub-agents whose state is inside a conversation, as `<id>#<name>`. A list would have to read every
    /// conversation to find them.
    #[must_use]
    pub fn kept_subagents(&self, head: &Head) -> Vec<Head> {
        // The names are in the state, not in the messages.
        let extent = Extent { last: Some(1), ..Extent::default() };
        let mut kept: Vec<Head> = Vec::new();
        for origin in &head.origins {
            let Some(store) = self.store_of(origin) else { continue };
            let key = origin.key(head);
            let Ok(conversation) = store.read(key, extent) else { continue };
            let own = format!("{}#", conversation.head.id);
            let names = conversation.head.subagents.iter().filter_map(|id| id.strip_prefix(&own));
            for name in names {
                let subagent = store.read(&format!("{key}#{name}"), extent);
                kept.extend(subagent.ok().map(|subagent| subagent.head));
            }
        }
        kept
    }

    /// Calls `found` for every match in any store, from several threads and in no particular order, until it returns
    /// `Break`.
    pub fn search<'a>(
        &'a self,
        matcher: &Matcher,
        found: &(dyn Fn(CatalogueHit<'a>) -> ControlFlow<()> + Sync),
    ) -> Vec<StoreDamage> {
        self.search_in(|_| true, matcher, found)
    }

    /// Like [`Self::search`], but only in the stores that `is_meant` selects.
    pub fn search_in<'a>(
        &'a self,
        is_meant: impl Fn(&dyn ConversationStore) -> bool,
        matcher: &Matcher,
        found: &(dyn Fn(CatalogueHit<'a>) -> ControlFlow<()> + Sync),
    ) -> Vec<StoreDamage> {
        let mut damage = Vec::new();
        // One store after another, because each search uses all cores.
        for store in self.stores.iter().filter(|store| is_meant(store.as_ref())) {
            let (kind, path) = (store.kind(), store.path());
            let lost = store.search(matcher, &|hit| found(CatalogueHit { store: kind, path, hit }));
            damage.extend(lost.into_iter().map(|damage| StoreDamage {
                store: kind,
                path: path.into(),
                damage,
            }));
        }
        damage
    }

    /// Returns the store that a conversation's origin names.
    #[must_use]
    pub fn store_of(&self, origin: &Origin) -> Option<&dyn ConversationStore> {
        self.stores().find(|store| {
            store.kind() == origin.store && origin.path.as_ref().starts_with(store.path())
        })
    }
}
