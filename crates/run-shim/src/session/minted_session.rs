//! Sessions that have an id before their first prompt. We mint the id; no agent is asked for one.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

use ground::now_ms;
use run_journal::StateRoot;
use run_protocol::MintedSession;
use uuid::Uuid;

/// A path and an id.
const LONGEST: u64 = 64 * 1024;

/// Mints a session of a workspace and remembers it.
pub fn mint_session(state: &StateRoot, workspace: &str) -> io::Result<MintedSession> {
    let minted = MintedSession {
        v: MintedSession::VERSION,
        session: Uuid::new_v4(),
        workspace: workspace.to_owned(),
        at: now_ms(),
    };
    let directory = state.session_dir(&minted.session);
    DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(state.minted_session(&minted.session))?;
    file.write_all(&serde_json::to_vec_pretty(&minted)?)?;
    file.sync_all()?;
    Ok(minted)
}

/// What is remembered of a session that was minted; `None` if it was not.
pub fn minted_session(state: &StateRoot, session: &Uuid) -> Option<MintedSession> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(state.minted_session(session))
        .ok()?;
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    let minted: MintedSession = serde_json::from_slice(&text).ok()?;
    (minted.session == *session).then_some(minted)
}
