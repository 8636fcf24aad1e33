use std::fs;
use std::process::Command;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;

fn around(directory: &Path) -> Result<Repository, GitError> {
    Repository::around(Git::new("/usr/bin/git".into(), None), directory)
}

struct Scratch {
    directory: TempDir,
}

impl Scratch {
    fn new() -> Self {
        let scratch = Self { directory: tempfile::tempdir().unwrap() };
        scratch.git(&["init", "--quiet", "--initial-branch=main"]);
        scratch
    }

    fn path(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    fn git(&self, args: &[&str]) {
        let output = Command::new("git")
            .arg("-C")
            .arg(self.path())
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
            .args(args)
            .env("GIT_AUTHOR_DATE", "2026-07-01T09:30:00Z")
            .env("GIT_COMMITTER_DATE", "2026-07-01T10:30:00Z")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn commit(&self, subject: &str, files: &[&str]) {
        for file in files {
            let path = self.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, subject).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", subject]);
    }
}

#[test]
fn a_commit_has_its_times_its_subject_and_its_files() {
    let scratch = Scratch::new();
    scratch.commit("first", &["a", "src/b"]);
    scratch.git(&["mv", "a", "sp ace\nü"]);
    scratch.commit("second: \u{1} \"ü\"", &["src/b"]);
    let repository = around(&scratch.path().join("src")).unwrap();
    assert_eq!(repository.root, scratch.path());
    let commit = repository.commit("HEAD").unwrap();
    assert_eq!(commit.subject, "second: \u{1} \"ü\"");
    assert_eq!(commit.author_ms, 1_782_898_200_000);
    assert_eq!(commit.commit_ms, commit.author_ms + 3_600_000);
    assert_eq!(commit.files, ["a", "sp ace\nü", "src/b"]);
    let first = repository.commit("HEAD~1").unwrap();
    assert_eq!((commit.parents, first.parents), (vec![first.id], Vec::new()));
    assert_eq!(repository.commit("HEAD~1").unwrap().files, ["a", "src/b"]);
}

#[test]
fn commits_between_two_are_in_the_second_but_not_in_the_first() {
    let scratch = Scratch::new();
    for n in ["one", "two", "three", "four"] {
        scratch.commit(n, &[n]);
    }
    scratch.commit("empty", &[]);
    let repository = around(&scratch.path()).unwrap();
    let subjects = |most| -> Vec<String> {
        let commits = repository.commits_between("HEAD~3", "main", most).unwrap();
        commits.into_iter().map(|commit| commit.subject).collect()
    };
    assert_eq!(subjects(10), ["empty", "four", "three"]);
    assert_eq!(subjects(1), ["empty"]);
    assert_eq!(repository.commits_between("main", "HEAD~3", 10).unwrap(), []);
}

#[test]
fn a_merge_has_the_files_that_it_brought_in() {
    let scratch = Scratch::new();
    scratch.commit("base", &["base"]);
    scratch.git(&["checkout", "--quiet", "-b", "side"]);
    scratch.commit("side", &["side"]);
    scratch.git(&["checkout", "--quiet", "main"]);
    scratch.commit("main", &["main"]);
    scratch.git(&["merge", "--quiet", "--no-edit", "side"]);
    let repository = around(&scratch.path()).unwrap();
    assert_eq!(repository.commit("HEAD").unwrap().files, ["side"]);
}

#[test]
fn other_worktrees_of_the_repository_are_known() {
    let scratch = Scratch::new();
    scratch.commit("first", &["a"]);
    let elsewhere = tempfile::tempdir().unwrap();
    let place = elsewhere.path().canonicalize().unwrap().join("fix");
    scratch.git(&["worktree", "add", "--quiet", place.to_str().unwrap()]);
    let repository = around(&place).unwrap();
    assert_eq!(repository.root, place);
    assert_eq!(repository.worktrees, [scratch.path(), place]);
}

#[test]
fn a_missing_commit_and_a_missing_repository_are_reported() {
    let scratch = Scratch::new();
    scratch.commit("first", &["a"]);
    let repository = around(&scratch.path()).unwrap();
    for revision in ["", "nowhere", "--output=/tmp/x", "-p", "HEAD:a", "HEAD..HEAD"] {
        let outcome = repository.commit(revision);
        assert!(matches!(outcome, Err(GitError::NoSuchCommit(_))), "{revision}: {outcome:?}");
    }
    let empty = tempfile::tempdir().unwrap();
    let outcome = around(empty.path());
    assert!(matches!(outcome, Err(GitError::NotARepository { .. })), "{outcome:?}");
}

/// A repository's own configuration can name programs for git to start.
#[test]
fn a_repository_cannot_make_git_start_its_programs() {
    let scratch = Scratch::new();
    scratch.commit("first", &["a"]);
    let program = scratch.path().join("program.sh");
    let proof = scratch.path().join("proof");
    fs::write(&program, format!("#!/bin/sh\necho ran >> {}\n", proof.display())).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(scratch.path().join(".gitattributes"), "* diff=odd\n").unwrap();
    scratch.commit("second", &["a"]);
    let program = program.to_str().unwrap();
    for setting in [
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "diff.external",
        "diff.odd.textconv",
        "diff.odd.command",
        "gpg.program",
        "pager.log",
    ] {
        scratch.git(&["config", setting, program]);
    }
    scratch.git(&["config", "log.showSignature", "true"]);
    let repository = around(&scratch.path()).unwrap();
    let before = fs::metadata(scratch.path().join(".git/index")).unwrap().modified().unwrap();
    assert_eq!(repository.commit("HEAD").unwrap().subject, "second");
    assert_eq!(repository.commits_between("HEAD~1", "HEAD", 5).unwrap().len(), 1);
    assert!(!proof.exists(), "{}", fs::read_to_string(proof).unwrap_or_default());
    let after = fs::metadata(scratch.path().join(".git/index")).unwrap().modified().unwrap();
    assert_eq!(before, after);
}
