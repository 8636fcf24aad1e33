//! A message's attachments: files, selections, rules, images, and everything else that the IDE adds.

use std::collections::HashSet;

use serde_json::Value as Json;

use crate::ide::lenient::{is_blank, items, text, text_of};
use crate::model::Part;
use crate::workspace_json::{workspace_of_json, workspace_of_uri};

/// The fields of a bubble or its `context` that contain attachments, and the kind of each.
const FIELDS: &[(&str, &str)] = &[
    ("fileSelections", "file"),
    ("folderSelections", "folder"),
    ("attachedFolders", "folder"),
    ("attachedFoldersNew", "folder"),
    ("selections", "selection"),
    ("codeSelections", "selection"),
    ("attachedCodeChunks", "selection"),
    ("codeChunks", "selection"),
    ("codebaseContextChunks", "selection"),
    ("quotes", "selection"),
    ("terminalSelections", "terminal"),
    ("terminalFiles", "terminal"),
    ("cursorRules", "rule"),
    ("cursorCommands", "command"),
    ("selectedDocs", "doc"),
    ("selectedDocuments", "doc"),
    ("documentationSelections", "doc"),
    ("docSelections", "doc"),
    ("docsReferences", "doc"),
    ("webReferences", "link"),
    ("externalLinks", "link"),
    ("aiWebSearchResults", "link"),
    ("selectedCommits", "commit"),
    ("commits", "commit"),
    ("selectedPullRequests", "pull request"),
    ("pullRequests", "pull request"),
    ("gitDiffs", "diff"),
    ("gitPRDiffSelections", "diff"),
    ("gitDiff", "diff"),
    ("gitDiffFromBranchToMain", "diff"),
    ("composers", "conversation"),
    ("pastChats", "conversation"),
    ("summarizedComposers", "conversation"),
    ("subagentSelections", "agent"),
    ("browserSelections", "page"),
    ("uiElementSelections", "element"),
    ("uiElementPicked", "element"),
    ("consoleLogs", "console"),
    ("notepads", "notepad"),
    ("selectedVideos", "video"),
    ("contextPieces", "context"),
    ("extraContext", "context"),
    ("knowledgeItems", "context"),
    ("interpreterResults", "context"),
    ("attachedFoldersListDirResults", "context"),
    ("useDiffReview", "context"),
];

const IMAGE_FIELDS: [&str; 3] = ["image", "images", "selectedImages"];

/// Returns all attachments of a bubble of any age, each once.
pub(crate) fn attachments(bubble: &Json) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut seen = HashSet::new();
    // A bubble has far fewer fields than there are kinds of attachments.
    let holders = [bubble, &bubble["context"]].into_iter().filter_map(Json::as_object);
    for (field, value) in holders.flatten() {
        let is_image = IMAGE_FIELDS.contains(&field.as_str());
        let kind = kind_of(field);
        for item in items_or_one(value).iter().filter(|_| is_image || kind.is_some()) {
            let part = match kind {
                _ if is_image => Some(image(item)),
                Some(kind) => attachment(kind, item),
                None => None,
            };
            if let Some(part) = part
                && seen.insert(identity(&part))
            {
                parts.push(part);
            }
        }
    }
    // Mentions say where the text names an attachment. Only mentions of things that are not attached are added.
    if let Some(mentions) = bubble["context"]["mentions"].as_object() {
        for (field, mentioned) in mentions {
            let kind = kind_of(field).unwrap_or("context");
            for name in mentioned.as_object().into_iter().flat_map(|names| names.keys()) {
                if name.is_empty() || parts.iter().any(|part| is_named(part, name)) {
                    continue;
                }
                let name = workspace_of_uri(name).map_or_else(|| name.clone(), |named| named.path);
                parts.push(Part::Attachment {
                    kind: kind.to_owned(),
                    name: Some(name),
                    text: None,
                });
            }
        }
    }
    parts
}

/// True if [`attachments`] reads this field.
pub(crate) fn is_attachment_field(field: &str) -> bool {
    kind_of(field).is_some() || IMAGE_FIELDS.contains(&field)
}

fn kind_of(field: &str) -> Option<&'static str> {
    FIELDS.iter().find(|(name, _)| *name == field).map(|(_, kind)| *kind)
}

fn items_or_one(value: &Json) -> &[Json] {
    match value {
        Json::Array(items) => items,
        Json::Object(_) | Json::String(_) => std::slice::from_ref(value),
        _ => &[],
    }
}

fn attachment(kind: &str, item: &Json) -> Option<Part> {
    if is_blank(item) {
        return None;
    }
    let kind = kind.to_owned();
    if let Some(name) = text(item) {
        return Some(Part::Attachment { kind, name: Some(name.to_owned()), text: None });
    }
    let (name, body) = (name_of(item), body_of(item));
    let body = match (&name, body) {
        // Show an unknown attachment as JSON, rather than not at all.
        (None, None) => Some(item.to_string()),
        (_, body) => body,
    };
    Some(Part::Attachment { kind, name, text: body })
}

/// The name of an attachment.
pub(crate) fn name_of(item: &Json) -> Option<String> {
    let of_uri = || {
        let uri = item.get("uri")?;
        let as_it_is = || text_of(uri, &["fsPath", "path", "external"]).map(str::to_owned);
        workspace_of_json(uri).map(|place| place.path).or_else(as_it_is)
    };
    let of_path = || {
        text_of(
            item,
            &["fsPath", "relativeWorkspacePath", "path", "relativePath", "fileName", "filename"],
        )
    };
    let of_name =
        || text_of(item, &["name", "title", "url", "uri", "id", "sha", "composerId", "uuid"]);
    of_uri().or_else(|| of_path().or_else(of_name).map(str::to_owned))
}

/// The text of an attachment.
fn body_of(item: &Json) -> Option<String> {
    let names = [
        "text",
        "rawText",
        "content",
        "contents",
        "code",
        "selectedText",
        "markdown",
        "body",
        "message",
        "description",
        "diff",
        "output",
    ];
    let direct = text_of(item, &names).map(str::to_owned);
    direct.or_else(|| {
        let lines: Vec<&str> = items(&item["lines"])
            .iter()
            .filter_map(|line| text(line).or_else(|| text_of(line, &["text", "content"])))
            .collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    })
}

fn image(item: &Json) -> Part {
    let data = text_of(item, &["data", "base64"]);
    Part::Image {
        media_type: text_of(item, &["mimeType", "mediaType"]).map(str::to_owned),
        path: text_of(item, &["path", "fsPath", "url"])
            .or_else(|| text(item))
            .or_else(|| text(&item["uuid"]))
            .map(str::to_owned),
        // Four characters of base64 are three bytes.
        n_bytes: data.map(|data| data.len() as u64 / 4 * 3),
    }
}

/// Identifies an attachment. Some bubbles have the same attachment in two fields.
fn identity(part: &Part) -> String {
    match part {
        Part::Attachment { kind, name, text } => {
            format!(
                "{kind}\0{}\0{}",
                name.as_deref().unwrap_or_default(),
                text.as_deref().unwrap_or_default()
            )
        }
        Part::Image { path, .. } => format!("image\0{}", path.as_deref().unwrap_or_default()),
        _ => String::new(),
    }
}

fn is_named(part: &Part, mentioned: &str) -> bool {
    match part {
        Part::Attachment { name: Some(name), .. } | Part::Image { path: Some(name), .. } => {
            mentioned.contains(name.as_str())
                || name.contains(mentioned)
                || workspace_of_uri(mentioned).is_some_and(|place| place.path == *name)
        }
        _ => false,
    }
}
