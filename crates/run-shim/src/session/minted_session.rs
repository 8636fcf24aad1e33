//! Sessions that have an id before their first prompt. Caretaker makes the id, not the agent.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;

use ground::{now_ms, plain_file};
use run_journal::StateRoot;
use run_protocol::MintedSession;
use uuid::Uuid;

/// The longest record. It has a path and an id.
const LONGEST: u64 = 64 * 1024;

/// Makes a session for a workspace, and records it.
pub fn mint_session(state: &StateRoot, workspace: &str) -> io::Result<MintedSession> {
    let minted = MintedSession {
        v: MintedSession::VERSION,
        session: Uuid::new_v4(),
        workspace: workspace.to_owned(),
        at: now_ms(),
    };
    let directory = state.session_dir(&minted.session);
    DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    let mut file = plain_file::create_new(&state.minted_session(&minted.session))?;
    file.write_all(&serde_json::to_vec_pretty(&minted)?)?;
    file.sync_all()?;
    Ok(minted)
}

/// Returns the record of a minted session, if there is one.
pub fn minted_session(state: &StateRoot, session: &Uuid) -> Option<MintedSession> {
    let text = plain_file::read_at_most(&state.minted_session(session), LONGEST).ok()?;
    let minted: MintedSession = serde_json::from_slice(&text).ok()?;
    (minted.session == *session).then_some(minted)
}
