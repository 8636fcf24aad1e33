//! Decides where a session's store is, and where a new one goes.
//!
//! Cursor names a workspace's bucket by a hash of the workspace's path, and may change the hash. It uses the newest
//! bucket that exists. So a second bucket in the user's chats would hide the user's own sessions from the user's own
//! agent, and Caretaker never makes one. It keeps a session in its own chats if the agent uses a name that the user's
//! chats do not have:
//!
//! ```text
//!                      the user's chats              Caretaker's chats
//!   by MD5             <config>/chats/<md5>/<id>     <state>/chats/<md5>/<id>
//!   by SHA-256         <config>/chats/<sha256>/<id>  <state>/chats/<sha256>/<id>
//!
//!   the session exists  the agent sees it under every name
//!   it is new           the agent sees one empty directory under each name, and the name that it uses decides
//! ```

use std::path::{Path, PathBuf};

use cursor_home::{BucketHash, WorkspacePath};
use cursor_stores::chat::furthest;
use run_journal::StateRoot;
use run_protocol::RunSpec;
use uuid::Uuid;

/// Whose `chats` directory has a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    User,
    Caretaker,
}

/// A place for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) owner: Owner,
    /// The hash that names its bucket.
    pub(crate) hash: BucketHash,
}

/// The only place that earlier versions knew.
pub(crate) const FIRST_PLACE: Place = Place { owner: Owner::User, hash: BucketHash::Md5 };

impl Place {
    /// All places, in the order in which Cursor and Caretaker would choose between copies of a session.
    const ALL: [Self; 4] = [
        Self { owner: Owner::User, hash: BucketHash::Sha256 },
        FIRST_PLACE,
        Self { owner: Owner::Caretaker, hash: BucketHash::Sha256 },
        Self { owner: Owner::Caretaker, hash: BucketHash::Md5 },
    ];

    /// Its name in records.
    pub(crate) fn word(self) -> &'static str {
        match (self.owner, self.hash) {
            (Owner::User, BucketHash::Md5) => "user-md5",
            (Owner::User, BucketHash::Sha256) => "user-sha256",
            (Owner::Caretaker, BucketHash::Md5) => "caretaker-md5",
            (Owner::Caretaker, BucketHash::Sha256) => "caretaker-sha256",
        }
    }

    /// The place of a new session whose agent uses this name. `users` are the buckets in the user's chats.
    fn of_new(hash: BucketHash, users: &[BucketHash]) -> Self {
        let is_first = users.is_empty() && hash == FIRST_PLACE.hash;
        let owner = if is_first || users.contains(&hash) { Owner::User } else { Owner::Caretaker };
        Self { owner, hash }
    }

    /// The place of a session that no agent has made: a copy. It must be where the user's own agent looks.
    fn of_copy(users: &[BucketHash]) -> Self {
        let hash = users.iter().copied().max().unwrap_or(FIRST_PLACE.hash);
        Self { owner: Owner::User, hash }
    }

    /// The place that each name of the bucket shows inside. `found` is the place of an existing session.
    fn shown(found: Option<Self>, users: &[BucketHash]) -> [(BucketHash, Self); 2] {
        BucketHash::ALL.map(|hash| (hash, found.unwrap_or_else(|| Self::of_new(hash, users))))
    }

    /// The place to which a session moves after a run, if the user's chats now have its bucket.
    fn moves_to(self, users: &[BucketHash]) -> Option<Self> {
        let moves = self.owner == Owner::Caretaker && users.contains(&self.hash);
        moves.then_some(Self { owner: Owner::User, ..self })
    }
}

/// Several stores have the session's id, and none of them continues all others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "several directories have a store of it, and none continues the others: {}",
    .0.iter().map(|directory| directory.display().to_string()).collect::<Vec<_>>().join(", ")
)]
pub(crate) struct SeveralStores(Vec<PathBuf>);

/// The directories that may have a session.
#[derive(Debug, Clone)]
pub struct SessionPlaces {
    users_chats: PathBuf,
    our_chats: PathBuf,
    workspace: WorkspacePath,
    session: String,
}

