//! One SDK store: a database, or NDJSON files.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use ground::with_causes;

use super::heads::make_head;
use super::history::{Material, assemble};
use super::records::{Agent, Event, Run, sort_runs};
use super::{account, raw, search};
use crate::chat::BlobId;
use crate::database::DatabaseFingerprint;
use crate::database::ReadDatabaseError;
use crate::database::{changed_recently, is_open_for_writing};
use crate::model::{Activity, Conversation, Damage, Head, Parent, StoreKind};
use crate::plain_file;
use crate::raw_record::VisitRaw;
use crate::sdk::history::agent_blobs::{ChatBlobs, OwnMeta, agents_with_chats, chat_path};
use crate::sdk::history::checkpoint::Blobs;
use crate::sdk::history::run_story::RunStory;
use crate::sdk::history::transcript_exchanges::transcript_exchanges;
use crate::sdk::records::index_db::{Columns, IndexDb, with_index};
use crate::sdk::records::line_files::{self, LineFiles};
use crate::search::{Matcher, Search};
use crate::store::{
    Account, Branches, ConversationStore, Extent, Found, Listing, ReadConversationError,
};

/// A store: `index.db`, or the files next to `agents.ndjson`.
pub(super) struct SdkStore {
    pub(super) path: PathBuf,
    /// The directory of `path`.
    pub(super) directory: PathBuf,
    pub(super) form: Form,
}

pub(super) enum Form {
    Database,
    Lines(LineFiles),
}

impl SdkStore {
    /// Opens the store whose index is this file.
    pub(super) fn database(path: PathBuf) -> Self {
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        Self { path, directory, form: Form::Database }
    }

    /// Opens the store whose agents are the lines of this file.
    pub(super) fn lines(path: PathBuf) -> Self {
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        Self { path, form: Form::Lines(LineFiles { directory: directory.clone() }), directory }
    }

    /// True if a process has the store open for writing.
    pub(super) fn has_writer(&self) -> bool {
        match &self.form {
            Form::Database => is_open_for_writing(&self.path),
            Form::Lines(files) => {
                line_files::ALL.into_iter().any(|name| changed_recently(&files.file(name)))
            }
        }
    }

