//! The user's last three logins. Caretaker keeps a login when an agent's renewal or `caretaker login restore` replaces
//! it.
//!
//! An agent may renew a login several times, so the latest login that no agent made is always among the three. All of
//! this happens under the login lock.

use std::io;
use std::path::{Path, PathBuf};

use cursor_home::Login;
use ground::now_ms;
use run_journal::{KernelLock, StateRoot};
use run_protocol::{BytesPath, RunId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::claims::Claims;
use super::files::{self, LARGEST};

/// The most logins that Caretaker keeps for one login file.
const MOST: usize = 3;

/// The most tokens that Caretaker remembers for one login file.
const MOST_REPLACED: usize = 64;

/// The author of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginOrigin {
    /// The user logged in, or restored the login.
    User,
    /// An agent renewed it.
    Agent,
}

/// A login that was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLogin {
    pub id: String,
    /// The time of the replacement, in milliseconds since 1970.
    pub kept_ms: u64,
    /// Its login file.
    pub file: BytesPath,
    pub by: LoginOrigin,
    /// The run whose agent renewed the login. `None` if `caretaker login restore` replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<RunId>,
    content: String,
}

impl KeptLogin {
    /// The account that the access token names.
    pub fn account(&self) -> Option<String> {
        self.claims()?.account().map(ToOwned::to_owned)
    }

    /// When the access token expires, in milliseconds since 1970.
    pub fn expires_ms(&self) -> Option<u64> {
        self.claims()?.expires()?.checked_mul(1000)
    }

    fn claims(&self) -> Option<Claims> {
        Claims::of(Login::parse(self.content.as_bytes()).ok()?.token("accessToken")?)
    }
}

/// The content of `logins.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LoginHistory {
    v: u32,
    /// The kept logins, latest first.
    kept: Vec<KeptLogin>,
    /// The last renewal of each login file: the file, and a hash of its new content.
    carried: Vec<(BytesPath, String)>,
    /// The replaced tokens, latest first: the login file, and a hash of the token. The history remembers tokens longer
    /// than logins, because an agent may have kept an old token.
    #[serde(default)]
    replaced: Vec<(BytesPath, String)>,
}

impl Default for LoginHistory {
    fn default() -> Self {
        Self { v: 1, kept: Vec::new(), carried: Vec::new(), replaced: Vec::new() }
    }
}