impl SessionPlaces {
    /// `config_root` is the directory of the user's own cursor-agent.
    pub fn new(
        state: &StateRoot,
        config_root: &Path,
        workspace: &WorkspacePath,
        session: Uuid,
    ) -> Self {
        Self {
            users_chats: config_root.join("chats"),
            our_chats: state.chats(),
            workspace: workspace.clone(),
            session: session.to_string(),
        }
    }

    /// The places of a run's session. `None` if the run's workspace cannot be one.
    pub(crate) fn of_run(state: &StateRoot, spec: &RunSpec) -> Option<Self> {
        let workspace = WorkspacePath::new(Path::new(&spec.workspace)).ok()?;
        Some(Self::new(state, &spec.host_config_root.0, &workspace, spec.session))
    }

    /// The `chats` directory and the bucket of the session if it exists, else those for a copy with its id.
    pub fn for_copy(&self) -> (PathBuf, String) {
        let exists = |place: &Place| self.directory(*place).is_dir();
        let found = self.found().ok().flatten();
        let existing = found.or_else(|| Place::ALL.into_iter().find(exists));
        let place = existing.unwrap_or_else(|| Place::of_copy(&self.users_buckets()));
        (self.chats(place).to_owned(), self.name(place.hash))
    }

    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    pub(crate) fn name(&self, hash: BucketHash) -> String {
        self.workspace.bucket_by(hash)
    }

    fn chats(&self, place: Place) -> &Path {
        match place.owner {
            Owner::User => &self.users_chats,
            Owner::Caretaker => &self.our_chats,
        }
    }

    pub(crate) fn bucket(&self, place: Place) -> PathBuf {
        self.chats(place).join(self.name(place.hash))
    }

    pub(crate) fn directory(&self, place: Place) -> PathBuf {
        self.bucket(place).join(&self.session)
    }

    pub(crate) fn has_store(&self, place: Place) -> bool {
        self.directory(place).join("store.db").symlink_metadata().is_ok()
    }

    /// The first place with a store. Reads no store, because an agent may have just written it.
    pub(crate) fn first_with_store(&self) -> Option<Place> {
        Place::ALL.into_iter().find(|place| self.has_store(*place))
    }

    /// The place of the session that a run continues.
    pub(crate) fn found(&self) -> Result<Option<Place>, SeveralStores> {
        let places: Vec<Place> =
            Place::ALL.into_iter().filter(|place| self.has_store(*place)).collect();
        if places.len() < 2 {
            return Ok(places.first().copied());
        }
        let directories: Vec<PathBuf> = places.iter().map(|place| self.directory(*place)).collect();
        match furthest(&directories) {
            Some(at) => Ok(Some(places[at])),
            None => Err(SeveralStores(directories)),
        }
    }

    /// The places that the names of the bucket show inside.
    pub(crate) fn shown(&self) -> [(BucketHash, Place); 2] {
        let found = self.found().unwrap_or_else(|_| self.first_with_store());
        Place::shown(found, &self.users_buckets())
    }

    /// The place to which a session moves after a run, if it moves.
    pub(crate) fn moves_to(&self, place: Place) -> Option<Place> {
        place.moves_to(&self.users_buckets())
    }

    /// Removes the session's empty directories, so that a session without a store leaves nothing.
    pub(crate) fn remove_empty(&self) {
        for place in Place::ALL {
            // These calls remove only empty directories.
            let is_removed = std::fs::remove_dir(self.directory(place)).is_ok();
            if is_removed || place.owner == Owner::Caretaker {
                std::fs::remove_dir(self.bucket(place)).ok();
            }
        }
    }

    fn users_buckets(&self) -> Vec<BucketHash> {
        let is_there = |hash: &BucketHash| self.users_chats.join(self.name(*hash)).is_dir();
        BucketHash::ALL.into_iter().filter(is_there).collect()
    }
}

#[cfg(test)]
#[path = "session_places_tests.rs"]
mod tests;