    /// Returns all agents with enough of their runs for a list, or one agent with everything.
    fn load(&self, key: Option<&str>) -> Result<Loaded, Box<dyn Error + Send + Sync>> {
        let columns = if key.is_some() { Columns::Known } else { Columns::Listed };
        let mut damage = Vec::new();
        let (mut damaged, mut is_index_damaged) = (HashSet::new(), false);
        let (mut agents, runs) = match &self.form {
            Form::Database => {
                let rows = with_index(&self.path, |index| {
                    damage.clear();
                    let agents = index.agents(key)?;
                    let mut runs = index.runs(key, columns, &mut damage)?;
                    let whole = index.shortcoming();
                    is_index_damaged = !whole.is_empty();
                    if is_index_damaged {
                        runs.extend(runs_without_rows(index, key)?);
                    }
                    damaged.clear();
                    if key.is_none() {
                        damage.extend(whole);
                        let is_damaged = |run: &&Run| !index.damage_of(run).is_empty();
                        damaged
                            .extend(runs.iter().filter(is_damaged).map(|run| run.agent_id.clone()));
                    }
                    Ok((agents, runs))
                });
                match rows {
                    Ok(rows) => rows,
                    Err(error) if error.is_lasting() => {
                        is_index_damaged = true;
                        damage.push(Damage::new("index.db", with_causes(&error)));
                        if agents_with_chats(&self.directory).is_empty() {
                            return Err(error.into());
                        }
                        Default::default()
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            Form::Lines(files) => (files.agents(key, &mut damage)?, files.runs(key, &mut damage)?),
        };
        if is_index_damaged {
            // Agents whose rows are lost still have their own databases.
            let known: HashSet<String> = agents.iter().map(|agent| agent.id.clone()).collect();
            let is_wanted =
                |agent: &Agent| !known.contains(&agent.id) && key.is_none_or(|key| key == agent.id);
            let lost: Vec<Agent> =
                agents_with_chats(&self.directory).into_iter().filter(is_wanted).collect();
            damaged.extend(lost.iter().map(|agent| agent.id.clone()));
            agents.extend(lost);
        }
        let mut by_agent: HashMap<String, Vec<Run>> = HashMap::new();
        for run in runs {
            by_agent.entry(run.agent_id.clone()).or_default().push(run);
        }
        let mut loaded: Vec<(Agent, Vec<Run>)> = agents
            .into_iter()
            .map(|agent| {
                let runs = by_agent.remove(&agent.id).unwrap_or_default();
                (agent, runs)
            })
            .collect();
        // Runs without an agent still form a conversation.
        let lost = by_agent.into_iter().filter(|(id, _)| !id.is_empty());
        loaded.extend(lost.map(|(id, runs)| (Agent { id, ..Agent::default() }, runs)));
        for (_, runs) in &mut loaded {
            sort_runs(runs);
        }
        Ok(Loaded { agents: loaded, damaged, damage })
    }

    fn read_agent(
        &self,
        agent: &Agent,
        runs: &[Run],
        extent: Extent,
    ) -> Result<Conversation, Box<dyn Error + Send + Sync>> {
        let mut head = make_head(self, agent, runs);
        let mut lost = Vec::new();
        let transcript = || transcript_exchanges(&self.directory, &agent.id);
        let mut conversation = match &self.form {
            Form::Database => {
                let chat = chat_path(&self.directory, &agent.id);
                let blobs = ChatBlobs::new(chat);
                let OwnMeta { root, parent } = blobs.meta();
                head.parent = parent.and_then(|parent| {
                    let id = parent.parent_agent_id?;
                    Some(Parent {
                        id,
                        tool_call_id: parent.tool_call_id,
                        type_name: parent.type_name,
                    })
                });
                let agent = &Agent { checkpoint: agent.checkpoint.or(root), ..agent.clone() };
                let material = Material { agent, runs, blobs: &blobs, transcript: &transcript };
                let mut conversation = if runs.is_empty() {
                    // The index has no runs, or is damaged.
                    let mut no_story = |_: &Run| Ok::<_, Infallible>(RunStory::default());
                    assemble(&material, head, extent, &mut no_story)?
                } else {
                    with_index(&self.path, |index| {
                        lost = index.damage_of_all(runs);
                        assemble(&material, head.clone(), extent, &mut |run| {
                            Ok(story(run, index.events(&run.id)?, &blobs))
                        })
                    })?
                };
                add_damage(&mut conversation, blobs.damage());
                conversation
            }
            Form::Lines(files) => {
                let blobs = files.blobs(&agent.id, &mut lost)?;
                let ids: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
                let mut events = files.events(&ids, &mut lost)?;
                let material = Material { agent, runs, blobs: &blobs, transcript: &transcript };
                let mut read = |run: &Run| -> Result<RunStory, Infallible> {
                    Ok(story(run, events.remove(&run.id).unwrap_or_default(), &blobs))
                };
                assemble(&material, head, extent, &mut read)?
            }
        };
        add_damage(&mut conversation, lost);
        Ok(conversation)
    }

    /// Hashes everything that changes with the conversation.
    fn stamp_agent(
        &self,
        key: &str,
        hasher: &mut DefaultHasher,
    ) -> Result<bool, Box<dyn Error + Send + Sync>> {
        match &self.form {
            Form::Database => {
                let rows = with_index(&self.path, |index| {
                    let mut damage = Vec::new();
                    let agents = index.agents(Some(key))?;
                    let runs = index.runs(Some(key), Columns::Listed, &mut damage)?;
                    let seqs = runs
                        .iter()
                        .map(|run| index.last_seq(&run.id))
                        .collect::<Result<Vec<_>, _>>()?;
                    Ok((agents, runs, seqs))
                })?;
                format!("{rows:?}").hash(hasher);
                DatabaseFingerprint::of(&chat_path(&self.directory, key)).ok().hash(hasher);
                Ok(!rows.0.is_empty() || !rows.1.is_empty())
            }
            Form::Lines(files) => {
                line_files::ALL.map(|name| plain_file::stamp(&files.file(name))).hash(hasher);
                Ok(!files.agents(Some(key), &mut Vec::new())?.is_empty())
            }
        }
    }
}

struct Loaded {
    /// With their sorted runs.
    agents: Vec<(Agent, Vec<Run>)>,
    /// Agents that are known to be damaged.
    damaged: HashSet<String>,
    damage: Vec<Damage>,
}

/// Returns the runs whose rows are lost, for all agents or for one.
fn runs_without_rows(index: &IndexDb, key: Option<&str>) -> Result<Vec<Run>, ReadDatabaseError> {
    let known = index.runs(None, Columns::Listed, &mut Vec::new())?;
    let known: HashSet<&str> = known.iter().map(|run| run.id.as_str()).collect();
    let mut lost = index.lost_runs(&known)?;
    lost.retain(|run| key.is_none_or(|key| key == run.agent_id));
    Ok(lost)
}

fn add_damage(conversation: &mut Conversation, damage: Vec<Damage>) {
    conversation.damage.extend(damage);
    if !conversation.damage.is_empty() {
        conversation.head.activity = Activity::Damaged;
    }
}

fn story(run: &Run, events: Vec<Event>, blobs: &dyn Blobs) -> RunStory {
    RunStory::of(run, events, &|reference| blobs.blob(reference.parse::<BlobId>().ok()?))
}

impl ConversationStore for SdkStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Sdk
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn list(&self) -> Listing {
        match self.load(None) {
            Ok(Loaded { agents, damaged, damage }) => {
                let heads = agents
                    .iter()
                    .map(|(agent, runs)| {
                        let mut head = make_head(self, agent, runs);
                        if damaged.contains(&agent.id) {
                            head.activity = Activity::Damaged;
                        }
                        head
                    })
                    .collect();
                Listing { heads, damage }
            }
            Err(error) => {
                let file = self.path.file_name().unwrap_or_default().to_string_lossy();
                Listing { heads: Vec::new(), damage: vec![Damage::new(file, with_causes(&*error))] }
            }
        }
    }

    /// Counts the messages, which requires reading the events. Notices damage on the way.
    fn complete(&self, head: &mut Head) {
        let Some(origin) = head.origins.iter().find(|origin| origin.path.as_ref() == self.path)
        else {
            return;
        };
        if head.n_messages.is_none()
            && let Ok(conversation) = self.read(origin.key(head), Extent::default())
        {
            head.n_messages = conversation.head.n_messages;
            if conversation.head.activity == Activity::Damaged {
                head.activity = Activity::Damaged;
            }
        }
    }

    fn read(&self, key: &str, extent: Extent) -> Result<Conversation, ReadConversationError> {
        let unreadable = |source: Box<dyn Error + Send + Sync>| {
            ReadConversationError::unreadable(&self.path, source)
        };
        let Loaded { agents, damaged, mut damage } = self.load(Some(key)).map_err(unreadable)?;
        let Some((agent, runs)) = agents.into_iter().next() else {
            return Err(match damage.as_slice() {
                [] => ReadConversationError::Missing(self.path.clone()),
                [damage, ..] => unreadable(format!("{}: {}", damage.place, damage.what).into()),
            });
        };
        if damaged.contains(&agent.id) {
            damage.push(Damage::new(format!("agents {}", agent.id), "the row is missing"));
        }
        let mut conversation = self.read_agent(&agent, &runs, extent).map_err(unreadable)?;
        add_damage(&mut conversation, damage);
        Ok(conversation)
    }

    fn search(&self, matcher: &Matcher, found: Found<'_>) -> Vec<Damage> {
        let search = Search::new(matcher, found);
        match &self.form {
            Form::Database => search::search_database(self, &search),
            Form::Lines(files) => search::search_lines(files, &search),
        }
    }

    fn visit_raw(
        &self,
        key: &str,
        branches: Branches,
        visit: &mut VisitRaw<'_>,
    ) -> Result<(), ReadConversationError> {
        let visited = match &self.form {
            Form::Database => {
                raw::visit_database(&self.path, &self.directory, key, branches, visit)
            }
            Form::Lines(files) => raw::visit_line_files(files, key, visit).map_err(Into::into),
        };
        match visited {
            Ok(true) => Ok(()),
            Ok(false) => Err(ReadConversationError::Missing(self.path.clone())),
            Err(source) => Err(ReadConversationError::unreadable(&self.path, source)),
        }
    }

    fn stamp(&self, key: &str) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        self.stamp_agent(key, &mut hasher).ok()?.then(|| hasher.finish())
    }

    fn watched(&self, key: Option<&str>) -> Vec<PathBuf> {
        let mut directories = vec![self.directory.clone()];
        if let (Form::Database, Some(key)) = (&self.form, key) {
            let of_agent = chat_path(&self.directory, key).parent().map(Path::to_owned);
            directories.extend(of_agent.filter(|directory| directory.is_dir()));
        }
        directories
    }

    fn account(&self) -> Account {
        account::account(self)
    }
}
