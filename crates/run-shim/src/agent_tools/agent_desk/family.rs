//! The runs that an agent can see: its parent, its children and its siblings. Each session appears as its latest run.

use std::collections::BTreeMap;

use run_journal::{
    IndexError, RunDirectory, RunFilter, RunOverview, StateRoot, WriterPresence, list_runs,
};
use run_protocol::{ControlRequest, Lineage, Relation, RunId, StopManner};
use serde_json::{Value, json};
use uuid::Uuid;

use super::NotServed;
use crate::control::orders::Order;
use crate::control::sockets::SocketPaths;
use crate::sandbox::{Supervision, supervision};

/// A related session.
#[derive(Debug, Clone)]
pub(super) struct Relative {
    pub(super) relation: Relation,
    pub(super) session: Uuid,
    /// Its latest run.
    pub(super) latest: RunOverview,
}

impl Relative {
    /// Tells whether a relative may call it by this name: `parent`, its own name, or the id of its latest run.
    pub(super) fn is_called(&self, named: &str) -> bool {
        self.relation == Relation::Parent && named == "parent"
            || self.latest.name.as_deref() == Some(named)
            || self.latest.run.to_string() == named
    }

    /// Returns what another agent may know about it: its state and its report, but not its prompt or its workspace.
    pub(super) fn report(&self) -> Value {
        let latest = &self.latest;
        json!({
            "run": latest.run,
            "name": latest.name,
            "relation": self.relation,
            "state": latest.state,
            "reported": latest.reported,
            "waits_for_a_person": latest.needs_human.is_some(),
        })
    }
}

/// Returns all related sessions.
pub(super) fn relatives(
    state: &StateRoot,
    session: Uuid,
    lineage: Option<&Lineage>,
) -> Result<Vec<Relative>, IndexError> {
    let runs = list_runs(state, &RunFilter::default())?;
    Ok(family_of(runs, session, lineage))
}

fn family_of(runs: Vec<RunOverview>, session: Uuid, lineage: Option<&Lineage>) -> Vec<Relative> {
    let parent = lineage.map(|lineage| lineage.session);
    let mut latest: BTreeMap<Uuid, Relative> = BTreeMap::new();
    for run in runs {
        let Ok(theirs) = Uuid::parse_str(&run.session) else { continue };
        let their_parent = run.lineage.as_ref().map(|lineage| lineage.session);
        let relation = if theirs == session {
            continue;
        } else if their_parent == Some(session) {
            Relation::Child
        } else if parent == Some(theirs) {
            Relation::Parent
        } else if parent.is_some() && their_parent == parent {
            Relation::Sibling
        } else {
            continue;
        };
        match latest.get(&theirs) {
            Some(known) if known.latest.run > run.run => {}
            _ => drop(latest.insert(theirs, Relative { relation, session: theirs, latest: run })),
        }
    }
    let mut family: Vec<Relative> = latest.into_values().collect();
    family.sort_by_key(|relative| relative.latest.run);
    family
}

/// Stops a run in any state, without waiting for its end.
pub(super) fn stop(state: &StateRoot, run: RunId) -> Result<(), NotServed> {
    let cannot = |error: &dyn std::error::Error| {
        NotServed::failed(format!("Could not stop it: {}.", ground::with_causes(error)))
    };
    let Ok(directory) = RunDirectory::open(state, run) else { return Ok(()) };
    let spec = directory.spec().map_err(|error| cannot(&error))?;
    let socket = SocketPaths::new(&spec.socket_dir.0, run).control();
    // A stopped shim cannot stop its agent step by step, so the parent asks for an immediate kill.
    let shim = match directory.writer() {
        Ok(WriterPresence::Live(shim)) => shim,
        _ => None,
    };
    let is_stopped = shim.is_some_and(|shim| supervision(&shim) == Supervision::Stopped);
    let manner = if is_stopped { StopManner::Now } else { StopManner::Ladder };
    let request = &ControlRequest::Stop { manner };
    let why_unbegun = "its parent stopped it before it began";
    let order = Order { run: &directory, socket: &socket, request, why_unbegun };
    order.give(|_| {}).map(drop).map_err(|error| cannot(&error))
}

#[cfg(test)]
#[path = "family_tests.rs"]
mod tests;
