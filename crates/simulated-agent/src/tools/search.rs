//! The tools that look through the workspace: grep, glob and ls.
//!
//! They walk the tree themselves, without following links and without entering `.git`, and stop at fixed limits.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::patterns::LinePattern;
use super::regular_file::read_regular_file;
use super::wildcard::matches_path;
use super::{PreparedCall, ToolEnvironment, ToolRun};
use crate::permissions::Verdict;

const MAX_FILES_WALKED: usize = 20_000;
const MAX_BYTES_SEARCHED: u64 = 64 * 1024 * 1024;
/// Longer files are searched as far as this.
const MAX_BYTES_PER_FILE: u64 = 1024 * 1024;
const MAX_MATCHED_LINES: usize = 500;
const MAX_FILES_LISTED: usize = 1_000;
/// A longer line is cut in the result.
const MAX_LINE_CHARACTERS: usize = 1_000;

pub(super) fn prepare_grep(
    pattern: &str,
    path: &Path,
    call_id: &str,
    environment: &ToolEnvironment,
) -> PreparedCall {
    let path = environment.shown(path);
    let args = json!({
        "pattern": pattern,
        "path": path,
        "outputMode": "content",
        "caseInsensitive": false,
        "multiline": false,
        "toolCallId": call_id,
    });
    PreparedCall::new("grepToolCall", "Grep", args, json!({"pattern": pattern, "path": path}))
}

pub(super) fn prepare_glob(pattern: &str, environment: &ToolEnvironment) -> PreparedCall {
    let directory = environment.workspace.to_string_lossy();
    let args = json!({"targetDirectory": directory, "globPattern": pattern});
    let model_args = json!({"target_directory": directory, "glob_pattern": pattern});
    PreparedCall::new("globToolCall", "Glob", args, model_args)
}

pub(super) fn prepare_ls(
    path: &Path,
    call_id: &str,
    environment: &ToolEnvironment,
) -> PreparedCall {
    let path = environment.shown(path);
    let args = json!({"path": path, "ignore": [], "toolCallId": call_id});
    PreparedCall::new("lsToolCall", "LS", args, json!({"target_directory": path}))
}

pub(super) fn grep(pattern: &str, path: &Path, environment: &ToolEnvironment) -> ToolRun {
    let root = environment.absolute(path);
    let walk = match walk(&root) {
        Ok(walk) => walk,
        Err(err) => return error(format!("{}: {err}", root.display())),
    };
    let mut search = Search::new(pattern);
    for file in
        walk.files.iter().filter(|file| environment.permissions.read(file) == Verdict::Allowed)
    {
        let shown = match file.strip_prefix(&environment.workspace) {
            Ok(relative) => format!("./{}", relative.display()),
            Err(_) => file.display().to_string(),
        };
        search.look_into(file, &shown);
    }
    let content = json!({
        "matches": search.found,
        "totalLines": search.n_matched,
        "totalMatchedLines": search.n_matched,
        "clientTruncated": search.is_cut || walk.is_cut,
        "ripgrepTruncated": false,
    });
    let value = json!({
        "pattern": pattern,
        "path": root.to_string_lossy(),
        "outputMode": "content",
        "workspaceResults": {environment.workspace.to_string_lossy(): {"content": content}},
    });
    let nothing = || "No matches found.".to_owned();
    ToolRun::success(value, if search.n_matched == 0 { nothing() } else { search.for_model })
}

/// A search under way, with what is left of its limits.
struct Search {
    pattern: LinePattern,
    room: u64,
    n_matched: usize,
    is_cut: bool,
    found: Vec<Value>,
    for_model: String,
}

impl Search {
    fn new(pattern: &str) -> Self {
        Self {
            pattern: LinePattern::parse(pattern),
            room: MAX_BYTES_SEARCHED,
            n_matched: 0,
            is_cut: false,
            found: Vec::new(),
            for_model: String::new(),
        }
    }

    fn look_into(&mut self, file: &Path, shown: &str) {
        if self.room == 0 || self.n_matched == MAX_MATCHED_LINES {
            self.is_cut = true;
            return;
        }
        // A file that vanished has no lines to offer, and one that is not text is passed over.
        let Ok(content) = read_regular_file(file, MAX_BYTES_PER_FILE.min(self.room)) else {
            return;
        };
        self.room -= content.bytes.len() as u64;
        self.is_cut |= content.is_cut();
        if content.bytes.contains(&0) {
            return;
        }
        let text = String::from_utf8_lossy(&content.bytes);
        let lines = text.lines().enumerate().filter(|(_, line)| self.pattern.matches(line));
        let mut matches: Vec<Value> = Vec::new();
        for (i, line) in lines {
            if self.n_matched == MAX_MATCHED_LINES {
                self.is_cut = true;
                break;
            }
            self.n_matched += 1;
            let content: String = line.chars().take(MAX_LINE_CHARACTERS).collect();
            self.for_model += &format!("{shown}:{}:{content}\n", i + 1);
            matches.push(json!({
                "lineNumber": i + 1,
                "content": content,
                "contentTruncated": content.len() < line.len(),
                "isContextLine": false,
            }));
        }
        if !matches.is_empty() {
            self.found.push(json!({"file": shown, "matches": matches}));
        }
    }
}

