//! Why a session is not resumed: a kind for programs, a sentence and one thing to try for people.

use cursor_stores::chat::NotResumable;
use cursor_stores::model::StoreKind;
use run_protocol::{ExitCode, RunId};
use serde::Serialize;
use uuid::Uuid;

use crate::command_error::CommandError;

/// A reason, found before anything is started and without changing anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    #[error("there is no session of this id in any store")]
    UnknownSession,
    #[error("it belongs to the workspace `{actual}`, not to `{asked}`")]
    OtherWorkspace { asked: String, actual: String },
    #[error("its workspace `{recorded}` is gone, and `{asked}` has another bucket of chats")]
    WorkspaceMoved { recorded: String, asked: String },
    #[error("its workspace `{recorded}` is gone")]
    WorkspaceGone { recorded: String },
    #[error("it ran in a worktree of `{repository}`, which was discarded")]
    WorktreeDiscarded { recorded: String, repository: String },
    #[error("nothing tells which workspace it belongs to")]
    WorkspaceUnknown { directory: String },
    #[error("its workspace `{recorded}` is now `{physical}`, where the agent would look elsewhere")]
    BucketMismatch { recorded: String, physical: String },
    #[error("it is kept below `{recorded}`, and the agent would now look below `{present}`")]
    OtherConfigRoot { recorded: String, present: String },
    #[error("{} directories have a store of it, and only one can be meant", directories.len())]
    SeveralBuckets { directories: Vec<String> },
    #[error("it is held by run {run} (pid {pid})")]
    HeldByRun { run: RunId, pid: u32 },
    #[error("its store is open for writing in process {pid} ({program})")]
    HeldByProcess { pid: u32, program: String },
    #[error("it is {}, which the command line agent cannot continue", kind_name(*store))]
    AnotherKind { store: StoreKind },
    #[error("it is a sub-agent's, and its parent `{parent}` continues it")]
    Subagent { parent: String },
    #[error(transparent)]
    #[serde(untagged)]
    Store(NotResumable),
}

/// A session that is not resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    pub session: Uuid,
    pub reason: Reason,
}

fn kind_name(store: StoreKind) -> &'static str {
    match store {
        StoreKind::Cli => "a chat of the command line agent",
        StoreKind::Acp => "an ACP session",
        StoreKind::Ide | StoreKind::IdeOld => "a conversation of the IDE",
        StoreKind::Sdk => "a conversation of the SDK",
        StoreKind::Transcript => "a transcript without its store",
        StoreKind::Export => "an exported conversation",
    }
}

impl Reason {
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::UnknownSession => ExitCode::NotFound,
            Self::HeldByRun { .. } | Self::HeldByProcess { .. } => ExitCode::Conflict,
            Self::Store(NotResumable::Changing) => ExitCode::Conflict,
            _ => ExitCode::NotResumable,
        }
    }
}

impl Reason {
    /// Tells whether the session will never be resumed as it is. A holder lets go; a workspace or a configuration root may
    /// come back.
    pub fn is_final(&self) -> bool {
        match self {
            Self::HeldByRun { .. }
            | Self::HeldByProcess { .. }
            | Self::Store(NotResumable::Changing)
            | Self::OtherWorkspace { .. }
            | Self::WorkspaceMoved { .. }
            | Self::WorkspaceGone { .. }
            | Self::WorkspaceUnknown { .. }
            | Self::BucketMismatch { .. }
            | Self::OtherConfigRoot { .. }
            | Self::SeveralBuckets { .. } => false,
            Self::UnknownSession
            | Self::WorktreeDiscarded { .. }
            | Self::AnotherKind { .. }
            | Self::Subagent { .. }
            | Self::Store(_) => true,
        }
    }
}

impl Refusal {
    pub fn hint(&self) -> String {
        let session = self.session;
        match &self.reason {
            Reason::UnknownSession => "see all with `caretaker sessions ls --all`".to_owned(),
            Reason::OtherWorkspace { .. } => {
                format!("continue it there with `caretaker resume {session}`")
            }
            Reason::WorkspaceMoved { asked, .. } => {
                format!("caretaker sessions fork {session} --workspace '{asked}'")
            }
            Reason::WorkspaceGone { recorded } => format!(
                "make it again with `mkdir -p '{recorded}'`, or carry the conversation to another: \
                 caretaker sessions fork {session} --workspace DIR"
            ),
            Reason::WorktreeDiscarded { repository, .. } => {
                format!("caretaker sessions fork {session} --workspace '{repository}'")
            }
            Reason::WorkspaceUnknown { .. } => {
                "name the directory it was begun in with --workspace DIR".to_owned()
            }
            Reason::BucketMismatch { physical, .. } => {
                format!("caretaker sessions fork {session} --workspace '{physical}'")
            }
            Reason::OtherConfigRoot { recorded, .. } => {
                format!("set CURSOR_CONFIG_DIR='{recorded}'")
            }
            Reason::SeveralBuckets { directories } => format!(
                "look at them with `caretaker sessions ls --all`, and fork the one you mean:\n{}",
                directories.join("\n")
            ),
            Reason::HeldByRun { run, .. } => format!(
                "wait for it with --wait, stop it and go on with --steal, or stop it: caretaker kill {run}"
            ),
            Reason::HeldByProcess { pid, .. } => format!("end it first: kill {pid}"),
            Reason::AnotherKind { .. } => {
                format!("make a command line session of it: caretaker sessions fork {session}")
            }
            Reason::Subagent { parent } => format!("caretaker resume {parent}"),
            Reason::Store(NotResumable::NoStore) => {
                "there is nothing to continue; --fresh begins a new session in its workspace"
                    .to_owned()
            }
            Reason::Store(NotResumable::EmptyRoot) => format!(
                "`caretaker sessions repair {session}` finds a conversation that its store still has; \
                 --fresh begins a new session in its workspace"
            ),
            Reason::Store(NotResumable::Diverged { recorded, .. }) => format!(
                "each can go on as a session of its own. What the last run left: \
                 caretaker sessions fork {session} --at {recorded}; what is there now: \
                 caretaker sessions fork {session}"
            ),
            Reason::Store(NotResumable::CheckpointLost { found: Some(_), .. }) => {
                format!(
                    "continue what is left as a session of its own: caretaker sessions fork {session}"
                )
            }
            Reason::Store(_) => format!(
                "look closer with `caretaker sessions verify {session}`; --fresh begins a new session \
                 in its workspace"
            ),
        }
    }

    pub fn into_error(self) -> CommandError {
        let what = match &self.reason {
            Reason::UnknownSession => format!("there is no session {}", self.session),
            Reason::HeldByRun { .. } => format!("session {}: {}", self.session, self.reason),
            reason => format!("session {} cannot be resumed: {reason}", self.session),
        };
        let hint = self.hint();
        CommandError::new(self.reason.exit_code(), what).hint(hint)
    }
}

/// A refusal as `--json` prints it.
#[derive(Debug, Serialize)]
pub struct RefusalReport<'a> {
    v: u32,
    kind: &'static str,
    #[serde(flatten)]
    refusal: &'a Refusal,
    why: String,
    hint: String,
    exit_code: u8,
}

impl<'a> RefusalReport<'a> {
    pub fn of(refusal: &'a Refusal) -> Self {
        Self {
            v: 1,
            kind: "resume.refused",
            refusal,
            why: refusal.reason.to_string(),
            hint: refusal.hint(),
            exit_code: refusal.reason.exit_code() as u8,
        }
    }
}
