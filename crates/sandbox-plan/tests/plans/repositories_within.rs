//! Git on the host also obeys submodules, other worktrees, repositories inside the workspace, and files that a configuration
//! names. The agent can change none of them, and commits still work.

use std::fs;
use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;

use crate::launch::sandboxes_work;
use crate::repository::{git, repository};
use crate::scene::Scene;

/// Attempts to change the git directory `$1`. Prints those that succeed.
const TRIES: &str = r#"
try() { name=$1; shift; if "$@" 2>/dev/null; then echo "succeeded: $name"; fi; }
put() { echo "$2" > "$1"; }
move() { mv "$1" "$1.old"; }
at() {
    try "$1 config" put "$1/config" '[core] fsmonitor = evil'
    try "$1 hook" put "$1/hooks/post-commit" 'evil'
    try "$1 hooks" mkdir "$1/hooks"
    try "$1 commondir" put "$1/commondir" ../evil
    try "$1 move-config" move "$1/config"
    try "$1 move-hooks" move "$1/hooks"
    try "$1 move" move "$1"
}
commit() { echo more >> file && git add file && git commit --quiet --message="$1"; }
"#;

/// Checks that no placeholder is left in a repository after a run.
fn assert_nothing_stays(scene: &Scene, git_dirs: &[&str]) {
    for git_dir in git_dirs {
        assert!(!scene.in_workspace(git_dir).join("commondir").exists(), "{git_dir}");
        let worktrees = fs::read_dir(scene.in_workspace(git_dir).join("worktrees"));
        assert!(worktrees.is_err() || worktrees.unwrap().count() > 0, "{git_dir}");
    }
}

#[test]
fn submodules_and_other_worktrees_are_protected_and_commits_work_in_submodules() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = repository("project");
    let (workspace, home) = (scene.workspace().to_owned(), scene.home().to_owned());
    let library = home.join("library");
    fs::create_dir(&library).unwrap();
    git(&library, &home, &["init", "--quiet"]);
    git(&library, &home, &["commit", "--quiet", "--allow-empty", "--message=one"]);
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add"];
    let words = [&add[..], &["--name", "deep/lib", library.to_str().unwrap(), "lib"]].concat();
    git(&workspace, &home, &words);
    git(&workspace, &home, &["commit", "--quiet", "--message=with a submodule"]);
    git(&workspace, &home, &["worktree", "add", "--quiet", "../other"]);
    fs::remove_dir_all(workspace.join(".git/modules/deep/lib/hooks")).ok();

    let seen = scene.run(&format!(
        "{TRIES}
         at .git/modules/deep/lib
         try modules move .git/modules; try deep move .git/modules/deep; try new mkdir .git/modules/new
         try lib move lib; try pointer put lib/.git 'gitdir: ../evil'; try move-pointer move lib/.git
         try other put .git/worktrees/other/commondir ../../../evil; try worktrees move .git/worktrees
         try prune rm -r .git/worktrees/other
         set -e; cd lib; commit inside; cd ..; git add lib; commit outside; git status --short"
    ));
    assert_eq!(seen, "?? .cursor/\n");
    assert_eq!(git(&workspace.join("lib"), &home, &["log", "--format=%s"]), "inside\none\n");
    assert_eq!(git(&workspace, &home, &["status", "--short"]), "");
    assert_nothing_stays(&scene, &[".git", ".git/modules/deep/lib"]);
}

