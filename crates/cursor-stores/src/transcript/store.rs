//! A store of the transcripts in one `projects` directory.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ground::with_causes;

use super::body::{read_last, read_whole};
use super::files::{Layout, Project, TranscriptFile, Walk, locate, walk};
use super::json_line::{TranscriptLine, decode_line};
use super::peek::{Peek, peek};
use super::scan::Scan;
use super::sidecars::sidecars_of;
use super::workspace::workspace_of;
use crate::lines::{Line, LineReader};
use crate::model::{
    Activity, Conversation, Damage, Head, Origin, Parent, Shelf, StoreKind, TurnState, Workspace,
};
use crate::parallel;
use crate::plain_file::{self, PlainFileError};
use crate::raw_record::{RawContent, RawRecord, VisitRaw};
use crate::search::{Matcher, Search};
use crate::store::{
    Account, Branches, ConversationStore, Extent, Found, Listing, ReadConversationError, Treatment,
};

/// Transcripts have no tool results, so even long ones are only a few megabytes.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

pub(super) struct TranscriptStore {
    root: PathBuf,
}

/// A transcript, and the key of its conversation.
type Keyed = (TranscriptFile, String);

impl TranscriptStore {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Gives each file a key: the id for the best file of a conversation, the path for the others. Leaves out copies,
    /// and counts them.
    fn name_files(&self, files: Vec<TranscriptFile>) -> (Vec<Keyed>, u64) {
        let mut groups: BTreeMap<String, Vec<TranscriptFile>> = BTreeMap::new();
        for file in files {
            groups.entry(file.id.clone()).or_default().push(file);
        }
        let mut named = Vec::new();
        let mut n_copies = 0;
        for (id, mut group) in groups {
            if group.len() > 1 {
                group.sort_by(|left, right| left.rank().cmp(&right.rank()));
            }
            let mut kept: Vec<TranscriptFile> = Vec::new();
            for file in group {
                if kept.iter().any(|known| is_same(&known.path, &file.path).unwrap_or(false)) {
                    n_copies += 1;
                } else {
                    kept.push(file);
                }
            }
            named.extend(kept.into_iter().enumerate().map(|(number, file)| {
                let key = if number == 0 { id.clone() } else { self.relative(&file.path) };
                (file, key)
            }));
        }
        (named, n_copies)
    }

    fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into_owned()
    }

    fn find(&self, key: &str) -> Result<TranscriptFile, ReadConversationError> {
        let missing = || ReadConversationError::Missing(self.root.join(key));
        locate(&self.root, key).into_iter().next().ok_or_else(missing)
    }

    fn head(&self, file: &TranscriptFile, key: &str, peek: Peek) -> Head {
        let origin = Origin {
            store: StoreKind::Transcript,
            path: file.path.as_path().into(),
            key: (key != file.id).then(|| key.to_owned()),
        };
        Head {
            title: peek.title,
            created: Some(peek.created),
            updated: Some(peek.updated),
            n_bytes: Some(peek.n_bytes),
            activity: peek.activity,
            shelf: if peek.n_bytes == 0 { Shelf::Empty } else { Shelf::Shown },
            parent: file
                .parent()
                .map(|parent| Parent { id: parent.to_owned(), ..Parent::default() }),
            ..Head::new(file.id.clone(), origin)
        }
    }

    fn own_key(&self, head: &Head) -> Option<String> {
        let is_own = |origin: &&Origin| {
            origin.store == StoreKind::Transcript && origin.path.as_ref().starts_with(&self.root)
        };
        head.origins.iter().find(is_own).map(|origin| origin.key(head).to_owned())
    }
}

