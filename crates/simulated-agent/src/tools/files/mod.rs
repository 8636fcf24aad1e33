//! The tools that read, edit, write and delete one file, and those that search the workspace.

mod diff;
mod regular_file;
pub(super) mod search;

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::{Generation, PreparedCall, ToolEnvironment, ToolRun};
use crate::permissions::Verdict;
use diff::diff;

pub(crate) use regular_file::{read_json, read_regular_file};

/// The read tool returns only the beginning of a longer file.
const READ_LIMIT: u64 = 2 * 1024 * 1024;
/// The edit tool refuses a longer file, because it prints both versions.
const EDIT_LIMIT: u64 = 4 * 1024 * 1024;

pub(super) fn prepare_read(path: &Path, environment: &ToolEnvironment) -> PreparedCall {
    let args = json!({"path": environment.shown(path)});
    PreparedCall::new("readToolCall", "Read", args.clone(), args)
}

pub(super) fn prepare_edit(
    path: &Path,
    old: &str,
    new: &str,
    environment: &ToolEnvironment,
) -> PreparedCall {
    let path = environment.shown(path);
    let model_args = json!({"path": path, "old_string": old, "new_string": new});
    PreparedCall::new("editToolCall", "StrReplace", json!({"path": path}), model_args)
}

pub(super) fn prepare_write(
    path: &Path,
    content: &str,
    environment: &ToolEnvironment,
) -> PreparedCall {
    let path = environment.shown(path);
    let model_args = json!({"path": path, "contents": content});
    PreparedCall::new(
        "editToolCall",
        "Write",
        json!({"path": path, "streamContent": content}),
        model_args,
    )
}

pub(super) fn prepare_delete(
    path: &Path,
    call_id: &str,
    environment: &ToolEnvironment,
) -> PreparedCall {
    let path = environment.shown(path);
    let args = json!({"path": path, "toolCallId": call_id});
    PreparedCall::new("deleteToolCall", "Delete", args, json!({"path": path}))
}

pub(super) fn read(path: &Path, environment: &ToolEnvironment) -> ToolRun {
    let absolute = environment.absolute(path);
    if environment.permissions.read(&absolute) != Verdict::Allowed {
        return read_error(format!(
            "Reading {} is denied by the permission settings",
            absolute.display()
        ));
    }
    let file = match read_regular_file(&absolute, READ_LIMIT) {
        Ok(file) => file,
        Err(err) => return read_error(format!("{}: {err}", absolute.display())),
    };
    let exceeded_limit = file.is_cut();
    let Some(content) = leading_text(&file.bytes) else {
        let value = json!({
            "data": BASE64_STANDARD.encode(&file.bytes),
            "isEmpty": false,
            "exceededLimit": exceeded_limit,
            "totalLines": 0,
            "fileSize": file.n_bytes_in_file,
            "path": absolute.to_string_lossy(),
        });
        return ToolRun::success(value, format!("{} is a binary file.", absolute.display()));
    };
    // As in captures, a file with one line and a newline counts as two lines.
    let n_lines = content.split('\n').count();
    let value = json!({
        "content": content,
        "isEmpty": content.is_empty(),
        "exceededLimit": exceeded_limit,
        "totalLines": n_lines,
        "fileSize": file.n_bytes_in_file,
        "path": absolute.to_string_lossy(),
        "readRange": {"startLine": 1, "endLine": n_lines},
        "relatedCursorRulePaths": [],
        "relatedCursorRules": [],
    });
    ToolRun::success(value, content)
}

fn read_error(message: String) -> ToolRun {
    ToolRun::failed("error", json!({"errorMessage": message}), message)
}

