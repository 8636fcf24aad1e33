//! A store of files that `sessions export` wrote.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::value::RawValue;

use super::file_form::{ExportFileError, Filed, Form, parse, read_heads, read_one, split};
use crate::StorePlaces;
use crate::model::{Conversation, Damage, Head, MessageKind, Origin, StoreKind};
use crate::parallel::{self, lock};
use crate::plain_file::{self, PlainFileError};
use crate::raw_record::{RawRecord, VisitRaw};
use crate::search::{FieldMatch, Matcher, Search, search_json};
use crate::store::{
    Account, Branches, ConversationStore, Discovered, Extent, Family, Found, Listing,
    ReadConversationError, SkippedPlace, Treatment,
};

/// The most bytes to read, because a reader keeps both the file and the conversation in memory.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// A file, or the files of a directory. A conversation's key is `<file name>/<id>`.
struct ExportStore {
    path: PathBuf,
    /// Sorted.
    file_names: Vec<String>,
    /// The directory that holds the files.
    directory: PathBuf,
    damage: Vec<Damage>,
    /// Where conversations begin in their files, by key. A hint from the last listing.
    offsets: Mutex<HashMap<String, u64>>,
}

/// Says why a file of a store could not be read.
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
    /// The error text continues a sentence.
    fn open(path: &Path) -> Result<Self, String> {
        if !path.is_dir() {
            plain_file::inspect(path).map_err(|error| error.to_string())?;
            let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
                return Err("it has no name".to_owned());
            };
            let name = name.to_str().ok_or("its name is not text")?;
            return Ok(Self::of_files(path, directory, vec![name.to_owned()]));
        }
        let entries = fs::read_dir(path).map_err(|error| format!("it cannot be read: {error}"))?;
        let mut store = Self::of_files(path, path, Vec::new());
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

    fn of_files(path: &Path, directory: &Path, file_names: Vec<String>) -> Self {
        Self {
            path: path.to_owned(),
            file_names,
            directory: directory.to_owned(),
            damage: Vec::new(),
            offsets: Mutex::default(),
        }
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
        let mut offsets = lock(&self.offsets);
        for (begins_at, mut head) in found {
            offsets.insert(key(file_name, &head.id), begins_at);
            // Lowest rank: Cursor's own store knows more than a copy.
            head.origins.push(self.origin(file_name, &head.id));
            heads.push(head);
        }
        Ok(heads)
    }

    fn bytes(&self, file_name: &str) -> Result<Vec<u8>, ReadExportError> {
        Ok(plain_file::read_at_most(&self.file(file_name), MAX_FILE_BYTES)?)
    }

    fn read_in(&self, file_name: &str, id: &str) -> Result<Option<Conversation>, ReadExportError> {
        let mut read = self.read_at_hint(file_name, id)?;
        if read.is_none() {
            // The store has not been listed yet, or the file has changed since then.
            self.heads(file_name)?;
            read = self.read_at_hint(file_name, id)?;
        }
        Ok(read.map(|mut conversation| {
            conversation.head.origins.push(self.origin(file_name, id));
            conversation
        }))
    }

    /// Reads a conversation where the last listing found it. `None` if it is not there.
    fn read_at_hint(
        &self,
        file_name: &str,
        id: &str,
    ) -> Result<Option<Conversation>, ReadExportError> {
        let offsets = lock(&self.offsets);
        let Some(begins_at) = offsets.get(&key(file_name, id)).copied() else { return Ok(None) };
        drop(offsets);
        let mut file = self.open_file(file_name)?;
        file.seek(SeekFrom::Start(begins_at)).map_err(ExportFileError::Read)?;
        let bytes = read_one(&mut file.take(MAX_FILE_BYTES))?;
        match split(&bytes).unwrap_or_default().pop() {
            Some(filed) if filed.id == id => Ok(Some(filed.form.read()?)),
            _ => Ok(None),
        }
    }

    fn search_in(&self, file_name: &str, search: &Search<'_>) -> Result<(), ReadExportError> {
        let bytes = self.bytes(file_name)?;
        if !search.matcher.may_match_json(&bytes) {
            return Ok(());
        }
        for filed in split(&bytes)? {
            let key = key(file_name, &filed.id);
            for (position, found) in matches(&filed, search.matcher)? {
                if search.report(&key, None, position, found).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Splits a key into a file of this store and the id of a conversation.
    fn parse_key<'k>(&self, key: &'k str) -> Result<(&'k str, &'k str), ReadConversationError> {
        key.split_once('/')
            .filter(|(file_name, _)| self.file_names.iter().any(|name| name == file_name))
            .ok_or_else(|| ReadConversationError::Missing(self.path.clone()))
    }
}

fn key(file_name: &str, id: &str) -> String {
    format!("{file_name}/{id}")
}

/// Finds the matches in a conversation: one for each message, and one for each other field.
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
        Some((None, found.below(name)))
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
        let (file_name, id) = self.parse_key(key)?;
        let path = self.file(file_name);
        let mut conversation = match self.read_in(file_name, id) {
            Ok(Some(conversation)) => conversation,
            Ok(None) => return Err(ReadConversationError::Missing(path)),
            Err(error) => return Err(ReadConversationError::unreadable(path, error)),
        };
        if extent.branches == Branches::Current {
            conversation.messages.retain(|message| message.kind != MessageKind::Orphan);
        }
        extent.cut(&mut conversation.messages);
        Ok(conversation)
    }

    fn search(&self, matcher: &Matcher, found: Found<'_>) -> Vec<Damage> {
        let search = Search::new(matcher, found);
        let searched = parallel::map(&self.file_names, |name| {
            if search.is_over() {
                return None;
            }
            self.search_in(name, &search).err().map(|error| damage(name, &error))
        });
        searched.into_iter().flatten().collect()
    }

    fn visit_raw(
        &self,
        key: &str,
        _branches: Branches,
        visit: &mut VisitRaw<'_>,
    ) -> Result<(), ReadConversationError> {
        let (file_name, id) = self.parse_key(key)?;
        let path = self.file(file_name);
        let unreadable = |error: ReadExportError| ReadConversationError::unreadable(&path, error);
        let bytes = self.bytes(file_name).map_err(unreadable)?;
        let filed = split(&bytes).map_err(|error| unreadable(error.into()))?;
        // If an id occurs twice in a file, the later export is newer.
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
        plain_file::stamp(&self.file(file_name))
    }

    fn watched(&self, _key: Option<&str>) -> Vec<PathBuf> {
        vec![self.directory.clone()]
    }

    fn account(&self) -> Account {
        let Listing { heads, damage } = self.list();
        let mut account = Account { damage, ..Account::default() };
        for head in heads {
            match head.parent {
                Some(_) => account.hide("sub-agents"),
                None => account.n_conversations += 1,
            }
        }
        account.families.push(Family {
            name: "exported files".to_owned(),
            n_rows: self.file_names.len() as u64,
            treatment: Treatment::Read,
        });
        account
    }
}

/// Includes the cause, because only the cause gives the position in the file.
fn damage(file_name: &str, error: &ReadExportError) -> Damage {
    let cause = std::error::Error::source(error);
    let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
    Damage::new(file_name, format!("{error}{cause}"))
}