impl ConversationStore for TranscriptStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Transcript
    }

    fn path(&self) -> &Path {
        &self.root
    }

    fn list(&self) -> Listing {
        let Walk { files, projects, mut damage, .. } = walk(&self.root);
        let with_files: HashSet<&Path> =
            files.iter().map(|file| file.project.path.as_path()).collect();
        let used: Vec<_> = projects
            .into_iter()
            .filter(|project| with_files.contains(project.path.as_path()))
            .collect();
        let workspaces: HashMap<PathBuf, Option<Workspace>> = used
            .iter()
            .map(|project| project.path.clone())
            .zip(parallel::map(&used, |project| workspace_of(project)))
            .collect();
        let mut subagents: HashMap<String, Vec<String>> = HashMap::new();
        for file in &files {
            if let Some(parent) = file.parent() {
                let children = subagents.entry(parent.to_owned()).or_default();
                if !children.contains(&file.id) {
                    children.push(file.id.clone());
                }
            }
        }
        let (named, _) = self.name_files(files);
        let peeks = parallel::map(&named, |(file, _)| peek(&file.path, &file.layout));
        let mut heads = Vec::with_capacity(named.len());
        for ((file, key), peeked) in named.into_iter().zip(peeks) {
            match peeked {
                Ok(peeked) => {
                    if peeked.n_bytes > MAX_FILE_BYTES {
                        let what = format!(
                            "has more than {MAX_FILE_BYTES} bytes: only its end can be read"
                        );
                        damage.push(Damage::new(key.clone(), what));
                    }
                    let mut head = self.head(&file, &key, peeked);
                    head.workspace = workspaces.get(&file.project.path).cloned().flatten();
                    let mut children = subagents.get(&file.id).cloned().unwrap_or_default();
                    children.sort();
                    head.subagents = children;
                    heads.push(head);
                }
                Err(err) => damage.push(Damage::new(key, with_causes(&err))),
            }
        }
        Listing { heads, damage }
    }

    fn complete(&self, head: &mut Head) {
        if head.n_messages.is_none()
            && let Some(key) = self.own_key(head)
            && let Ok(file) = self.find(&key)
        {
            let Ok(Counted { n_messages, n_broken }) = count_messages(&file) else { return };
            head.n_messages = Some(n_messages);
            if n_broken > 0 && head.activity != Activity::Live {
                head.activity = Activity::Damaged;
            }
        }
    }

    fn read(&self, key: &str, extent: Extent) -> Result<Conversation, ReadConversationError> {
        let file = self.find(key)?;
        let unreadable =
            |error: PlainFileError| ReadConversationError::unreadable(&file.path, error);
        let failed = |source| unreadable(PlainFileError::Read { path: file.path.clone(), source });
        let peeked = peek(&file.path, &file.layout).map_err(unreadable)?;
        let opened = plain_file::open(&file.path).map_err(unreadable)?;
        let (n_bytes, until) = (peeked.n_bytes, Some(peeked.updated));
        let mut body = match (extent.last, &file.layout) {
            (Some(n_messages), Layout::Nested | Layout::Flat | Layout::Subagent { .. }) => {
                read_last(opened, n_bytes, n_messages, until).map_err(failed)?
            }
            (last, layout) => {
                if n_bytes > MAX_FILE_BYTES {
                    let path = file.path.clone();
                    return Err(unreadable(PlainFileError::TooLarge {
                        path,
                        limit: MAX_FILE_BYTES,
                    }));
                }
                let body = read_whole(opened, layout, MAX_FILE_BYTES).map_err(failed)?;
                let body = body.finish(until);
                match last {
                    Some(n_messages) => body.keep_last(n_messages),
                    None => body,
                }
            }
        };
        let mut head = self.head(&file, key, peeked);
        head.workspace = workspace_of(&file.project);
        head.subagents = subagents_of(&file);
        if extent.last.is_none() {
            head.n_messages = Some(body.n_said());
        }
        if extent.branches == Branches::WithOrphans {
            body.add_torn();
        }
        for message in &body.messages {
            head.add_model(message.model.as_deref().unwrap_or_default());
        }
        let mut conversation = Conversation::new(head);
        conversation.messages = body.messages;
        conversation.turns = body.turns;
        conversation.damage = body.damage;
        if conversation.head.activity == Activity::Live {
            if let Some(turn) = conversation.turns.last_mut()
                && turn.state == TurnState::Unknown
            {
                turn.state = TurnState::Running;
            }
        } else if !conversation.damage.is_empty() {
            conversation.head.activity = Activity::Damaged;
        }
        Ok(conversation)
    }

    fn search(&self, matcher: &Matcher, found: Found<'_>) -> Vec<Damage> {
        let Walk { files, projects, mut damage, .. } = walk(&self.root);
        let (named, _) = self.name_files(files);
        let scan = Scan { search: Search::new(matcher, found), limit: MAX_FILE_BYTES };
        damage.extend(scan.transcripts(&named));
        for project in projects {
            damage.extend(scan.sidecars(&project, &named));
        }
        damage
    }

    fn visit_raw(
        &self,
        key: &str,
        _branches: Branches,
        visit: &mut VisitRaw<'_>,
    ) -> Result<(), ReadConversationError> {
        let file = self.find(key)?;
        let unreadable =
            |error: PlainFileError| ReadConversationError::unreadable(&file.path, error);
        let failed = |source| unreadable(PlainFileError::Read { path: file.path.clone(), source });
        let name = file.path.file_name().unwrap_or_default().to_string_lossy();
        let opened = plain_file::open_at_most(&file.path, MAX_FILE_BYTES).map_err(unreadable)?;
        let mut lines = LineReader::new(opened.take(MAX_FILE_BYTES));
        loop {
            let content = match lines.next().map_err(failed)? {
                None => return Ok(()),
                Some(Line::Whole { bytes, .. }) => RawContent::of_bytes(bytes),
                Some(Line::TooLong) => RawContent::LeftOut("the line is too long".to_owned()),
            };
            if visit(RawRecord::new(format!("{name}:{}", lines.number), content)).is_break() {
                return Ok(());
            }
        }
    }

    fn stamp(&self, key: &str) -> Option<u64> {
        let file = self.find(key).ok()?;
        plain_file::stamp(&file.path)
    }

    fn watched(&self, key: Option<&str>) -> Vec<PathBuf> {
        let Some(key) = key else { return walk(&self.root).directories };
        let Some(file) = locate(&self.root, key).into_iter().next() else { return Vec::new() };
        let own = file.path.parent().map(Path::to_owned);
        // New sub-agents appear here.
        let subagents = file.subagents_directory().filter(|directory| directory.is_dir());
        own.into_iter().chain(subagents).collect()
    }

    fn account(&self) -> Account {
        let Walk { files, projects, n_strangers, damage, .. } = walk(&self.root);
        let mut n_by_layout = BTreeMap::from([
            ("<id>/<id>.jsonl", 0),
            ("<id>/subagents/<id>.jsonl", 0),
            ("<id>.jsonl", 0),
            ("<id>.txt", 0),
        ]);
        for file in &files {
            *n_by_layout.entry(layout_name(&file.layout)).or_default() += 1;
        }
        let (named, n_copies) = self.name_files(files);
        let mut account = Account { damage, ..Account::default() };
        for (file, key) in &named {
            // A conversation with several files counts only once.
            if *key != file.id {
                continue;
            }
            if file.parent().is_some() {
                account.hide("sub-agents");
            } else if plain_file::inspect(&file.path).is_ok_and(|metadata| metadata.len() == 0) {
                account.hide("empty");
            } else {
                account.n_conversations += 1;
            }
        }
        let mut add = |name, n_rows, treatment| account.add_family(name, n_rows, treatment);
        for (name, n_files) in n_by_layout {
            add(name, n_files, Treatment::Read);
        }
        add("copies of the same transcript", n_copies, Treatment::Counted);
        add("other files in agent-transcripts", n_strangers, Treatment::Counted);
        let n_outputs = projects.iter().map(|project| sidecars_of(project).len() as u64).sum();
        add("agent-tools/*.txt", n_outputs, Treatment::Read);
        for name in ["terminals", "canvases", "mcps"] {
            let n_entries = projects.iter().map(|project| n_entries(project, name)).sum();
            add(name, n_entries, Treatment::Counted);
        }
        let has_tokens = |project: &&Arc<Project>| {
            fs::symlink_metadata(project.path.join("mcp-auth.json")).is_ok()
        };
        let n_tokens = projects.iter().filter(has_tokens).count() as u64;
        add("mcp-auth.json", n_tokens, Treatment::NeverRead);
        account
    }
}

