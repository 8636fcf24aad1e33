//! Git works inside, but the agent cannot change files that git on the host would execute.

use std::fs;
use std::path::Path;
use std::process::Command;

use pretty_assertions::assert_eq;

use crate::launch::sandboxes_work;
use crate::scene::Scene;

const GIT_CONFIG: &str = "[user]\n\tname = Ada\n\temail = ada@example.org\n";

/// Ways to make git on the host execute a file. Prints those that succeed.
const ATTACKS: &str = r#"
try() { name=$1; shift; if "$@" 2>/dev/null; then echo "succeeded: $name"; fi; }
hook() { echo 'touch /tmp/pwned' > "$git/hooks/pre-commit"; }
config() { echo '[core]' >> "$git/config"; }
attributes() { echo '* filter=evil' > "$git/info/attributes"; }
try hook hook
try config config
try attributes attributes
try git-config git config core.fsmonitor evil
try rename-hooks mv "$git/hooks" "$git/old-hooks"
try rename-info mv "$git/info" "$git/old-info"
try rename-git mv "$git" "$git.old"
try rename-dot-git mv .git .old
# A common directory of its own, with a configuration of its own.
common_dir() { mkdir -p b/c && printf '[core]\nfsmonitor = touch /tmp/pwned\n' > b/c/config && echo ../b/c > "$git/commondir"; }
try common-dir common_dir
try rename-common-dir mv "$git/commondir" "$git/old-commondir"
try remove-common-dir rm "$git/commondir"
rm -rf b
"#;

pub(crate) fn git(directory: &Path, home: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).args(arguments).env("HOME", home).env_remove("GIT_DIR");
    let output = command.output().expect("git is installed where these tests run");
    assert!(output.status.success(), "{arguments:?} {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn repository(workspace: &str) -> Scene {
    let mut scene = Scene::new(workspace);
    scene.write(&scene.home().join(".gitconfig"), GIT_CONFIG);
    scene.private_file(".gitconfig", GIT_CONFIG, 0o644);
    let (workspace, home) = (scene.workspace(), scene.home());
    git(workspace, home, &["init", "--quiet", "--initial-branch=main", "."]);
    scene.write(&workspace.join("file"), "one\n");
    scene.write(&workspace.join(".git/info/attributes"), "");
    // A git template may have no hooks, and a missing directory is not protected.
    fs::create_dir_all(workspace.join(".git/hooks")).unwrap();
    git(workspace, home, &["add", "file"]);
    git(workspace, home, &["commit", "--quiet", "--message=first"]);
    scene
}

#[test]
fn commits_work_while_hooks_and_configuration_cannot_be_changed() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = repository("project");
    let config = fs::read(scene.in_workspace(".git/config")).unwrap();
    let script = format!(
        "set -e; echo two >> file; git commit --quiet --all --message=second; git status --short
         git checkout --quiet -b other; git gc --quiet; git stash list; set +e; git=.git; {ATTACKS}"
    );
    assert_eq!(scene.run(&script), "?? .cursor/\n");
    assert_eq!(fs::read(scene.in_workspace(".git/config")).unwrap(), config);
    let log = git(scene.workspace(), scene.home(), &["log", "--format=%an %s", "other"]);
    assert_eq!(log, "Ada second\nAda first\n");
    assert!(!scene.in_workspace(".git/commondir").exists());
}

