//! `/v1/version`: the daemon's version and protocol.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::daemon::Daemon;

/// A daemon.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Version {
    /// The version of the protocol. The daemon refuses clients with a different version.
    pub(crate) protocol: u32,
    /// The program's version, for users to read.
    pub(crate) version: String,
    /// The daemon's process.
    pub(crate) pid: u32,
    /// When it started, in milliseconds since 1970.
    pub(crate) since_ms: u64,
}

/// Get the daemon's version and protocol
#[utoipa::path(
    get, path = "/v1/version", operation_id = "get_version", tag = "daemon",
    responses((status = OK, description = "This daemon", body = Version)),
)]
pub(crate) async fn version(State(daemon): State<Arc<Daemon>>) -> Json<Version> {
    Json(Version {
        protocol: daemon.note.protocol,
        version: daemon.note.version.clone(),
        pid: daemon.note.pid,
        since_ms: daemon.note.since_ms,
    })
}
