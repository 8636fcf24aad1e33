//! Exported files as a store like any other.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::value::RawValue;

use super::file_form::{ExportFileError, Filed, Form, parse, read_heads, read_one, split};
use crate::model::{Conversation, Damage, Head, MessageKind, Origin, StoreKind};
use crate::parallel;
use crate::places::StorePlaces;
use crate::plain_file::{self, PlainFileError};
use crate::raw_record::{RawRecord, VisitRaw};
use crate::search::{FieldMatch, Matcher, search_json};
use crate::store::{
    Account, Branches, ConversationStore, Discovered, Extent, Family, Hit, Listing,
    ReadConversationError, SkippedPlace, Treatment,
};

/// A conversation is in memory whole when it is read, and so is its file.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// A file, or the files of a directory. A conversation's key is `<file name>/<id>`.
struct ExportStore {
    path: PathBuf,
    /// In order.
    file_names: Vec<String>,
    /// Where they lie.
    directory: PathBuf,
    damage: Vec<Damage>,
    /// Where conversations begin in their files, by their keys, as of the last list: a hint.
    offsets: Mutex<HashMap<String, u64>>,
}

/// Says why a file of a store was not read.
#[derive(Debug, thiserror::Error)]
enum ReadExportError {
    #[error(transparent)]
    File(#[from] PlainFileError),
    #[error(transparent)]
    Form(#[from] ExportFileError),
}

pub(crate) fn discover(places: &StorePlaces) -> Vec<Discovered> {
    places.exports.iter().map(|path| look_at(path)).collect()
}

fn look_at(path: &Path) -> Discovered {
    match ExportStore::open(path) {
        Ok(store) => Discovered::Store(Box::new(store)),
        Err(why) => {
            Discovered::Skipped(SkippedPlace { store: StoreKind::Export, path: path.into(), why })
        }
    }
}

impl ExportStore {
    /// The error is a clause.
    fn open(path: &Path) -> Result<Self, String> {
        if !path.is_dir() {
            plain_file::inspect(path).map_err(|error| error.to_string())?;
            let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
                return Err("it has no name".to_owned());
            };
            let name = name.to_str().ok_or("its name is not text")?;
            return Ok(Self {
                path: path.to_owned(),
                file_names: vec![name.to_owned()],
                directory: directory.to_owned(),
                damage: Vec::new(),
                offsets: Mutex::default(),
            });
        }
        let entries = fs::read_dir(path).map_err(|error| format!("it cannot be read: {error}"))?;
        let mut store = Self {
            path: path.to_owned(),
            file_names: Vec::new(),
            directory: path.to_owned(),
            damage: Vec::new(),
            offsets: Mutex::default(),
        };
        for name in entries.flatten().map(|entry| entry.file_name()) {
            let extension = Path::new(&name).extension().and_then(OsStr::to_str);
            if !matches!(extension, Some("json" | "jsonl")) {
                continue;
            }
            match name.into_string() {
                Ok(name) => store.file_names.push(name),
                Err(name) => {
                    store.damage.push(Damage::new(name.to_string_lossy(), "its name is not text"));
                }
            }
        }
        store.file_names.sort_unstable();
        Ok(store)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn origin(&self, file_name: &str, id: &str) -> Origin {
        Origin {
            store: StoreKind::Export,
            path: self.file(file_name).into(),
            key: Some(key(file_name, id)),
        }
    }

    fn open_file(&self, file_name: &str) -> Result<BufReader<File>, PlainFileError> {
        Ok(BufReader::with_capacity(32 * 1024, plain_file::open(&self.file(file_name))?))
    }

    fn heads(&self, file_name: &str) -> Result<Vec<Head>, ReadExportError> {
        let found = read_heads(&mut self.open_file(file_name)?)?;
        let mut heads = Vec::with_capacity(found.len());
        let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        for (begins_at, mut head) in found {
            offsets.insert(key(file_name, &head.id), begins_at);
            // The last: a store of Cursor's knows more about it than a copy.
            head.origins.push(self.origin(file_name, &head.id));
            heads.push(head);
        }
        Ok(heads)
    }

    fn bytes(&self, file_name: &str) -> Result<Vec<u8>, ReadExportError> {
        let path = self.file(file_name);
        // Before a giant is read to its limit.
        if plain_file::inspect(&path)?.len() > MAX_FILE_BYTES {
            return Err(PlainFileError::TooLarge { path, limit: MAX_FILE_BYTES }.into());
        }
        Ok(plain_file::read_at_most(&path, MAX_FILE_BYTES)?)
    }

    fn read_in(&self, file_name: &str, id: &str) -> Result<Option<Conversation>, ReadExportError> {
        let hint = |store: &Self| {
            let offsets = store.offsets.lock().unwrap_or_else(PoisonError::into_inner);
            offsets.get(&key(file_name, id)).copied()
        };
        let hinted = match hint(self) {
            Some(begins_at) => self.read_at(file_name, id, begins_at)?,
            None => None,
        };
        let read = match hinted {
            Some(conversation) => Some(conversation),
            // Nobody listed it, or the file was written anew since.
            None => {
                self.heads(file_name)?;
                match hint(self) {
                    Some(begins_at) => self.read_at(file_name, id, begins_at)?,
                    None => None,
                }
            }
        };
        Ok(read.map(|mut conversation| {
            conversation.head.origins.push(self.origin(file_name, id));
            conversation
        }))
    }

    /// `None` if it is not there.
    fn read_at(
        &self,
        file_name: &str,
        id: &str,
        begins_at: u64,
    ) -> Result<Option<Conversation>, ReadExportError> {
        let mut file = self.open_file(file_name)?;
        file.seek(SeekFrom::Start(begins_at)).map_err(ExportFileError::Read)?;
        let bytes = read_one(&mut file.take(MAX_FILE_BYTES))?;
        match split(&bytes).unwrap_or_default().pop() {
            Some(filed) if filed.id == id => Ok(Some(filed.form.read()?)),
            _ => Ok(None),
        }
    }

    fn search_in(
        &self,
        file_name: &str,
        matcher: &Matcher,
        found: &dyn Fn(Hit) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ReadExportError> {
        let bytes = self.bytes(file_name)?;
        if !matcher.may_match_json(&bytes) {
            return Ok(ControlFlow::Continue(()));
        }
        for filed in split(&bytes)? {
            for (position, FieldMatch { field, snippet }) in matches(&filed, matcher)? {
                let key = key(file_name, &filed.id);
                if found(Hit { key, message_id: None, position, field, snippet }).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn key(file_name: &str, id: &str) -> String {
    format!("{file_name}/{id}")
}

/// What matches in a conversation: message by message, and what is said besides them as one.
fn matches(
    filed: &Filed<'_>,
    matcher: &Matcher,
) -> Result<Vec<(Option<usize>, FieldMatch)>, ExportFileError> {
    let mut rest: BTreeMap<String, &RawValue>;
    let in_object: Vec<&RawValue>;
    let messages: Vec<&[u8]> = match &filed.form {
        Form::Object(bytes) => {
            rest = parse(bytes)?;
            in_object = match rest.remove("messages") {
                Some(messages) => parse(messages.get().as_bytes())?,
                None => Vec::new(),
            };
            in_object.iter().map(|message| message.get().as_bytes()).collect()
        }
        Form::Lines { opening, messages, .. } => {
            rest = parse(opening)?;
            messages.clone()
        }
    };
    let besides = rest.iter().filter_map(|(name, value)| {
        let found = search_json(matcher, value.get().as_bytes())?;
        let names = [name.as_str(), found.field.as_str()];
        let field = names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(".");
        Some((None, FieldMatch { field, ..found }))
    });
    let said = messages
        .iter()
        .enumerate()
        .filter_map(|(position, message)| Some((Some(position), search_json(matcher, message)?)));
    Ok(besides.chain(said).collect())
}

impl ConversationStore for ExportStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Export
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn list(&self) -> Listing {
        let mut listing = Listing { heads: Vec::new(), damage: self.damage.clone() };
        let listed = parallel::map(&self.file_names, |name| self.heads(name));
        for (name, heads) in self.file_names.iter().zip(listed) {
            match heads {
                Ok(heads) => listing.heads.extend(heads),
                Err(error) => listing.damage.push(damage(name, &error)),
            }
        }
        listing
    }

    fn read(&self, key: &str, extent: Extent) -> Result<Conversation, ReadConversationError> {
        let known = key
            .split_once('/')
            .filter(|(file_name, _)| self.file_names.iter().any(|name| name == file_name));
        let Some((file_name, id)) = known else {
            return Err(ReadConversationError::Missing(self.path.clone()));
        };
        let path = self.file(file_name);
        let mut conversation = match self.read_in(file_name, id) {
            Ok(Some(conversation)) => conversation,
            Ok(None) => return Err(ReadConversationError::Missing(path)),
            Err(error) => {
                return Err(ReadConversationError::Unreadable { path, source: error.into() });
            }
        };
        if extent.branches == Branches::Current {
            conversation.messages.retain(|message| message.kind != MessageKind::Orphan);
        }
        if let Some(last) = extent.last {
            let n_before = conversation.messages.len().saturating_sub(last);
            conversation.messages.drain(..n_before);
        }
        Ok(conversation)
    }

    fn search(
        &self,
        matcher: &Matcher,
        found: &(dyn Fn(Hit) -> ControlFlow<()> + Sync),
    ) -> Vec<Damage> {
        let is_over = AtomicBool::new(false);
        let searched = parallel::map(&self.file_names, |name| {
            if is_over.load(Ordering::Relaxed) {
                return None;
            }
            match self.search_in(name, matcher, found) {
                Ok(ControlFlow::Continue(())) => None,
                Ok(ControlFlow::Break(())) => {
                    is_over.store(true, Ordering::Relaxed);
                    None
                }
                Err(error) => Some(damage(name, &error)),
            }
        });
        searched.into_iter().flatten().collect()
    }

    fn visit_raw(
        &self,
        key: &str,
        _branches: Branches,
        visit: &mut VisitRaw<'_>,
    ) -> Result<(), ReadConversationError> {
        let known = key
            .split_once('/')
            .filter(|(file_name, _)| self.file_names.iter().any(|name| name == file_name));
        let Some((file_name, id)) = known else {
            return Err(ReadConversationError::Missing(self.path.clone()));
        };
        let path = self.file(file_name);
        let unreadable = |error: ReadExportError| ReadConversationError::Unreadable {
            path: path.clone(),
            source: error.into(),
        };
        let bytes = self.bytes(file_name).map_err(unreadable)?;
        let filed = split(&bytes).map_err(|error| unreadable(error.into()))?;
        // The same id twice in a file: the later export is the newer.
        let Some(filed) = filed.into_iter().rfind(|filed| filed.id == id) else {
            return Err(ReadConversationError::Missing(path));
        };
        let lines = match filed.form {
            Form::Object(bytes) => vec![bytes],
            Form::Lines { opening, mut messages, .. } => {
                messages.insert(0, opening);
                messages
            }
        };
        for (number, line) in lines.into_iter().enumerate() {
            let record = format!("{file_name}#{number}");
            if visit(RawRecord::of_bytes(record, line.trim_ascii())).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn stamp(&self, key: &str) -> Option<u64> {
        let (file_name, _) = key.split_once('/')?;
        let metadata = plain_file::inspect(&self.file(file_name)).ok()?;
        let mut hasher = DefaultHasher::new();
        (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()).hash(&mut hasher);
        Some(hasher.finish())
    }

    fn watched(&self, _key: Option<&str>) -> Vec<PathBuf> {
        vec![self.directory.clone()]
    }

    fn account(&self) -> Account {
        let Listing { heads, damage } = self.list();
        let mut account = Account {
            n_conversations: heads.len() as u64,
            families: vec![Family {
                name: "exported files".to_owned(),
                n_rows: self.file_names.len() as u64,
                treatment: Treatment::Read,
            }],
            damage,
            ..Account::default()
        };
        let n_subagents = heads.iter().filter(|head| head.parent.is_some()).count();
        account.n_conversations -= n_subagents as u64;
        if n_subagents > 0 {
            account.n_hidden.insert("sub-agents".to_owned(), n_subagents as u64);
        }
        account
    }
}

/// With its cause, which alone says where in the file it is.
fn damage(file_name: &str, error: &ReadExportError) -> Damage {
    let cause = std::error::Error::source(error);
    let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
    Damage::new(file_name, format!("{error}{cause}"))
}
