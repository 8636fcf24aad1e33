use pretty_assertions::assert_eq;

use super::*;
use crate::test_tree::{AMPLE, TestTree, run};

fn paths(snapshot: &Snapshot) -> Vec<String> {
    snapshot.entries.keys().map(ToString::to_string).collect()
}

#[test]
fn ignored_files_are_skipped_unless_git_tracks_them() {
    let tree = TestTree::new();
    tree.git("init -q");
    tree.write(".gitignore", "*.log\n/build/\n!keep.log\n");
    tree.write("sub/.gitignore", "local\n");
    for file in
        ["a.log", "keep.log", "sub/b.log", "sub/local", "sub/kept", "build/out", "x/build/y"]
    {
        tree.write(file, "x");
    }
    tree.write("build/forced/tracked", "x");
    tree.git("add -f build/forced/tracked");
    tree.write(".git/info/exclude", "secret\n");
    tree.write("secret", "x");
    let saved = tree.save(&SnapshotName::before(run()));
    assert_eq!(
        paths(&saved.snapshot),
        [
            ".gitignore",
            "build/forced/tracked",
            "keep.log",
            "sub",
            "sub/.gitignore",
            "sub/kept",
            "x",
            "x/build",
            "x/build/y"
        ]
    );
}

#[test]
fn the_rules_are_those_of_git() {
    let tree = TestTree::new();
    tree.git("init -q");
    tree.write(
        ".gitignore",
        "# comment\n\\#hash\n*.o\nfoo/*\n!foo/keep\n**/deep/**/x\n/rooted\ndir/\ntrailing\\ \n[ab]c\n!\\!bang\n!bang\n*\\?q\n",
    );
    for file in [
        "#hash",
        "m.o",
        "foo/one",
        "foo/keep",
        "p/deep/q/r/x",
        "deep/x",
        "rooted",
        "s/rooted",
        "dir/in",
        "s/dir",
        "trailing ",
        "ac",
        "bc",
        "cc",
        "!bang",
        "z?q",
        "zq",
    ] {
        tree.write(file, "x");
    }
    let saved = tree.save(&SnapshotName::before(run()));
    let of_git = std::process::Command::new("git")
        .args(["ls-files", "-z", "--others", "--exclude-standard"])
        .current_dir(tree.workspace())
        .output()
        .unwrap();
    let mut of_git: Vec<String> = String::from_utf8(of_git.stdout)
        .unwrap()
        .split_terminator('\0')
        .map(ToOwned::to_owned)
        .collect();
    of_git.sort();
    let files = saved.snapshot.entries.iter().filter(|(_, entry)| !entry.is_directory());
    let ours: Vec<String> = files.map(|(path, _)| path.to_string()).collect();
    assert_eq!(ours, of_git);
}

#[test]
fn rules_of_the_repository_around_the_workspace_apply_too() {
    let tree = TestTree::new();
    let outer = tree.workspace().parent().unwrap().to_owned();
    std::fs::create_dir_all(outer.join(".git/info")).unwrap();
    std::fs::write(outer.join(".gitignore"), "node_modules\n/workspace/top\n").unwrap();
    std::fs::write(outer.join(".git/info/exclude"), "private\n").unwrap();
    for file in ["node_modules/x", "top", "sub/top", "private", "kept"] {
        tree.write(file, "x");
    }
    let saved = tree.save(&SnapshotName::before(run()));
    assert_eq!(paths(&saved.snapshot), ["kept", "sub", "sub/top"]);
}

#[test]
fn a_nested_repository_is_covered_by_its_own_rules_without_its_git() {
    let tree = TestTree::new();
    tree.write(".gitignore", "*.tmp\n");
    tree.write("nested/.gitignore", "own\n");
    tree.shell("cd nested && git init -q");
    for file in ["nested/a.tmp", "nested/own", "nested/kept"] {
        tree.write(file, "x");
    }
    let saved = tree.save(&SnapshotName::before(run()));
    assert_eq!(
        paths(&saved.snapshot),
        [".gitignore", "nested", "nested/.gitignore", "nested/a.tmp", "nested/kept"]
    );
    assert_eq!(saved.snapshot.left_out, ["nested/.git".into()]);
}

#[test]
fn unchanged_files_are_not_read_again() {
    let tree = TestTree::new();
    tree.write("a", "one");
    tree.write("b", "two");
    let old = std::time::SystemTime::now() - Duration::from_secs(60);
    let first = tree.save(&SnapshotName::before(run()));
    assert_eq!((first.files_read, first.bytes_read), (2, 6));

    // A test cannot set a ctime back, so the snapshot pretends to have begun later.
    let history = tree.history();
    let mut snapshot = first.snapshot;
    snapshot.began_ns += 2 * TOO_FRESH_NS;
    let name = SnapshotName::before(run());
    history.keep(&name, &snapshot).unwrap();
    let second = tree.save(&SnapshotName::before(run()));
    assert_eq!((second.files_read, &second.snapshot.commit), (0, &snapshot.commit));

    history.keep(&name, &snapshot).unwrap();
    tree.write("a", "ONE");
    // The snapshot notices a modification time that was set back.
    std::fs::File::options().write(true).open(tree.path("a")).unwrap().set_modified(old).unwrap();
    let third = tree.save(&SnapshotName::before(run()));
    assert_eq!(third.files_read, 1);
    assert_ne!(third.snapshot.commit, snapshot.commit);
}