#[test]
fn repositories_within_are_protected_and_commits_work_in_them() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = repository("project");
    let (workspace, home) = (scene.workspace().to_owned(), scene.home().to_owned());
    git(&workspace, &home, &["init", "--quiet", "vendor/inner"]);
    git(&workspace, &home, &["init", "--quiet", "--bare", "store"]);
    fs::create_dir(workspace.join("kept")).unwrap();
    git(&workspace, &home, &["init", "--quiet", "--separate-git-dir=kept/apart", "apart"]);
    // Some tools make such repositories. bubblewrap cannot mount over a link.
    git(&workspace, &home, &["init", "--quiet", "linked"]);
    fs::remove_dir_all(workspace.join("linked/.git/hooks")).ok();
    symlink("../../vendor", workspace.join("linked/.git/hooks")).unwrap();

    let seen = scene.run(&format!(
        "{TRIES}
         at vendor/inner/.git; at store; at kept/apart
         try worktree mkdir -p .git/worktrees/x; try worktree-within mkdir -p vendor/inner/.git/worktrees/x
         try vendor move vendor; try inner move vendor/inner; try pointer put apart/.git 'gitdir: ../evil'
         try link ln -sfn ../evil linked/.git/hooks; try linked move linked; try config put linked/.git/config evil
         set -e; cd vendor/inner; commit one; cd ../../apart; commit one; cd ..; echo free > vendor/file"
    ));
    assert_eq!(seen, "");
    for directory in ["vendor/inner", "apart"] {
        assert_eq!(git(&workspace.join(directory), &home, &["log", "--format=%s"]), "one\n");
    }
    let warnings: Vec<String> = scene.plan().warnings().iter().map(ToString::to_string).collect();
    let linked = format!("git cannot commit in `{}`", workspace.join("linked/.git").display());
    assert!(warnings.iter().any(|warning| warning.starts_with(&linked)), "{warnings:?}");
    assert_nothing_stays(&scene, &["vendor/inner/.git", "store", "kept/apart", "linked/.git"]);
}

#[test]
fn workspace_paths_that_a_git_configuration_names_cannot_be_changed_or_created() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = repository("project");
    let (workspace, home) = (scene.workspace().to_owned(), scene.home().to_owned());
    for (name, value) in [
        ("core.hooksPath", ".husky/_"),
        ("include.path", "../team/gitconfig"),
        ("includeIf.onbranch:x.path", "../missing"),
        ("filter.mine.clean", "sh tools/clean.sh"),
    ] {
        git(&workspace, &home, &["config", name, value]);
    }
    scene.write(
        &home.join(".gitconfig"),
        "[core]\n\tattributesFile = x\n[include]\n\tpath = x/../project/of-user\n",
    );
    let files =
        [".husky/_/h", ".husky/pre-commit", "team/gitconfig", "team/more", "tools/clean.sh"];
    for file in files {
        let text = if file.ends_with("gitconfig") { "[include]\n\tpath = more\n" } else { "" };
        scene.write(&workspace.join(file), text);
    }
    let seen = scene.run(&format!(
        "{TRIES}
         for file in {}; do try $file put $file evil; try move-$file move $file; done
         try team move team; try husky move .husky; try hook put .husky/commit-msg evil
         try missing put missing evil; try of-user put of-user evil
         echo free > team/other; echo free > tools/other",
        files.join(" ")
    ));
    assert_eq!(seen, "");
    assert!(workspace.join("team/other").exists() && !workspace.join("missing").exists());
}

#[test]
fn in_a_linked_worktree_the_users_own_checkout_cannot_be_touched() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = repository("main");
    let (main, home) = (scene.workspace().to_owned(), scene.home().to_owned());
    let tree = home.join("trees/feature");
    git(&main, &home, &["branch", "precious"]);
    git(&main, &home, &["pack-refs", "--all"]);
    git(&main, &home, &["worktree", "add", "--quiet", "-b", "feature", tree.to_str().unwrap()]);
    git(&main, &home, &["worktree", "add", "--quiet", home.join("trees/other").to_str().unwrap()]);
    git(&main, &home, &["config", "extensions.worktreeConfig", "true"]);
    fs::remove_dir_all(main.join(".git/hooks")).unwrap();
    scene.request.workspace = tree.clone();
    let seen = scene.run(&format!(
        "{TRIES}
         common={}/.git; own=$(git rev-parse --git-dir)
         for name in index HEAD hooks/post-commit config commondir packed-refs worktrees/other/commondir; do
             try $name put $common/$name evil
         done
         try hooks mkdir $common/hooks; try delete git branch --quiet -D precious
         try own-config put $own/config.worktree '[core] fsmonitor = evil'; try own-common put $own/commondir evil
         set -e; git -c gc.auto=1 -c gc.autoDetach=false commit --quiet --allow-empty --message=one 2> /dev/null
         commit two; git branch made; git tag made; git stash list; git checkout --quiet -b third; git status --short",
        main.display()
    ));
    assert_eq!(seen, "?? .cursor/\n");
    assert_eq!(git(&main, &home, &["log", "--format=%s", "feature"]), "two\none\nfirst\n");
    assert_eq!(git(&main, &home, &["status", "--short"]), "");
    git(&main, &home, &["rev-parse", "--verify", "precious"]);
}

