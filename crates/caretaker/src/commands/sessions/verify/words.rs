//! Words for store problems and repairs.

use admission::words::units::counted;
use cursor_stores::session_copy::{Place, RepairAction, RootCandidate, StoreFinding};

/// A finding as a clause.
pub(crate) fn finding(finding: &StoreFinding) -> String {
    let at = |place: &Place| {
        let what = if place.is_prompt { ", which the next turn needs" } else { "" };
        format!("{} of {}{what}", place.field, short(&place.blob.to_string()))
    };
    match finding {
        StoreFinding::Unreadable { why } => format!("cannot read the store: {why}"),
        StoreFinding::FileDamaged { why } => format!("the file is damaged: {why}"),
        StoreFinding::LogUnreadable => {
            "cannot read the log in place; the last writes may be missing".to_owned()
        }
        StoreFinding::MetaMissing => "the store does not name its session".to_owned(),
        StoreFinding::MetaUnreadable { why } => {
            format!("cannot read the store's meta row: {why}")
        }
        StoreFinding::AgentIdDiffers { agent_id } => {
            format!("the store names another session: {agent_id}")
        }
        StoreFinding::RootAbsent => {
            "no checkpoint: the agent would start an empty conversation".to_owned()
        }
        StoreFinding::RootMalformed { text } => format!("`{text}` is not a checkpoint"),
        StoreFinding::RootMissing { id } => {
            format!("its checkpoint {} is missing", short(&id.to_string()))
        }
        StoreFinding::RootDamaged { id } => {
            format!("its checkpoint {} is encrypted or corrupt", short(&id.to_string()))
        }
        StoreFinding::RootUndecodable { id, why } => {
            format!("cannot decode its checkpoint {}: {why}", short(&id.to_string()))
        }
        StoreFinding::NotResumable { why } => why.to_string(),
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
            format!("cannot read {}: {}", short(&id.to_string()), at(place))
        }
        StoreFinding::MalformedId { n_bytes, place } => {
            format!("{n_bytes} bytes instead of an id: {}", at(place))
        }
        StoreFinding::NamedHashMismatch { id } => {
            format!("{} is encrypted or corrupt", short(&id.to_string()))
        }
        StoreFinding::CutShort => "too many references: not all were checked".to_owned(),
        other => format!("{other:?}"),
    }
}

pub(super) fn action(action: &RepairAction) -> String {
    match action {
        RepairAction::RebuildFile { n_blobs } => format!(
            "write a new database with everything readable: {}",
            counted(*n_blobs, "blob", "blobs")
        ),
        RepairAction::RewriteMeta => "write a new meta row".to_owned(),
        RepairAction::SetAgentId { agent_id } => {
            format!("write the session's id into the store: {agent_id}")
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
