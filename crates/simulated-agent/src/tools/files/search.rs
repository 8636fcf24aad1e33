//! The tools that look through the workspace: grep, glob and ls.
//!
//! They neither follow links nor enter `.git`, and stop at fixed limits.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use ignore::overrides::{Override, OverrideBuilder};
use regex::Regex;
use serde_json::{Value, json};

use super::regular_file::read_regular_file;
use crate::permissions::Verdict;
use crate::tools::{PreparedCall, ToolEnvironment, ToolRun};

const MAX_FILES_WALKED: usize = 20_000;
const MAX_BYTES_SEARCHED: u64 = 64 * 1024 * 1024;
/// Only the beginning of a longer file is searched.
const MAX_BYTES_PER_FILE: u64 = 1024 * 1024;
const MAX_MATCHED_LINES: usize = 500;
const MAX_FILES_LISTED: usize = 1_000;
/// The result shows only the beginning of a longer line.
const MAX_LINE_CHARACTERS: usize = 1_000;

pub(in crate::tools) fn prepare_grep(
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

pub(in crate::tools) fn prepare_glob(pattern: &str, environment: &ToolEnvironment) -> PreparedCall {
    let directory = environment.workspace.to_string_lossy();
    let args = json!({"targetDirectory": directory, "globPattern": pattern});
    let model_args = json!({"target_directory": directory, "glob_pattern": pattern});
    PreparedCall::new("globToolCall", "Glob", args, model_args)
}

pub(in crate::tools) fn prepare_ls(
    path: &Path,
    call_id: &str,
    environment: &ToolEnvironment,
) -> PreparedCall {
    let path = environment.shown(path);
    let args = json!({"path": path, "ignore": [], "toolCallId": call_id});
    PreparedCall::new("lsToolCall", "LS", args, json!({"target_directory": path}))
}

pub(in crate::tools) fn grep(pattern: &str, path: &Path, environment: &ToolEnvironment) -> ToolRun {
    let root = environment.absolute(path);
    let regex = match Regex::new(pattern) {
        Ok(regex) => regex,
        Err(err) => return error(err.to_string()),
    };
    let walk = match walk(&root, Override::empty()) {
        Ok(walk) => walk,
        Err(err) => return error(format!("{}: {err}", root.display())),
    };
    let mut search = Search { room: MAX_BYTES_SEARCHED, is_cut: walk.is_cut, ..Search::default() };
    let permissions = &environment.permissions;
    for file in walk.files.iter().filter(|file| permissions.read(file) == Verdict::Allowed) {
        let shown = match file.strip_prefix(&environment.workspace) {
            Ok(relative) => format!("./{}", relative.display()),
            Err(_) => file.display().to_string(),
        };
        search.look_into(file, &shown, &regex);
    }
    let content = json!({
        "matches": search.found,
        "totalLines": search.n_matched,
        "totalMatchedLines": search.n_matched,
        "clientTruncated": search.is_cut,
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

/// A search in progress.
#[derive(Default)]
struct Search {
    /// Bytes that may still be read.
    room: u64,
    n_matched: usize,
    is_cut: bool,
    found: Vec<Value>,
    for_model: String,
}

impl Search {
    fn look_into(&mut self, file: &Path, shown: &str, regex: &Regex) {
        if self.room == 0 || self.n_matched == MAX_MATCHED_LINES {
            self.is_cut = true;
            return;
        }
        // Like ripgrep, the search skips a file that vanished or that is not text.
        let Ok(content) = read_regular_file(file, MAX_BYTES_PER_FILE.min(self.room)) else {
            return;
        };
        self.room -= content.bytes.len() as u64;
        self.is_cut |= content.is_cut();
        if content.bytes.contains(&0) {
            return;
        }
        let text = String::from_utf8_lossy(&content.bytes);
        let mut matches: Vec<Value> = Vec::new();
        for (i, line) in text.lines().enumerate().filter(|(_, line)| regex.is_match(line)) {
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

pub(in crate::tools) fn glob(pattern: &str, environment: &ToolEnvironment) -> ToolRun {
    let workspace = &environment.workspace;
    // As in a `.gitignore`, a pattern without a slash matches in every directory.
    let mut chosen = OverrideBuilder::new(workspace);
    let chosen = chosen.add(pattern).and_then(|chosen| chosen.build());
    let walked = chosen
        .map_err(|err| err.to_string())
        .and_then(|chosen| walk(workspace, chosen).map_err(|err| err.to_string()));
    let walk = match walked {
        Ok(walk) => walk,
        Err(err) => return error(format!("{}: {err}", workspace.display())),
    };
    let n_found = walk.files.len();
    let relative = |file: &PathBuf| {
        file.strip_prefix(workspace).unwrap_or(file).to_string_lossy().into_owned()
    };
    let files: Vec<String> = walk.files.iter().take(MAX_FILES_LISTED).map(relative).collect();
    let for_model = if files.is_empty() { "No files found.".to_owned() } else { files.join("\n") };
    let value = json!({
        "pattern": pattern,
        "path": workspace.to_string_lossy(),
        "files": files,
        "totalFiles": n_found,
        "clientTruncated": walk.is_cut || n_found > MAX_FILES_LISTED,
        "ripgrepTruncated": false,
    });
    ToolRun::success(value, for_model)
}

pub(in crate::tools) fn ls(path: &Path, environment: &ToolEnvironment) -> ToolRun {
    let root = environment.absolute(path);
    let shown = root.to_string_lossy();
    let (directories, files) = match entries(&root) {
        Ok(entries) => entries,
        Err(err) => {
            let error = err.to_string();
            let for_model = format!("{shown}: {error}");
            return ToolRun::failed("error", json!({"path": shown, "error": error}), for_model);
        }
    };
    let listed = directories.iter().map(|name| format!("{name}/")).chain(files.iter().cloned());
    let for_model = listed.collect::<Vec<_>>().join("\n");
    let directory = |path: &Path, directories: Vec<Value>, files: Option<&[String]>| {
        let names: Vec<Value> =
            files.into_iter().flatten().map(|name| json!({"name": name})).collect();
        json!({
            "absPath": path.to_string_lossy(),
            "childrenDirs": directories,
            "childrenFiles": names,
            "childrenWereProcessed": files.is_some(),
            "fullSubtreeExtensionCounts": {},
            "numFiles": names.len(),
        })
    };
    let children =
        directories.iter().map(|name| directory(&root.join(name), Vec::new(), None)).collect();
    let value = json!({"directoryTreeRoot": directory(&root, children, Some(&files))});
    ToolRun::success(value, for_model)
}

/// Returns the names of the directories and of everything else in a directory, each in alphabetical order.
fn entries(directory: &Path) -> io::Result<(Vec<String>, Vec<String>)> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)?.take(MAX_FILES_WALKED) {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        entries.push((!entry.file_type()?.is_dir(), name));
    }
    entries.sort();
    entries.truncate(MAX_FILES_LISTED);
    let (files, directories): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|(is_file, _)| *is_file);
    let names = |entries: Vec<(bool, String)>| entries.into_iter().map(|(_, name)| name).collect();
    Ok((names(directories), names(files)))
}

fn error(error: String) -> ToolRun {
    ToolRun::failed("error", json!({"error": error}), error)
}

struct Walk {
    /// Sorted by path.
    files: Vec<PathBuf>,
    is_cut: bool,
}

/// Finds the chosen files below a directory, or the one file.
fn walk(root: &Path, chosen: Override) -> io::Result<Walk> {
    // The walk skips what it cannot read; a missing root is an error.
    if fs::metadata(root)?.is_dir() {
        fs::read_dir(root)?;
    }
    let mut walk = Walk { files: Vec::new(), is_cut: false };
    let entries = WalkBuilder::new(root)
        .standard_filters(false)
        .overrides(chosen)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    for (n_seen, entry) in entries.enumerate() {
        if n_seen > MAX_FILES_WALKED {
            walk.is_cut = true;
            break;
        }
        let file = entry.ok().filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
        walk.files.extend(file.map(ignore::DirEntry::into_path));
    }
    walk.files.sort();
    Ok(walk)
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
