//! Says why a session could not be copied, forked, bundled, repaired or cleaned up. On every error, nothing has
//! changed.

use std::io;
use std::path::PathBuf;

use crate::chat::{BlobId, ChatStoreError, StoreFinding};
use crate::database::ReadDatabaseError;
use crate::plain_file::PlainFileError;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    #[error("the store cannot be opened")]
    Open(#[source] ChatStoreError),
    #[error("the store's meta row cannot be read")]
    Meta(#[source] ChatStoreError),
    #[error("the store has no meta row")]
    NoMeta,
    #[error("the store cannot be read")]
    Read(#[from] ReadDatabaseError),
    #[error("the store's log cannot be read, so the newest messages may be missing")]
    WithoutLog,
    #[error("the store is damaged; `caretaker sessions repair` repairs what it can")]
    Damaged,

    #[error("there is no checkpoint yet, so there is nothing to copy")]
    NoRoot,
    #[error("the checkpoint {id} is not in the store")]
    RootMissing { id: String },
    #[error("the checkpoint {id} is encrypted or corrupt")]
    RootDamaged { id: BlobId },
    #[error("the checkpoint {id} does not decode")]
    RootUndecodable { id: BlobId, source: prost::DecodeError },
    #[error("the conversation has {n_turns} turns; there is no turn {turn}")]
    NoSuchTurn { turn: usize, n_turns: usize },
    #[error("the conversation has no message or checkpoint `{name}`")]
    NoSuchMessage { name: String },
    #[error("several names begin with `{name}`")]
    Ambiguous { name: String },
    #[error("the store does not record the state before turn {turn}")]
    NoStateBefore { turn: usize },
    #[error("there are no messages before turn {turn}")]
    NothingBefore { turn: usize },
    #[error("message {index} of the prompt is missing or damaged: the copy could not be continued")]
    PromptDamaged { index: usize, id: Option<BlobId> },
    #[error("the conversation has no messages")]
    NothingSaid,

    #[error("the copy cannot be written")]
    Write(#[from] WriteStoreError),
    #[error("the bundle cannot be written")]
    WriteBundle(#[from] io::Error),
    #[error("`{id}` in `{bucket}` is not a valid session name")]
    Name { bucket: String, id: String },
    #[error("the session cannot be placed at `{}`", .path.display())]
    Place { path: PathBuf, source: io::Error },

    #[error("another process has the session open for writing")]
    InUse,
    #[error("the session changed in the meantime")]
    Changed,
    #[error("the session's store is not a file that can be replaced")]
    NotReplaceable(#[source] PlainFileError),
    /// Not one of Cursor's files, so Caretaker does not know how to treat it.
    #[error("`{}` does not belong to a session", .path.display())]
    Unexpected { path: PathBuf },
    #[error("the original cannot be kept at `{}`", .path.display())]
    BackUp { path: PathBuf, source: io::Error },
    #[error("the copy cannot be created next to the session")]
    Stage(#[source] io::Error),
    #[error("the copy cannot replace the session")]
    Exchange(#[source] io::Error),

    #[error("the session has changed since the repair was planned")]
    PlanIsOld,
    #[error("there is nothing to repair")]
    NothingToDo,
    /// A bug in Caretaker, found before it did harm.
    #[error("the repaired copy failed its check")]
    CopyIsUnsound { findings: Vec<StoreFinding> },
    #[error("the store is damaged and was left unchanged")]
    Unsound,
    /// A bug in Caretaker, found before it did harm.
    #[error("the smaller copy failed its check")]
    CopyDiffers,
}

/// Says why a store could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteStoreError {
    #[error("`{}` cannot be written", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the database cannot be written")]
    Sqlite(#[from] rusqlite::Error),
}

impl From<rusqlite::Error> for CopyError {
    fn from(err: rusqlite::Error) -> Self {
        Self::Write(err.into())
    }
}
