//! `session.json`: read by whoever wants to know, written by the holder of the session's lease alone.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ground::now_ms;
use ground::{Durable, replace_file};
use run_journal::StateRoot;
use run_protocol::{Checkpoint, McpChoice, RunId, RunSpec, SessionRecord};
use uuid::Uuid;

use crate::session::checkpoint;
use crate::session::held_lock::HeldLock;

/// A record has a path or two and some pending calls.
const LONGEST: u64 = 1 << 20;

/// The run that has a session now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHolder {
    pub run: RunId,
    pub pid: u32,
    pub since_ms: u64,
}

/// Tells whether a run has the session's lease, and which.
pub fn session_holder(state: &StateRoot, session: &Uuid) -> io::Result<Option<SessionHolder>> {
    let holder = HeldLock::holder_of(&state.session_lease(session))?;
    Ok(holder.map(|holder| SessionHolder {
        run: holder.run,
        pid: holder.pid,
        since_ms: holder.since_ms,
    }))
}

/// What is remembered of a session; `None` if nothing is that can be read.
pub fn read_session_record(state: &StateRoot, session: &Uuid) -> Option<SessionRecord> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(state.session_record(session))
        .ok()?;
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    let record: SessionRecord = serde_json::from_slice(&text).ok()?;
    (record.session == *session).then_some(record)
}

/// Looks at a store that was changed on purpose, and remembers what it holds now; does nothing for a session of which
/// nothing is remembered. The session's lease must be held.
pub fn renew_session_record(state: &StateRoot, session: &Uuid, store_db: &Path) -> io::Result<()> {
    let Some(mut record) = read_session_record(state, session) else { return Ok(()) };
    record.checkpoint = Some(checkpoint::checkpoint(store_db, *session));
    record.at = now_ms();
    replace(state, &record)
}

/// Writes down who has the session, and what its store holds where that was just read. A store without a root has lost it,
/// and what it was stays known: whoever resumes is to be told.
pub(crate) fn write(
    state: &StateRoot,
    spec: &RunSpec,
    generation: u64,
    checkpoint: Option<Checkpoint>,
) -> io::Result<()> {
    let known = read_session_record(state, &spec.session);
    let record = SessionRecord {
        v: SessionRecord::VERSION,
        session: spec.session,
        workspace: spec.workspace.clone(),
        config_root: spec.host_config_root.clone(),
        run: spec.run,
        generation,
        at: now_ms(),
        mcp: known.as_ref().map_or(&spec.mcp_choice, |known| &known.mcp).clone(),
        checkpoint: last_known(checkpoint, known.and_then(|known| known.checkpoint)),
    };
    replace(state, &record)
}

/// Writes down what the user changed about the session's MCP servers. The session's lease must be held.
pub(crate) fn write_choice(state: &StateRoot, session: &Uuid, mcp: McpChoice) -> io::Result<()> {
    let record = read_session_record(state, session).ok_or(io::ErrorKind::NotFound)?;
    replace(state, &SessionRecord { mcp, at: now_ms(), ..record })
}

fn last_known(found: Option<Checkpoint>, known: Option<Checkpoint>) -> Option<Checkpoint> {
    match (found, known) {
        (Some(found), Some(known)) if found.root.is_none() && known.root.is_some() => Some(known),
        (found, known) => found.or(known),
    }
}

fn replace(state: &StateRoot, record: &SessionRecord) -> io::Result<()> {
    let path = state.session_record(&record.session);
    replace_file(&path, &serde_json::to_vec_pretty(record)?, Durable::Yes)
}
