//! What a careful person wants to know of a workspace after a run, by comparing it with what it was before.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use run_protocol::{Audit, BytesPath, Finding, FindingKind};
use rustix::fs::FileType;

use crate::changes::{Change, ChangeKind, compare, count};
use crate::file_tree::FileTree;
use crate::snapshot::{Entry, EntryKind, Snapshot};
use crate::tree_path::TreePath;

/// What is listed; more is counted.
const MOST_FINDINGS: usize = 60;
/// Names are chosen by the agent, and an event must stay short.
const MOST_BYTES: usize = 16 * 1024;
/// A long list of scripts must not hide the rest.
const MOST_OF_A_KIND: usize = 20;

/// Compares two snapshots, and looks through what they pass over for what is never harmless.
pub fn audit(
    workspace: &Path,
    before: &Snapshot,
    after: &Snapshot,
    passed_over: &[TreePath],
    deadline: Instant,
) -> Audit {
    let mut found = Vec::new();
    let changes = compare(before, after);
    for change in &changes {
        look_at(workspace, change, &mut found);
    }
    let is_new = |path: &&TreePath| {
        path.name().eq_ignore_ascii_case(b".git") && !before.left_out.contains(path)
    };
    for path in after.left_out.iter().filter(is_new) {
        found.push(finding(FindingKind::Repository, path));
    }
    if after.has_git && !before.has_git {
        found.push(finding(FindingKind::Repository, &".git".into()));
    }
    let mut incomplete = None;
    match FileTree::open(workspace) {
        Ok(tree) => {
            look_at_git(&tree, before.began_ns, &mut found);
            for directory in passed_over {
                if let Err(problem) =
                    look_for_specials(&tree, directory, before.began_ns, deadline, &mut found)
                {
                    incomplete = Some(format!("`{directory}`: {problem}"));
                    break;
                }
            }
        }
        Err(error) => incomplete = Some(error.to_string()),
    }
    Audit { changes: Some(count(&changes)), ..shorten(found, incomplete) }
}

fn shorten(mut found: Vec<Finding>, incomplete: Option<String>) -> Audit {
    found.sort_by(|one, other| (one.what, &one.path).cmp(&(other.what, &other.path)));
    found.dedup();
    let mut audited = Audit { incomplete, ..Audit::default() };
    let mut bytes = 0;
    for finding in found {
        let of_this_kind =
            audited.findings.iter().filter(|listed| listed.what == finding.what).count();
        let length = |path: &BytesPath| path.0.as_os_str().len();
        bytes += length(&finding.path) + finding.target.as_ref().map_or(0, length);
        if of_this_kind < MOST_OF_A_KIND
            && audited.findings.len() < MOST_FINDINGS
            && bytes < MOST_BYTES
        {
            audited.findings.push(finding);
        } else {
            audited.more += 1;
        }
    }
    audited
}

fn finding(what: FindingKind, path: &TreePath) -> Finding {
    Finding { what, path: BytesPath::from(path.as_path()), target: None }
}

fn look_at(workspace: &Path, change: &Change<'_>, found: &mut Vec<Finding>) {
    let Some(to) = change.to else { return };
    let mode_before = change.from.filter(|from| is_file(from)).map_or(0, |from| from.mode);
    let is_new_kind = matches!(change.kind, ChangeKind::Added | ChangeKind::Kind);
    match &to.kind {
        EntryKind::File { .. } => {
            if to.mode & 0o6000 & !mode_before != 0 {
                found.push(finding(FindingKind::SetId, change.path));
            }
            if to.mode & 0o111 != 0 && mode_before & 0o111 == 0 {
                found.push(finding(FindingKind::Executable, change.path));
            }
        }
        EntryKind::Symlink { target } => {
            if leaves(workspace, change.path, target) {
                let target = Some(BytesPath::from(target.as_path()));
                found.push(Finding { target, ..finding(FindingKind::LinkOut, change.path) });
            }
        }
        EntryKind::Fifo if is_new_kind => found.push(finding(FindingKind::Fifo, change.path)),
        EntryKind::Socket if is_new_kind => found.push(finding(FindingKind::Socket, change.path)),
        EntryKind::Device if is_new_kind => found.push(finding(FindingKind::Device, change.path)),
        EntryKind::Directory | EntryKind::Fifo | EntryKind::Socket | EntryKind::Device => {}
    }
    if !to.is_directory()
        && let Some(what) = known_name(change.path)
    {
        found.push(finding(what, change.path));
    }
}

fn is_file(entry: &Entry) -> bool {
    matches!(entry.kind, EntryKind::File { .. })
}

