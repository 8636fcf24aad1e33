//! Writes the SDK's stores.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cursor_stores::chat::BlobId;
use cursor_stores::chat::schema::ConversationStateStructure;
use prost::Message;
use rusqlite::{Connection, ToSql};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use super::{Agent, Event, Generation, Run};
use crate::chat::{MetaForm, StoreWriter};
use crate::{Closing, close, iso, open_writer};

/// Returns the database of an agent, below the store.
pub fn chat_path(store: &Path, agent_id: &str) -> PathBuf {
    let name = format!("agent-{}", hex::encode(Sha256::digest(agent_id)));
    store.join("agents").join(name).join("store.db")
}

/// Writes `index.db` and the databases of agents with checkpoints into the directory `store`.
pub fn write_database(store: &Path, generation: Generation, agents: &[Agent], closing: Closing) {
    let path = store.join("index.db");
    let connection = open_writer(&path);
    connection.execute_batch(&tables(generation)).unwrap();
    connection.execute_batch("BEGIN").unwrap();
    for agent in agents {
        let roots = write_chat(store, generation, agent, closing);
        put_agent(&connection, agent, roots.last());
        for (run, (start, end)) in agent.runs.iter().zip(steps(&roots)) {
            put_run(&connection, generation, agent, run, start, end);
            for (number, event) in run.events.iter().enumerate() {
                put_event(&connection, agent, run, number as i64 + 1, event);
            }
        }
    }
    connection.execute_batch("COMMIT").unwrap();
    close(connection, &path, closing);
}

