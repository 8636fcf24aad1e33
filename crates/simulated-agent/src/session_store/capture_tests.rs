//! Compares our stores with real ones: the same words give the same bytes, and the same conversation the same rows.
//!
//! The real stores are not part of the project; `CARETAKER_CAPTURES` says where they are.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cursor_stores::chat::BlobId;
use pretty_assertions::assert_eq;
use prost::Message;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::test_bench::{Bench, Dump, Field, fields, shell_call};
use super::{ToolResultRecord, messages};
use crate::tools::Generation;

/// A store from February 2026 with two turns; 20 of its 34 blobs are known, under their original row numbers.
fn real_store() -> Option<BTreeMap<usize, (String, Vec<u8>)>> {
    #[expect(
        clippy::disallowed_methods,
        reason = "only the environment knows where captures are kept"
    )]
    let Some(captures) = std::env::var_os("CARETAKER_CAPTURES").map(PathBuf::from) else {
        println!("CARETAKER_CAPTURES is not set: nothing to compare with");
        return None;
    };
    let stores = captures.join("stores");
    let manifest = std::fs::read(stores.join("feb2026-dir-changer.manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    // Use a copy, because opening a database in WAL mode writes files next to it.
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("store.db");
    std::fs::copy(stores.join("feb2026-dir-changer.store.db"), &copy).unwrap();
    let known: BTreeMap<_, _> = Dump::read(&copy).rows.into_iter().collect();
    let rows = manifest["rows_in_source_order"].as_array().unwrap().iter().map(|row| {
        let id = row["id"].as_str().unwrap();
        Some((
            usize::try_from(row["row"].as_u64().unwrap()).unwrap(),
            (id.to_owned(), known.get(id)?.clone()),
        ))
    });
    Some(rows.flatten().collect())
}

fn id_of(message: &Value) -> String {
    hex::encode(Sha256::digest(message.to_string()))
}

#[test]
fn a_user_message_and_its_query_have_the_bytes_of_real_ones() {
    let Some(real) = real_store() else { return };
    let query = messages::user_query(
        " changedir into foo/bar please!",
        "fd103183-5bf6-425f-a69b-504d8ef7c557",
    );
    assert_eq!(id_of(&query), real[&5].0);

    let store = Bench::new(Generation::V2026_01).open();
    let state_before: BlobId = real[&3].0.parse().unwrap();
    let message = store.user_message(
        " changedir into foo/bar please!",
        "aa934524-d5fe-41d5-aa14-d6857b8573f7",
        state_before,
    );
    assert_eq!(message.encode_to_vec(), real[&1].1);
}

#[test]
fn a_committed_pending_answer_has_the_same_bytes_as_a_real_one() {
    let Some(real) = real_store() else { return };
    let root = fields(&real[&18].1);
    let (_, pending) = root.iter().find(|(number, _)| *number == 4).unwrap();
    let pending: Value = serde_json::from_slice(pending.bytes()).unwrap();
    assert_eq!(id_of(&messages::committed(&pending)), real[&17].0);
    let identity =
        messages::AssistantIdentity { message_id: "1", is_provider_id: false, model: "" };
    let text = pending["content"][0]["text"].as_str();
    assert_eq!(
        messages::pending_assistant(&identity, None, text, &[], 0).to_string(),
        pending.to_string()
    );
}

#[test]
fn a_tool_result_has_the_bytes_of_a_real_one() {
    let Some(real) = real_store() else { return };
    let message: Value = serde_json::from_slice(&real[&11].1).unwrap();
    let high_level = &message["providerOptions"]["cursor"]["highLevelToolCallResult"]["output"];
    let record = ToolResultRecord {
        call_id: message["id"].as_str().unwrap().to_owned(),
        // As the stream prints it, with the fields that hold their default.
        result: json!({
            "success": {
                "command": "cd foo/bar", "workingDirectory": "", "exitCode": 0, "signal": "", "stdout": "",
                "stderr": "", "executionTime": 4122, "interleavedOutput": "",
            },
            "sandboxPolicy": high_level["sandboxPolicy"], "isBackground": false,
            "terminalsFolder": high_level["terminalsFolder"],
        }),
        for_model: message["content"][0]["result"].as_str().unwrap().to_owned(),
        is_error: false,
    };
    assert_eq!(id_of(&messages::tool_result("Shell", &record)), real[&11].0);
}

#[test]
fn the_same_conversation_gives_rows_of_the_same_shape_in_the_same_order() {
    let Some(real) = real_store() else { return };
    let bench = Bench::new(Generation::V2026_01);
    let mut store = bench.open();
    let result = |call_id: &str| ToolResultRecord {
        call_id: call_id.to_owned(),
        result: json!({
            "success": { "command": "cd", "exitCode": 0, "executionTime": 1, "interleavedOutput": "" },
            "sandboxPolicy": { "type": "TYPE_INSECURE_NONE" }, "isBackground": false, "terminalsFolder": "/t",
        }),
        for_model: "done".to_owned(),
        is_error: false,
    };
    store.begin_turn("one", "request-1").unwrap();
    store.model_step(Some("hm"), Some("I will"), &[shell_call("c1", "cd")]).unwrap();
    store.tools_finished(&[result("c1")]).unwrap();
    store.end_turn(None, "Done").unwrap();
    store.begin_turn("two", "request-2").unwrap();
    store.model_step(Some("hm!"), None, &[shell_call("c2", "cd")]).unwrap();
    store.tools_finished(&[result("c2")]).unwrap();
    store.end_turn(None, "Done again").unwrap();

    let mut written = bench.dump().rows;
    assert_eq!(written.len(), 34);
    // Cursor writes concurrently; here the turn overtook the step it refers to.
    written.swap(21, 22);
    for (row, (_, data)) in real {
        assert_eq!(outline(&written[row - 1].1), outline(&data), "row {row}");
    }
}

/// Returns the outline of a blob: JSON keys in their order, or protobuf field numbers, with blob ids marked.
fn outline(data: &[u8]) -> Value {
    match serde_json::from_slice(data) {
        Ok(message) => json_outline(&message),
        Err(_) => message_outline(data),
    }
}

fn json_outline(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            // As a list, because objects are equal in any order.
            object.iter().map(|(key, value)| json!([key, json_outline(value)])).collect()
        }
        Value::Array(items) => items.iter().map(json_outline).collect(),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!("number"),
        other => other.clone(),
    }
}

fn message_outline(data: &[u8]) -> Value {
    let found = fields(data).into_iter().map(|(number, field)| match field {
        Field::Number(_) => json!([number, "number"]),
        Field::Bytes(bytes) if bytes.len() == 32 => json!([number, "id"]),
        Field::Bytes(bytes) if bytes.starts_with(b"{") => {
            json!([number, json_outline(&serde_json::from_slice(&bytes).unwrap())])
        }
        // Only these hold messages in the known rows: token details of a root, the union of a turn or a step.
        Field::Bytes(bytes) if number == 5 || (number == 1 && is_message(&bytes)) => {
            json!([number, message_outline(&bytes)])
        }
        Field::Bytes(_) => json!([number, "text"]),
    });
    found.collect()
}

/// Returns true if the bytes of a turn or a step are a message and not a prompt.
fn is_message(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0x0a)
}