#[test]
fn a_workspace_beyond_a_limit_is_refused_and_a_slow_one_is_saved_in_the_end() {
    let tree = TestTree::new();
    for number in 0..20 {
        tree.write(&format!("f{number}"), format!("content {number}"));
    }
    let history = tree.history();
    let name = SnapshotName::before(run());
    let save = |limits| history.save(&name, Scope::AsGitWould, &[], limits);
    let refused = save(Limits { most_files: 19, ..AMPLE });
    assert!(matches!(refused, Err(SaveError::TooManyFiles(19))), "{refused:?}");
    let refused = save(Limits { most_new_bytes: 10, ..AMPLE });
    assert!(matches!(refused, Err(SaveError::TooLarge { most: 10, .. })), "{refused:?}");
    let refused = save(Limits { within: Duration::ZERO, ..AMPLE });
    assert!(matches!(refused, Err(SaveError::TooSlow(_))), "{refused:?}");
    assert!(!history.has(&name));
    assert_eq!(save(AMPLE).unwrap().snapshot.n_files(), 20);
}

#[test]
fn a_hostile_repository_starts_nothing_and_blocks_nothing() {
    let tree = TestTree::new();
    tree.git("init -q");
    let mark = tree.outside();
    let evil = format!("touch {}; cat", mark.display());
    tree.write(".gitattributes", "* filter=evil diff=evil\n");
    for setting in [
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "core.fsmonitor",
        "core.pager",
        "diff.evil.textconv",
        "diff.external",
        "core.sshCommand",
        "core.alternateRefsCommand",
    ] {
        tree.shell(&format!("git config {setting} '{evil}'"));
    }
    tree.shell("mkdir -p .git/hooks");
    tree.write(".git/hooks/post-index-change", format!("#!/bin/sh\n{evil}\n"));
    tree.write(".git/hooks/reference-transaction", format!("#!/bin/sh\n{evil}\n"));
    tree.shell("chmod +x .git/hooks/*");
    tree.write("file", "content");
    tree.shell("mkdir sub && mkfifo sub/.gitignore");
    tree.write("sub/file", "content");
    let saved = tree.save(&SnapshotName::before(run()));
    assert_eq!(
        paths(&saved.snapshot),
        [".gitattributes", "file", "sub", "sub/.gitignore", "sub/file"]
    );
    assert!(!mark.exists(), "a program from the repository was started");
}

#[test]
fn old_runs_are_forgotten_and_the_others_stay_whole() {
    let tree = TestTree::new();
    let history = tree.history();
    let mut runs = Vec::new();
    for number in 0..5 {
        tree.write("file", format!("content {number}"));
        tree.write(&format!("only-{number}"), format!("only {number}"));
        let run = run();
        runs.push(run);
        tree.save(&SnapshotName::before(run));
        std::fs::remove_file(tree.path(&format!("only-{number}"))).unwrap();
    }
    assert_eq!(history.forget_all_but(2).unwrap(), 3);
    assert_eq!(history.forget_all_but(2).unwrap(), 0);
    let kept = |history: &History| {
        let out = std::process::Command::new("git")
            .arg("--git-dir")
            .arg(history.store())
            .args(["cat-file", "--batch-check", "--batch-all-objects"])
            .output()
            .unwrap();
        String::from_utf8(out.stdout)
            .unwrap()
            .lines()
            .filter(|line| line.contains(" blob "))
            .count()
    };
    assert_eq!(kept(&history), 10);
    history.tidy().unwrap();
    assert_eq!(kept(&history), 4);
    for (number, run) in runs.iter().enumerate() {
        let snapshot = history.snapshot(&SnapshotName::before(*run)).unwrap();
        assert_eq!(snapshot.is_some(), number >= 3, "{number}");
        let Some(snapshot) = snapshot else { continue };
        tree.put_back(&snapshot, *run);
        let content = std::fs::read_to_string(tree.path("file")).unwrap();
        assert_eq!(content, format!("content {number}"));
        assert!(tree.path(&format!("only-{number}")).exists());
    }
    assert!(history.snapshot(&SnapshotName::before(runs[0])).unwrap().is_none());
}

#[test]
fn our_mount_points_are_skipped_while_they_are_empty() {
    let tree = TestTree::new();
    tree.shell(
        "mkdir .cursor .vscode; touch .envrc; echo x > .mcp.json; echo x > .vscode/settings",
    );
    let skip = [".cursor", ".vscode", ".envrc", ".mcp.json"].map(TreePath::from);
    let name = SnapshotName::before(run());
    let saved = tree.history().save(&name, Scope::AsGitWould, &skip, AMPLE).unwrap();
    assert_eq!(paths(&saved.snapshot), [".mcp.json", ".vscode", ".vscode/settings"]);
}

#[test]
fn a_store_that_lost_contents_is_filled_again() {
    let tree = TestTree::new();
    tree.write("file", "content");
    let first = tree.save(&SnapshotName::before(run()));
    let history = tree.history();
    let mut snapshot = first.snapshot;
    snapshot.began_ns += 2 * TOO_FRESH_NS;
    history.keep(&SnapshotName::before(run()), &snapshot).unwrap();
    for entry in std::fs::read_dir(history.store().join("objects/pack")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    tree.write("other", "new");
    let saved = tree.save(&SnapshotName::before(run()));
    assert_eq!(saved.files_read, 2);
}