pub(super) fn glob(pattern: &str, environment: &ToolEnvironment) -> ToolRun {
    let walk = match walk(&environment.workspace) {
        Ok(walk) => walk,
        Err(err) => return error(format!("{}: {err}", environment.workspace.display())),
    };
    // A bare name means that name anywhere.
    let anywhere = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    let files = walk.files.iter().map(|file| relative(file, &environment.workspace));
    let mut files: Vec<String> = files.filter(|file| matches_path(&anywhere, file)).collect();
    let n_found = files.len();
    files.truncate(MAX_FILES_LISTED);
    let for_model = if files.is_empty() { "No files found.".to_owned() } else { files.join("\n") };
    let value = json!({
        "pattern": pattern,
        "path": environment.workspace.to_string_lossy(),
        "files": files,
        "totalFiles": n_found,
        "clientTruncated": walk.is_cut || n_found > MAX_FILES_LISTED,
        "ripgrepTruncated": false,
    });
    ToolRun::success(value, for_model)
}

pub(super) fn ls(path: &Path, environment: &ToolEnvironment) -> ToolRun {
    let root = environment.absolute(path);
    let shown = root.to_string_lossy();
    let entries = match entries(&root) {
        Ok(entries) => entries,
        Err(err) => {
            let error = err.to_string();
            return ToolRun::failed(
                "error",
                json!({"path": shown, "error": error}),
                format!("{shown}: {error}"),
            );
        }
    };
    let (directories, files): (Vec<_>, Vec<_>) =
        entries.iter().take(MAX_FILES_LISTED).partition(|entry| entry.kind == EntryKind::Directory);
    let name =
        |entry: &Entry| entry.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let listed = directories
        .iter()
        .map(|entry| name(entry) + "/")
        .chain(files.iter().map(|entry| name(entry)));
    let for_model = listed.collect::<Vec<_>>().join("\n");
    let children = directories.iter().map(|entry| {
        json!({
            "absPath": entry.path.to_string_lossy(),
            "childrenDirs": [],
            "childrenFiles": [],
            "childrenWereProcessed": false,
            "fullSubtreeExtensionCounts": {},
            "numFiles": 0,
        })
    });
    let value = json!({
        "directoryTreeRoot": {
            "absPath": shown,
            "childrenDirs": children.collect::<Vec<_>>(),
            "childrenFiles": files.iter().map(|entry| json!({"name": name(entry)})).collect::<Vec<_>>(),
            "childrenWereProcessed": true,
            "fullSubtreeExtensionCounts": {},
            "numFiles": files.len(),
        },
    });
    ToolRun::success(value, for_model)
}

fn error(error: String) -> ToolRun {
    ToolRun::failed("error", json!({"error": error}), error)
}

fn relative(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

struct Walk {
    /// In the order of their paths.
    files: Vec<PathBuf>,
    is_cut: bool,
}

/// Finds the files below a directory, or the one file.
fn walk(root: &Path) -> io::Result<Walk> {
    if fs::metadata(root)?.is_file() {
        return Ok(Walk { files: vec![root.to_owned()], is_cut: false });
    }
    let mut walk = Walk { files: Vec::new(), is_cut: false };
    let mut n_seen = 0;
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        let entries = match entries(&directory) {
            Ok(entries) => entries,
            Err(err) if directory == root => return Err(err),
            // Below the root, what cannot be read is passed over, as ripgrep does.
            Err(_) => continue,
        };
        n_seen += entries.len();
        if n_seen > MAX_FILES_WALKED {
            walk.is_cut = true;
            break;
        }
        for entry in entries {
            match entry.kind {
                EntryKind::Directory if entry.path.file_name() != Some(".git".as_ref()) => {
                    waiting.push(entry.path)
                }
                EntryKind::File => walk.files.push(entry.path),
                EntryKind::Directory | EntryKind::Other => {}
            }
        }
    }
    walk.files.sort();
    Ok(walk)
}

struct Entry {
    path: PathBuf,
    kind: EntryKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    Directory,
    File,
    /// Links, pipes, sockets and devices.
    Other,
}

/// Lists a directory in the order of names, up to the limit of a walk.
fn entries(directory: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)?.take(MAX_FILES_WALKED + 1) {
        let entry = entry?;
        let kind = match entry.file_type()? {
            kind if kind.is_dir() => EntryKind::Directory,
            kind if kind.is_file() => EntryKind::File,
            _ => EntryKind::Other,
        };
        entries.push(Entry { path: entry.path(), kind });
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
