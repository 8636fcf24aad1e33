//! Finds the directory with a session's store, and the workspace of that directory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use cursor_home::{CursorRoots, WorkspacePath};
use cursor_stores::chat::{
    Depth, NotResumable, ResumePoint, SessionMetaFile, Unresumable, furthest,
};
use cursor_stores::model::StoreKind;
use cursor_stores::{Catalogue, StorePlaces};
use run_protocol::{MintedSession, SessionRecord};
use run_shim::read_session_record;
use uuid::Uuid;

use super::refusal::Reason;
use crate::command_error::CommandError;
use crate::host::Host;
use crate::host::store_places::store_places;
use crate::worktrees;

/// The content of a session's store, read on first use.
pub(super) type Looked<'a> = dyn Deref<Target = Result<ResumePoint, Box<Unresumable>>> + 'a;

/// The directories of all chats, listed once for many decisions.
#[derive(Debug, Default)]
pub struct ListedChats {
    places: StorePlaces,
    /// The key is the directory that contains the buckets.
    chats: HashMap<PathBuf, HashMap<Uuid, Vec<Place>>>,
}

impl ListedChats {
    pub fn of(host: &Host) -> Result<Self, CommandError> {
        let places = store_places(host)?;
        let listed = |chats: &PathBuf| (chats.clone(), all_places_in(chats));
        let chats = places.chats.iter().map(listed).collect();
        Ok(Self { places, chats })
    }
}

/// The known facts about where a session is.
pub(super) struct Whereabouts<'a> {
    host: &'a Host,
    session: Uuid,
    /// The list, if this is one session of many.
    listed: Option<&'a ListedChats>,
    roots: CursorRoots,
    record: Option<SessionRecord>,
    /// Its directories below the `chats` directories that a run would use: the user's, and Caretaker's own.
    places: Vec<Place>,
}

/// `chats/<bucket>/<session>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    bucket: String,
    directory: PathBuf,
}

impl Place {
    pub(super) fn store_db(&self) -> PathBuf {
        self.directory.join("store.db")
    }

    /// True if the directory contains a file with a store's name.
    fn has_store(&self) -> bool {
        fs::symlink_metadata(self.store_db()).is_ok()
    }

    /// The workspace that Cursor recorded next to the store.
    fn noted_workspace(&self) -> Option<String> {
        SessionMetaFile::read(&self.directory.join("meta.json")).ok()?.cwd
    }
}

impl<'a> Whereabouts<'a> {
    pub(super) fn of(
        host: &'a Host,
        session: Uuid,
        listed: Option<&'a ListedChats>,
    ) -> Result<Self, CommandError> {
        let roots = host.environment.cursor_roots()?;
        let mut places = places_of(&roots.chats(), session, listed);
        places.extend(places_of(&host.state.chats(), session, listed));
        let record = read_session_record(&host.state, &session);
        Ok(Self { host, session, listed, roots, record, places })
    }

    pub(super) fn depth(&self) -> Depth {
        if self.listed.is_some() { Depth::Glance } else { Depth::Whole }
    }

    /// The record of its last run.
    pub(super) fn record(&self) -> Option<&SessionRecord> {
        self.record.as_ref()
    }

    /// The directory that has the session's store. If the workspace's buckets have several stores, the one that
    /// continues all others.
    pub(super) fn place(&self) -> Result<Place, Reason> {
        let with_store: Vec<&Place> =
            self.places.iter().filter(|place| place.has_store()).collect();
        match with_store.as_slice() {
            [place] => Ok((*place).clone()),
            [] => Err(self.why_nowhere()),
            several => {
                if let Some(place) = self.furthest(several) {
                    return Ok(place);
                }
                let name = |place: &&Place| {
                    let bucket: String = place.bucket.chars().take(8).collect();
                    let workspace = place.noted_workspace().unwrap_or_default();
                    format!("{}@{bucket}  {workspace}", self.session)
                };
                Err(Reason::SeveralBuckets { directories: several.iter().map(name).collect() })
            }
        }
    }

    /// A run shows the agent only one of several stores, so they must belong to one workspace and one conversation.
    fn furthest(&self, places: &[&Place]) -> Option<Place> {
        let has_all = |workspace: &WorkspacePath| {
            places.iter().all(|place| workspace.has_bucket(&place.bucket))
        };
        let known = self.noted_workspaces();
        let known = known.iter().filter_map(|path| WorkspacePath::new(path).ok());
        known.into_iter().any(|workspace| has_all(&workspace)).then_some(())?;
        let directories: Vec<&Path> = places.iter().map(|place| &*place.directory).collect();
        furthest(&directories).map(|at| places[at].clone())
    }

