//! Git inside the sandbox has the user's settings: a commit there equals the commit that the user would make.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use pretty_assertions::assert_eq;

use crate::stage::repository::git;
use crate::stage::{Stage, assert_exit, stderr};

/// A stand-in for git-lfs: `clean` turns a file into a pointer.
const LFS: &str = "#!/bin/sh\n[ \"$1\" = clean ] && { cat > /dev/null; echo pointer; } || cat\n";
/// Makes files that git handles correctly only with the right settings, and commits them.
const COMMIT: &str = "printf 'one\\r\\n' > text && echo big > large.bin && echo x > x.local && echo y > y.tmp && git add -A && git commit -qm two";

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn stage_with_settings() -> Stage {
    let stage = Stage::new();
    let home = stage.home();
    let (workspace, tools) = (stage.workspace(), stage.root().join("tools"));
    git(&workspace, &["init", "-q", "-b", "main"]);
    git(&workspace, &["commit", "-q", "--allow-empty", "-m", "one"]);
    write(
        &home.join(".gitconfig"),
        "[user]\n\tname = Home\n\temail = home@example.org\n[includeIf \"gitdir:~/project/\"]\n\tpath = work.inc\n\
         [core]\n\texcludesFile = ~/rules/mine\n\tattributesFile = ~/rules/attributes\n\
         [filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\tsmudge = git-lfs smudge -- %f\n\trequired = true\n\
         [commit]\n\tgpgsign = true\n[gpg]\n\tprogram = /nowhere/gpg\n",
    );
    write(
        &home.join("work.inc"),
        "[user]\n\tname = Ada\n\temail = ada@example.org\n[committer]\n\tname = Committer\n[core]\n\tautocrlf = input\n\tsafecrlf = false\n",
    );
    write(&home.join("rules/mine"), "*.local");
    write(&home.join("rules/attributes"), "*.bin filter=lfs -text\n");
    write(&tools.join("git-lfs"), LFS);
    fs::set_permissions(tools.join("git-lfs"), fs::Permissions::from_mode(0o755)).unwrap();
    stage
}

/// The last commit without its times.
fn last_commit(workspace: &Path) -> String {
    git(workspace, &["log", "-1", "--format=%T %an <%ae> %cn <%ce> %G? %s"])
}

#[test]
fn a_commit_made_inside_has_the_same_tree_author_and_committer_as_one_made_outside() {
    let stage = stage_with_settings();
    let (workspace, tools) = (stage.workspace(), stage.root().join("tools"));
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", tools.display());

    // Outside the sandbox, without signing, because no test machine has a key.
    let outside = Command::new("sh")
        .args(["-c", &COMMIT.replace("git commit", "git -c commit.gpgsign=false commit")])
        .env_clear()
        .env("HOME", stage.home())
        .env("PATH", &path)
        .current_dir(&workspace)
        .output()
        .unwrap();
    assert!(outside.status.success(), "{}", stderr(&outside));
    let expected = last_commit(&workspace);
    let names = git(&workspace, &["ls-tree", "--name-only", "HEAD"]);
    assert_eq!(names, "large.bin\ntext\ny.tmp\n");
    assert_eq!(git(&workspace, &["show", "HEAD:large.bin"]), "pointer\n");
    git(&workspace, &["reset", "-q", "--hard", "HEAD~"]);

    let script = format!("Play this:\n```agent\nshell {COMMIT}\n```\n");
    let tools = tools.to_str().unwrap();
    let args = ["run", "--agent", "simulated", "--expose", tools, &script];
    let inside = stage.caretaker(&args).env("PATH", &path).output().unwrap();
    assert_exit(&inside, 0);
    assert_eq!(last_commit(&workspace), expected, "{}", stderr(&inside));
    assert_eq!(
        expected.split_once(' ').unwrap().1,
        "Ada <ada@example.org> Committer <ada@example.org> N two\n"
    );
    let said = stderr(&inside);
    assert_eq!(said.matches("are not signed").count(), 1, "{said}");
}
