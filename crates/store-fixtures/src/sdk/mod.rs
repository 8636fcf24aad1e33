//! Every generation of the SDK's `index.db` with its agents' databases, and the SDK's NDJSON files;
//! `cursor_stores::sdk` reads them.

mod bulk;
pub mod events;
mod planted;
mod writing;

use std::path::{Path, PathBuf};

use md5::{Digest, Md5};
use serde_json::{Value as Json, json};

pub use bulk::many_agents;
pub use planted::planted_agent;
pub use writing::{chat_path, write_database, write_lines};

/// The generations of the SDK. They differ in the columns of `runs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// 1.0.9: neither `request_id` nor `result` nor `usage_json`.
    May2026,
    /// 1.0.18: with `request_id` and `result`.
    July2026,
    /// 1.0.22 and newer: with `usage_json`, and an encryption key in the meta row of each agent.
    September2026,
    /// Like [`Self::September2026`], but started by 1.0.9, so that the newer columns come last.
    Upgraded,
    /// A future generation, with unknown columns and an unknown table.
    Future,
}

impl Generation {
    pub const ALL: [Self; 5] =
        [Self::May2026, Self::July2026, Self::September2026, Self::Upgraded, Self::Future];

    pub fn has_result(self) -> bool {
        self != Self::May2026
    }

    pub fn has_usage(self) -> bool {
        !matches!(self, Self::May2026 | Self::July2026)
    }
}

/// A conversation.
#[derive(Debug, Clone)]
pub struct Agent {
    pub id: String,
    pub name: Option<String>,
    pub workspace: String,
    /// `IDLE`, `RUNNING`, `ERROR` or `ARCHIVED`.
    pub status: String,
    pub metadata: Json,
    pub created_ms: i64,
    pub runs: Vec<Run>,
}

/// One prompt and its outcome.
#[derive(Debug, Clone)]
pub struct Run {
    pub id: String,
    pub request_id: Option<String>,
    pub turn_number: i64,
    /// `QUEUED`, `CREATING`, `RUNNING`, `FINISHED`, `ERROR`, `CANCELLED` or `EXPIRED`.
    pub status: String,
    pub model: Option<String>,
    /// `[{"id", "value"}]`.
    pub model_params: Json,
    pub error: Option<String>,
    pub usage: Option<Json>,
    pub usage_ref: Option<String>,
    pub result: Option<String>,
    pub created_ms: i64,
    pub ended_ms: i64,
    pub events: Vec<Event>,
    /// The messages that the run added to the prompt. Without any, it made no checkpoint.
    pub checkpoint: Vec<Json>,
}

/// One row of `run_events`.
#[derive(Debug, Clone)]
pub struct Event {
    pub payload: Option<Json>,
    pub payload_ref: Option<String>,
    pub event_type: String,
    pub idempotency_key: Option<String>,
}

impl Agent {
    /// An idle agent without runs.
    pub fn new(id: &str, workspace: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: Some(format!("About {id}")),
            workspace: workspace.to_owned(),
            status: "IDLE".to_owned(),
            metadata: json!({}),
            created_ms: 1_790_000_000_000,
            runs: Vec::new(),
        }
    }

    /// Adds a run, with the number that the SDK would give it.
    #[must_use]
    pub fn with(mut self, mut run: Run) -> Self {
        run.turn_number = self.runs.len() as i64 + 1;
        run.created_ms = self.created_ms + 60_000 * run.turn_number;
        run.ended_ms = run.created_ms + 5_000;
        self.runs.push(run);
        self
    }
}

impl Run {
    /// A finished run with these messages.
    pub fn new(id: &str, messages: Vec<Json>) -> Self {
        Self {
            id: id.to_owned(),
            request_id: None,
            turn_number: 1,
            status: "FINISHED".to_owned(),
            model: Some("gpt-5.5".to_owned()),
            model_params: json!([{"id": "reasoning", "value": "high"}]),
            error: None,
            usage: None,
            usage_ref: None,
            result: None,
            created_ms: 1_790_000_060_000,
            ended_ms: 1_790_000_065_000,
            events: messages.into_iter().map(Event::message).collect(),
            checkpoint: Vec::new(),
        }
    }

    #[must_use]
    pub fn ended(mut self, status: &str) -> Self {
        self.status = status.to_owned();
        self
    }
}

impl Event {
    /// An event with a message. The writer adds the ids of agent and run.
    pub fn message(message: Json) -> Self {
        Self::payload(json!({"schemaVersion": 1, "type": "sdk_message", "message": message}))
    }

    /// An event with any payload.
    pub fn payload(payload: Json) -> Self {
        Self {
            payload: Some(payload),
            payload_ref: None,
            event_type: "run_stream_event".to_owned(),
            idempotency_key: None,
        }
    }

    /// An event whose payload is stored elsewhere.
    pub fn elsewhere(reference: &str) -> Self {
        Self { payload: None, payload_ref: Some(reference.to_owned()), ..Self::payload(Json::Null) }
    }
}

/// Returns the SDK's store of a workspace, below `projects`.
pub fn state_root(projects: &Path, workspace: &str) -> PathBuf {
    let hash = hex::encode(Md5::digest(workspace));
    let words: Vec<&str> = workspace
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let project =
        if words.is_empty() { projects.to_owned() } else { projects.join(words.join("-")) };
    project.join("sdk-agent-store").join(hash)
}