/// Prints all errors and notes that git writes to stderr, collected in a file.
const QUIET: &str = r#"set -e; exec 2> .git-said
    echo a > a; git add a; git commit --quiet --message=a; git checkout --quiet -b side
    echo b > b; git add b; git commit --quiet --message=b; git checkout --quiet feature
    echo c > c; git add c; git commit --quiet --message=c; git merge --quiet --message=m side
    git checkout --quiet -b top HEAD~1; echo d > d; git add d; git commit --quiet --message=d; git rebase --quiet feature
    git reset --quiet --hard HEAD~1; echo e >> a; git stash push --quiet; git stash pop --quiet; git checkout --quiet a
    git branch --quiet gone; git update-ref -d refs/heads/gone; git fsck --no-progress --no-dangling; git log -1 --format=%s
    exec 2>&1; cat .git-said; rm .git-said"#;

#[test]
fn git_in_a_linked_worktree_says_nothing_and_cannot_pack_the_repositorys_refs() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = repository("main");
    let (main, home) = (scene.workspace().to_owned(), scene.home().to_owned());
    let tree = home.join("trees/feature");
    git(&main, &home, &["branch", "packed"]);
    git(&main, &home, &["pack-refs", "--all"]);
    git(&main, &home, &["branch", "loose"]);
    git(&main, &home, &["worktree", "add", "--quiet", "-b", "feature", tree.to_str().unwrap()]);
    scene.request.workspace = tree.clone();
    assert_eq!(scene.run(QUIET), "m\n");
    let refs = || git(&main, &home, &["for-each-ref"]);
    let packed = || fs::read_to_string(main.join(".git/packed-refs")).unwrap();
    let before = (refs(), packed());
    // A packed ref cannot be deleted, nor a loose one packed. Links that the agent changes mislead only the agent.
    let seen = scene.run(
        "for try in 'branch -D packed' 'pack-refs --all' 'pack-refs --all --prune' 'gc --quiet' 'config a.b c'; do
             git $try 2> /dev/null && echo did $try
         done
         cd /run/repository.git; rm 5.new gc.pid.lock 2> /dev/null; mv 5.new x 2> /dev/null; mv ../repository.git ../x 2> /dev/null
         ls 5.new gc.pid.lock; rm config 5; printf '[core]\n\tbare = false\n\tfsmonitor = \"touch /tmp/ran; :\"\n' > config
         cd - > /dev/null; git show-ref packed || echo none; git status --short; ls /tmp/ran",
    );
    assert_eq!(seen, "5.new\ngc.pid.lock\nnone\n?? .cursor/\n/tmp/ran\n");
    assert_eq!((refs(), packed()), before);
    let common = fs::read_to_string(main.join(".git/worktrees/feature/commondir")).unwrap();
    assert_eq!(common, "../..\n", "git on the host never follows the shadow");
    // Git inside sees the refs that the host packs meanwhile.
    let (begun, done) = (tree.join("begun"), tree.join("done"));
    for fifo in [&begun, &done] {
        assert!(std::process::Command::new("mkfifo").arg(fifo).status().unwrap().success());
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            fs::read(&begun).unwrap();
            git(&main, &home, &["pack-refs", "--all", "--prune"]);
            fs::write(&done, "").unwrap();
        });
        let look = "git rev-parse --verify --quiet loose | wc -l";
        assert_eq!(scene.run(&format!("{look}; : > begun; cat done; {look}")), "1\n1\n");
    });
}