#[test]
fn git_on_the_host_works_while_a_run_has_its_common_dir_in_the_repository() {
    let mut scene = repository("project");
    scene.program(&["/bin/true"]);
    let plan = scene.plan();
    scene.prepare(&plan);
    assert_eq!(fs::read_to_string(scene.in_workspace(".git/commondir")).unwrap(), ".\n");
    let (workspace, home) = (scene.workspace(), scene.home());
    assert_eq!(git(workspace, home, &["status", "--short", "--untracked-files=no"]), "");
    scene.write(&workspace.join("file"), "two\n");
    git(workspace, home, &["commit", "--quiet", "--all", "--message=second"]);
    git(workspace, home, &["worktree", "add", "--quiet", "../tree"]);
    git(workspace, home, &["gc", "--quiet"]);
    assert_eq!(git(workspace, home, &["log", "--format=%s"]), "second\nfirst\n");
    assert_eq!(git(&workspace.join("../tree"), home, &["status", "--short"]), "");

    // A killed run left its placeholder, so the next plan creates none. It refuses a file that leads elsewhere.
    let again = scene.plan();
    assert!(again.mount_points_to_create().paths().all(|path| !path.ends_with("commondir")));
    let common_dir = workspace.join(".git/commondir");
    fs::remove_file(&common_dir).unwrap();
    scene.write(&common_dir, "../elsewhere\n");
    let refused = sandbox_plan::plan(&scene.request).unwrap_err().to_string();
    assert!(refused.contains("commondir` says that the repository is elsewhere"), "{refused}");
}

#[test]
fn a_linked_worktree_works_and_its_repository_is_protected() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = repository("main");
    let main = scene.workspace().to_owned();
    let worktree = scene.home().join("trees/feature");
    let path = worktree.to_str().unwrap();
    let git_dir = main.join(".git").display().to_string();
    git(&main, scene.home(), &["worktree", "add", "--quiet", "-b", "feature", path]);
    scene.request.workspace = worktree.clone();
    let script = format!(
        r#"set -e; echo two >> file; git commit --quiet --all --message=second; git status --short; set +e
        git={git_dir}; {ATTACKS}
        own=$(git rev-parse --git-dir)
        pointer() {{ echo 'gitdir: /elsewhere' > .git; }}
        common() {{ echo /elsewhere > "$own/commondir"; }}
        try pointer pointer; try common common
        try rename-own mv "$own" "$own.old"; try rename-worktrees mv "$git/worktrees" "$git/old"
        ls "$(dirname "$git")"; "#
    );
    // Only `.git` of the main working tree is visible.
    assert_eq!(scene.run(&script), "?? .cursor/\n");
    let log = git(&worktree, scene.home(), &["log", "--format=%s", "feature"]);
    assert_eq!(log, "second\nfirst\n");
}

#[test]
fn a_git_file_that_names_another_repository_does_not_show_that_repository() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = repository("victim");
    let victim = scene.workspace().to_owned();
    scene.request.workspace = scene.home().join("hostile");
    let git_file = format!("gitdir: {}\n", victim.join(".git").display());
    scene.write(&scene.in_workspace(".git"), &git_file);
    let shown = scene.run(&format!("ls {}; git status 2>&1 | head -c 5; true", victim.display()));
    assert_eq!(shown, "fatal");
}

#[test]
fn existing_configuration_that_other_programs_obey_is_read_only() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    for file in [".vscode/tasks.json", ".envrc", ".claude/settings.json", "src/main.rs"] {
        scene.write(&scene.in_workspace(file), "before\n");
    }
    let seen = scene.run(
        "for f in .vscode/tasks.json .envrc .claude/settings.json src/main.rs; do
             echo after 2>/dev/null > $f && echo wrote $f; mv $f $f.old 2>/dev/null && echo moved $f
         done 2>/dev/null; mv .vscode .v 2>/dev/null || echo pinned",
    );
    assert_eq!(seen, "wrote src/main.rs\nmoved src/main.rs\npinned\n");
    assert_eq!(fs::read_to_string(scene.in_workspace(".envrc")).unwrap(), "before\n");
}

const BLOCKING: &str = "extends = \"default\"\n[workspace]\nmissing = \"blocked\"\n";

#[test]
fn blocked_names_cannot_be_created_and_nothing_stays() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::with_profile("project", BLOCKING);
    scene.private_file(".config/git/ignore", "/.cursor/mcp.json\n", 0o600);
    fs::create_dir(scene.in_workspace(".idea")).unwrap();
    let seen = scene.run(
        "for d in .vscode .claude .idea .git; do mkdir -p $d/x 2>/dev/null && echo made $d; mv $d y 2>/dev/null && echo moved $d; done
         for f in .mcp.json .envrc .cursorignore .gitmodules; do
             (echo evil > $f) 2>/dev/null && echo wrote $f; rm -f $f 2>/dev/null && echo removed $f; cat $f
         done
         git init -q . 2>/dev/null && echo a repository
         cat ~/.config/git/ignore | tr '\\n' ' '; echo hello > file",
    );
    assert_eq!(
        seen,
        "/.cursor/mcp.json /.git /.vscode /.claude /.mcp.json /.cursorignore /.gitmodules /.envrc "
    );
    let mut left: Vec<_> = fs::read_dir(scene.workspace())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, [".idea", "file"]);
}

