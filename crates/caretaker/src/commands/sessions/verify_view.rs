//! What is wrong with a session, and what can be done, in words.

use admission::words::units::counted;
use cursor_stores::session_copy::{Place, RepairAction, RootCandidate, StoreFinding};

/// A finding as a clause.
pub(crate) fn finding(finding: &StoreFinding) -> String {
    let at = |place: &Place| {
        let what = if place.is_prompt { ", which the next turn needs" } else { "" };
        format!("{} of {}{what}", place.field, short(&place.blob.to_string()))
    };
    match finding {
        StoreFinding::Unreadable { why } => format!("the store cannot be read: {why}"),
        StoreFinding::FileDamaged { why } => format!("the file is damaged: {why}"),
        StoreFinding::LogUnreadable => {
            "the log cannot be read where it lies; what was written last may be missing".to_owned()
        }
        StoreFinding::MetaMissing => "the store does not say which session it is".to_owned(),
        StoreFinding::MetaUnreadable { why } => {
            format!("what the store says of itself cannot be read: {why}")
        }
        StoreFinding::AgentIdDiffers { agent_id } => {
            format!("the store says it is of session {agent_id}")
        }
        StoreFinding::RootAbsent => {
            "no checkpoint is recorded: a resume would begin anew".to_owned()
        }
        StoreFinding::RootMalformed { text } => format!("`{text}` is recorded as its checkpoint"),
        StoreFinding::RootMissing { id } => {
            format!("its checkpoint {} is not there", short(&id.to_string()))
        }
        StoreFinding::RootDamaged { id } => {
            format!("its checkpoint {} is encrypted or corrupt", short(&id.to_string()))
        }
        StoreFinding::RootUndecodable { id, why } => {
            format!("its checkpoint {} does not decode: {why}", short(&id.to_string()))
        }
        StoreFinding::Dangling { id, place } => {
            format!("{} is missing: {}", short(&id.to_string()), at(place))
        }
        StoreFinding::HashMismatch { id, place } => {
            format!("{} is encrypted or corrupt: {}", short(&id.to_string()), at(place))
        }
        StoreFinding::NotOfKind { id, why, place } => {
            format!("{} is {why}: {}", short(&id.to_string()), at(place))
        }
        StoreFinding::BlobUnreadable { id, place } => {
            format!("{} cannot be read: {}", short(&id.to_string()), at(place))
        }
        StoreFinding::MalformedId { n_bytes, place } => {
            format!("{n_bytes} bytes stand where an id should: {}", at(place))
        }
        StoreFinding::NamedHashMismatch { id } => {
            format!("{} is encrypted or corrupt", short(&id.to_string()))
        }
        StoreFinding::CutShort => "it has more references than were followed".to_owned(),
        other => format!("{other:?}"),
    }
}

pub(super) fn action(action: &RepairAction) -> String {
    match action {
        RepairAction::RebuildFile { n_blobs } => format!(
            "write a new database with what can be read of the old one: {}",
            counted(*n_blobs, "blob", "blobs")
        ),
        RepairAction::RewriteMeta => "write anew what the store says of itself".to_owned(),
        RepairAction::SetAgentId { agent_id } => {
            format!("say in the store that it is of session {agent_id}")
        }
        RepairAction::SetRoot { to, .. } => format!("point it to {}", candidate(to)),
        other => format!("{other:?}"),
    }
}

pub(super) fn candidate(candidate: &RootCandidate) -> String {
    format!(
        "the checkpoint {}, with {} and {}",
        short(&candidate.id.to_string()),
        counted(candidate.n_prompt_messages as u64, "message", "messages"),
        counted(candidate.n_turns as u64, "turn", "turns")
    )
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}
