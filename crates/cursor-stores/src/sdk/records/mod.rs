//! Agents, runs and events, from either form of the store.

pub(crate) mod fields;
pub(crate) mod index_db;
pub(crate) mod line_files;

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use self::fields::{at_ms, token_usage, words};
use self::index_db::is_length;
use crate::chat::BlobId;
use crate::lenient_json;
use crate::model::{TokenUsage, TurnState};

/// An SDK conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Agent {
    pub(crate) id: String,
    pub(crate) workspace: Option<String>,
    pub(crate) status: AgentStatus,
    pub(crate) checkpoint: Option<BlobId>,
    pub(crate) name: Option<String>,
    pub(crate) created: Option<i64>,
    pub(crate) updated: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AgentStatus {
    Idle,
    Running,
    Error,
    Archived,
    #[default]
    Unknown,
}

/// One turn of an agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) agent_id: String,
    pub(crate) request_id: Option<String>,
    pub(crate) turn_number: Option<i64>,
    pub(crate) status: RunStatus,
    pub(crate) model: Option<String>,
    pub(crate) model_params: BTreeMap<String, String>,
    pub(crate) start_checkpoint: Option<BlobId>,
    pub(crate) checkpoint: Option<BlobId>,
    pub(crate) error: Option<RunError>,
    pub(crate) usage: Option<TokenUsage>,
    pub(crate) result: Option<String>,
    pub(crate) created: Option<i64>,
    pub(crate) updated: Option<i64>,
    pub(crate) started: Option<i64>,
    /// From its own column, or else from the last change of a finished run.
    pub(crate) ended: Option<i64>,
}

/// The error of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RunError {
    pub(crate) code: Option<String>,
    pub(crate) message: String,
}

impl RunError {
    /// Reads a code, a message, or `[code] message`: SDK 1.1.0 writes both into one column.
    pub(crate) fn of(text: String) -> Self {
        let split = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        match split.map(|(code, message)| (code.trim(), message.trim())) {
            Some((code, message)) if !code.is_empty() && !message.is_empty() => {
                Self { code: Some(code.to_owned()), message: message.to_owned() }
            }
            _ => Self { code: None, message: text },
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RunStatus {
    Queued,
    /// Also while the SDK creates it.
    Running,
    Finished,
    Error,
    Cancelled,
    /// The application forced the next run while this one was still running.
    Expired,
    #[default]
    Unknown,
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) seq: i64,
    /// The store's name for the event. The payload's own type is more reliable.
    pub(crate) kind: String,
    pub(crate) at: Option<i64>,
    pub(crate) payload: Payload,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Payload {
    Json(Vec<u8>),
    /// Stored as a blob with this name.
    Elsewhere(String),
    /// Larger than the limit for loading.
    TooLarge,
    Absent,
}

impl Event {
    pub(crate) fn from_row(mut row: Map<String, Json>) -> Self {
        let payload = match (row.remove("payload_json"), row.remove("payload_ref")) {
            (Some(Json::String(text)), _) => Payload::Json(text.into_bytes()),
            (Some(value), _) if is_length(&value) => Payload::TooLarge,
            (Some(value), _) => Payload::Json(value.to_string().into_bytes()),
            (None, Some(Json::String(reference))) => Payload::Elsewhere(reference),
            (None, _) => Payload::Absent,
        };
        Self {
            seq: row.get("seq").and_then(Json::as_i64).unwrap_or_default(),
            kind: words(row.get("event_type")).unwrap_or_default(),
            at: at_ms(row.get("created_at")),
            payload,
        }
    }
}

impl AgentStatus {
    fn of(word: Option<&str>) -> Self {
        match word.unwrap_or_default().to_ascii_uppercase().as_str() {
            "IDLE" => Self::Idle,
            "RUNNING" => Self::Running,
            "ERROR" => Self::Error,
            "ARCHIVED" => Self::Archived,
            _ => Self::Unknown,
        }
    }
}

impl RunStatus {
    pub(crate) fn of(word: &str) -> Self {
        match word.to_ascii_uppercase().as_str() {
            "QUEUED" => Self::Queued,
            "CREATING" | "RUNNING" => Self::Running,
            "FINISHED" => Self::Finished,
            "ERROR" => Self::Error,
            "CANCELLED" => Self::Cancelled,
            "EXPIRED" => Self::Expired,
            _ => Self::Unknown,
        }
    }

    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Error | Self::Cancelled | Self::Expired)
    }

    pub(crate) fn turn_state(self) -> TurnState {
        match self {
            Self::Queued | Self::Running => TurnState::Running,
            Self::Finished => TurnState::Finished,
            Self::Error => TurnState::Failed,
            Self::Cancelled | Self::Expired => TurnState::Cancelled,
            Self::Unknown => TurnState::Unknown,
        }
    }
}

impl Agent {
    /// Reads a row of `agents`. `None` if it has no id.
    pub(crate) fn from_row(row: &Map<String, Json>) -> Option<Self> {
        Some(Self {
            id: words(row.get("agent_id"))?,
            workspace: words(row.get("workspace_ref")),
            status: AgentStatus::of(row.get("status").and_then(Json::as_str)),
            checkpoint: checkpoint(&inner_json(row.get("latest_checkpoint_ref_json"))),
            name: words(row.get("name")),
            created: at_ms(row.get("created_at")),
            updated: at_ms(row.get("updated_at")),
        })
    }

