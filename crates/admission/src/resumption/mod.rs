//! Whether a session can be resumed, and why not: decided before anything is started, without changing anything.
//!
//! ```text
//!   target: what was typed ─► a session ─► whereabouts: which directory, which workspace ─► its store ─► Resumption
//!                                 └──────────────── Refusal: typed, with a hint ─────────────────┘
//! ```
//!
//! Cursor fails open: an unknown id, another directory or a damaged store gives an empty conversation and no error. The
//! supervisor decides once more under the session's lease; what is found here is what the user is told beforehand.

pub mod refusal;
pub mod target;
mod whereabouts;

use std::path::{Path, PathBuf};

use cursor_home::WorkspacePath;
use cursor_stores::chat::{NotResumable, ResumePoint, writers_of};
use run_protocol::{PendingTool, SessionStart};
use run_shim::{minted_session, pending_tools, read_session_record, session_holder};
use serde::Serialize;
use uuid::Uuid;

use crate::command_error::CommandError;
use crate::host::Host;
use refusal::{Reason, Refusal};
use whereabouts::{Depth, Place, Whereabouts};

pub use whereabouts::ListedChats;

/// A session that can be resumed.
#[derive(Debug)]
pub struct Resumption {
    pub session: Uuid,
    pub workspace: WorkspacePath,
    /// What will be found. `None` where another run has the session and is waited for: only then it can be known.
    pub point: Option<ResumePoint>,
    /// Where it will be found, if it was looked at.
    pub store_db: Option<PathBuf>,
    /// Whether it was minted, and nothing has been said in it yet.
    pub start: SessionStart,
}

/// What to do about a session that another run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenHeld {
    Refuse,
    Wait,
}

/// What is asked of the decision.
#[derive(Debug)]
pub struct Question<'a> {
    pub host: &'a Host,
    pub session: Uuid,
    /// The directory that was named; where none was, the session's own is taken.
    pub workspace: Option<&'a Path>,
    pub when_held: WhenHeld,
}

/// How a question is answered: the outer error is about this host, the inner about the session.
pub type Answer = Result<Result<Resumption, Refusal>, CommandError>;

impl Question<'_> {
    pub fn decide(&self) -> Answer {
        self.decide_with(None)
    }

    /// The same decision for one of many sessions: fast enough for a list, and so not as thorough about old messages.
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

    /// A session that we minted and that no agent has begun. Any other id without a store stays refused.
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
            // A run of ours that has only just begun it may not have written anything yet.
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
        let workspace = whereabouts.workspace(&place, self.workspace)?;
        if held.is_some() {
            let (session, point, store_db) = (self.session, None, None);
            return Ok(Resumption { session, workspace, point, store_db, start });
        }
        let point = self.look(&place, whereabouts)?;
        if let Some(parent) = &point.parent_agent {
            return Err(Reason::Subagent { parent: parent.clone() });
        }
        let (point, store_db) = (Some(point), Some(place.store_db()));
        Ok(Resumption { session: self.session, workspace, point, store_db, start })
    }

    /// Looks at the store, unless there was reason to look already.
    fn look(&self, place: &Place, whereabouts: &Whereabouts<'_>) -> Result<ResumePoint, Reason> {
        let store_db = place.store_db();
        let recorded = read_session_record(&self.host.state, &self.session)
            .and_then(|record| record.checkpoint?.root?.parse().ok());
        let known = whereabouts.looked_at();
        let look = || match known {
            Some(point) if recorded.is_none() => Ok(point),
            _ => whereabouts.depth().look(&store_db, recorded),
        };
        let (writers, point) = match whereabouts.depth() {
            Depth::Glance => (Vec::new(), look()),
            Depth::Whole => std::thread::scope(|scope| {
                // Looking through all processes takes as long as looking at the store.
                let writers = scope.spawn(|| writers_of(&store_db));
                let point = look();
                (writers.join().unwrap_or_default(), point)
            }),
        };
        if let Some(writer) = writers.into_iter().next() {
            // A run may have taken it since we looked.
            let by_process = Reason::HeldByProcess { pid: writer.pid, program: writer.program };
            return Err(self.holder().unwrap_or(by_process));
        }
        point.map_err(|reason| match reason {
            NotResumable::Changing => self.holder().unwrap_or(Reason::Store(reason)),
            reason => Reason::Store(reason),
        })
    }

    /// The run that has the session, as a reason not to resume it.
    fn holder(&self) -> Option<Reason> {
        let holder = session_holder(&self.host.state, &self.session).ok().flatten()?;
        Some(Reason::HeldByRun { run: holder.run, pid: holder.pid })
    }
}

/// Where a session was held, whether it can be resumed or not, if that is still there.
pub fn known_workspace(host: &Host, session: Uuid) -> Option<PathBuf> {
    let known = Whereabouts::of(host, session, None).ok()?.noted_workspaces();
    known.into_iter().find(|path| path.is_absolute() && path.is_dir())
}

/// What a resume will find, as `--check --json` prints it.
#[derive(Debug, Serialize)]
pub struct ResumptionReport {
    v: u32,
    kind: &'static str,
    session: Uuid,
    workspace: String,
    /// Whether nothing has been said in it yet.
    is_new: bool,
    root: Option<String>,
    messages: Option<usize>,
    turns: Option<usize>,
    /// Messages whose content was not checked, the oldest ones.
    unchecked: Option<usize>,
    pending: Vec<PendingTool>,
    /// What is wrong with the store though the session can be resumed, as `sessions verify` says it.
    warnings: Vec<String>,
}

impl Resumption {
    pub fn pending(&self) -> Vec<PendingTool> {
        self.point.as_ref().map(|point| pending_tools(&point.pending)).unwrap_or_default()
    }

    pub fn report(&self, warnings: Vec<String>) -> ResumptionReport {
        let point = self.point.as_ref();
        ResumptionReport {
            v: 1,
            kind: "resume.possible",
            session: self.session,
            workspace: self.workspace.as_path().display().to_string(),
            is_new: self.start == SessionStart::New,
            root: point.map(|point| point.root.to_string()),
            messages: point.map(|point| point.n_messages),
            turns: point.map(|point| point.n_turns),
            unchecked: point.map(|point| point.n_unhashed),
            pending: self.pending(),
            warnings,
        }
    }
}

#[cfg(test)]
#[path = "resumption_tests.rs"]
mod tests;
