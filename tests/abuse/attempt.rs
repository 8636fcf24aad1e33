use serde::{Deserialize, Serialize};

use crate::world::World;

/// One attempt by a hostile agent.
#[derive(Debug)]
pub struct Attempt {
    pub id: &'static str,
    /// The action, worded to follow "it …".
    pub does: &'static str,
    /// Every answer that means that the protection held: an error's name, or what the attempt saw instead.
    pub held_by: &'static [&'static str],
    /// Where the host shows that the attempt had no effect.
    pub evidence: Evidence,
    pub act: fn(&World) -> Answer,
}

/// The result of an attempt, seen from inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// An error's name, or what the attempt saw instead.
    Refused(String),
    /// It succeeded; the text shows how.
    Done(String),
    /// The attempt cannot be made on this machine.
    NotHere(String),
}

/// Stands for the directory of the workspace's other session in the paths of [`Evidence::Intact`].
pub const OTHER_SESSION: &str = "the other session";

/// The check on the host afterwards. Paths are relative to the home directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing: the attempt only reads, or changes the sandbox's own files.
    Inside,
    /// These paths are unchanged, or still do not exist.
    Intact(&'static [&'static str]),
    /// The neighbour is still alive.
    NeighbourLives,
    /// No client reached the neighbour's sockets.
    NobodyCame,
    /// Nothing in the workspace is set-user-id or set-group-id, or a device.
    NoSetId,
    /// Nothing was typed into the terminal that the shim was started from.
    NothingTyped,
    /// The host's name is unchanged.
    NameOfHost,
}

/// The probe's output for an attempt.
#[derive(Debug, Serialize, Deserialize)]
pub struct Line {
    pub id: String,
    pub answer: Answer,
}

impl Answer {
    pub(crate) fn refused(what: impl Into<String>) -> Self {
        Self::Refused(what.into())
    }

    pub(crate) fn done(what: impl Into<String>) -> Self {
        Self::Done(what.into())
    }
}
