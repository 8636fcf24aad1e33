//! Why a session cannot be resumed: a kind for programs, and a sentence and a hint for users.

use cursor_stores::chat::NotResumable;
use cursor_stores::model::StoreKind;
use run_protocol::{ExitCode, RunId};
use serde::Serialize;
use uuid::Uuid;

use crate::command_error::CommandError;

/// A reason not to resume a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    #[error("no store has a session with this id")]
    UnknownSession,
    #[error("it belongs to the workspace `{actual}`, not to `{asked}`")]
    OtherWorkspace { asked: String, actual: String },
    #[error(
        "its workspace `{recorded}` is gone, and Cursor keeps the chats of `{asked}` elsewhere"
    )]
    WorkspaceMoved { recorded: String, asked: String },
    #[error("its workspace `{recorded}` is gone")]
    WorkspaceGone { recorded: String },
    #[error("it ran in a worktree of `{repository}`, which was discarded")]
    WorktreeDiscarded { recorded: String, repository: String },
    #[error("its workspace is unknown")]
    WorkspaceUnknown { directory: String },
    #[error(
        "its workspace `{recorded}` is now `{physical}`, and the agent would not find the session there"
    )]
    BucketMismatch { recorded: String, physical: String },
    #[error("it is stored under `{recorded}`, but the agent now uses `{present}`")]
    OtherConfigRoot { recorded: String, present: String },
    #[error("{} directories have a store of it", directories.len())]
    SeveralBuckets { directories: Vec<String> },
    #[error("run {run} (pid {pid}) is using it")]
    HeldByRun { run: RunId, pid: u32 },
    #[error("it is {}, which the command line agent cannot continue", kind_name(*store))]
    AnotherKind { store: StoreKind },
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
        StoreKind::Cli => "a chat with the command line agent",
        StoreKind::Acp => "an ACP session",
        StoreKind::Ide | StoreKind::IdeOld => "an IDE conversation",
        StoreKind::Sdk => "an SDK conversation",
        StoreKind::Transcript => "a transcript without its store",
        StoreKind::Export => "an exported conversation",
    }
}

impl Reason {
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::UnknownSession => ExitCode::NotFound,
            Self::HeldByRun { .. } => ExitCode::Conflict,
            Self::Store(reason) if reason.is_passing() => ExitCode::Conflict,
            _ => ExitCode::NotResumable,
        }
    }
}

impl Reason {
    /// True if the session can never be resumed in its current state. Other reasons may pass: a run may release the
    /// session, and a workspace or a configuration root may come back.
    pub fn is_final(&self) -> bool {
        match self {
            Self::HeldByRun { .. }
            | Self::OtherWorkspace { .. }
            | Self::WorkspaceMoved { .. }
            | Self::WorkspaceGone { .. }
            | Self::WorkspaceUnknown { .. }
            | Self::BucketMismatch { .. }
            | Self::OtherConfigRoot { .. }
            | Self::SeveralBuckets { .. } => false,
            Self::UnknownSession | Self::WorktreeDiscarded { .. } | Self::AnotherKind { .. } => {
                true
            }
            Self::Store(reason) => !reason.is_passing(),
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
                "create it again with `mkdir -p '{recorded}'`, or copy the conversation to another workspace: \
                 caretaker sessions fork {session} --workspace DIR"
            ),
            Reason::WorktreeDiscarded { repository, .. } => {
                format!("caretaker sessions fork {session} --workspace '{repository}'")
            }
            Reason::WorkspaceUnknown { .. } => {
                "name the directory in which it began: --workspace DIR".to_owned()
            }
            Reason::BucketMismatch { physical, .. } => {
                format!("caretaker sessions fork {session} --workspace '{physical}'")
            }
            Reason::OtherConfigRoot { recorded, .. } => {
                format!("set CURSOR_CONFIG_DIR='{recorded}'")
            }
            Reason::SeveralBuckets { directories } => format!(
                "see them with `caretaker sessions ls --all`, and fork the right one:\n{}",
                directories.join("\n")
            ),
            Reason::HeldByRun { run, .. } => format!(
                "wait with --wait, stop that run and go on with --steal, or stop it: caretaker kill {run}"
            ),
            Reason::Store(NotResumable::HeldByProcess { pid, .. }) => {
                format!("end it first: kill {pid}")
            }
            Reason::AnotherKind { .. } => {
                format!("copy it to a command line session: caretaker sessions fork {session}")
            }
            Reason::Store(NotResumable::Subagent { parent }) => {
                format!("caretaker resume {parent}")
            }
            Reason::Store(NotResumable::NoStore) => {
                "nothing can be continued; --fresh begins a new session in its workspace".to_owned()
            }
            Reason::Store(NotResumable::EmptyRoot) => format!(
                "`caretaker sessions repair {session}` finds a conversation that its store still has; \
                 --fresh begins a new session in its workspace"
            ),
            Reason::Store(NotResumable::Diverged { recorded, .. }) => format!(
                "fork one of the two. The state that the last run left: \
                 caretaker sessions fork {session} --at {recorded}; the current state: \
                 caretaker sessions fork {session}"
            ),
            Reason::Store(NotResumable::CheckpointLost { found: Some(_), .. }) => {
                format!("continue the rest as a new session: caretaker sessions fork {session}")
            }
            Reason::Store(_) => format!(
                "check it with `caretaker sessions verify {session}`; --fresh begins a new session \
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
