//! Searches the stores, directly or through the index.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use admission::command_error::CommandError;
use admission::host::Host;
use admission::sessions::report;
use admission::words::talk::note;
use cursor_stores::model::{Head, StoreKind};
use cursor_stores::search::Matcher;
use cursor_stores::{Candidates, Catalogue, ConversationStore, Hit, SearchIndex, SearchIndexError};
use ground::{lock, make_private_dir};

use super::search::Args;
use crate::running::progress::Progress;

/// A limit, because a pattern that occurs everywhere would fill memory.
pub(super) const MOST_HITS: usize = 100_000;

/// One search.
pub(super) struct Search<'a> {
    pub(super) args: &'a Args,
    pub(super) host: &'a Host,
    pub(super) catalogue: &'a Catalogue,
    pub(super) matcher: &'a Matcher,
}

/// A match and its conversation.
pub(super) struct FoundHit {
    pub(super) head: Option<Arc<Head>>,
    pub(super) store: StoreKind,
    /// The path of the store.
    pub(super) path: Arc<Path>,
    pub(super) hit: Hit,
}

pub(super) struct Hits {
    pub(super) hits: Vec<FoundHit>,
    /// True if the search stopped early.
    pub(super) is_cut: bool,
}

impl Search<'_> {
    pub(super) fn hits(&self) -> Result<Hits, CommandError> {
        match self.hits_by_index() {
            // Search the stores that are not in the index directly.
            Ok(Some(hits)) if hits.is_cut => Ok(hits),
            Ok(Some(hits)) => {
                Ok(self.hits_in_stores(hits.hits, |store| store.indexable().is_none()))
            }
            Ok(None) => Ok(self.hits_in_stores(Vec::new(), |_| true)),
            Err(error) => {
                let why = CommandError::new(run_protocol::ExitCode::Failed, "cannot use the index")
                    .because(error)
                    .message_with_causes();
                note(&format!("{why}; searching without it"));
                Ok(self.hits_in_stores(Vec::new(), |_| true))
            }
        }
    }

    /// `None` if there is no index, or it cannot answer.
    fn hits_by_index(&self) -> Result<Option<Hits>, SearchIndexError> {
        let path = self.host.places.state.join("search.db");
        let is_wanted = self.args.index || (!self.args.no_index && path.exists());
        // The index does not store models.
        if !is_wanted || self.args.selection.filter.needs_reading() {
            return Ok(None);
        }
        if self.args.index {
            make_private_dir(&self.host.places.state).map_err(SearchIndexError::Make)?;
        }
        let mut index = SearchIndex::open(&path)?;
        let progress = Progress::of(0, "reading into the index");
        index.refresh(self.catalogue, &mut |n_done, n_all| progress.show(n_done, n_all))?;
        drop(progress);
        let Some(candidates) = index.candidates(self.matcher)? else { return Ok(None) };
        Ok(Some(self.hits_among(&index, &candidates)))
    }

    /// Searches the indexed stores where the index has candidates.
    fn hits_among(&self, index: &SearchIndex, candidates: &[Candidates]) -> Hits {
        let mut hits = Vec::new();
        for store in self.catalogue.stores().filter_map(|store| store.indexable()) {
            let is_of_store = |candidates: &&Candidates| {
                candidates.store == store.kind() && candidates.path.0 == store.path()
            };
            let sections =
                candidates.iter().find(is_of_store).map(|found| found.sections.as_slice());
            let found: Mutex<Vec<Hit>> = Mutex::default();
            let damage =
                store.search_sections(sections.unwrap_or_default(), self.matcher, &|hit| {
                    let mut found = lock(&found);
                    found.push(hit);
                    if found.len() < MOST_HITS {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                });
            for damage in damage {
                note(&format!("cannot search {}: {}", damage.place, damage.what));
            }
            let path: Arc<Path> = store.path().into();
            let mut heads: HashMap<String, Option<Arc<Head>>> = HashMap::new();
            for hit in found.into_inner().unwrap_or_else(PoisonError::into_inner) {
                let head = heads
                    .entry(hit.key.clone())
                    .or_insert_with(|| index.head(store, &hit.key).map(Arc::new))
                    .clone();
                let is_meant = match &head {
                    Some(head) => self.args.selection.filter.allows(self.host, head),
                    None => !self.args.selection.filter.is_given(),
                };
                if is_meant {
                    let path = path.clone();
                    hits.push(FoundHit { head, store: store.kind(), path, hit });
                }
            }
        }
        let is_cut = hits.len() >= MOST_HITS;
        Hits { hits, is_cut }
    }

    /// Adds the matches in the stores that `is_meant` selects.
    fn hits_in_stores(
        &self,
        hits: Vec<FoundHit>,
        is_meant: impl Fn(&dyn ConversationStore) -> bool,
    ) -> Hits {
        if !self.catalogue.stores().any(&is_meant) {
            return Hits { hits, is_cut: false };
        }
        // List conversations only after the first match: the list takes longer than most searches.
        let places = OnceLock::new();
        let list = || {
            Places::of(self.catalogue, self.args.selection.select_all(self.host, self.catalogue))
        };
        let hits = Mutex::new(hits);
        let is_restricted = self.args.selection.filter.is_given();
        let damage = self.catalogue.search_in(is_meant, self.matcher, &|found| {
            let head = places.get_or_init(list).head(found.store, found.path, &found.hit.key);
            // Text outside any conversation cannot meet the user's conditions.
            if head.is_none() && is_restricted {
                return ControlFlow::Continue(());
            }
            let mut hits = lock(&hits);
            let (store, path) = (found.store, found.path.into());
            hits.push(FoundHit { head, store, path, hit: found.hit });
            if hits.len() < MOST_HITS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        report(&damage);
        let hits = hits.into_inner().unwrap_or_else(PoisonError::into_inner);
        let is_cut = hits.len() >= MOST_HITS;
        Hits { hits, is_cut }
    }
}

/// Maps a store's key to its conversation.
struct Places {
    heads: HashMap<StoreKind, HashMap<PathBuf, HashMap<String, Arc<Head>>>>,
}

impl Places {
    fn of(catalogue: &Catalogue, heads: Vec<Head>) -> Self {
        let mut places = Self { heads: HashMap::new() };
        for head in heads {
            let head = Arc::new(head);
            for origin in &head.origins {
                if let Some(store) = catalogue.store_of(origin) {
                    let of_kind = places.heads.entry(origin.store).or_default();
                    let of_store = of_kind.entry(store.path().to_path_buf()).or_default();
                    of_store.insert(origin.key(&head).to_owned(), head.clone());
                }
            }
        }
        places
    }

    fn head(&self, kind: StoreKind, path: &Path, key: &str) -> Option<Arc<Head>> {
        self.heads.get(&kind)?.get(path)?.get(key).cloned()
    }
}
