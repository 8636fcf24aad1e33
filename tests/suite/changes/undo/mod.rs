//! Undo: each run saves the workspace first, undo restores it exactly, and the end of a run reports its changes.

mod later_work;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::repository::git;
use crate::stage::{Stage, assert_exit, stderr};

/// Returns the kind, mode and content of everything below a directory.
fn seen(root: &Path) -> BTreeMap<PathBuf, String> {
    fn look(root: &Path, directory: &Path, seen: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mode = metadata.mode() & 0o7777;
            let said = if metadata.is_symlink() {
                format!("link {:?}", fs::read_link(&path).unwrap())
            } else if metadata.is_dir() {
                look(root, &path, seen);
                format!("directory {mode:o}")
            } else {
                let content = fs::read(&path).unwrap();
                format!("file {mode:o} {}", String::from_utf8_lossy(&content))
            };
            seen.insert(path.strip_prefix(root).unwrap().to_owned(), said);
        }
    }
    let mut found = BTreeMap::new();
    look(root, root, &mut found);
    found
}

/// Makes a small repository with everything that a run may break.
fn furnish(workspace: &Path) {
    git(workspace, &["init", "-q", "-b", "main"]);
    for (path, content) in [
        ("src/main.rs", "fn main() {}\n"),
        ("src/old.rs", "old\n"),
        ("run.sh", "#!/bin/sh\n"),
        ("secret", "private\n"),
        (".gitignore", "target/\n"),
        ("target/built", "built\n"),
    ] {
        let path = workspace.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    fs::set_permissions(workspace.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(workspace.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("src/main.rs", workspace.join("link")).unwrap();
    fs::create_dir(workspace.join("empty")).unwrap();
    git(workspace, &["add", "src", "run.sh"]);
    git(workspace, &["commit", "-qm", "one"]);
    fs::write(workspace.join("untracked"), "mine\n").unwrap();
}

const HAVOC: &str = "shell rm -r src/old.rs empty link untracked && echo new > src/new.rs && \
    echo changed > src/main.rs && chmod 644 run.sh && chmod 644 secret && ln -s /etc link && \
    mkdir -p a/b && echo x > a/b/c && echo built again > target/built";

fn events(stage: &Stage, run: &str, kind: &str) -> Vec<Value> {
    let journal = stage.journal(run);
    let of_kind = journal.into_iter().map(|entry| entry.line["run"].clone());
    of_kind.filter(|event| event["kind"] == kind).collect()
}

#[test]
fn a_run_is_undone_exactly_and_undo_is_undone_too() {
    let stage = Stage::new();
    let workspace = stage.workspace();
    furnish(&workspace);
    let git_before = seen(&workspace.join(".git"));
    let before = seen(&workspace);
    let output = stage.play(HAVOC, &[]);
    assert_exit(&output, 0);
    let after = seen(&workspace);
    assert_ne!(after, before);
    let run = stage.run_ids().pop().unwrap();
    let saved = events(&stage, &run, "workspace_saved");
    assert_eq!((saved.len(), &saved[0]["files"]), (1, &json!(7)));
    assert_eq!(seen(&workspace.join(".git")), git_before, "the user's repository is unchanged");

    let dry = stage.output(&["undo", &run, "--dry-run"]);
    assert_exit(&dry, 0);
    assert_eq!(seen(&workspace), after, "a dry run changes nothing");
    let said = String::from_utf8(dry.stdout).unwrap();
    assert_eq!(
        said,
        "D a/b/c\nM link\nX run.sh\nX secret\nM src/main.rs\nD src/new.rs\nA src/old.rs\nA untracked\n"
    );

    let undone = stage.output(&["undo", &run, "--json"]);
    assert_exit(&undone, 0);
    // Git ignores this file, so a snapshot does not cover it.
    let mut expected = before.clone();
    expected.insert("target/built".into(), "file 644 built again\n".to_owned());
    assert_eq!(seen(&workspace), expected);
    let report: Value = serde_json::from_slice(&undone.stdout).unwrap();
    assert_eq!(report["changes"], json!({"added": 2, "changed": 4, "removed": 2}));
    assert_eq!((&report["left"], &report["failed"]), (&json!([]), &json!([])));

    let again = stage.output(&["undo", &run]);
    assert_eq!((again.status.code(), again.stdout.as_slice()), (Some(0), &b""[..]));
    let redone = stage.output(&["undo", &run, "--redo"]);
    assert_exit(&redone, 0);
    assert_eq!(seen(&workspace), after);
    let toggled = stage.output(&["undo", &run, "--redo"]);
    assert_exit(&toggled, 0);
    assert_eq!(seen(&workspace), expected);
    assert_eq!(seen(&workspace.join(".git")), git_before);
}

#[test]
fn a_directory_that_is_not_a_repository_is_undone_too() {
    let stage = Stage::new();
    fs::write(stage.workspace().join("a"), "one").unwrap();
    stage.play("shell echo two > a; echo x > b", &[]);
    let undone = stage.output(&["undo", "-"]);
    assert_exit(&undone, 0);
    let left = seen(&stage.workspace());
    assert_eq!(left.into_iter().collect::<Vec<_>>(), [("a".into(), "file 644 one".to_owned())]);
}

#[test]
fn a_workspace_in_use_is_not_touched() {
    let stage = Stage::new();
    let run = stage.detach("shell echo x > made\nshell sleep 600", &[]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_completed");
    let refused = stage.output(&["undo", &run]);
    assert_exit(&refused, 4);
    assert!(stage.workspace().join("made").exists());
    stage.output(&["kill", "--now", &run]);
    let undone = stage.output(&["undo", &run]);
    assert_exit(&undone, 0);
    assert!(!stage.workspace().join("made").exists());
}

#[test]
fn an_impossible_undo_says_why() {
    let stage = Stage::new();
    let output = stage.play("shell echo x > made", &["--no-checkpoint"]);
    assert_exit(&output, 0);
    let refused = stage.output(&["undo", "-"]);
    assert_exit(&refused, 3);
    let redo = stage.output(&["undo", "-", "--redo"]);
    assert_exit(&redo, 3);
    assert!(stage.workspace().join("made").exists());

    stage.play("say hi", &[]);
    let run = stage.run_ids().pop().unwrap();
    fs::rename(stage.workspace(), stage.home().join("moved")).unwrap();
    fs::create_dir(stage.home().join("elsewhere")).unwrap();
    let gone = stage
        .caretaker(&["undo", &run])
        .current_dir(stage.home().join("elsewhere"))
        .output()
        .unwrap();
    assert_exit(&gone, 3);
}

#[test]
fn without_git_or_beyond_a_bound_the_run_continues_and_says_that_it_cannot_be_undone() {
    let stage = Stage::new();
    fs::write(stage.workspace().join("a"), "one").unwrap();
    let bin = stage.root().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink("/usr/bin/bwrap", bin.join("bwrap")).unwrap();
    let output = stage
        .caretaker(&["run", "--agent", "simulated", "look around"])
        .env("PATH", format!("{}:/bin-of-nothing", bin.display()))
        .output()
        .unwrap();
    assert_exit(&output, 0);
    let run = stage.run_ids().pop().unwrap();
    let events = events(&stage, &run, "workspace_not_saved");
    assert_eq!(events, [json!({"kind": "workspace_not_saved", "reason": "git is not installed"})]);

    stage.configure("min_free = \"0\"\ncheckpoint_size = \"1B\"\n");
    let output = stage.play("say hi", &[]);
    assert_exit(&output, 0);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("the workspace is not saved, so undo is not possible"), "{said}");
    assert!(said.contains("new bytes, but at most 1 are allowed"), "{said}");
}

#[test]
fn a_run_that_commits_leaves_its_commits_and_undo_puts_the_branch_back() {
    let stage = Stage::new();
    furnish(&stage.workspace());
    let output = stage.play("shell echo x > new && git add new && git commit -qm two", &[]);
    assert_exit(&output, 0);
    assert_eq!(git(&stage.workspace(), &["rev-list", "--count", "HEAD"]), "2\n");
    let commit = git(&stage.workspace(), &["rev-parse", "HEAD"]);
    let undone = stage.output(&["undo", "-"]);
    let was = format!("it was at {}", &commit[..12]);
    assert!(stderr(&undone).contains(&was), "{}", stderr(&undone));
    assert!(!stage.workspace().join("new").exists());
    assert_eq!(git(&stage.workspace(), &["rev-list", "--count", "HEAD"]), "1\n");
    // The commit itself still exists.
    assert_eq!(git(&stage.workspace(), &["rev-list", "--count", commit.trim()]), "2\n");
    let status = git(&stage.workspace(), &["status", "--porcelain", "--untracked-files=no"]);
    assert_eq!(status, "");
}

#[test]
fn the_audit_is_printed_at_the_end_and_shown_later() {
    let stage = Stage::new();
    furnish(&stage.workspace());
    let script = "shell mkdir -p .github/workflows && echo x > .github/workflows/ci.yml && \
        printf '#!/bin/sh' > tool && chmod +x tool && ln -s /etc/passwd out && mkfifo pipe";
    for flags in [&[][..], &["--no-checkpoint"]] {
        let output = stage.play(script, flags);
        assert_exit(&output, 0);
        let said = String::from_utf8(output.stdout).unwrap();
        for line in [
            "! CI file: .github/workflows/ci.yml",
            "! new executable: tool",
            "! link out of the workspace: out -> /etc/passwd",
            "! new FIFO: pipe",
        ] {
            assert!(said.contains(line), "{line} is missing from\n{said}");
        }
        let run = stage.run_ids().pop().unwrap();
        let audit = &events(&stage, &run, "audit")[0];
        assert_eq!(audit["changes"], json!({"added": 4, "changed": 0, "removed": 0}));
        let shown = stage.output(&["show", &run]);
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains("4 files: 4 added"), "{shown}");
        assert!(shown.contains("CI file: .github/workflows/ci.yml"), "{shown}");
        for made in [".github/workflows/ci.yml", "tool", "out", "pipe"] {
            fs::remove_file(stage.workspace().join(made)).unwrap();
        }
    }
    let quiet = stage.play("say nothing to see", &[]);
    let said = String::from_utf8(quiet.stdout).unwrap();
    let odd = said.lines().filter(|line| line.starts_with("! ") && !line.contains("you are root"));
    assert_eq!(odd.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn only_the_configured_number_of_runs_can_be_undone() {
    let stage = Stage::new();
    stage.configure("min_free = \"0\"\ncheckpoints_kept = 2\n");
    for number in 0..4 {
        stage.play(&format!("shell echo {number} > file"), &[]);
    }
    let runs = stage.run_ids();
    let refused = stage.output(&["undo", &runs[0]]);
    assert_exit(&refused, 3);
    let undone = stage.output(&["undo", &runs[3]]);
    assert_exit(&undone, 0);
    assert_eq!(fs::read_to_string(stage.workspace().join("file")).unwrap(), "2\n");
}

#[test]
fn a_repository_that_a_run_makes_is_reported_and_undone_with_it() {
    for has_repository in [true, false] {
        let stage = Stage::new();
        let workspace = stage.workspace();
        match has_repository {
            true => furnish(&workspace),
            false => fs::write(workspace.join("untracked"), "mine\n").unwrap(),
        }
        let before = seen(&workspace);
        let script = "shell git init -q sub && printf '#!/bin/sh' > sub/.git/hooks/pre-commit && \
            chmod +x sub/.git/hooks/pre-commit && echo x > sub/file && cd sub && git add file && \
            git commit -qm one && cd .. && git init -q --bare bare.git && (test -e .git || git init -q)";
        let output = stage.play(script, &[]);
        assert_exit(&output, 0);
        let after = seen(&workspace);
        let run = stage.run_ids().pop().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let shown = String::from_utf8(stage.output(&["show", &run]).stdout).unwrap();
        let mut findings = vec![
            "new repository: sub/.git",
            "hook: sub/.git/hooks/pre-commit",
            "new repository: bare.git",
        ];
        if !has_repository {
            findings.push("new repository: .git");
        }
        for finding in findings {
            assert!(said.contains(&format!("! {finding}\n")), "{finding} is missing from\n{said}");
            assert!(shown.contains(finding), "{finding} is missing from\n{shown}");
        }

        let undone = stage.output(&["undo", &run]);
        assert_exit(&undone, 0);
        assert_eq!(seen(&workspace), before);
        let redone = stage.output(&["undo", &run, "--redo"]);
        assert_exit(&redone, 0);
        assert_eq!(seen(&workspace), after);
        assert_eq!(git(&workspace.join("sub"), &["log", "--format=%s"]), "one\n");
        let toggled = stage.output(&["undo", &run, "--redo"]);
        assert_exit(&toggled, 0);
        assert_eq!(seen(&workspace), before);
    }
}

#[test]
fn a_run_is_undone_to_a_checkpoint_of_its_agent_exactly_and_no_further() {
    let stage = Stage::new();
    let workspace = stage.workspace();
    furnish(&workspace);
    let before = seen(&workspace);
    let mark = |label: &str| format!("mcp caretaker checkpoint {{\"label\":\"{label}\"}}\n");
    let script = format!(
        "shell echo half > half && echo '*.log' >> .gitignore && echo kept > kept.log && git init -q early\n{}\
         shell cat hold.log\n{HAVOC}\nshell echo more > half && echo later > later.log && git init -q late\nshell echo end > end",
        mark("parsed")
    );
    // The agent continues once its checkpoint is saved. The shim saves it while the agent works.
    let fifo = workspace.join("target/hold");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let run = stage.detach(&script.replace("hold.log", "target/hold"), &[]);
    stage.wait_until(&run, |line| line["kind"] == "run.workspace_marked");
    let mut go = fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    fs::remove_file(&fifo).unwrap();
    let marked = seen(&workspace);
    go.write_all(b"go").unwrap();
    drop(go);
    assert_eq!(stage.output(&["wait", &run, "--timeout", "2m"]).status.code(), Some(0));
    let after = seen(&workspace);

    let unknown = stage.output(&["undo", &run, "--to", "nothing"]);
    assert_exit(&unknown, 3);
    let dry = stage.output(&["undo", &run, "--to", "parsed", "--dry-run"]);
    assert_exit(&dry, 0);
    assert_eq!(seen(&workspace), after, "a dry run changes nothing");

    let undone = stage.output(&["undo", &run, "--to", "parsed"]);
    assert_exit(&undone, 0);
    // A snapshot does not cover files that git ignored at the checkpoint: later files stay, and old ones do not count
    // as new.
    let mut expected = marked.clone();
    // During the run, these are our own mount points.
    let ours = [".cursor", ".git/commondir", ".git/worktrees"];
    expected.retain(|path, _| !ours.iter().any(|place| path.starts_with(place)));
    for path in ["target/built", "later.log"] {
        expected.insert(path.into(), after[Path::new(path)].clone());
    }
    assert_eq!(seen(&workspace), expected);
    let redone = stage.output(&["undo", &run, "--redo"]);
    assert_exit(&redone, 0);
    assert_eq!(seen(&workspace), after);
    let by_number = stage.output(&["undo", &run, "--to", "1"]);
    assert_exit(&by_number, 0);
    assert_eq!(seen(&workspace), expected);
    // The next undo goes back to the start and uses the ignore rules of the start, so it also removes files that the
    // run hid from git.
    let whole = stage.output(&["undo", &run]);
    assert_exit(&whole, 0);
    let mut expected = before;
    expected.insert("target/built".into(), after[Path::new("target/built")].clone());
    assert_eq!(seen(&workspace), expected);
    let both = stage.output(&["undo", &run, "--to", "1", "--redo"]);
    assert_eq!(both.status.code(), Some(2));
}
