//! One row of the table.

use serde::{Deserialize, Serialize};

use crate::world::World;

/// Something that a hostile agent does.
#[derive(Debug)]
pub struct Attempt {
    pub id: &'static str,
    /// What it does, after "it …".
    pub does: &'static str,
    /// Every answer that means that it held: names of errors, or what was seen instead.
    pub held_by: &'static [&'static str],
    /// Where the host shows that nothing came of it.
    pub evidence: Evidence,
    pub act: fn(&World) -> Answer,
}

/// What an attempt came to, seen from inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// An error's name, or what was there instead.
    Refused(String),
    /// It was done; what shows it.
    Done(String),
    /// It cannot be tried on this machine, whoever guards it.
    NotHere(String),
}

/// Stands for the directory of the workspace's other session in paths of [`Evidence::Intact`].
pub const OTHER_SESSION: &str = "the other session";

/// Where the host is looked at afterwards. Paths are relative to the home directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// Seen from inside alone: something was to be read, or is the sandbox's own.
    Inside,
    /// These are as they were, or are still not there.
    Intact(&'static [&'static str]),
    /// The process next door lives.
    NeighbourLives,
    /// Nobody came to the sockets of the process next door.
    NobodyCame,
    /// Nothing in the workspace is set-user-id or set-group-id, or a device.
    NoSetId,
    /// Nothing was typed into the terminal that the supervisor was started from.
    NothingTyped,
    /// The host's name is what it was.
    NameOfHost,
}

/// What the probe prints for an attempt.
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
