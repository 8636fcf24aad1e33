//! Traps that an agent leaves in a `.git`: links that lead out of it, FIFOs that block git, branches that it moved. Our
//! commands neither follow them nor hang, the end of the run removes the links and FIFOs, and undo restores the
//! branches.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::daemon_stage::DaemonStage;
use crate::stage::repository::{git, make_repository};
use crate::stage::{Stage, assert_exit, stderr};

/// Longer than a refusal takes on a busy machine, and shorter than any timeout for a git that hangs.
const SOON: Duration = Duration::from_secs(8);

fn stage() -> Stage {
    let stage = Stage::new();
    make_repository(&stage.workspace());
    stage
}

fn mkfifo(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::remove_file(path).ok();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Makes a directory that must stay empty.
fn victim(stage: &Stage) -> PathBuf {
    let victim = stage.home().join("victim");
    fs::create_dir(&victim).unwrap();
    victim
}

/// Runs a command that must end soon, and kills it if it does not.
fn soon(stage: &Stage, args: &[&str]) -> Output {
    let began = Instant::now();
    let mut command = stage.caretaker(args);
    let mut timed = Command::new("timeout");
    timed.args(["--signal=KILL", "90"]).arg(command.get_program()).args(command.get_args());
    timed.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command = timed;
    let output = command.current_dir(stage.workspace()).stdin(Stdio::null()).output().unwrap();
    assert!(began.elapsed() < SOON, "{args:?} took {:?}: {}", began.elapsed(), stderr(&output));
    output
}

fn audit(stage: &Stage) -> Value {
    let run = stage.run_ids().pop().unwrap();
    let journal = stage.journal(&run);
    let mut events = journal.into_iter().map(|entry| entry.line["run"].clone());
    events.find(|event| event["kind"] == "audit").expect("the journal has an audit")
}

/// Returns the audit's findings of one kind, as `(path, target or old value)`.
fn findings(audit: &Value, what: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = audit["findings"].as_array().cloned().unwrap_or_default();
    all.iter()
        .filter(|finding| finding["what"] == what)
        .map(|finding| (text(&finding["path"]), text(&finding["target"]) + &text(&finding["was"])))
        .collect()
}

#[test]
fn no_worktree_is_made_through_a_link_in_git() {
    for place in [
        "logs/refs/heads/caretaker",
        "logs/refs",
        "refs/heads/caretaker",
        "worktrees",
        "objects/info",
        "lfs",
        "packed-refs",
        "index",
    ] {
        let stage = stage();
        let (victim, link) = (victim(&stage), stage.workspace().join(".git").join(place));
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        fs::remove_dir_all(&link).or_else(|_| fs::remove_file(&link)).ok();
        symlink(&victim, &link).unwrap();
        let output = soon(&stage, &["run", "--worktree", "--agent", "simulated", "look"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{place}: {said}");
        assert!(said.contains(&format!("`{}` is a link", link.display())), "{place}: {said}");
        assert_eq!(
            fs::read_dir(&victim).unwrap().count(),
            0,
            "{place}: the victim directory is not empty"
        );
        assert_eq!(stage.run_ids(), Vec::<String>::new(), "{place}");
        let worktrees = stage.root().join("state/worktrees");
        assert!(!worktrees.read_dir().is_ok_and(|mut all| all.next().is_some()), "{place}");
        // The same command works without the link.
        fs::remove_file(&link).unwrap();
        fs::create_dir_all(stage.workspace().join(".git/objects/info")).unwrap();
        let output = stage.output(&["run", "--worktree", "--agent", "simulated", "look"]);
        assert_eq!(output.status.code(), Some(0), "{place}: {}", stderr(&output));
    }
}

#[test]
fn no_fifo_in_git_blocks_a_command() {
    for place in [
        "HEAD",
        "packed-refs",
        "objects/info/alternates",
        "shallow",
        "info/exclude",
        "refs/heads/odd",
        "index",
        "config.worktree",
    ] {
        let stage = stage();
        let fifo = stage.workspace().join(".git").join(place);
        mkfifo(&fifo);
        for args in [
            &["run", "--worktree", "--agent", "simulated", "look"][..],
            &["sessions", "at", "HEAD"],
            &["sessions", "between", "main", "HEAD"],
        ] {
            let output = soon(&stage, args);
            let said = stderr(&output);
            assert!(!output.status.success(), "{place}: {args:?}");
            assert!(said.contains(&format!("`{}` is a FIFO", fifo.display())), "{place}: {said}");
        }
        stage.assert_no_survivors(place);
    }
}

#[test]
fn a_fifo_in_place_of_git_itself_is_named() {
    let stage = stage();
    fs::rename(stage.workspace().join(".git"), stage.workspace().join("moved")).unwrap();
    let fifo = stage.workspace().join(".git");
    mkfifo(&fifo);
    for args in
        [&["run", "--worktree", "--agent", "simulated", "look"][..], &["sessions", "at", "HEAD"]]
    {
        let said = stderr(&soon(&stage, args));
        assert!(said.contains(".git") && said.contains("is a FIFO"), "{args:?}: {said}");
    }
}

#[test]
fn a_git_file_does_not_lead_to_a_repository_that_does_not_name_it() {
    let stage = Stage::new();
    let secret = stage.home().join("secret");
    fs::create_dir(&secret).unwrap();
    make_repository(&secret);
    let named = format!("gitdir: {}\n", secret.join(".git").display());
    fs::write(stage.workspace().join(".git"), named).unwrap();
    let output = soon(&stage, &["run", "--worktree", "--agent", "simulated", "look"]);
    assert!(!output.status.success());
    let said = stderr(&output);
    assert!(said.contains("does not say that this is its checkout"), "{said}");
    assert_eq!(git(&secret, &["branch", "--format=%(refname)"]), "refs/heads/main\n");
    assert_eq!(git(&secret, &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn a_child_of_an_agent_is_not_made_through_a_link_that_the_agent_planted() {
    for place in ["logs/refs/heads/caretaker", "refs/heads/caretaker"] {
        let stage = DaemonStage::new(2);
        make_repository(&stage.workspace());
        let victim = victim(&stage);
        let request = json!({"name": "kid", "prompt": "say never"});
        let script = format!(
            "shell mkdir -p .git/$(dirname {place}) && ln -s {} .git/{place}\n\
             mcp caretaker spawn_run {request}\nsay done",
            victim.display()
        );
        let run = stage.queue("project", &script, &[]);
        assert_eq!(stage.wait_for_end(&run), Some(0));
        assert_eq!(
            fs::read_dir(&victim).unwrap().count(),
            0,
            "{place}: the victim directory is not empty"
        );
        let journal = stage.journal(&run);
        let calls: Vec<&Value> = journal.iter().map(|entry| &entry.line["run"]).collect();
        let call = calls.iter().find(|event| event["kind"] == "mcp_call").unwrap();
        assert!(call["why"].as_str().unwrap().contains("is a link"), "{call}");
        assert!(stage.workspace().join(".git").join(place).symlink_metadata().is_err());
    }
}

/// Everything that an agent can plant in a `.git` where it may commit.
const PLANT: &str = "shell rm -f .git/logs/HEAD && ln -s $HOME/.bashrc .git/logs/HEAD && \
    mkdir -p .git/logs/refs/heads && ln -s /etc .git/logs/refs/heads/x && mkfifo .git/refs/heads/pipe && \
    mkfifo .git/shallow && ln -s /nowhere .git/refs/link && rm .git/HEAD && ln -s /dev/zero .git/HEAD\nsay done";

#[test]
fn links_and_special_files_that_a_run_put_into_git_are_removed_and_named() {
    let stage = stage();
    let git_dir = stage.workspace().join(".git");
    // Caretaker must keep the user's own files.
    fs::create_dir(git_dir.join("mine")).unwrap();
    symlink("../config", git_dir.join("mine/link")).unwrap();
    let output = stage.play(PLANT, &[]);
    assert_exit(&output, 0);
    let said = String::from_utf8(output.stdout).unwrap();
    let found = audit(&stage);
    let links = findings(&found, "git_link");
    let paths: Vec<&str> = links.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(
        paths,
        [".git/HEAD", ".git/logs/HEAD", ".git/logs/refs/heads/x", ".git/refs/link"],
        "{found}"
    );
    assert!(links[1].1.ends_with("/.bashrc"), "{links:?}");
    let special = findings(&found, "git_special");
    let paths: Vec<&str> = special.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, [".git/refs/heads/pipe", ".git/shallow"], "{found}");
    assert!(said.contains("! link in .git, removed: .git/logs/HEAD -> "), "{said}");
    for path in ["logs/HEAD", "logs/refs/heads/x", "refs/link", "refs/heads/pipe", "shallow"] {
        assert!(git_dir.join(path).symlink_metadata().is_err(), "{path} is still there");
    }
    assert!(git_dir.join("mine/link").symlink_metadata().unwrap().is_symlink());
    // The repository works, and is on its old branch.
    assert_eq!(git(&stage.workspace(), &["symbolic-ref", "HEAD"]), "refs/heads/main\n");
    git(&stage.workspace(), &["checkout", "-q", "-b", "next"]);
    assert!(!stage.home().join(".bashrc").exists());
    let quiet = stage.play("say nothing", &[]);
    assert_exit(&quiet, 0);
    assert_eq!(findings(&audit(&stage), "git_link"), []);
}

#[test]
fn links_that_a_run_in_a_worktree_put_into_the_main_repository_are_removed_too() {
    let stage = stage();
    let script = "shell cd \"$(git rev-parse --git-common-dir)\" && rm -rf logs/refs/heads/main && \
        ln -s /nowhere logs/refs/heads/main && mkfifo refs/heads/pipe && mkfifo objects/info/alternates\n\
        shell cd \"$(git rev-parse --git-dir)\" && mkdir -p logs && rm -f logs/HEAD && ln -s /nowhere logs/HEAD\nsay done";
    let output = stage.play(script, &["--worktree"]);
    assert_exit(&output, 0);
    let git_dir = stage.workspace().join(".git");
    for path in ["logs/refs/heads/main", "refs/heads/pipe", "objects/info/alternates"] {
        assert!(git_dir.join(path).symlink_metadata().is_err(), "{path} is still there");
        let path = git_dir.join(path).display().to_string();
        let found = audit(&stage).to_string();
        assert!(found.contains(&path), "{path} is missing from {found}");
    }
    assert_eq!(findings(&audit(&stage), "git_link").len(), 2, "{}", audit(&stage));
    git(&stage.workspace(), &["status"]);
    let discarded = stage.output(&["discard", "-", "--yes"]);
    assert_exit(&discarded, 0);
}

#[test]
fn links_that_a_run_put_into_nested_and_new_repositories_are_removed_too() {
    let stage = stage();
    let inner = stage.workspace().join("inner");
    fs::create_dir(&inner).unwrap();
    make_repository(&inner);
    let script = "shell ln -s /nowhere inner/.git/refs/heads/x; git init -q made && \
        ln -s /nowhere made/.git/refs/heads/x && mkfifo made/.git/packed-refs\n\
        shell echo text > linked && ln linked made/.git/ORIG_HEAD; mkdir sub && mkfifo sub/.git\nsay done";
    let output = stage.play(script, &[]);
    assert_exit(&output, 0);
    let found = audit(&stage);
    let paths = |what| findings(&found, what).into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    assert_eq!(paths("git_link"), ["inner/.git/refs/heads/x", "made/.git/refs/heads/x"], "{found}");
    assert_eq!(paths("git_special"), ["made/.git/packed-refs", "sub/.git"], "{found}");
    assert_eq!(paths("git_hard_link"), ["made/.git/ORIG_HEAD"], "{found}");
    // The content stays, under its own name.
    fs::write(stage.workspace().join("linked"), "changed\n").unwrap();
    let separated = fs::read_to_string(stage.workspace().join("made/.git/ORIG_HEAD")).unwrap();
    assert_eq!(separated, "text\n");
    assert!(stage.workspace().join("sub/.git").symlink_metadata().is_err());
}

#[test]
fn a_fifo_in_place_of_a_nested_git_stops_no_run() {
    let stage = stage();
    let sub = stage.workspace().join("sub");
    fs::create_dir(&sub).unwrap();
    let fifo = sub.join(".git");
    mkfifo(&fifo);
    let output = stage.play("say done", &[]);
    assert_exit(&output, 0);
    assert!(fifo.symlink_metadata().unwrap().file_type().is_fifo(), "the run did not make it");
    // Caretaker refuses it as a workspace, and names the FIFO.
    let refused = stage.play("say never", &["--workspace", sub.to_str().unwrap()]);
    let said = stderr(&refused);
    assert!(said.contains("the workspace's `.git` is a FIFO"), "{said}");
    assert!(said.contains("the repository or an earlier run created it"), "{said}");
    // Before the next run, Caretaker removes a FIFO that a run left.
    fs::remove_file(&fifo).unwrap();
    let left = stage.play("shell mkfifo sub/.git\nsay done", &[]);
    assert_exit(&left, 0);
    let next = stage.play("say done", &["--workspace", sub.to_str().unwrap()]);
    assert_exit(&next, 0);
}

/// Makes the branches `old`, `moved` and `later` next to `main`, and a tag. Returns their commit.
fn branches(stage: &Stage) -> String {
    let workspace = stage.workspace();
    for branch in ["old", "moved", "later"] {
        git(&workspace, &["branch", branch]);
    }
    git(&workspace, &["tag", "v1"]);
    git(&workspace, &["branch", "packed"]);
    git(&workspace, &["pack-refs", "--all"]);
    git(&workspace, &["branch", "loose"]);
    git(&workspace, &["rev-parse", "main"]).trim().to_owned()
}

const MOVES: &str = "shell echo two > plain && git commit -qam two && git branch -f moved && git branch -f later && \
    git branch made && git branch -D old loose packed && git tag -d v1 && rm -rf .git/logs/refs\nsay done";

fn commit_of(workspace: &Path, reference: &str) -> Option<String> {
    let output = Command::new("git")
        .args(["rev-parse", "--verify", "--quiet", reference])
        .current_dir(workspace)
        .output()
        .unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[test]
fn branches_that_a_run_moved_or_deleted_are_in_the_audit_and_undo_puts_them_back() {
    let stage = stage();
    let workspace = stage.workspace();
    let first = branches(&stage);
    let output = stage.play(MOVES, &[]);
    assert_exit(&output, 0);
    let found = audit(&stage);
    let of = |what| findings(&found, what).into_iter().collect::<Vec<_>>();
    let expected = |names: &[&str]| -> Vec<(String, String)> {
        names.iter().map(|name| ((*name).to_owned(), first.clone())).collect()
    };
    assert_eq!(
        of("ref_deleted"),
        expected(&["refs/heads/loose", "refs/heads/old", "refs/heads/packed", "refs/tags/v1"])
    );
    assert_eq!(
        of("ref_moved"),
        expected(&["refs/heads/later", "refs/heads/main", "refs/heads/moved"])
    );
    let said = String::from_utf8(output.stdout).unwrap();
    let short = &first[..12];
    assert!(said.contains(&format!("! deleted branch: old (was {short})")), "{said}");
    assert!(said.contains(&format!("! moved branch: moved (was {short})")), "{said}");
    assert!(said.contains(&format!("! deleted ref: refs/tags/v1 (was {short})")), "{said}");

    // The user moves one of them again.
    git(&workspace, &["commit", "-q", "--allow-empty", "-m", "three"]);
    git(&workspace, &["branch", "-f", "later"]);
    git(&workspace, &["reset", "-q", "--soft", "HEAD~"]);
    let (second, third) = (commit_of(&workspace, "main"), commit_of(&workspace, "later"));
    let dry = stage.output(&["undo", "-", "--dry-run"]);
    assert_eq!(commit_of(&workspace, "old"), None, "a dry run changes nothing");
    assert!(stderr(&dry).contains("old"), "{}", stderr(&dry));

    let undone = stage.output(&["undo", "-"]);
    let said = stderr(&undone);
    for branch in ["main", "moved", "old", "loose", "packed", "v1"] {
        assert_eq!(commit_of(&workspace, branch).as_ref(), Some(&first), "{branch}: {said}");
    }
    assert_eq!(commit_of(&workspace, "later"), third, "it has moved again since");
    assert!(said.contains("`later` stays: it has moved again since"), "{said}");
    assert_eq!(commit_of(&workspace, "made"), second, "branches that the run made stay");
    assert_eq!(git(&workspace, &["status", "--porcelain"]), "", "the index agrees");

    let redone = stage.output(&["undo", "-", "--redo"]);
    let said = stderr(&redone);
    for branch in ["main", "moved"] {
        assert_eq!(commit_of(&workspace, branch), second, "{branch}: {said}");
    }
    for branch in ["old", "loose", "packed", "v1"] {
        assert_eq!(commit_of(&workspace, branch), None, "{branch}: {said}");
    }
    assert_eq!(commit_of(&workspace, "later"), third);
    assert_eq!(git(&workspace, &["status", "--porcelain"]), "");
}

#[test]
fn branches_of_the_main_repository_that_a_run_in_a_worktree_deletes_are_reported_and_restored() {
    let stage = stage();
    let workspace = stage.workspace();
    let first = branches(&stage);
    let script = "shell cd \"$(git rev-parse --git-common-dir)\" && rm refs/heads/loose && echo x > /dev/null\n\
        shell git update-ref refs/heads/moved \"$(git commit-tree -m x HEAD^{tree})\"\nsay done";
    let output = stage.play(script, &["--worktree"]);
    assert_exit(&output, 0);
    assert_eq!(commit_of(&workspace, "loose"), None);
    let found = audit(&stage);
    assert_eq!(findings(&found, "ref_deleted"), [("refs/heads/loose".to_owned(), first.clone())]);
    assert_eq!(findings(&found, "ref_moved"), [("refs/heads/moved".to_owned(), first.clone())]);
    let undone = stage.output(&["undo", "-"]);
    assert_exit(&undone, 0);
    for branch in ["loose", "moved"] {
        assert_eq!(commit_of(&workspace, branch).as_ref(), Some(&first), "{}", stderr(&undone));
    }
}

#[test]
fn a_directory_deeper_than_the_longest_path_is_in_the_audit() {
    let stage = stage();
    let deep = "import os\nfor i in range(25):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\n\
        os.mkfifo('pipe'); os.symlink('/etc', 'out')\n";
    fs::write(stage.workspace().join("deep.py"), deep).unwrap();
    let output = stage.play("shell python3 deep.py\nsay done", &[]);
    assert_exit(&output, 0);
    let found = audit(&stage);
    assert_eq!(findings(&found, "fifo").len(), 1, "{found}");
    assert_eq!(findings(&found, "link_out").len(), 1, "{found}");
    let undone = stage.output(&["undo", "-"]);
    assert_exit(&undone, 0);
    assert_eq!(fs::read_dir(stage.workspace()).unwrap().count(), 3, ".git, plain and deep.py");
}