fn tables(generation: Generation) -> String {
    let (request_id, result, usage) = match generation {
        Generation::May2026 | Generation::Upgraded => ("", "", ""),
        Generation::July2026 => ("request_id TEXT,", "result TEXT,", ""),
        Generation::September2026 | Generation::Future => {
            ("request_id TEXT,", "result TEXT,", "usage_json TEXT,")
        }
    };
    let added = match generation {
        Generation::Upgraded => {
            "ALTER TABLE runs ADD COLUMN request_id TEXT; ALTER TABLE runs ADD COLUMN result TEXT;
             ALTER TABLE runs ADD COLUMN usage_json TEXT;"
        }
        Generation::Future => {
            "ALTER TABLE agents ADD COLUMN mood_json TEXT; ALTER TABLE runs ADD COLUMN cost REAL;
             ALTER TABLE run_events ADD COLUMN compressed INTEGER DEFAULT 0;
             CREATE TABLE moods (id TEXT PRIMARY KEY, value TEXT); INSERT INTO moods VALUES ('a', 'good');"
        }
        _ => "",
    };
    format!(
        "PRAGMA foreign_keys = ON;
         CREATE TABLE agents (agent_id TEXT PRIMARY KEY, workspace_ref TEXT NOT NULL, status TEXT NOT NULL,
           active_run_id TEXT, latest_checkpoint_ref_json TEXT, name TEXT,
           metadata_json TEXT NOT NULL DEFAULT '{{}}', created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
         CREATE TABLE runs (run_id TEXT PRIMARY KEY, {request_id}
           agent_id TEXT NOT NULL REFERENCES agents(agent_id), turn_number INTEGER NOT NULL, status TEXT NOT NULL,
           model TEXT, model_params_json TEXT, start_checkpoint_ref_json TEXT, latest_checkpoint_ref_json TEXT,
           error_code TEXT, usage_ref TEXT, {usage} {result} created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
           started_at TEXT, finished_at TEXT, cancelled_at TEXT, expired_at TEXT, UNIQUE(agent_id, turn_number));
         CREATE TABLE run_events (run_id TEXT NOT NULL, seq INTEGER NOT NULL, offset TEXT NOT NULL,
           event_type TEXT NOT NULL, payload_json TEXT, payload_ref TEXT, idempotency_key TEXT,
           created_at TEXT NOT NULL, PRIMARY KEY (run_id, seq), UNIQUE(run_id, offset));
         CREATE UNIQUE INDEX run_events_idempotency_key_idx ON run_events (run_id, idempotency_key)
           WHERE idempotency_key IS NOT NULL;
         {added}"
    )
}

fn put_agent(connection: &Connection, agent: &Agent, root: Option<&BlobId>) {
    insert(
        connection,
        "agents",
        &[
            ("agent_id", &agent.id),
            ("workspace_ref", &agent.workspace),
            ("status", &agent.status),
            ("active_run_id", &active_run(agent).map(|run| &run.id)),
            ("latest_checkpoint_ref_json", &reference(root)),
            ("name", &agent.name),
            ("metadata_json", &agent.metadata.to_string()),
            ("created_at", &iso(agent.created_ms)),
            ("updated_at", &iso(updated_ms(agent))),
        ],
    );
}

fn put_run(
    connection: &Connection,
    generation: Generation,
    agent: &Agent,
    run: &Run,
    start: Option<&BlobId>,
    end: Option<&BlobId>,
) {
    let ended = |status: &str| (run.status == status).then(|| iso(run.ended_ms));
    let (model_params, usage) =
        (run.model_params.to_string(), run.usage.as_ref().map(ToString::to_string));
    let (start, end) = (reference(start), reference(end));
    let (created, updated) = (iso(run.created_ms), iso(run.ended_ms));
    let started = (run.status != "QUEUED").then(|| iso(run.created_ms + 10));
    let (finished, cancelled, expired) = (ended("FINISHED"), ended("CANCELLED"), ended("EXPIRED"));
    let mut columns: Vec<(&str, &dyn ToSql)> = vec![
        ("run_id", &run.id),
        ("agent_id", &agent.id),
        ("turn_number", &run.turn_number),
        ("status", &run.status),
        ("model", &run.model),
        ("model_params_json", &model_params),
        ("start_checkpoint_ref_json", &start),
        ("latest_checkpoint_ref_json", &end),
        ("error_code", &run.error),
        ("usage_ref", &run.usage_ref),
        ("created_at", &created),
        ("updated_at", &updated),
        ("started_at", &started),
        ("finished_at", &finished),
        ("cancelled_at", &cancelled),
        ("expired_at", &expired),
    ];
    if generation.has_result() {
        columns.extend([("request_id", &run.request_id as &dyn ToSql), ("result", &run.result)]);
    }
    if generation.has_usage() {
        columns.push(("usage_json", &usage));
    }
    insert(connection, "runs", &columns);
}

fn put_event(connection: &Connection, agent: &Agent, run: &Run, seq: i64, event: &Event) {
    insert(
        connection,
        "run_events",
        &[
            ("run_id", &run.id),
            ("seq", &seq),
            ("offset", &seq.to_string()),
            ("event_type", &event.event_type),
            ("payload_json", &payload(agent, run, event).map(|payload| payload.to_string())),
            ("payload_ref", &event.payload_ref),
            ("idempotency_key", &event.idempotency_key),
            ("created_at", &iso(run.created_ms + 100 * seq)),
        ],
    );
}

fn insert(connection: &Connection, table: &str, columns: &[(&str, &dyn ToSql)]) {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let places = vec!["?"; columns.len()].join(", ");
    let sql = format!("INSERT INTO {table} ({}) VALUES ({places})", names.join(", "));
    let values: Vec<&dyn ToSql> = columns.iter().map(|(_, value)| *value).collect();
    connection.prepare_cached(&sql).unwrap().execute(values.as_slice()).unwrap();
}

/// Writes an agent's own database, if it has checkpoints, and returns the root after each run.
fn write_chat(
    store: &Path,
    generation: Generation,
    agent: &Agent,
    closing: Closing,
) -> Vec<BlobId> {
    let (blobs, roots) = checkpoints(agent);
    if blobs.is_empty() {
        return roots;
    }
    let directory = chat_path(store, &agent.id);
    let mut chat = StoreWriter::create(directory.parent().unwrap(), &agent.id, agent.created_ms);
    chat.connection().execute_batch("BEGIN").unwrap();
    for data in blobs.values() {
        chat.put(data);
    }
    // Only the first generation names the latest root there.
    if let (Generation::May2026, Some(root)) = (generation, roots.last()) {
        chat.set_meta("latestRootBlobId", root.to_string());
    }
    if generation.has_usage() {
        chat.set_meta("blobEncryptionKey", "5ec7e7".repeat(10));
    }
    chat.put_meta(MetaForm::Hex);
    chat.connection().execute_batch("COMMIT").unwrap();
    chat.close(closing);
    roots
}

/// Returns all blobs of an agent, and its root after each run. A run without a checkpoint keeps the root of the
/// previous run.
fn checkpoints(agent: &Agent) -> (BTreeMap<BlobId, Vec<u8>>, Vec<BlobId>) {
    let mut blobs = BTreeMap::new();
    let mut put = |data: Vec<u8>| {
        let id = BlobId::of(&data);
        blobs.insert(id, data);
        id
    };
    let mut root = ConversationStateStructure::default();
    let mut roots = Vec::new();
    for run in &agent.runs {
        for message in &run.checkpoint {
            let id = put(message.to_string().into_bytes());
            root.root_prompt_messages_json.push(id.to_vec());
        }
        if !root.root_prompt_messages_json.is_empty() {
            roots.push(put(root.encode_to_vec()));
        }
    }
    (blobs, roots)
}

/// Returns the roots at the start and at the end of each run.
fn steps(roots: &[BlobId]) -> impl Iterator<Item = (Option<&BlobId>, Option<&BlobId>)> {
    let mut before = None;
    roots.iter().map(Some).chain(std::iter::repeat(None)).map(move |root| {
        let step = (before, root);
        before = root.or(before);
        step
    })
}

/// Writes the four NDJSON files into the directory `store`.
pub fn write_lines(store: &Path, agents: &[Agent]) {
    let (mut all_agents, mut runs, mut events, mut blobs) = (vec![], vec![], vec![], vec![]);
    let root =
        |root: Option<&BlobId>| root.map(|root| json!({"schemaVersion": 1, "rootBlobId": root}));
    for agent in agents {
        let (of_agent, roots) = checkpoints(agent);
        all_agents.push(json!({
            "agentId": agent.id, "cwd": agent.workspace, "status": agent.status.to_lowercase(),
            "activeRunId": active_run(agent).map(|run| &run.id), "name": agent.name,
            "createdAt": agent.created_ms, "updatedAt": updated_ms(agent), "latestCheckpoint": root(roots.last()),
            "sdkMetadata": agent.metadata,
        }));
        for (id, data) in of_agent {
            blobs.push(json!({"agentId": agent.id, "blobId": id, "dataBase64": base64(&data)}));
        }
        for (run, (start, end)) in agent.runs.iter().zip(steps(&roots)) {
            let is_over = !["QUEUED", "CREATING", "RUNNING"].contains(&run.status.as_str());
            let model = run.model.as_ref().map(|id| json!({"id": id, "params": run.model_params}));
            runs.push(json!({
                "runId": run.id, "requestId": run.request_id, "agentId": agent.id, "turnNumber": run.turn_number,
                "status": run.status.to_lowercase(), "model": model, "result": run.result, "error": run.error,
                "usageRef": run.usage_ref, "usage": run.usage, "createdAt": run.created_ms, "updatedAt": run.ended_ms,
                "startedAt": run.created_ms + 10, "endedAt": is_over.then_some(run.ended_ms),
                "startCheckpointRef": root(start), "latestCheckpointRef": root(end),
            }));
            for (number, event) in run.events.iter().enumerate() {
                let seq = number as i64 + 1;
                events.push(json!({
                    "runId": run.id, "seq": seq, "offset": seq.to_string(), "eventType": event.event_type,
                    "payload": payload(agent, run, event), "payloadRef": event.payload_ref,
                    "idempotencyKey": event.idempotency_key, "createdAt": iso(run.created_ms + 100 * seq),
                }));
            }
        }
    }
    fs::create_dir_all(store).unwrap();
    let files =
        [("agents", all_agents), ("runs", runs), ("run_events", events), ("checkpoints", blobs)];
    for (name, lines) in files {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(store.join(format!("{name}.ndjson")), text).unwrap();
    }
}

/// Adds the ids that every event repeats.
fn payload(agent: &Agent, run: &Run, event: &Event) -> Option<Json> {
    let mut payload = event.payload.clone()?;
    if let Some(fields) = payload.as_object_mut() {
        fields.insert("agentId".to_owned(), agent.id.clone().into());
        fields.insert("runId".to_owned(), run.id.clone().into());
        if let Some(message) = fields.get_mut("message").and_then(Json::as_object_mut) {
            message.insert("agent_id".to_owned(), agent.id.clone().into());
            message.insert("run_id".to_owned(), run.id.clone().into());
        }
    }
    Some(payload)
}

fn active_run(agent: &Agent) -> Option<&Run> {
    agent.runs.last().filter(|run| ["QUEUED", "CREATING", "RUNNING"].contains(&run.status.as_str()))
}

fn updated_ms(agent: &Agent) -> i64 {
    agent.runs.last().map_or(agent.created_ms, |run| run.ended_ms)
}

fn reference(root: Option<&BlobId>) -> Option<String> {
    root.map(|root| json!({"blobId": root, "storeKind": "local-agent-store"}).to_string())
}

fn base64(data: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(data)
}
