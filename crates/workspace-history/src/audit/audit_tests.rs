use std::time::Duration;

use pretty_assertions::assert_eq;

use super::*;
use crate::SnapshotName;
use crate::test_tree::{AMPLE, TestTree, run};

fn in_an_hour() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

fn audited(
    workspace: &Path,
    before: &Snapshot,
    after: &Snapshot,
    passed_over: &[TreePath],
    deadline: Instant,
) -> Audit {
    look_over(workspace, before, after, passed_over, deadline).audit()
}

fn said(audited: &Audit) -> Vec<String> {
    let line = |finding: &Finding| format!("{:?} {}", finding.what, finding.path.0.display());
    audited.findings.iter().map(line).collect()
}

/// Makes everything that counts as a finding, and as many things that do not.
const DEEDS: &str = "
    echo '#!/bin/sh' > new-script; chmod +x new-script plain; chmod -x was-executable; echo y > was-changed
    cp /bin/true setid; chmod 4755 setid; mkfifo pipe
    ln -s /etc/passwd out; ln -s ../../etc out-2; ln -s sub/file in; ln -s sub/../plain in-2
    mkdir -p .github/workflows .vscode sub/.husky .git/hooks ignored/deep
    echo x > .github/workflows/ci.yml; echo x > .vscode/tasks.json; echo x > .envrc; echo x > .mcp.json
    echo x > team.code-workspace; echo x > sub/.husky/pre-commit; echo x > .git/hooks/post-merge
    echo x > .gitattributes; echo x > Makefile; git init -q sub/clone; mkfifo ignored/deep/pipe; echo x > ignored/script
    chmod +x ignored/script; rm gone; rm -f .travis.yml";

const EXPECTED: [&str; 17] = [
    "SetId setid",
    "Fifo ignored/deep/pipe",
    "Fifo pipe",
    "LinkOut out",
    "LinkOut out-2",
    "Hook .git/hooks/post-merge",
    "Hook sub/.husky/pre-commit",
    "GitConfig .gitattributes",
    "Repository sub/clone/.git",
    "Ci .github/workflows/ci.yml",
    "Editor .vscode/tasks.json",
    "Editor team.code-workspace",
    "Environment .envrc",
    "AgentConfig .mcp.json",
    "Executable new-script",
    "Executable plain",
    "Executable setid",
];

fn prepared() -> TestTree {
    let tree = TestTree::new();
    tree.git("init -q");
    tree.write(".gitignore", "ignored/\n");
    for file in [
        "plain",
        "was-changed",
        "was-executable",
        "gone",
        "sub/file",
        ".travis.yml",
        ".cursor/rules/a",
    ] {
        tree.write(file, "x");
    }
    tree.shell("chmod +x was-executable was-changed; mkdir ignored; mkfifo ignored/old-pipe");
    tree.link("/usr", "old-link");
    tree
}

#[test]
fn the_audit_lists_the_gravest_findings_first() {
    let tree = prepared();
    let run = run();
    let mut before = tree.save(&SnapshotName::before(run)).snapshot;
    // File system clocks tick slowly, so files from the beginning must be older than the clock.
    before.began_ns = now_ns_after_a_tick(&tree);
    tree.shell(DEEDS);
    let after = tree.save(&SnapshotName::after(run));
    let audited =
        audited(&tree.workspace(), &before, &after.snapshot, &after.passed_over, in_an_hour());
    assert_eq!(said(&audited), EXPECTED);
    assert_eq!((audited.more, audited.incomplete), (0, None));
    assert_eq!(audited.findings[3].target, Some("/etc/passwd".into()));
}

/// Runs the audit for everything since `before`.
fn audited_since(tree: &TestTree, deeds: &str) -> Vec<String> {
    let run = run();
    let mut before = tree.save(&SnapshotName::before(run)).snapshot;
    before.began_ns = now_ns_after_a_tick(tree);
    tree.shell(deeds);
    let history = tree.history();
    let scope = crate::Scope::LookAs(&before);
    let after = history.save(&SnapshotName::after(run), scope, &[], AMPLE).unwrap();
    let audited =
        audited(&tree.workspace(), &before, &after.snapshot, &after.passed_over, in_an_hour());
    assert_eq!(audited.incomplete, None);
    said(&audited)
}

#[test]
fn ignored_files_that_programs_obey_are_findings() {
    let tree = TestTree::new();
    tree.git("init -q");
    tree.write(
        ".gitignore",
        ".vscode/\n.envrc\n.idea\n.claude/\n*.code-workspace\nbuild/\nnode_modules/\nlink\n*.o\n",
    );
    tree.write("build/old/file", "x");
    tree.git("init -q build/known");
    tree.write(".idea/old.xml", "x");
    tree.link("/", "build/old-link");
    let deeds = "
        mkdir .vscode .claude; echo x > .vscode/tasks.json; echo x > .claude/settings.json; echo x > .envrc
        echo x > .idea/new.xml; echo x > a.code-workspace; ln -s / build/out; ln -s ../plain build/in; ln -s / link
        git init -q build/fresh; git init -q --bare build/bare; echo x > a.o; cp /bin/true setid.o; chmod 4755 setid.o
        mkdir -p node_modules/x/.vscode; echo x > node_modules/x/.vscode/settings.json; echo x > node_modules/x/.npmrc
        cd build/known; echo x > f; git add f; git -c user.name=a -c user.email=a@b commit -qm one
        echo evil > .git/hooks/post-commit";
    assert_eq!(
        audited_since(&tree, deeds),
        [
            "SetId setid.o",
            "LinkOut build/out",
            "LinkOut link",
            "Hook build/known/.git/hooks/post-commit",
            "Repository build/bare",
            "Repository build/fresh/.git",
            "Editor .idea/new.xml",
            "Editor .vscode/tasks.json",
            "Editor a.code-workspace",
            "Environment .envrc",
            "AgentConfig .claude/settings.json",
        ]
    );
}

