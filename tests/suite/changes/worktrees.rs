//! Runs in worktrees: the checkout is untouched until the user applies the changes.

use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::repository::git;
use crate::stage::{Stage, assert_exit, stderr};

/// Makes a repository with one commit and one uncommitted file.
fn stage() -> Stage {
    let stage = Stage::new();
    let workspace = stage.workspace();
    git(&workspace, &["init", "-q", "-b", "main"]);
    fs::write(workspace.join("lines"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n").unwrap();
    fs::write(workspace.join("plain"), "plain\n").unwrap();
    fs::write(workspace.join("gone"), "x\n").unwrap();
    git(&workspace, &["add", "."]);
    git(&workspace, &["commit", "-qm", "one"]);
    fs::write(workspace.join("mine"), "not committed\n").unwrap();
    stage
}

fn read(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).unwrap_or_else(|error| format!("{name}: {error}"))
}

/// Returns the worktree of the latest run.
fn worktree_of(stage: &Stage) -> PathBuf {
    let run = stage.run_ids().pop().unwrap();
    let spec = fs::read(stage.runs().join(run).join("spec.json")).unwrap();
    let spec: Value = serde_json::from_slice(&spec).unwrap();
    assert!(spec["worktree"]["branch"].as_str().unwrap().starts_with("caretaker/"), "{spec}");
    PathBuf::from(spec["workspace"].as_str().unwrap())
}

fn run_in_worktree(stage: &Stage, script: &str, flags: &[&str]) -> PathBuf {
    let output = stage.play(script, &[&["--worktree"], flags].concat());
    assert_exit(&output, 0);
    worktree_of(stage)
}

const WORK: &str = "shell echo changed > plain && rm gone && echo new > new && sed -i s/^1$/one/ lines\n\
    shell git add new plain && git commit -qm two\n\
    shell echo later > uncommitted";

fn out(stage: &Stage, args: &[&str]) -> (Option<i32>, String) {
    let output = stage.output(args);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), said + &stderr(&output))
}