/// Returns the text without a last character that the limit cut in two; `None` if the file is not text.
fn leading_text(bytes: &[u8]) -> Option<&str> {
    if bytes.contains(&0) {
        return None;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(err) if err.error_len().is_none() => {
            std::str::from_utf8(&bytes[..err.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

pub(super) fn edit(path: &Path, old: &str, new: &str, environment: &ToolEnvironment) -> ToolRun {
    replace(path, environment, |before| {
        let before = before.ok_or(Refusal::NotFound)?;
        match before.matches(old).count() {
            _ if old.is_empty() => Err(Refusal::Error("The string to replace is empty".to_owned())),
            0 => Err(Refusal::Error("The string to replace was not found in the file".to_owned())),
            1 => Ok(before.replacen(old, new, 1)),
            n_found => Err(Refusal::Error(format!(
                "The string to replace was found {n_found} times; make it unique"
            ))),
        }
    })
}

pub(super) fn write(path: &Path, content: &str, environment: &ToolEnvironment) -> ToolRun {
    replace(path, environment, |_| Ok(content.to_owned()))
}

/// Why a file was not changed.
enum Refusal {
    NotFound,
    Error(String),
}

fn replace(
    path: &Path,
    environment: &ToolEnvironment,
    change: impl FnOnce(Option<&str>) -> Result<String, Refusal>,
) -> ToolRun {
    let absolute = environment.absolute(path);
    let shown = environment.shown(path);
    if let Some(tool_run) = refused(&absolute, "writePermissionDenied", environment) {
        return tool_run;
    }
    let changed = text_of(&absolute).and_then(|before| {
        let after = change(before.as_deref())?;
        write_file(&absolute, &after).map_err(|err| Refusal::Error(err.to_string()))?;
        Ok((before, after))
    });
    let (before, after) = match changed {
        Ok(changed) => changed,
        Err(Refusal::NotFound) => return not_found(&shown),
        Err(Refusal::Error(error)) => {
            return ToolRun::failed("error", json!({"path": shown, "error": error}), error);
        }
    };
    let difference = diff(&shown, before.as_deref(), &after);
    let verb = if before.is_some() { "updated" } else { "created" };
    let message = format!("The file {shown} has been {verb}.");
    let mut value = json!({
        "path": shown,
        "linesAdded": difference.n_added,
        "linesRemoved": difference.n_removed,
        "diffString": difference.text,
    });
    if let Some(before) = before {
        value["beforeFullFileContent"] = json!(before);
    }
    value["afterFullFileContent"] = json!(after);
    if environment.generation == Generation::V2026_09 {
        value["message"] = json!(message);
    }
    ToolRun::success(value, message)
}

/// Returns the content; `None` if there is no file.
fn text_of(path: &Path) -> Result<Option<String>, Refusal> {
    let file = match read_regular_file(path, EDIT_LIMIT) {
        Ok(file) => file,
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(Refusal::Error(err.to_string())),
    };
    if file.is_cut() {
        return Err(Refusal::Error(format!(
            "The file is too large to edit ({} bytes)",
            file.n_bytes_in_file
        )));
    }
    String::from_utf8(file.bytes)
        .map(Some)
        .map_err(|_| Refusal::Error("The file is not text".to_owned()))
}

fn write_file(path: &Path, content: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    // Since it was read, the file may have become a pipe. O_NONBLOCK does not wait for its reader.
    let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(flags)
        .open(path)?;
    file.write_all(content.as_bytes())
}

pub(super) fn delete(path: &Path, environment: &ToolEnvironment) -> ToolRun {
    let absolute = environment.absolute(path);
    let shown = environment.shown(path);
    if let Some(tool_run) = refused(&absolute, "permissionDenied", environment) {
        return tool_run;
    }
    let Ok(metadata) = fs::symlink_metadata(&absolute) else { return not_found(&shown) };
    if metadata.is_dir() {
        let value = json!({"path": shown, "actualType": "directory"});
        return ToolRun::failed("notFile", value, format!("{shown} is a directory"));
    }
    let content = read_regular_file(&absolute, EDIT_LIMIT).ok().filter(|file| !file.is_cut());
    let content = content.and_then(|file| String::from_utf8(file.bytes).ok()).unwrap_or_default();
    if let Err(err) = fs::remove_file(&absolute) {
        let error = err.to_string();
        return ToolRun::failed("error", json!({"path": shown, "error": error}), error);
    }
    let value = json!({
        "path": shown,
        "deletedFile": shown,
        "fileSize": metadata.len().to_string(),
        "prevContent": content,
    });
    ToolRun::success(value, format!("Deleted {shown}."))
}

fn not_found(shown: &str) -> ToolRun {
    ToolRun::failed("fileNotFound", json!({"path": shown}), format!("File not found: {shown}"))
}

/// Returns the result of a call that must not change this file.
fn refused(path: &Path, denied_key: &str, environment: &ToolEnvironment) -> Option<ToolRun> {
    let shown = path.to_string_lossy();
    match environment.permissions.write(path) {
        Verdict::Allowed => None,
        Verdict::NotAllowed => {
            let reason = "Files are not changed in this mode";
            Some(ToolRun::rejected(json!({"path": shown, "reason": reason}), reason))
        }
        Verdict::Denied => {
            let error = format!("Changing {shown} is denied by the permission settings");
            Some(ToolRun::failed(denied_key, json!({"path": shown, "error": error}), error))
        }
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