#[test]
fn files_that_git_obeys_are_findings_wherever_they_are() {
    let tree = TestTree::new();
    tree.git("init -q");
    tree.git("init -q inner");
    for name in ["HEAD", "config", "hooks/x.sample"] {
        tree.write(&format!(".git/modules/deep/lib/{name}"), "");
        tree.write(&format!(".git/worktrees/other/{name}"), "");
    }
    let deeds = "
        echo x > .git/info/attributes; echo x > .git/commondir; echo x > .git/modules/deep/lib/config
        echo x > .git/modules/deep/lib/hooks/post-checkout; echo x > .git/worktrees/other/commondir
        echo x > inner/.git/config; mkdir -p objects refs plain/objects; echo x > HEAD; rm .git/commondir; echo . > .git/commondir
        mkdir -p bare/objects bare/refs; echo x > bare/HEAD";
    assert_eq!(
        audited_since(&tree, deeds),
        [
            "Hook .git/modules/deep/lib/hooks/post-checkout",
            "GitConfig .git/commondir",
            "GitConfig .git/info/attributes",
            "GitConfig .git/modules/deep/lib/config",
            "GitConfig .git/worktrees/other/commondir",
            "GitConfig inner/.git/config",
            "Repository HEAD",
            "Repository bare",
        ]
    );
}

#[test]
fn the_audit_checks_the_main_repository_of_a_linked_worktree() {
    let tree = TestTree::new();
    tree.shell(
        "git init -q ../main; cd ../main; rm -rf .git/hooks; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one
         rmdir ../workspace; git worktree add -q ../workspace",
    );
    let deeds = "cd ../main/.git; mkdir hooks; echo x > hooks/post-commit; echo x > worktrees/workspace/config.worktree";
    let main = tree.workspace().with_file_name("main").display().to_string();
    assert_eq!(
        audited_since(&tree, deeds),
        [
            format!("Hook {main}/.git/hooks/post-commit"),
            format!("GitConfig {main}/.git/worktrees/workspace/config.worktree"),
        ]
    );
}

#[test]
fn the_audit_needs_no_contents() {
    let tree = prepared();
    let (run, history) = (run(), tree.history());
    let mut before = history.look(&SnapshotName::before(run), &[], AMPLE).unwrap().snapshot;
    before.began_ns = now_ns_after_a_tick(&tree);
    tree.shell(DEEDS);
    let after = history.look(&SnapshotName::after(run), &[], AMPLE).unwrap();
    let audited =
        audited(&tree.workspace(), &before, &after.snapshot, &after.passed_over, in_an_hour());
    assert_eq!(said(&audited), EXPECTED);
    let counts = audited.changes.unwrap();
    assert_eq!((counts.added, counts.changed, counts.removed), (15, 3, 2));
}

/// Changes a file until its ctime moves, and returns that time.
fn now_ns_after_a_tick(tree: &TestTree) -> i64 {
    use std::os::unix::fs::MetadataExt;
    let probe = tree.workspace().with_extension("probe");
    let changed = || {
        std::fs::write(&probe, "x").unwrap();
        let metadata = std::fs::metadata(&probe).unwrap();
        metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec()
    };
    let first = changed();
    std::iter::repeat_with(changed).find(|now| *now > first).unwrap()
}

#[test]
fn a_flood_of_findings_is_counted_and_cut() {
    let tree = TestTree::new();
    let run = run();
    let before = tree.save(&SnapshotName::before(run)).snapshot;
    tree.shell("for n in $(seq 100); do echo x > s$n; chmod +x s$n; done; mkfifo pipe");
    let after = tree.save(&SnapshotName::after(run)).snapshot;
    let audited = audited(&tree.workspace(), &before, &after, &[], in_an_hour());
    assert_eq!((audited.findings.len(), audited.more), (21, 80));
    assert_eq!(audited.findings[0].what, FindingKind::Fifo);
}

#[test]
fn an_audit_without_enough_time_says_so() {
    let tree = TestTree::new();
    tree.write(".gitignore", "ignored\n");
    tree.write("ignored/x", "x");
    let saved = tree.save(&SnapshotName::before(run()));
    let past = Instant::now() - Duration::from_secs(1);
    let audited =
        audited(&tree.workspace(), &saved.snapshot, &saved.snapshot, &saved.passed_over, past);
    assert!(audited.incomplete.is_some_and(|why| why.contains("ignored")));
}

#[test]
fn the_text_of_a_link_decides_whether_it_leaves_the_workspace() {
    let workspace = Path::new("/w/s");
    for (link, target, is_out) in [
        ("a", "b", false),
        ("d/a", "../b", false),
        ("d/a", "../../b", true),
        ("a", "/w/s/b", false),
        ("a", "/w/s/../x", true),
        ("a", "/w/sb", true),
        ("a", "../s/b", true),
        ("a", "/", true),
    ] {
        assert_eq!(
            leaves(workspace, &link.into(), Path::new(target)),
            is_out,
            "{link} -> {target}"
        );
    }
}