    /// The workspaces that Cursor recorded next to its stores, and the one that Caretaker recorded.
    pub(super) fn noted_workspaces(&self) -> Vec<PathBuf> {
        let noted = self.places.iter().filter_map(Place::noted_workspace);
        let ours = self.record.iter().map(|record| record.workspace.clone());
        noted.chain(ours).map(PathBuf::from).collect()
    }

    /// True if there are signs that an agent has begun the session.
    pub(super) fn has_begun(&self) -> bool {
        let root =
            self.record.as_ref().and_then(|record| record.checkpoint.as_ref()?.root.as_ref());
        root.is_some() || self.places.iter().any(Place::has_store)
    }

    /// The workspace that Caretaker created the session for. Refuses if the user names a different one.
    pub(super) fn workspace_of_minted(
        &self,
        minted: &MintedSession,
        asked: Option<&Path>,
    ) -> Result<WorkspacePath, Reason> {
        let recorded = Path::new(&minted.workspace);
        let physical = fs::canonicalize(recorded).map_err(|_| self.gone(recorded))?;
        let asked = asked.map(|asked| self.host.environment.absolute(asked));
        let asked = asked.map(|asked| fs::canonicalize(&asked).unwrap_or(asked));
        match asked.filter(|asked| *asked != physical) {
            Some(asked) => {
                Err(Reason::OtherWorkspace { asked: shown(&asked), actual: shown(&physical) })
            }
            None => WorkspacePath::new(&physical).map_err(|_| self.gone(recorded)),
        }
    }

    /// The workspace of the run that began the session.
    pub(super) fn recorded_workspace(&self) -> Option<WorkspacePath> {
        let record = self.record.as_ref()?;
        let physical = fs::canonicalize(&record.workspace).ok()?;
        WorkspacePath::new(&physical).ok()
    }

    fn why_nowhere(&self) -> Reason {
        let present = self.roots.config().display().to_string();
        if let Some(record) = &self.record
            && record.config_root.0 != self.roots.config()
        {
            let recorded = record.config_root.0.display().to_string();
            return Reason::OtherConfigRoot { recorded, present };
        }
        let places = match self.listed {
            Some(listed) => Cow::Borrowed(&listed.places),
            None => Cow::Owned(store_places(self.host).unwrap_or_default()),
        };
        let ours = [self.roots.chats(), self.host.state.chats()];
        let elsewhere = places.chats.iter().filter(|chats| !ours.contains(chats));
        for chats in elsewhere {
            let found = places_of(chats, self.session, self.listed);
            if found.iter().any(Place::has_store) {
                let root = chats.parent().unwrap_or(chats);
                return Reason::OtherConfigRoot { recorded: root.display().to_string(), present };
            }
        }
        let name = self.session.to_string();
        if places.acp_sessions.iter().any(|root| root.join(&name).is_dir()) {
            return Reason::AnotherKind { store: StoreKind::Acp };
        }
        let is_known = self.record.is_some() || !self.places.is_empty();
        if is_known || self.depth() == Depth::Glance {
            return Reason::Store(NotResumable::NoStore);
        }
        // The slow stores come last, and transcripts after them: a session that is only there has lost its store.
        let others = [StoreKind::Ide, StoreKind::IdeOld, StoreKind::Sdk, StoreKind::Transcript];
        for store in others {
            let heads = Catalogue::open(&places, &[store]).list().heads;
            if heads.iter().any(|head| head.id == name) {
                return Reason::AnotherKind { store };
            }
        }
        Reason::UnknownSession
    }

    /// The physical path of the workspace that the directory's bucket belongs to.
    pub(super) fn workspace(
        &self,
        place: &Place,
        asked: Option<&Path>,
        looked: &Looked<'_>,
    ) -> Result<WorkspacePath, Reason> {
        let recorded = self.recorded(place, looked);
        if let Some(asked) = asked {
            let asked = self.host.environment.absolute(asked);
            let physical = fs::canonicalize(&asked).unwrap_or(asked);
            return match in_bucket(&physical, place) {
                Some(workspace) => Ok(workspace),
                None => Err(not_asked(&physical, recorded.first())),
            };
        }
        let here = self.host.environment.working_directory.clone();
        let mut moved = None;
        for candidate in recorded.iter().chain([&here]) {
            match fs::canonicalize(candidate) {
                Ok(physical) => match in_bucket(&physical, place) {
                    Some(workspace) => return Ok(workspace),
                    None if *candidate != here => {
                        moved.get_or_insert((candidate.clone(), Some(physical)));
                    }
                    None => {}
                },
                // Only a bucket with the workspace's name proves that this workspace is gone, not another.
                Err(_) if in_bucket(candidate, place).is_some() => {
                    return Err(self.gone(candidate));
                }
                Err(_) => {
                    moved.get_or_insert((candidate.clone(), None));
                }
            }
        }
        Err(match moved {
            Some((recorded, Some(physical))) => {
                Reason::BucketMismatch { recorded: shown(&recorded), physical: shown(&physical) }
            }
            Some((recorded, None)) => self.gone(&recorded),
            None => Reason::WorkspaceUnknown { directory: shown(&place.directory) },
        })
    }

