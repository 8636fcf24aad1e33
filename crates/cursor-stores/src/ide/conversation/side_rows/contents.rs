//! Turns a row that belongs to a message into parts of the message.

use serde_json::{Map, Value as Json};

use super::line_diff::{changes, unified};
use crate::ide::conversation::attachments::{attachments, is_attachment_field, name_of};
use crate::ide::lenient::{is_blank, items};
use crate::model::Part;

/// The attachment kind for files at a checkpoint.
const CHECKPOINT: &str = "checkpoint";

/// A file, and what the conversation knows about it.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownFile {
    pub(super) path: Option<String>,
    /// Its text before the conversation began.
    pub(super) first: Option<String>,
}

/// `codeBlockDiff`: a code block's changes to a file.
pub(super) fn diff_parts(row: &Json, file: &KnownFile) -> Vec<Part> {
    let before = changes(&row["originalModelDiffWrtV0"]);
    let after = changes(&row["newModelDiffWrtV0"]);
    let text = unified(&before, &after, lines(file).as_deref());
    let mut parts = Vec::new();
    if !text.is_empty() {
        parts.push(Part::Code { language: Some("diff".to_owned()), path: file.path.clone(), text });
    }
    let rest = rest(row, &["originalModelDiffWrtV0", "newModelDiffWrtV0"]);
    if !rest.is_empty() {
        parts.push(Part::Unknown { kind: "codeBlockDiff".to_owned(), value: Json::Object(rest) });
    }
    parts
}

/// `checkpointId`: the earlier state of the files, for an undo. Each becomes a diff against its original text.
pub(super) fn checkpoint_parts(row: &Json, known: &mut dyn FnMut(&Json) -> KnownFile) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for file in items(&row["files"]) {
        let known = known(file);
        let changed = changes(&file["originalModelDiffWrtV0"]);
        let mut text = unified(&[], &changed, lines(&known).as_deref());
        let others = rest(file, &["uri", "originalModelDiffWrtV0", "fsPath", "path"]);
        text += &others.iter().map(|(name, value)| field_line(name, value)).collect::<String>();
        let name =
            known.path.or_else(|| name_of(file)).or_else(|| file.as_str().map(str::to_owned));
        let text = Some(text).filter(|text| !text.is_empty());
        if name.is_some() || text.is_some() {
            parts.push(Part::Attachment { kind: CHECKPOINT.to_owned(), name, text });
        }
    }
    let others = rest(row, &["files"]);
    parts.extend(others.iter().map(|(name, value)| as_attachment(CHECKPOINT, name, value)));
    parts
}

/// `messageRequestContext`: the context that Cursor sent with a prompt.
pub(super) fn context_parts(row: &Json) -> Vec<Part> {
    let mut parts = attachments(row);
    // These fields repeat the key of the row.
    let others = rest(row, &["bubbleId", "composerId", "contextId", "context"]);
    let others = others.iter().filter(|(name, _)| !is_attachment_field(name));
    parts.extend(others.map(|(name, value)| as_attachment("context", name, value)));
    parts
}

fn lines(file: &KnownFile) -> Option<Vec<&str>> {
    file.first.as_deref().map(|text| text.split('\n').collect())
}

/// Returns the fields that are neither blank nor known.
fn rest(json: &Json, known: &[&str]) -> Map<String, Json> {
    let fields = json.as_object().into_iter().flatten();
    fields
        .filter(|(name, value)| !known.contains(&name.as_str()) && !is_blank(value))
        .filter(|(_, value)| **value != Json::Bool(false))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn as_attachment(kind: &str, name: &str, value: &Json) -> Part {
    let text = match value {
        Json::String(text) => text.clone(),
        Json::Array(values) if values.iter().all(Json::is_string) => {
            values.iter().filter_map(Json::as_str).collect::<Vec<_>>().join("\n")
        }
        value => serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string()),
    };
    Part::Attachment { kind: kind.to_owned(), name: Some(name.to_owned()), text: Some(text) }
}

fn field_line(name: &str, value: &Json) -> String {
    format!("{name}: {}\n", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}