#[test]
fn the_checkout_is_untouched_until_the_user_applies_the_changes() {
    let stage = stage();
    let checkout = stage.workspace();
    let status = || git(&checkout, &["status", "--porcelain"]);
    let before = status();
    let worktree = run_in_worktree(&stage, WORK, &["--name", "fix"]);
    assert_eq!(status(), before);
    assert_eq!(read(&worktree, "uncommitted"), "later\n");
    assert!(!worktree.join("mine").exists(), "the worktree starts from the last commit");
    // The run committed to the worktree's own branch.
    assert_eq!(git(&checkout, &["rev-list", "--count", "main"]), "1\n");
    let branch = git(&worktree, &["branch", "--show-current"]);
    assert!(branch.starts_with("caretaker/fix-"), "{branch}");
    assert_eq!(git(&checkout, &["rev-list", "--count", branch.trim()]), "2\n");

    let (_, listed) = out(&stage, &["ps", "--all"]);
    assert!(listed.contains("worktree of"), "{listed}");
    let (_, shown) = out(&stage, &["show", "fix"]);
    assert!(shown.contains(", branch caretaker/fix-"), "{shown}");

    let (code, patch) = out(&stage, &["diff", "fix"]);
    assert_eq!(code, Some(0));
    for part in ["+changed", "-plain", "deleted file", "+one", "+new", "+later"] {
        assert!(patch.contains(part), "{part} is missing from\n{patch}");
    }
    let (_, stat) = out(&stage, &["diff", "fix", "--stat"]);
    assert!(stat.contains("5 files changed"), "{stat}");
    let (_, json) = out(&stage, &["diff", "fix", "--json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["changes"], json!({"added": 2, "changed": 2, "removed": 1}));
    assert_eq!(
        report["files"][1],
        json!({"path": "lines", "change": "changed", "added": 1, "removed": 1})
    );

    // Discard refuses while the worktree has unapplied changes.
    let (code, said) = out(&stage, &["discard", "fix"]);
    assert_eq!(code, Some(4), "{said}");

    // The user's later changes stay, and the lines of both are merged.
    fs::write(checkout.join("lines"), "1\n2\n3\n4\n5\n6\n7\n8\nnine\n").unwrap();
    let (code, said) = out(&stage, &["apply", "fix"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(read(&checkout, "plain"), "changed\n");
    assert_eq!(read(&checkout, "uncommitted"), "later\n");
    assert_eq!(read(&checkout, "mine"), "not committed\n");
    assert_eq!(read(&checkout, "lines"), "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    assert!(!checkout.join("gone").exists());
    assert_eq!(git(&checkout, &["rev-list", "--count", "HEAD"]), "1\n", "nothing is committed");
    let (code, said) = out(&stage, &["apply", "fix"]);
    assert_eq!(code, Some(0), "{said}");

    let (code, said) = out(&stage, &["discard", "fix"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(!worktree.exists());
    assert_eq!(git(&checkout, &["branch", "--list", "caretaker/*"]), "");
    assert_eq!(git(&checkout, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(read(&checkout, "uncommitted"), "later\n");
    let (code, said) = out(&stage, &["apply", "fix"]);
    assert_eq!(code, Some(3), "{said}");
}

#[test]
fn a_conflict_changes_nothing_and_an_apply_can_be_reverted() {
    let stage = stage();
    let checkout = stage.workspace();
    run_in_worktree(&stage, "shell echo theirs > plain && echo new > new", &[]);
    fs::write(checkout.join("plain"), "ours\n").unwrap();
    let (code, said) = out(&stage, &["apply", "-"]);
    assert_eq!(code, Some(4), "{said}");
    assert_eq!(
        (read(&checkout, "plain").as_str(), checkout.join("new").exists()),
        ("ours\n", false)
    );
    let (code, json) = out(&stage, &["apply", "-", "--json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &report["conflicts"][0]["path"]), (Some(4), &json!("plain")));

    fs::write(checkout.join("plain"), "plain\n").unwrap();
    let (code, said) = out(&stage, &["apply", "-", "--dry-run"]);
    assert_eq!((code, checkout.join("new").exists()), (Some(0), false), "{said}");
    let (code, said) = out(&stage, &["apply", "-"]);
    assert_eq!((code, read(&checkout, "plain").as_str()), (Some(0), "theirs\n"), "{said}");
    let (code, said) = out(&stage, &["apply", "-", "--revert"]);
    assert_eq!((code, read(&checkout, "plain").as_str()), (Some(0), "plain\n"), "{said}");
    assert!(!checkout.join("new").exists());
    let (code, said) = out(&stage, &["apply", "-", "--revert"]);
    assert_eq!(code, Some(3), "{said}");
    let (code, said) = out(&stage, &["apply", "-"]);
    assert_eq!((code, read(&checkout, "new").as_str()), (Some(0), "new\n"), "{said}");
}

#[test]
fn a_revert_keeps_what_the_user_did_after_the_apply() {
    let stage = stage();
    let checkout = stage.workspace();
    run_in_worktree(
        &stage,
        "shell echo theirs > plain && echo new > new && sed -i 's/^1$/one/' lines",
        &[],
    );
    let (code, said) = out(&stage, &["apply", "-"]);
    assert_eq!(code, Some(0), "{said}");
    fs::write(checkout.join("later"), "mine\n").unwrap();
    fs::write(checkout.join("lines"), "one\n2\n3\n4\n5\n6\n7\n8\nnine\n").unwrap();
    fs::write(checkout.join("new"), "mine\n").unwrap();
    let (code, said) = out(&stage, &["apply", "-", "--revert"]);
    assert_eq!(code, Some(4), "{said}");
    assert_eq!(read(&checkout, "plain"), "theirs\n");
    fs::write(checkout.join("new"), "new\n").unwrap();
    let (code, said) = out(&stage, &["apply", "-", "--revert"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(read(&checkout, "lines"), "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    assert_eq!(
        (read(&checkout, "plain").as_str(), read(&checkout, "later").as_str()),
        ("plain\n", "mine\n")
    );
    assert!(!checkout.join("new").exists());
}

#[test]
fn a_session_continues_in_its_worktree_and_a_discarded_one_is_refused() {
    let stage = stage();
    let worktree = run_in_worktree(&stage, "shell echo first > first", &[]);
    let session = stage.session_of(&stage.run_ids().pop().unwrap());
    let resumed = stage.resume(&session, "shell echo second > second", &[]);
    assert_exit(&resumed, 0);
    assert_eq!(worktree_of(&stage), worktree);
    assert_eq!(read(&worktree, "second"), "second\n");
    assert!(!stage.workspace().join("second").exists());
    // The diff shows the work of both runs together.
    let (_, json) = out(&stage, &["diff", "-", "--json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["changes"]["added"], 2);
    // Undo works in the worktree too.
    let (code, said) = out(&stage, &["undo", "-"]);
    assert_eq!((code, worktree.join("second").exists()), (Some(0), false), "{said}");

    let (code, said) = out(&stage, &["discard", "-", "--yes"]);
    assert_eq!(code, Some(0), "{said}");
    let refused = stage.resume(&session, "say hi", &[]);
    assert_exit(&refused, 6);
    assert!(stderr(&refused).contains("was discarded"), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("sessions fork"), "{}", stderr(&refused));
}

#[test]
fn a_run_that_is_refused_leaves_no_worktree_behind() {
    let stage = stage();
    let checkout = stage.workspace();
    for flags in [&["--profile", "no-such-profile"][..], &["--model", "-bad-"]] {
        let output = stage.play("say hi", &[&["--worktree"], flags].concat());
        assert_ne!(output.status.code(), Some(0));
        assert_eq!(git(&checkout, &["branch", "--list", "caretaker/*"]), "", "{}", stderr(&output));
        assert_eq!(git(&checkout, &["worktree", "list"]).lines().count(), 1);
        let left = fs::read_dir(stage.root().join("state/worktrees")).unwrap().count();
        assert_eq!(left, 0, "{}", stderr(&output));
    }
    fs::create_dir(stage.home().join("plain")).unwrap();
    let plain = stage.home().join("plain");
    let output = stage.play("say hi", &["--worktree", "--workspace", plain.to_str().unwrap()]);
    assert_exit(&output, 2);
}

#[test]
fn a_worktree_in_use_is_neither_applied_nor_discarded() {
    let stage = stage();
    let run = stage.detach("shell echo x > made\nshell sleep 600", &["--worktree"]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_completed");
    for command in ["apply", "discard"] {
        let (code, said) = out(&stage, &[command, &run]);
        assert_eq!(code, Some(4), "{command}: {said}");
    }
    // Reading is allowed, and so is another run in the checkout.
    let (code, patch) = out(&stage, &["diff", &run]);
    assert_eq!((code, patch.contains("b/made")), (Some(0), true), "{patch}");
    let other = stage.play("say hi", &[]);
    assert_exit(&other, 0);
    stage.output(&["kill", "--now", &run]);
    let (code, said) = out(&stage, &["discard", &run, "--yes"]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_run_in_the_checkout_continues_when_the_last_worktree_is_discarded() {
    let stage = stage();
    run_in_worktree(&stage, "shell echo x > made", &[]);
    let in_worktree = stage.run_ids().pop().unwrap();
    let run = stage.detach("shell echo begun > begun\nshell sleep 600", &[]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_completed");
    let (code, said) = out(&stage, &["discard", &in_worktree, "--yes"]);
    assert_eq!(code, Some(0), "{said}");
    let listed = git(&stage.workspace(), &["worktree", "list"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    // The files that the run protects are still there, so it is alive until this kill.
    let (_, said) = out(&stage, &["kill", "--now", &run]);
    stage.wait_until(&run, |line| line["kind"] == "run.ended");
    assert_eq!(stage.ended()["outcome"], "cancelled", "{said}");
}

#[test]
fn a_hostile_repository_starts_nothing_on_the_host() {
    let stage = stage();
    let checkout = stage.workspace();
    let mark = stage.root().join("mark");
    let evil = format!("touch {}; cat", mark.display());
    fs::write(checkout.join(".gitattributes"), "* filter=evil\n").unwrap();
    git(&checkout, &["add", ".gitattributes"]);
    git(&checkout, &["commit", "-qm", "two"]);
    for setting in
        ["filter.evil.smudge", "filter.evil.clean", "filter.evil.process", "core.fsmonitor"]
    {
        git(&checkout, &["config", setting, &evil]);
    }
    git(&checkout, &["config", "filter.evil.required", "true"]);
    for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
        use std::os::unix::fs::PermissionsExt;
        let path = checkout.join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{evil}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Changes that git itself made in the setup above do not count.
    fs::remove_file(&mark).ok();
    run_in_worktree(&stage, "write new <<END\nx\nEND", &[]);
    for args in [&["diff", "-"][..], &["apply", "-"], &["discard", "-", "--yes"]] {
        let (code, said) = out(&stage, args);
        assert_eq!(code, Some(0), "{args:?}: {said}");
    }
    assert!(!mark.exists(), "a program from the repository's configuration ran");
    assert_eq!(read(&checkout, "new"), "x\n");
}

#[test]
fn the_diff_of_a_run_without_a_worktree_shows_only_its_changes() {
    let stage = stage();
    let output = stage.play("shell echo theirs > plain && printf 'a\\033[2Jb' > evil", &[]);
    assert_exit(&output, 0);
    fs::write(stage.workspace().join("later"), "by the user").unwrap();
    let (code, patch) = out(&stage, &["diff", "-"]);
    assert_eq!(code, Some(0), "{patch}");
    assert!(patch.contains("+theirs") && !patch.contains("later"), "{patch}");
    // Written to a pipe, the output is a patch that git accepts.
    let copy = stage.root().join("copy");
    git(
        &stage.root(),
        &["clone", "-q", stage.workspace().to_str().unwrap(), copy.to_str().unwrap()],
    );
    let patch = stage.output(&["diff", "-"]).stdout;
    fs::write(stage.root().join("patch"), patch).unwrap();
    git(&copy, &["apply", stage.root().join("patch").to_str().unwrap()]);
    assert_eq!(read(&copy, "plain"), "theirs\n");
    // `apply` has nothing to apply.
    let (code, said) = out(&stage, &["apply", "-"]);
    assert_eq!(code, Some(2), "{said}");
}

/// The branch of the latest run, and the id that `ps` shows for it.
fn branch_and_id(stage: &Stage) -> (String, String) {
    let run = stage.run_ids().pop().unwrap();
    let spec = fs::read(stage.runs().join(&run).join("spec.json")).unwrap();
    let spec: Value = serde_json::from_slice(&spec).unwrap();
    let branch = spec["worktree"]["branch"].as_str().unwrap().to_owned();
    (branch, run.rsplit('-').next().unwrap().to_owned())
}

#[test]
fn a_branch_carries_the_name_of_its_run_and_the_id_that_ps_shows() {
    let stage = stage();
    run_in_worktree(&stage, "say Done.", &[]);
    let (branch, id) = branch_and_id(&stage);
    assert_eq!(branch, format!("caretaker/{id}"));
    let (_, listed) = out(&stage, &["ps", "--all"]);
    assert!(listed.contains(&id), "{listed}");
    run_in_worktree(&stage, "say Done.", &["--name", "fix"]);
    let (branch, id) = branch_and_id(&stage);
    assert_eq!(branch, format!("caretaker/fix-{id}"));
}

#[test]
fn a_worktree_gets_the_named_files_that_git_does_not_track_and_no_others() {
    let stage = stage();
    let checkout = stage.workspace();
    stage.configure_also("[worktree]\ninclude = [\"local/*.key\"]\n");
    fs::create_dir(checkout.join("local")).unwrap();
    fs::create_dir_all(checkout.join("deep/er")).unwrap();
    for (file, text) in [
        (".gitignore", ".env\nlocal\n"),
        (".env", "TOKEN=1\n"),
        ("deep/er/.env", "TOKEN=2\n"),
        ("local/a.key", "key\n"),
        ("local/other", "other\n"),
        (
            ".worktreeinclude",
            "# The team's own.\n\n.env\nplain\n../outside\n/etc/passwd\nlink\nfifo\n",
        ),
    ] {
        fs::write(checkout.join(file), text).unwrap();
    }
    fs::write(stage.home().join("outside"), "secret\n").unwrap();
    std::os::unix::fs::symlink(stage.home().join("outside"), checkout.join("link")).unwrap();
    nix::unistd::mkfifo(&checkout.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::write(checkout.join("plain"), "changed, but tracked\n").unwrap();

    let output = stage.play("shell cat .env && rm deep/er/.env", &["--worktree", "--name", "fix"]);
    assert_exit(&output, 0);
    assert!(stderr(&output).contains("3 files that git does not track"), "{}", stderr(&output));
    let worktree = worktree_of(&stage);
    let mut names: Vec<String> = fs::read_dir(&worktree)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".env", ".git", "deep", "gone", "lines", "local", "plain"]);
    assert_eq!(read(&worktree, "plain"), "plain\n");
    assert_eq!(fs::read_dir(worktree.join("local")).unwrap().count(), 1);
    // They do not count as the run's changes.
    let (_, stat) = out(&stage, &["diff", "fix", "--stat"]);
    assert!(!stat.contains("a.key"), "{stat}");
}

#[test]
fn a_list_of_files_that_is_a_link_or_names_too_much_is_refused_and_leaves_no_worktree() {
    let stage = stage();
    let checkout = stage.workspace();
    let refused = |part: &str| {
        let output = stage.play("say Done.", &["--worktree"]);
        assert!(!output.status.success());
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
        assert_eq!(git(&checkout, &["worktree", "list"]).lines().count(), 1);
        assert_eq!(git(&checkout, &["branch", "--list", "caretaker/*"]), "");
    };
    let names = checkout.join(".worktreeinclude");
    std::os::unix::fs::symlink("/etc/passwd", &names).unwrap();
    refused("`.worktreeinclude` cannot be read");
    fs::remove_file(&names).unwrap();
    nix::unistd::mkfifo(&names, nix::sys::stat::Mode::S_IRWXU).unwrap();
    refused("`.worktreeinclude` cannot be read");
    fs::remove_file(&names).unwrap();
    fs::write(&names, "many/\n").unwrap();
    fs::create_dir(checkout.join("many")).unwrap();
    for n in 0..=5000 {
        fs::write(checkout.join("many").join(n.to_string()), "").unwrap();
    }
    refused("more than 5000 files");
}

#[test]
fn a_set_up_command_prepares_a_new_worktree_once_and_inside_the_sandbox() {
    let stage = stage();
    let setup = "echo one; echo two >&2; echo '{\"type\":\"result\",\"is_error\":false}'; cat; echo ready >> prepared; \
        touch $HOME/../outside /usr/outside 2> /dev/null; sleep 60 & exit 0";
    stage.configure_also(&format!("[worktree]\nsetup = {}\n", json!(setup)));
    let worktree = run_in_worktree(&stage, "shell cat prepared\nsay Done.", &["--name", "fix"]);
    assert_eq!(read(&worktree, "prepared"), "ready\n");
    assert!(!stage.root().join("outside").exists() && !Path::new("/usr/outside").exists());
    let run = stage.run_ids().pop().unwrap();
    let lines: Vec<Value> = stage
        .journal(&run)
        .into_iter()
        .filter(|entry| entry.line["run"]["kind"] == "setup_output")
        .map(|entry| entry.line["run"]["text"].clone())
        .collect();
    assert_eq!(lines, ["one", "two", "{\"type\":\"result\",\"is_error\":false}"]);
    let (_, shown) = out(&stage, &["tail", "fix"]);
    assert!(shown.contains("set-up │ two"), "{shown}");

    // The next run of the session finds the worktree prepared. A run in the checkout needs no preparation.
    let session = stage.session_of(&run);
    assert_exit(&stage.resume(&session, "say Again.", &[]), 0);
    assert_eq!(read(&worktree, "prepared"), "ready\n");
    assert_exit(&stage.play("say Done.", &[]), 0);
    assert!(!stage.workspace().join("prepared").exists());
    let output = stage.play("say Done.", &["--setup", "true"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("add --worktree"), "{}", stderr(&output));
    stage.assert_no_survivors("after the runs");
}

#[test]
fn a_set_up_command_that_fails_ends_the_run_and_leaves_the_worktree() {
    let stage = stage();
    let flags = ["--worktree", "--name", "fix", "--setup", "echo no registry; exit 7"];
    let output = stage.play("shell touch ran\nsay Done.", &flags);
    assert_exit(&output, 1);
    let ended = stage.ended();
    assert_eq!((&ended["outcome"], &ended["exit_code"]), (&json!("setup_failed"), &json!(7)));
    assert!(ended["why"].as_str().unwrap().contains("exit code 7"), "{ended}");
    let worktree = worktree_of(&stage);
    assert!(worktree.join("plain").exists() && !worktree.join("ran").exists());
    let (_, shown) = out(&stage, &["show", "fix"]);
    assert!(shown.contains("the set-up command failed with exit code 7"), "{shown}");
    let (code, said) = out(&stage, &["discard", "fix"]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_set_up_command_can_be_stopped_and_has_the_limits_of_the_run() {
    let stage = stage();
    let flags = ["--worktree", "--setup", "echo begun; sleep 600"];
    let run = stage.detach("say Done.", &flags);
    stage.wait_until(&run, |line| line["kind"] == "run.setup_output");
    assert_exit(&stage.output(&["kill", &run]), 0);
    assert_eq!(stage.ended()["outcome"], "cancelled");
    let output =
        stage.play("say Done.", &["--worktree", "--setup", "sleep 600", "--timeout", "1s"]);
    assert_exit(&output, 124);
    assert_eq!(stage.ended()["outcome"], "timed_out");
    let output = stage.play("say Done.", &["--worktree", "--setup", "kill -9 $$"]);
    assert_exit(&output, 1);
    assert_eq!(stage.ended()["exit_code"], 137);
    stage.assert_no_survivors("after the runs");
}
