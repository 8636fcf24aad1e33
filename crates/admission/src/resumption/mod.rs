//! Decides whether a session can be resumed, without starting or changing anything.
//!
//! ```text
//!   target: the user's text ─► a session ─► whereabouts: its directory and workspace ─► its store ─► Resumption
//!                                 └──────────────── Refusal: typed, with a hint ─────────────────┘
//! ```
//!
//! Cursor itself does not fail: given an unknown id, another directory or a damaged store, it begins an empty
//! conversation. The shim decides again under the session's lease; this decision tells the user early.

pub mod refusal;
pub mod target;
mod whereabouts;

use std::cell::LazyCell;
use std::path::{Path, PathBuf};

use cursor_home::WorkspacePath;
use cursor_stores::chat::ResumePoint;
use run_protocol::{PendingTool, SessionStart};
use run_shim::{
    look_at_session, minted_session, outlive_last_agent, pending_tools, session_holder,
};
use serde::Serialize;
use uuid::Uuid;

use crate::command_error::CommandError;
use crate::host::Host;
use refusal::{Reason, Refusal};
use whereabouts::Whereabouts;

pub use whereabouts::ListedChats;

/// A session that can be resumed.
#[derive(Debug)]
pub struct Resumption {
    pub session: Uuid,
    pub workspace: WorkspacePath,
    /// The point to resume from. `None` if another run holds the session: the point is unknown until that run has
    /// ended.
    pub point: Option<ResumePoint>,
    /// The store, if this decision read it.
    pub store_db: Option<PathBuf>,
    /// `New` if the session has an id but no prompt yet.
    pub start: SessionStart,
}

/// The choice if another run holds the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenHeld {
    Refuse,
    Wait,
}

/// The input of the decision.
#[derive(Debug)]
pub struct Question<'a> {
    pub host: &'a Host,
    pub session: Uuid,
    /// The directory that the user named. `None`: the session's own workspace.
    pub workspace: Option<&'a Path>,
    pub when_held: WhenHeld,
}

/// The decision. The outer error is about this host, the inner one about the session.
pub type Answer = Result<Result<Resumption, Refusal>, CommandError>;

impl Question<'_> {
    pub fn decide(&self) -> Answer {
        self.decide_with(None)
    }

    /// The same decision for one of many sessions: fast enough for a list, so it checks old messages less thoroughly.
    pub fn decide_at_a_glance(&self, chats: &ListedChats) -> Answer {
        self.decide_with(Some(chats))
    }

    fn decide_with(&self, listed: Option<&ListedChats>) -> Answer {
        let whereabouts = Whereabouts::of(self.host, self.session, listed)?;
        Ok(self.resumption(&whereabouts).map_err(|reason| self.refused(reason)))
    }

    fn refused(&self, reason: Reason) -> Refusal {
        Refusal { session: self.session, reason }
    }

    /// Handles a session whose id Caretaker created and that no agent has begun. Any other id without a store is
    /// refused.
    fn minted(&self, whereabouts: &Whereabouts<'_>) -> Option<Result<Resumption, Reason>> {
        let minted = minted_session(&self.host.state, &self.session)?;
        if whereabouts.has_begun() || self.holder().is_some() {
            return None;
        }
        let workspace = whereabouts.workspace_of_minted(&minted, self.workspace);
        Some(workspace.map(|workspace| Resumption {
            session: self.session,
            workspace,
            point: None,
            store_db: None,
            start: SessionStart::New,
        }))
    }

    fn resumption(&self, whereabouts: &Whereabouts<'_>) -> Result<Resumption, Reason> {
        if let Some(minted) = self.minted(whereabouts) {
            return minted;
        }
        let start = SessionStart::Resume;
        let place = match whereabouts.place() {
            Ok(place) => place,
            // A run that has just begun the session may not have written anything yet.
            Err(reason) => match (self.holder(), whereabouts.recorded_workspace()) {
                (Some(_), Some(workspace)) if self.when_held == WhenHeld::Wait => {
                    let session = self.session;
                    let (point, store_db) = (None, None);
                    return Ok(Resumption { session, workspace, point, store_db, start });
                }
                (Some(held), _) => return Err(held),
                (None, _) => return Err(reason),
            },
        };
        let held = self.holder();
        if self.when_held == WhenHeld::Refuse
            && let Some(held) = held
        {
            return Err(held);
        }
        if held.is_none() {
            outlive_last_agent(&self.host.state, whereabouts.record());
        }
        let store_db = place.store_db();
        // Read the store early if only the store knows the workspace.
        let looked =
            LazyCell::new(|| look_at_session(whereabouts.record(), &store_db, whereabouts.depth()));
        let workspace = whereabouts.workspace(&place, self.workspace, &looked)?;
        if held.is_some() {
            let (session, point, store_db) = (self.session, None, None);
            return Ok(Resumption { session, workspace, point, store_db, start });
        }
        let point = match &*looked {
            Ok(point) => point.clone(),
            // A run may have taken the session in the meantime.
            Err(refused) if refused.reason.is_passing() => {
                let passing = Reason::Store(refused.reason.clone());
                return Err(self.holder().unwrap_or(passing));
            }
            Err(refused) => return Err(Reason::Store(refused.reason.clone())),
        };
        let (point, store_db) = (Some(point), Some(place.store_db()));
        Ok(Resumption { session: self.session, workspace, point, store_db, start })
    }

    /// The run that holds the session, as a reason not to resume it.
    fn holder(&self) -> Option<Reason> {
        let holder = session_holder(&self.host.state, &self.session).ok().flatten()?;
        Some(Reason::HeldByRun { run: holder.run, pid: holder.pid })
    }
}

/// The workspace of a session, if it still exists. The session need not be resumable.
pub fn known_workspace(host: &Host, session: Uuid) -> Option<PathBuf> {
    let known = Whereabouts::of(host, session, None).ok()?.noted_workspaces();
    known.into_iter().find(|path| path.is_absolute() && path.is_dir())
}

/// A resumption, as `--check --json` prints it.
#[derive(Debug, Serialize)]
pub struct ResumptionReport {
    v: u32,
    kind: &'static str,
    session: Uuid,
    workspace: String,
    /// True if the session has no prompt yet.
    is_new: bool,
    root: Option<String>,
    messages: Option<usize>,
    turns: Option<usize>,
    /// How many of the oldest messages were not checked for content.
    unchecked: Option<usize>,
    pending: Vec<PendingTool>,
    /// Store problems that do not prevent a resume, as `sessions verify` reports them.
    warnings: Vec<String>,
}

impl Resumption {
    pub fn pending(&self) -> Vec<PendingTool> {
        self.point.as_ref().map(|point| pending_tools(&point.state.pending)).unwrap_or_default()
    }

    pub fn report(&self, warnings: Vec<String>) -> ResumptionReport {
        let point = self.point.as_ref();
        ResumptionReport {
            v: 1,
            kind: "resume.possible",
            session: self.session,
            workspace: self.workspace.as_path().display().to_string(),
            is_new: self.start == SessionStart::New,
            root: point.map(|point| point.state.id.to_string()),
            messages: point.map(|point| point.state.n_prompt_messages),
            turns: point.map(|point| point.state.n_turns),
            unchecked: point.map(|point| point.n_unhashed),
            pending: self.pending(),
            warnings,
        }
    }
}

#[cfg(test)]
#[path = "resumption_tests.rs"]
mod tests;