    fn gone(&self, workspace: &Path) -> Reason {
        let recorded = shown(workspace);
        match worktrees::record_of(self.host, workspace) {
            Some(record) if record.discarded_ms.is_some() => {
                let repository = shown(&record.origin.repository.0);
                Reason::WorktreeDiscarded { recorded, repository }
            }
            _ => Reason::WorkspaceGone { recorded },
        }
    }

    /// The recorded workspaces of the session, most direct record first.
    fn recorded(&self, place: &Place, looked: &Looked<'_>) -> Vec<PathBuf> {
        let noted = place.noted_workspace().map(PathBuf::from);
        let ours = self.record.as_ref().map(|record| PathBuf::from(&record.workspace));
        let mut recorded: Vec<PathBuf> = noted.into_iter().chain(ours).collect();
        if recorded.is_empty() {
            let state = match &**looked {
                Ok(point) => Some(&point.state),
                Err(refused) => refused.state.as_ref(),
            };
            let uris = state.into_iter().flat_map(|state| state.workspace_uris.iter().rev());
            recorded.extend(uris.filter_map(|uri| path_of_uri(uri)));
        }
        recorded.retain(|path| path.is_absolute());
        recorded
    }
}

fn not_asked(asked: &Path, recorded: Option<&PathBuf>) -> Reason {
    let asked = shown(asked);
    match recorded {
        Some(recorded) if recorded.exists() => {
            Reason::OtherWorkspace { asked, actual: shown(recorded) }
        }
        Some(recorded) => Reason::WorkspaceMoved { recorded: shown(recorded), asked },
        None => Reason::OtherWorkspace { asked, actual: "an unknown directory".to_owned() },
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn in_bucket(physical: &Path, place: &Place) -> Option<WorkspacePath> {
    let workspace = WorkspacePath::new(physical).ok()?;
    workspace.has_bucket(&place.bucket).then_some(workspace)
}

fn places_of(chats: &Path, session: Uuid, listed: Option<&ListedChats>) -> Vec<Place> {
    match listed.and_then(|listed| listed.chats.get(chats)) {
        Some(places) => places.get(&session).cloned().unwrap_or_default(),
        None => places_in(chats, session),
    }
}

/// The directories of all sessions in all buckets, without links.
fn all_places_in(chats: &Path) -> HashMap<Uuid, Vec<Place>> {
    let mut places: HashMap<Uuid, Vec<Place>> = HashMap::new();
    for bucket in fs::read_dir(chats).into_iter().flatten().flatten() {
        let Ok(name) = bucket.file_name().into_string() else { continue };
        for entry in fs::read_dir(bucket.path()).into_iter().flatten().flatten() {
            let session = entry.file_name().to_str().and_then(|name| Uuid::parse_str(name).ok());
            let Some(session) = session else { continue };
            let directory = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let place = Place { bucket: name.clone(), directory };
                places.entry(session).or_default().push(place);
            }
        }
    }
    let sort = |places: &mut Vec<Place>| places.sort_by(|one, other| one.bucket.cmp(&other.bucket));
    places.values_mut().for_each(sort);
    places
}

/// The directories of a session in all buckets, without links.
fn places_in(chats: &Path, session: Uuid) -> Vec<Place> {
    let mut places: Vec<Place> = fs::read_dir(chats)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|bucket| {
            let directory = bucket.path().join(session.to_string());
            let is_there = fs::symlink_metadata(&directory).ok()?.is_dir();
            let bucket = bucket.file_name().into_string().ok()?;
            is_there.then_some(Place { bucket, directory })
        })
        .collect();
    places.sort_by(|one, other| one.bucket.cmp(&other.bucket));
    places
}

/// The path of a `file://` URL.
fn path_of_uri(uri: &str) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    let mut rest = uri.strip_prefix("file://")?.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.get(..2).filter(|_| *first == b'%');
        let decoded = escaped
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { &after[2..] } else { after };
    }
    Some(PathBuf::from(String::from_utf8(bytes).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_uri_becomes_a_path() {
        assert_eq!(path_of_uri("file:///srv/my%20shop%"), Some("/srv/my shop%".into()));
        assert_eq!(path_of_uri("https://a/b"), None);
    }
}
