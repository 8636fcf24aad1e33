//! The conversations in one IDE user directory, as a store.

use ground::with_causes;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use super::agent::prompt_rows::PromptRows;
use super::conversation::gather;
use super::database::pool::Pool;
use super::database::{self, keys};
use super::listing::workspaces::WorkspaceLinks;
use super::{account, conversation, listing, raw, search};

use crate::StorePlaces;
use crate::database::with_suffix;
use crate::model::{Activity, Conversation, Damage, Head, Origin, StoreKind};
use crate::plain_file::{self, PlainFileError};
use crate::raw_record::VisitRaw;
use crate::search::Matcher;
use crate::store::{
    Account, Branches, ConversationStore, Discovered, Extent, Found, IndexableStore, Listing,
    ReadConversationError, SkippedPlace,
};

/// If no process has written to a log for this long, its writer counts as gone.
const WRITER_SILENCE: Duration = Duration::from_secs(15 * 60);

pub(crate) fn discover(places: &StorePlaces) -> Vec<Discovered> {
    places.cursor_user_dirs.iter().flat_map(|directory| discover_in(directory)).collect()
}

fn discover_in(user_dir: &Path) -> Vec<Discovered> {
    let store = IdeStore::new(user_dir);
    let is_plain = |path: &Path| plain_file::inspect(path).is_ok();
    match plain_file::inspect(&store.path) {
        Ok(_) => {}
        // The backup may be readable.
        Err(_) if is_plain(&store.backup_path()) => {}
        Err(PlainFileError::Missing { .. }) => return Vec::new(),
        Err(err) => {
            let why = with_causes(&err);
            return vec![Discovered::Skipped(SkippedPlace {
                store: StoreKind::Ide,
                path: store.path.into(),
                why,
            })];
        }
    }
    let backup = store.backup();
    [Some(store), backup]
        .into_iter()
        .flatten()
        .map(|store| Discovered::Store(Box::new(store)))
        .collect()
}

/// The conversations in one IDE user directory.
pub(super) struct IdeStore {
    /// `globalStorage/state.vscdb`, or its backup.
    pub(super) path: PathBuf,
    role: Role,
    pub(super) workspace_storage: PathBuf,
    /// Read for the first conversation that does not name its workspace.
    links: OnceLock<WorkspaceLinks>,
    pub(super) prompt_rows: PromptRows,
}

/// Whether the file is Cursor's database or its backup.
enum Role {
    Database,
    /// A copy of a database that is now damaged. It is a separate store, because each of the two may have conversations
    /// that the other lacks.
    Backup {
        of: PathBuf,
        /// The problem with the database.
        why: &'static str,
    },
}

/// The database, or its backup.
pub(super) struct Opened {
    pub(super) pool: Pool,
    /// If this is the backup: the problem with the database.
    pub(super) backup: Option<String>,
}

impl IdeStore {
    fn new(user_dir: &Path) -> Self {
        Self {
            path: user_dir.join("globalStorage").join("state.vscdb"),
            role: Role::Database,
            workspace_storage: user_dir.join("workspaceStorage"),
            links: OnceLock::new(),
            prompt_rows: PromptRows::default(),
        }
    }

    /// Cursor copies its database on a clean exit.
    pub(super) fn backup_path(&self) -> PathBuf {
        with_suffix(&self.path, ".backup")
    }

    /// Returns the backup as a separate store, if the database is damaged.
    fn backup(&self) -> Option<Self> {
        let path = self.backup_path();
        plain_file::inspect(&path).ok()?;
        let rest = Pool::open(&self.path).ok().filter(Pool::is_salvaged)?;
        Some(Self {
            path,
            role: Role::Backup { of: self.path.clone(), why: rest.shortcoming()? },
            workspace_storage: self.workspace_storage.clone(),
            links: OnceLock::new(),
            prompt_rows: PromptRows::default(),
        })
    }

    pub(super) fn open(&self) -> Result<Opened, ReadConversationError> {
        match (Pool::open(&self.path), &self.role) {
            (Ok(pool), Role::Database) => Ok(Opened { pool, backup: None }),
            (Ok(pool), Role::Backup { why, .. }) => {
                Ok(Opened { pool, backup: Some((*why).to_owned()) })
            }
            (Err(err), Role::Database) => match Pool::open(&self.backup_path()) {
                Ok(pool) => Ok(Opened { pool, backup: Some(with_causes(&err)) }),
                Err(_) => Err(self.unreadable(err)),
            },
            (Err(err), Role::Backup { .. }) => Err(self.unreadable(err)),
        }
    }

