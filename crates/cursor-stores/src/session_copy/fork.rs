//! A new session from an old one: everything that a checkpoint leads to, under a new name.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::error::CopyError;
use super::fork_point::{Checkpoint, ForkPoint};
use super::new_session::NewSession;
use super::source::{CopyTally, Reach, Source, with_source};
use super::store_writer::StoreWriter;
use crate::chat::{BlobId, ChatMeta, PendingMessages, SessionMetaFile, parse_pending};

/// The result of a fork.
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

/// Copies everything that a point in a conversation leads to into a new session. Only reads the original, which may be
/// in use.
pub fn fork(database: &Path, point: &ForkPoint, target: &NewSession) -> Result<Forked, CopyError> {
    target.check_names()?;
    with_source(database, |source| {
        source.check_whole()?;
        let meta = source.meta()?;
        let checkpoint = point.resolve(source, &meta)?;
        check_prompt(source, &checkpoint)?;
        let reach = source.reach_from(&[checkpoint.id])?;
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

/// Makes sure that every message of the prompt is intact. The next turn fails without them.
pub(crate) fn check_prompt(source: &Source, checkpoint: &Checkpoint) -> Result<(), CopyError> {
    match source.broken_prompt_message(&checkpoint.state)? {
        Some((index, id)) => Err(CopyError::PromptDamaged { index, id }),
        None => Ok(()),
    }
}

fn write_copy(
    source: &Source,
    reach: &Reach,
    meta: &ChatMeta,
    title: Option<&str>,
    target: &NewSession,
) -> Result<(), CopyError> {
    let staging = target.stage()?;
    let mut writer = StoreWriter::create(&staging.database())?;
    source.visit(|id| reach.ids.contains(id), |id, data| writer.put(id, data))?;
    writer.finish(meta)?;
    target.place(staging, title, meta.created_at_ms())
}

/// Keeps everything in the row that does not tie it to the original. The creation time stays too: it is when the
/// conversation began, and readers derive message times from it.
fn meta_of_copy(mut meta: ChatMeta, checkpoint: &Checkpoint, target: &NewSession) -> ChatMeta {
    meta.set_agent_id(&target.id);
    meta.set_latest_root(checkpoint.id);
    if let Some(name) = meta.name().map(fork_name) {
        meta.set_name(&name);
    }
    // The fork of a sub-agent is an independent session, and two sessions cannot be the same cloud agent.
    for key in ["subagentInfo", "resumeBcId"] {
        meta.remove(key);
    }
    meta
}

fn title_of(database: &Path, meta: &ChatMeta) -> Option<String> {
    let meta_file = SessionMetaFile::read(&database.with_file_name("meta.json")).ok();
    let title = meta_file.and_then(|meta_file| meta_file.title);
    let name =
        title.or_else(|| meta.fields().get("name").and_then(Json::as_str).map(str::to_owned));
    name.filter(|name| !name.is_empty()).map(|name| fork_name(&name))
}

pub(crate) fn fork_name(name: &str) -> String {
    const MARK: &str = " (fork)";
    if name.ends_with(MARK) { name.to_owned() } else { format!("{name}{MARK}") }
}

#[cfg(test)]
#[path = "fork_tests.rs"]
mod tests;
