//! A new session from an old one: what a checkpoint leads to, under a name of its own.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::fork_point::{Checkpoint, ForkPoint, ForkPointError};
use super::new_session::NewSession;
use super::reachable::{AsSourceError, CopySourceError, CopyTally, Reach, Source, with_source};
use super::staging::Staging;
use super::store_writer::{StoreWriter, WriteStoreError};
use crate::chat::references::{BlobKind, visit_references};
use crate::chat::{BlobId, ChatMeta, Fetched, PendingMessages, SessionMetaFile, parse_pending};

/// What a fork has become.
#[derive(Debug, Clone, PartialEq)]
pub struct Forked {
    pub directory: PathBuf,
    pub root: BlobId,
    pub title: Option<String>,
    pub n_prompt_messages: usize,
    pub n_turns: usize,
    pub pending: PendingMessages,
    pub tally: CopyTally,
}

/// Says why a session was not forked. Nothing is left of it then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    #[error(transparent)]
    Point(#[from] ForkPointError),
    #[error(
        "message {index} of the prompt is missing or damaged, so that the copy could not be continued"
    )]
    PromptDamaged { index: usize, id: Option<BlobId> },
    #[error("`{id}` in `{bucket}` is no name for a session")]
    Name { bucket: String, id: String },
    #[error("nothing was said in it")]
    NothingSaid,
    #[error("the copy cannot be written")]
    Write(#[from] WriteStoreError),
    #[error("the copy cannot be put into place at `{}`", .path.display())]
    Place { path: PathBuf, source: io::Error },
}

impl From<CopySourceError> for ForkError {
    fn from(err: CopySourceError) -> Self {
        Self::Point(err.into())
    }
}

impl AsSourceError for ForkError {
    fn as_source_error(&self) -> Option<&CopySourceError> {
        match self {
            Self::Point(ForkPointError::Source(err)) => Some(err),
            _ => None,
        }
    }
}

/// Copies what a moment of a conversation leads to into a new session. The original may be in use; it is only read.
pub fn fork(database: &Path, point: &ForkPoint, target: &NewSession) -> Result<Forked, ForkError> {
    if !target.has_plain_names() {
        return Err(ForkError::Name { bucket: target.bucket.clone(), id: target.id.clone() });
    }
    with_source(database, |source| {
        source.check_whole()?;
        let meta = source.meta()?;
        let checkpoint = point.resolve(source, &meta)?;
        check_prompt(source, &checkpoint)?;
        let reach = source.reach(checkpoint.id)?;
        let title = title_of(database, &meta);
        let meta = meta_of_copy(meta, &checkpoint, target);
        write_copy(source, &reach, &meta, title.as_deref(), target)?;
        Ok(Forked {
            directory: target.directory(),
            root: checkpoint.id,
            title,
            n_prompt_messages: checkpoint.state.root_prompt_messages_json.len(),
            n_turns: checkpoint.state.turns.len() + checkpoint.state.turns_old.len(),
            pending: parse_pending(&checkpoint.state.pending_tool_calls),
            tally: source.tally(&reach),
        })
    })
}

/// Makes sure that all the model is prompted with is there: what is not makes the next turn fail.
pub(super) fn check_prompt(source: &Source, checkpoint: &Checkpoint) -> Result<(), ForkError> {
    for (index, bytes) in checkpoint.state.root_prompt_messages_json.iter().enumerate() {
        let id = BlobId::try_from(bytes.as_slice()).ok();
        let is_whole = match id {
            None => false,
            Some(id) => match source.fetch(id)? {
                Fetched::Data(data) => {
                    BlobId::of(&data) == id
                        && visit_references(BlobKind::PromptMessage, &data, &mut |_| {}).is_ok()
                }
                _ => false,
            },
        };
        if !is_whole {
            return Err(ForkError::PromptDamaged { index, id });
        }
    }
    Ok(())
}

fn write_copy(
    source: &Source,
    reach: &Reach,
    meta: &ChatMeta,
    title: Option<&str>,
    target: &NewSession,
) -> Result<(), ForkError> {
    let directory = target.directory();
    let unplaced = |source| ForkError::Place { path: directory.clone(), source };
    let staging = Staging::inside(&target.chats).map_err(unplaced)?;
    let mut writer = StoreWriter::create(&staging.database())?;
    source.visit(
        |id| reach.ids.contains(id),
        |id, data| writer.put(id, data).map_err(ForkError::from),
    )?;
    writer.finish(meta)?;
    staging
        .write_file("meta.json", target.meta_file(title, meta.created_at_ms()).as_bytes())
        .and_then(|()| staging.place(&directory))
        .map_err(unplaced)
}

/// Everything that the row says stays, but for what ties it to the original. When it was created stays too: it is when
/// the conversation began, from which the times of its messages are told.
fn meta_of_copy(mut meta: ChatMeta, checkpoint: &Checkpoint, target: &NewSession) -> ChatMeta {
    meta.set_agent_id(&target.id);
    meta.set_latest_root(checkpoint.id);
    if let Some(name) = meta.name().map(fork_name) {
        meta.set_name(&name);
    }
    // The fork of a sub-agent is a session of its own, and two sessions cannot be one agent in the cloud.
    for key in ["subagentInfo", "resumeBcId"] {
        meta.remove(key);
    }
    meta
}

fn title_of(database: &Path, meta: &ChatMeta) -> Option<String> {
    let meta_file = SessionMetaFile::read(&database.with_file_name("meta.json")).ok();
    let told = meta_file.and_then(|meta_file| meta_file.title);
    let name = told.or_else(|| meta.fields().get("name").and_then(Json::as_str).map(str::to_owned));
    name.filter(|name| !name.is_empty()).map(|name| fork_name(&name))
}

pub(super) fn fork_name(name: &str) -> String {
    const MARK: &str = " (fork)";
    if name.ends_with(MARK) { name.to_owned() } else { format!("{name}{MARK}") }
}

#[cfg(test)]
#[path = "fork_tests.rs"]
mod tests;