    /// Returns the backup's conversations that were deleted later, judging by the rest of the database.
    pub(super) fn deleted_since(&self) -> HashSet<String> {
        let mut deleted = HashSet::new();
        if let Role::Backup { of, .. } = &self.role
            && let Ok(rest) = Pool::open(of)
        {
            let range = keys::beginning_with(keys::COMPOSER);
            rest.visit(database::Table::DiskKv, &range, &mut |row| {
                if matches!(row.value, database::Value::Tombstone) {
                    deleted.extend(row.key.strip_prefix(keys::COMPOSER).map(str::to_owned));
                }
                ControlFlow::Continue(())
            });
        }
        deleted
    }

    /// Checks a large database before reading all of it. If the check fails, the read reports why.
    fn check(&self) {
        if let Ok(opened) = self.open() {
            opened.pool.with(database::Vscdb::check).ok();
        }
    }

    pub(super) fn unreadable(
        &self,
        err: impl std::error::Error + Send + Sync + 'static,
    ) -> ReadConversationError {
        ReadConversationError::unreadable(&self.path, err)
    }

    pub(super) fn origin(&self) -> Origin {
        Origin { store: StoreKind::Ide, path: self.path.clone().into(), key: None }
    }

    pub(super) fn links(&self) -> &WorkspaceLinks {
        self.links.get_or_init(|| WorkspaceLinks::read(&self.workspace_storage))
    }

    /// Tells whether a process has the database open: its log has content, and changed recently.
    pub(super) fn has_writer(&self) -> bool {
        let log = plain_file::inspect(&with_suffix(&self.path, "-wal"));
        log.is_ok_and(|log| {
            let silence = log
                .modified()
                .ok()
                .and_then(|modified| SystemTime::now().duration_since(modified).ok());
            log.len() > 0 && silence.is_none_or(|silence| silence < WRITER_SILENCE)
        })
    }
}

impl Opened {
    /// True if this was salvaged from the database itself, not from its backup.
    pub(super) fn is_salvaged_itself(&self) -> bool {
        self.backup.is_none() && self.pool.is_salvaged()
    }

    /// Returns the damage that affects everything from the backup or from a damaged database.
    pub(super) fn damage(&self) -> Option<Damage> {
        let what = match (&self.backup, self.pool.shortcoming()) {
            (Some(why), _) => format!(
                "{why}; read from state.vscdb.backup, which dates from the end of the last session"
            ),
            (None, Some(what)) => what.to_owned(),
            (None, None) => return None,
        };
        Some(Damage::new("state.vscdb", what))
    }
}

impl ConversationStore for IdeStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Ide
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn list(&self) -> Listing {
        let mut listing = listing::list(self);
        let deleted = self.deleted_since();
        listing.heads.retain(|head| !deleted.contains(&head.id));
        listing
    }

    fn complete(&self, head: &mut Head) {
        if let Ok(opened) = self.open() {
            // Computing the size visits all rows.
            if let Ok(n_bytes) = gather::n_bytes(&opened.pool, &head.id) {
                head.n_bytes = Some(n_bytes);
            }
            if gather::has_lost_rows(&opened.pool, &head.id) {
                head.activity = Activity::Damaged;
            }
        }
    }

    fn models(&self, key: &str) -> Vec<String> {
        self.open().map(|opened| conversation::models(&opened, key)).unwrap_or_default()
    }

    fn read(&self, key: &str, extent: Extent) -> Result<Conversation, ReadConversationError> {
        conversation::read(self, key, extent)
    }

    fn search(&self, matcher: &Matcher, found: Found<'_>) -> Vec<Damage> {
        self.check();
        search::search(self, &search::all_tasks(), matcher, found)
    }

    fn visit_raw(
        &self,
        key: &str,
        branches: Branches,
        visit: &mut VisitRaw<'_>,
    ) -> Result<(), ReadConversationError> {
        raw::visit_raw(self, key, branches, visit)
    }

    fn indexable(&self) -> Option<&dyn IndexableStore> {
        Some(self)
    }

    fn stamp(&self, key: &str) -> Option<u64> {
        let opened = self.open().ok()?;
        let mut hasher = DefaultHasher::new();
        let n_rows = gather::visit_rows(&opened.pool, key, &mut |row| {
            (row.key, row.value).hash(&mut hasher);
        });
        (n_rows > 0).then(|| hasher.finish())
    }

    fn stamps(&self, keys: &[&str]) -> Vec<Option<u64>> {
        match self.open() {
            Ok(opened) => gather::shapes(&opened.pool, keys),
            Err(_) => vec![None; keys.len()],
        }
    }

    fn watched(&self, _key: Option<&str>) -> Vec<PathBuf> {
        self.path.parent().map(Path::to_owned).into_iter().collect()
    }

    fn account(&self) -> Account {
        account::account(self)
    }
}