#[test]
fn files_that_git_executes_are_blocked_in_a_writable_repository_too() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::with_profile("project", BLOCKING);
    let output = std::process::Command::new("git")
        .args(["init", "-q"])
        .arg(scene.workspace())
        .output()
        .unwrap();
    assert!(output.status.success());
    fs::remove_dir_all(scene.in_workspace(".git/hooks")).unwrap();
    fs::remove_dir_all(scene.in_workspace(".git/info")).unwrap();
    let seen = scene.run(
        "cd .git; mkdir hooks 2>/dev/null && echo made; (echo '#!/bin/sh' > hooks/pre-commit) 2>/dev/null && echo hook
         mkdir -p info && (echo '* filter=x' > info/attributes) 2>/dev/null && echo attributes
         (echo x > config.worktree) 2>/dev/null && echo config.worktree
         cd ..; echo 1 > file; git -c safe.directory='*' -c user.name=a -c user.email=a@b add file && git -c safe.directory='*' -c user.name=a -c user.email=a@b commit -qm one && echo committed",
    );
    assert_eq!(seen, "committed\n");
    assert!(!scene.in_workspace(".git/hooks").exists());
    assert!(!scene.in_workspace(".git/info").exists());
    assert!(!scene.in_workspace(".git/config.worktree").exists());
}

#[test]
fn names_that_fit_a_star_are_read_only_and_too_many_of_them_are_refused() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    fs::write(scene.in_workspace("a.code-workspace"), "mine").unwrap();
    let script =
        "(echo evil > a.code-workspace) 2>/dev/null || echo held; echo new > b.code-workspace";
    assert_eq!(scene.run(script), "held\n");
    for number in 0..40 {
        fs::write(scene.in_workspace(&format!("{number}.code-workspace")), "").unwrap();
    }
    let refused = sandbox_plan::plan(&scene.request).unwrap_err().to_string();
    assert!(refused.contains("match `*.code-workspace`"), "{refused}");
}

#[test]
fn a_fifo_with_a_protected_name_is_refused_and_a_hard_link_gets_a_warning() {
    let mut scene = Scene::new("project");
    scene.program(&["/bin/true"]);
    scene.write(&scene.in_workspace(".envrc"), "");
    assert_eq!(scene.plan().warnings().iter().filter(|one| is_hard_linked(one)).count(), 0);
    fs::hard_link(scene.in_workspace(".envrc"), scene.in_workspace("other")).unwrap();
    assert_eq!(scene.plan().warnings().iter().filter(|one| is_hard_linked(one)).count(), 1);
    fs::remove_file(scene.in_workspace(".envrc")).unwrap();
    let made = Command::new("mkfifo").arg(scene.in_workspace(".envrc")).status().unwrap();
    assert!(made.success());
    let refused = sandbox_plan::plan(&scene.request).unwrap_err().to_string();
    assert!(refused.contains(".envrc` is a FIFO"), "{refused}");
}

fn is_hard_linked(warning: &sandbox_plan::PlanWarning) -> bool {
    warning.to_string().contains(".envrc` has another name")
}

#[test]
fn strict_refuses_root() {
    let (name, text) = sandbox_plan::builtin_profiles()[2];
    let mut scene = Scene::new("project");
    scene.request.profile = sandbox_plan::Profile::parse(name, text).unwrap();
    scene.program(&["/bin/true"]);
    scene.request.user.uid = 0;
    let refused = sandbox_plan::plan(&scene.request).unwrap_err().to_string();
    assert_eq!(refused, "the profile `strict` refuses root");
}