impl LoginHistory {
    pub(super) fn read(state: &StateRoot) -> io::Result<Self> {
        match files::read(&path_in(state), LARGEST * 16) {
            Ok(content) => Ok(serde_json::from_slice(&content)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn write(&self, state: &StateRoot) -> io::Result<()> {
        let path = path_in(state);
        files::remove_left_overs(&path);
        files::replace(&path, &serde_json::to_vec(self)?, || true).map(drop)
    }

    /// Returns whether a token was in a replaced login.
    pub(super) fn has_token(&self, file: &Path, token: &str) -> bool {
        let hash = hash_of(token.as_bytes());
        let is_remembered =
            self.replaced.iter().any(|(of, replaced)| of.0 == file && *replaced == hash);
        // An earlier version kept logins without hashes.
        is_remembered
            || self.of(file).any(|kept| {
                let login = Login::parse(kept.content.as_bytes());
                login.is_ok_and(|login| login.tokens().any(|of_login| of_login == token))
            })
    }

    fn remember_tokens(&mut self, file: &Path, content: &[u8]) {
        let Ok(login) = Login::parse(content) else { return };
        for token in login.tokens() {
            let entry = (BytesPath::from(file.to_owned()), hash_of(token.as_bytes()));
            self.replaced.retain(|known| *known != entry);
            self.replaced.insert(0, entry);
        }
        let mut n_of_file = 0;
        self.replaced.retain(|(of, _)| {
            n_of_file += usize::from(of.0 == file);
            of.0 != file || n_of_file <= MOST_REPLACED
        });
    }

    fn of(&self, file: &Path) -> impl Iterator<Item = &KeptLogin> {
        self.kept.iter().filter(move |kept| kept.file.0 == file)
    }

    /// Adds a login before its replacement, and returns its id.
    pub(super) fn keep(
        &mut self,
        file: &Path,
        content: &[u8],
        replaced_by: Option<RunId>,
    ) -> String {
        self.remember_tokens(file, content);
        let hash = hash_of(content);
        let is_agents = self.carried.iter().any(|(of, carried)| of.0 == file && *carried == hash);
        let content = String::from_utf8_lossy(content).into_owned();
        let id = uuid::Uuid::new_v4().simple().to_string()[..8].to_owned();
        self.kept.retain(|kept| kept.file.0 != file || kept.content != content);
        let by = if is_agents { LoginOrigin::Agent } else { LoginOrigin::User };
        let file_name = file.to_owned().into();
        let kept = KeptLogin {
            id: id.clone(),
            kept_ms: now_ms(),
            file: file_name,
            by,
            replaced_by,
            content,
        };
        self.kept.insert(0, kept);
        self.forget_the_oldest(file);
        id
    }

    /// Records that an agent made the login in a file.
    pub(super) fn note_carried(&mut self, file: &Path, content: &[u8]) {
        self.carried.retain(|(of, _)| of.0 != file);
        self.carried.push((file.to_owned().into(), hash_of(content)));
    }

    fn forget_the_oldest(&mut self, file: &Path) {
        let of_file: Vec<&KeptLogin> = self.of(file).collect();
        let users = of_file.iter().position(|kept| kept.by == LoginOrigin::User);
        let mut stay: Vec<usize> = (0..of_file.len().min(MOST)).collect();
        if let Some(users) = users.filter(|users| *users >= MOST) {
            stay[MOST - 1] = users;
        }
        let stay: Vec<String> = stay.into_iter().map(|place| of_file[place].id.clone()).collect();
        self.kept.retain(|kept| kept.file.0 != file || stay.contains(&kept.id));
    }
}

fn hash_of(content: &[u8]) -> String {
    let hash = Sha256::digest(content);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn path_in(state: &StateRoot) -> PathBuf {
    state.path().join("logins.json")
}

/// Takes the lock under which Caretaker compares, keeps and replaces logins.
pub(super) fn lock(state: &StateRoot) -> io::Result<KernelLock> {
    KernelLock::take_waiting(&state.path().join("login.lock"))
}

/// Returns the kept logins, latest first.
pub fn kept_logins(state: &StateRoot) -> io::Result<Vec<KeptLogin>> {
    Ok(LoginHistory::read(state)?.kept)
}

/// A restored login.
#[derive(Debug)]
pub struct Restored {
    pub login: KeptLogin,
    /// The id of the login that it replaced, if there was one.
    pub kept: Option<String>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    #[error("there are no kept logins")]
    NothingKept,
    #[error("no kept login has an id that begins with `{0}`")]
    Unknown(String),
    #[error("several kept logins have an id that begins with `{0}`")]
    Ambiguous(String),
    #[error("the kept logins cannot be used")]
    Kept(#[source] io::Error),
    #[error("the login file `{}` cannot be replaced", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Puts a kept login back into its file, and keeps the login that it replaces. Without an id, it takes the latest login
/// that no agent made. Otherwise an agent could renew a login twice to have its own token restored.
pub fn restore_login(state: &StateRoot, id: Option<&str>) -> Result<Restored, RestoreError> {
    if !path_in(state).exists() {
        return Err(RestoreError::NothingKept);
    }
    let _lock = lock(state).map_err(RestoreError::Kept)?;
    let mut history = LoginHistory::read(state).map_err(RestoreError::Kept)?;
    let login = choose(&history.kept, id)?.clone();
    let file = login.file.0.clone();
    let failed = |source| RestoreError::Write { path: file.clone(), source };
    files::remove_left_overs(&file);
    let present = match files::read(&file, LARGEST) {
        Ok(content) => Some(content),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    history.kept.retain(|kept| kept.id != login.id);
    // A file that is not a login is not worth keeping.
    let present = present.filter(|present| Login::parse(present).is_ok());
    let kept = present.map(|present| history.keep(&file, &present, None));
    // If this process is killed in between, the login is in the history and in its file.
    let mut both = history.clone();
    both.kept.push(login.clone());
    both.write(state).map_err(RestoreError::Kept)?;
    files::replace(&file, login.content.as_bytes(), || true).map_err(failed)?;
    history.write(state).map_err(RestoreError::Kept)?;
    Ok(Restored { login, kept })
}

fn choose<'k>(kept: &'k [KeptLogin], id: Option<&str>) -> Result<&'k KeptLogin, RestoreError> {
    let Some(id) = id else {
        let of_user = kept.iter().find(|kept| kept.by == LoginOrigin::User);
        return of_user.or(kept.first()).ok_or(RestoreError::NothingKept);
    };
    let mut found = kept.iter().filter(|kept| kept.id.starts_with(id));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(RestoreError::Unknown(id.to_owned())),
        (Some(_), Some(_)) => Err(RestoreError::Ambiguous(id.to_owned())),
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
