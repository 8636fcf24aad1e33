//! Reads and writes `session.json`. Any process may read it; only the holder of the session's lease writes it.

use std::io;
use std::path::Path;

use ground::{Durable, now_ms, plain_file, replace_file};
use run_journal::StateRoot;
use run_protocol::{Checkpoint, McpChoice, RunId, RunSpec, SessionRecord};
use uuid::Uuid;

use crate::session::checkpoint;
use crate::session::held_lock::HeldLock;

/// The longest record. It has a few paths and some pending calls.
const LONGEST: u64 = 1 << 20;

/// The run that has a session's lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHolder {
    pub run: RunId,
    pub pid: u32,
    pub since_ms: u64,
}

/// Returns the run that has the session's lease, if any.
pub fn session_holder(state: &StateRoot, session: &Uuid) -> io::Result<Option<SessionHolder>> {
    let holder = HeldLock::holder_of(&state.session_lease(session))?;
    Ok(holder.map(|holder| SessionHolder {
        run: holder.run,
        pid: holder.pid,
        since_ms: holder.since_ms,
    }))
}

/// Returns the record of a session, if there is a readable one.
pub fn read_session_record(state: &StateRoot, session: &Uuid) -> Option<SessionRecord> {
    let text = plain_file::read_at_most(&state.session_record(session), LONGEST).ok()?;
    let record: SessionRecord = serde_json::from_slice(&text).ok()?;
    (record.session == *session).then_some(record)
}

/// Updates the record after a deliberate change to the store. Does nothing without a record. The caller holds the
/// session's lease.
pub fn renew_session_record(state: &StateRoot, session: &Uuid, store_db: &Path) -> io::Result<()> {
    let Some(mut record) = read_session_record(state, session) else { return Ok(()) };
    record.checkpoint = Some(checkpoint::checkpoint(store_db, *session));
    record.at = now_ms();
    replace(state, &record)
}

/// Records the run that has the session, and its checkpoint if it was just read. If the store lost its root, the record
/// keeps the earlier checkpoint, so that a later resume notices the loss.
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

/// Records the user's changes to the session's MCP servers. The caller holds the session's lease.
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