fn layout_name(layout: &Layout) -> &'static str {
    match layout {
        Layout::Nested => "<id>/<id>.jsonl",
        Layout::Subagent { .. } => "<id>/subagents/<id>.jsonl",
        Layout::Flat => "<id>.jsonl",
        Layout::Text => "<id>.txt",
    }
}

fn n_entries(project: &Project, name: &str) -> u64 {
    fs::read_dir(project.path.join(name)).map_or(0, |entries| entries.count() as u64)
}

fn subagents_of(file: &TranscriptFile) -> Vec<String> {
    let entries = file.subagents_directory().and_then(|directory| fs::read_dir(directory).ok());
    let mut ids: Vec<String> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".jsonl")?.to_owned()))
        .collect();
    ids.sort();
    ids
}

/// The result of checking all lines.
struct Counted {
    n_messages: u64,
    /// Damaged lines.
    n_broken: u64,
}

fn count_messages(file: &TranscriptFile) -> Result<Counted, PlainFileError> {
    let failed = |source| PlainFileError::Read { path: file.path.clone(), source };
    let opened = plain_file::open_at_most(&file.path, MAX_FILE_BYTES)?;
    if file.layout == Layout::Text {
        let body = read_whole(opened, &file.layout, MAX_FILE_BYTES).map_err(failed)?;
        return Ok(Counted { n_messages: body.n_said(), n_broken: body.damage.len() as u64 });
    }
    let mut lines = LineReader::new(opened.take(MAX_FILE_BYTES));
    let mut counted = Counted { n_messages: 0, n_broken: 0 };
    while let Some(line) = lines.next().map_err(failed)? {
        match line {
            Line::Whole { bytes, .. } if bytes.trim_ascii().is_empty() => {}
            Line::Whole { bytes, .. } => match decode_line(bytes) {
                Ok(TranscriptLine::Message(message)) => {
                    counted.n_messages += u64::from(message.is_counted());
                    counted.n_broken += u64::from(str::from_utf8(bytes).is_err());
                }
                Ok(TranscriptLine::TurnEnded { .. }) => {}
                Err(_) => counted.n_broken += 1,
            },
            Line::TooLong => counted.n_broken += 1,
        }
    }
    Ok(counted)
}

/// True if two files have the same content.
fn is_same(one: &Path, other: &Path) -> Result<bool, PlainFileError> {
    let (mut one_file, mut other_file) = (plain_file::open(one)?, plain_file::open(other)?);
    let failed = |source: io::Error| PlainFileError::Read { path: other.to_owned(), source };
    let n_bytes = one_file.metadata().map_err(failed)?.len();
    if n_bytes != other_file.metadata().map_err(failed)?.len() || n_bytes > MAX_FILE_BYTES {
        return Ok(false);
    }
    loop {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        (&mut one_file).take(64 * 1024).read_to_end(&mut left).map_err(failed)?;
        (&mut other_file).take(64 * 1024).read_to_end(&mut right).map_err(failed)?;
        if left != right || left.is_empty() {
            return Ok(left == right);
        }
    }
}