/// Whether a link leads out of the workspace, by its words alone: nothing is followed.
fn leaves(workspace: &Path, link: &TreePath, target: &Path) -> bool {
    let from = link.parent().unwrap_or_default();
    let mut at: PathBuf = workspace.join(from.as_path());
    for component in target.components() {
        match component {
            Component::RootDir => at = PathBuf::from("/"),
            Component::ParentDir => {
                at.pop();
                // Out and in again by a name is still a link that knows what is around the workspace.
                if !at.starts_with(workspace) && target.is_relative() {
                    return true;
                }
            }
            Component::Normal(name) => at.push(name),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    !at.starts_with(workspace)
}

/// Files that other programs obey, by their names.
fn known_name(path: &TreePath) -> Option<FindingKind> {
    let text = String::from_utf8_lossy(path.as_bytes()).to_lowercase();
    let names: Vec<&str> = text.split('/').collect();
    let name = *names.last()?;
    let is_in = |directory: &str| names[..names.len() - 1].contains(&directory);
    let begins = |start: &str| text.starts_with(start);

    if is_in(".husky")
        || is_in(".githooks")
        || matches!(name, ".pre-commit-config.yaml" | "lefthook.yml")
    {
        return Some(FindingKind::Hook);
    }
    if matches!(name, ".gitattributes" | ".gitmodules") {
        return Some(FindingKind::GitConfig);
    }
    let is_ci = begins(".github/workflows/")
        || begins(".github/actions/")
        || begins(".circleci/")
        || begins(".buildkite/")
        || begins(".woodpecker/")
        || begins(".forgejo/workflows/")
        || begins(".gitea/workflows/")
        || matches!(
            name,
            ".gitlab-ci.yml"
                | ".travis.yml"
                | ".drone.yml"
                | "jenkinsfile"
                | "azure-pipelines.yml"
                | "bitbucket-pipelines.yml"
                | ".woodpecker.yml"
                | ".cirrus.yml"
        );
    if is_ci {
        return Some(FindingKind::Ci);
    }
    let is_editors = is_in(".vscode")
        || is_in(".idea")
        || is_in(".zed")
        || is_in(".devcontainer")
        || name.ends_with(".code-workspace")
        || matches!(name, ".exrc" | ".nvimrc" | ".dir-locals.el" | ".editorconfig");
    if is_editors {
        return Some(FindingKind::Editor);
    }
    if matches!(
        name,
        ".envrc"
            | ".env"
            | ".mise.toml"
            | "mise.toml"
            | ".tool-versions"
            | ".npmrc"
            | ".yarnrc.yml"
    ) || is_in(".cargo") && name.starts_with("config")
    {
        return Some(FindingKind::Environment);
    }
    let is_agents = is_in(".cursor")
        || is_in(".claude")
        || matches!(
            name,
            ".mcp.json"
                | ".cursorignore"
                | ".cursorindexingignore"
                | ".cursorrules"
                | "agents.md"
                | "claude.md"
        );
    is_agents.then_some(FindingKind::AgentConfig)
}

/// Hooks and configuration of the workspace's own repository, by the time that only the kernel sets.
fn look_at_git(tree: &FileTree, since_ns: i64, found: &mut Vec<Finding>) {
    let git = TreePath::from(".git");
    if let Ok(directory) = tree.directory(&git) {
        for name in [b"config".as_slice(), b"config.worktree"] {
            if directory.look(name).is_ok_and(|found| found.stamp.changed_ns >= since_ns) {
                found.push(finding(FindingKind::GitConfig, &git.join(name)));
            }
        }
    }
    let hooks = git.join(b"hooks");
    let Ok(directory) = tree.directory(&hooks) else { return };
    for name in directory.names().unwrap_or_default() {
        let is_new = directory.look(&name).is_ok_and(|found| found.stamp.changed_ns >= since_ns);
        if is_new && !name.ends_with(b".sample") {
            found.push(finding(FindingKind::Hook, &hooks.join(&name)));
        }
    }
}

/// What is never harmless, new since a moment, in a directory that git ignores.
fn look_for_specials(
    tree: &FileTree,
    directory: &TreePath,
    since_ns: i64,
    deadline: Instant,
    found: &mut Vec<Finding>,
) -> io::Result<()> {
    let mut pending = vec![directory.clone()];
    while let Some(at) = pending.pop() {
        if Instant::now() > deadline {
            return Err(io::Error::other("there was no time to look at all of it"));
        }
        // What cannot be entered by us cannot be entered by whoever made it for us either.
        let Ok(directory) = tree.directory(&at) else { continue };
        for name in directory.names()? {
            let Ok(seen) = directory.look(&name) else { continue };
            let path = at.join(&name);
            if seen.file_type == FileType::Directory {
                pending.push(path);
                continue;
            }
            if seen.stamp.changed_ns < since_ns {
                continue;
            }
            let what = match seen.file_type {
                FileType::RegularFile if seen.mode & 0o6000 != 0 => FindingKind::SetId,
                FileType::RegularFile | FileType::Symlink => continue,
                FileType::Fifo => FindingKind::Fifo,
                FileType::Socket => FindingKind::Socket,
                _ => FindingKind::Device,
            };
            found.push(finding(what, &path));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