    /// Reads a line of `agents.ndjson`.
    pub(crate) fn from_document(document: &Map<String, Json>) -> Option<Self> {
        Self::from_row(&row_of(document))
    }
}

impl Run {
    /// Reads a row of `runs`, in any version. `None` if it has no id.
    pub(crate) fn from_row(row: &Map<String, Json>) -> Option<Self> {
        let status = RunStatus::of(row.get("status").and_then(Json::as_str).unwrap_or_default());
        let ended = ["finished_at", "cancelled_at", "expired_at"]
            .into_iter()
            .find_map(|column| at_ms(row.get(column)));
        let updated = at_ms(row.get("updated_at"));
        Some(Self {
            id: words(row.get("run_id"))?,
            agent_id: words(row.get("agent_id")).unwrap_or_default(),
            request_id: words(row.get("request_id")),
            turn_number: row.get("turn_number").and_then(Json::as_i64),
            status,
            model: words(row.get("model")),
            model_params: model_params(&inner_json(row.get("model_params_json"))),
            start_checkpoint: checkpoint(&inner_json(row.get("start_checkpoint_ref_json"))),
            checkpoint: checkpoint(&inner_json(row.get("latest_checkpoint_ref_json"))),
            error: words(row.get("error_code")).map(RunError::of),
            usage: token_usage(&inner_json(row.get("usage_json"))),
            result: words(row.get("result")),
            created: at_ms(row.get("created_at")),
            updated,
            started: at_ms(row.get("started_at")),
            ended: ended.or(updated.filter(|_| status.is_over())),
        })
    }

    /// Reads a line of `runs.ndjson`.
    pub(crate) fn from_document(document: &Map<String, Json>) -> Option<Self> {
        let mut row = row_of(document);
        let model = document.get("model").unwrap_or(&Json::Null);
        row.insert("model".to_owned(), model.get("id").unwrap_or(model).clone());
        row.insert("model_params_json".to_owned(), model["params"].clone());
        Self::from_row(&row)
    }
}

/// The columns that have different names in a line.
const COLUMNS_OF_LINES: [(&str, &str); 17] = [
    ("agentId", "agent_id"),
    ("cwd", "workspace_ref"),
    ("latestCheckpoint", "latest_checkpoint_ref_json"),
    ("runId", "run_id"),
    ("requestId", "request_id"),
    ("turnNumber", "turn_number"),
    ("startCheckpointRef", "start_checkpoint_ref_json"),
    ("latestCheckpointRef", "latest_checkpoint_ref_json"),
    ("error", "error_code"),
    ("usage", "usage_json"),
    ("createdAt", "created_at"),
    ("updatedAt", "updated_at"),
    ("startedAt", "started_at"),
    ("endedAt", "finished_at"),
    ("eventType", "event_type"),
    ("payload", "payload_json"),
    ("payloadRef", "payload_ref"),
];

/// Converts a line to the form in the database.
pub(crate) fn row_of(document: &Map<String, Json>) -> Map<String, Json> {
    let column = |name: &String| {
        let known = COLUMNS_OF_LINES.iter().find(|(of_line, _)| of_line == name);
        known.map_or_else(|| name.clone(), |(_, column)| (*column).to_owned())
    };
    let known = document.iter().filter(|(_, value)| !value.is_null());
    known.map(|(name, value)| (column(name), value.clone())).collect()
}

/// Sorts runs. Turn numbers start at 0 or 1, and a hostile store may repeat one.
pub(crate) fn sort_runs(runs: &mut [Run]) {
    runs.sort_by(|one, other| {
        let place =
            |run: &Run| (run.turn_number.unwrap_or(i64::MAX), run.created.unwrap_or(i64::MAX));
        place(one).cmp(&place(other))
    });
}

/// Reads a JSON field. A column of a database has it as text, and a line of a file has it as plain JSON.
fn inner_json(column: Option<&Json>) -> Json {
    match column {
        Some(Json::String(text)) => lenient_json::parse(text.as_bytes()).unwrap_or_default(),
        value => value.cloned().unwrap_or_default(),
    }
}

/// Returns the root that a reference names: `blobId` in columns, `rootBlobId` in documents.
fn checkpoint(reference: &Json) -> Option<BlobId> {
    ["blobId", "rootBlobId"]
        .into_iter()
        .find_map(|name| reference.get(name)?.as_str()?.parse().ok())
}

fn model_params(params: &Json) -> BTreeMap<String, String> {
    let pairs = params.as_array().map(Vec::as_slice).unwrap_or_default();
    pairs
        .iter()
        .filter_map(|pair| {
            let value = match pair.get("value")? {
                Json::String(text) => text.clone(),
                value => value.to_string(),
            };
            Some((words(pair.get("id"))?, value))
        })
        .collect()
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
