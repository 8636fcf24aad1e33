//! `/v1/version`: who answers, and what it speaks.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::daemon::Daemon;

#[derive(Debug, Serialize)]
pub(crate) struct Version {
    /// What is spoken here. A client that speaks another is refused.
    pub(crate) protocol: u32,
    /// The program's version, for people.
    pub(crate) version: String,
    pub(crate) pid: u32,
    pub(crate) since_ms: u64,
}

pub(crate) async fn version(State(daemon): State<Arc<Daemon>>) -> Json<Version> {
    Json(Version {
        protocol: daemon.note.protocol,
        version: daemon.note.version.clone(),
        pid: daemon.note.pid,
        since_ms: daemon.note.since_ms,
    })
}
