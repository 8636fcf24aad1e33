//! Conversations of the IDE as it is today: `globalStorage/state.vscdb`, with what workspaces know of them.
//!
//! ```text
//! composerData:<composer>  ── order ──►  bubbleId:<composer>:<bubble>     what was said, one row each
//!     │ or inline, in older builds
//!     └─ conversationState, agentKv:checkpoint:<composer> ──► agentKv:blob:<sha256>   what the model was given
//! composerHeaders, ItemTable, workspaceStorage/*  ──►  titles, times, workspaces
//! ```

use ground::with_causes;

mod account;
mod agent_merge;
mod agent_message;
mod agent_scan;
mod agent_state;
mod assemble;
mod bubble;
mod context;
mod conversation;
mod database;
mod gather;
mod headers;
mod heads;
mod inline;
mod keys;
mod lenient;
mod list;
mod pool;
mod raw;
mod search;
mod search_owners;
mod sections;
mod side_rows;
mod summary;
#[cfg(test)]
mod tests;
mod tool;
mod turns;
mod workspaces;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

pub(crate) use context::{attachments, name_of};
use heads::Writer;
use pool::Pool;
pub(crate) use tool::tool_call;
use workspaces::WorkspaceLinks;

use crate::StorePlaces;
use crate::database_fingerprint::with_suffix;
use crate::model::{Activity, Conversation, Damage, Head, Origin, StoreKind};
use crate::plain_file::{self, PlainFileError};
use crate::raw_record::VisitRaw;
use crate::search::Matcher;
use crate::store::{
    Account, Branches, ConversationStore, Discovered, Extent, Hit, IndexableStore, Listing,
    ReadConversationError, SkippedPlace,
};

/// A log that nobody wrote to for this long was left by a writer that is gone.
const WRITER_SILENCE: Duration = Duration::from_secs(15 * 60);

pub(crate) fn discover(places: &StorePlaces) -> Vec<Discovered> {
    places.cursor_user_dirs.iter().flat_map(|directory| discover_in(directory)).collect()
}

fn discover_in(user_dir: &Path) -> Vec<Discovered> {
    let store = IdeStore::new(user_dir);
    let is_plain = |path: &Path| plain_file::inspect(path).is_ok();
    match plain_file::inspect(&store.path) {
        Ok(_) => {}
        // What cannot be opened may be read from the backup.
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

/// The conversations of one user directory of the IDE.
struct IdeStore {
    /// `globalStorage/state.vscdb`, or its backup.
    path: PathBuf,
    role: Role,
    workspace_storage: PathBuf,
    /// Read when the first conversation does not say by itself where it belongs.
    links: OnceLock<WorkspaceLinks>,
    prompt_rows: agent_scan::PromptRows,
}

/// What a file is for Cursor.
enum Role {
    Database,
    /// What was copied from a database that is not whole now: a store of its own, because either may have what the other
    /// has not.
    Backup {
        of: PathBuf,
        /// What is wrong with the database.
        why: &'static str,
    },
}

/// The database, or its backup.
struct Opened {
    pool: Pool,
    /// Why it is the backup.
    backup: Option<String>,
}

impl IdeStore {
    fn new(user_dir: &Path) -> Self {
        Self {
            path: user_dir.join("globalStorage").join("state.vscdb"),
            role: Role::Database,
            workspace_storage: user_dir.join("workspaceStorage"),
            links: OnceLock::new(),
            prompt_rows: agent_scan::PromptRows::default(),
        }
    }

    /// Cursor copies its database when it ends as it should.
    fn backup_path(&self) -> PathBuf {
        with_suffix(&self.path, ".backup")
    }

    /// The backup as a store of its own, if only a part of the database is left.
    fn backup(&self) -> Option<Self> {
        let path = self.backup_path();
        plain_file::inspect(&path).ok()?;
        let rest = Pool::open(&self.path).ok().filter(Pool::is_in_part)?;
        Some(Self {
            path,
            role: Role::Backup { of: self.path.clone(), why: rest.shortcoming()? },
            workspace_storage: self.workspace_storage.clone(),
            links: OnceLock::new(),
            prompt_rows: agent_scan::PromptRows::default(),
        })
    }

    fn open(&self) -> Result<Opened, ReadConversationError> {
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

    /// The conversations of a backup that were deleted since, as what is left of the database says.
    fn deleted_since(&self) -> HashSet<String> {
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

    /// Looks over a large database before all of it is read. Where that is not possible, reading it tells why.
    fn check(&self) {
        if let Ok(opened) = self.open() {
            opened.pool.with(database::Vscdb::check).ok();
        }
    }

    fn unreadable(
        &self,
        err: impl std::error::Error + Send + Sync + 'static,
    ) -> ReadConversationError {
        ReadConversationError::Unreadable { path: self.path.clone(), source: Box::new(err) }
    }

    fn origin(&self) -> Origin {
        Origin { store: StoreKind::Ide, path: self.path.clone().into(), key: None }
    }

    fn links(&self) -> &WorkspaceLinks {
        self.links.get_or_init(|| WorkspaceLinks::read(&self.workspace_storage))
    }

    /// Tells whether somebody has the database open: its log has content, and got some lately.
    fn writer(&self) -> Writer {
        let log = plain_file::inspect(&with_suffix(&self.path, "-wal"));
        let is_active = log.is_ok_and(|log| {
            let silence = log
                .modified()
                .ok()
                .and_then(|modified| SystemTime::now().duration_since(modified).ok());
            log.len() > 0 && silence.is_none_or(|silence| silence < WRITER_SILENCE)
        });
        if is_active { Writer::Active } else { Writer::Gone }
    }
}

impl Opened {
    /// Whether it is a part of the database, and no backup.
    fn is_what_is_left(&self) -> bool {
        self.backup.is_none() && self.pool.is_in_part()
    }

    /// What has to be said of everything that comes from the backup, or from a database that is not whole.
    fn damage(&self) -> Option<Damage> {
        let what = match (&self.backup, self.pool.shortcoming()) {
            (Some(why), _) => format!(
                "{why}; read from state.vscdb.backup, which is as old as the end of the last session"
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
        let mut listing = list::list(self);
        let deleted = self.deleted_since();
        listing.heads.retain(|head| !deleted.contains(&head.id));
        listing
    }

    fn complete(&self, head: &mut Head) {
        if let Ok(opened) = self.open() {
            // To know how long they are is to have looked at all of its rows.
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

    fn search(
        &self,
        matcher: &Matcher,
        found: &(dyn Fn(Hit) -> ControlFlow<()> + Sync),
    ) -> Vec<Damage> {
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
            row.key.hash(&mut hasher);
            match row.value {
                database::Value::Bytes(bytes) => bytes.hash(&mut hasher),
                database::Value::Tombstone => 0.hash(&mut hasher),
                database::Value::TooLarge { n_bytes } => n_bytes.hash(&mut hasher),
            }
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

/// A value of any family.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_row(bytes: &[u8]) {
    drop(summary::summarise(bytes));
    drop(agent_message::read_agent_message("", &agent_state::blob_content(bytes)));
    agent_state::blob_id_of(bytes);
    drop(agent_state::inline_root(&String::from_utf8_lossy(bytes)));
    for json in [lenient::parse(bytes), lenient::parse_object(bytes)].into_iter().flatten() {
        drop(bubble::read_bubble(&json, &json));
        inline::inline_bubbles(&json)
            .iter()
            .for_each(|bubble| drop(bubble::read_bubble(bubble, &json)));
        drop(inline::capability_tools(&json));
    }
}
