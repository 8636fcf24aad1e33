//! The profile `strict`, tested from inside. It refuses root, so as root the tests become an ordinary user first.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use pretty_assertions::assert_eq;

use crate::stage::{Stage, assert_exit, stderr, wrapped_in};

/// An ordinary user whom root becomes.
pub(crate) const ORDINARY_USER: u32 = 65534;

/// Runs a script as an ordinary user: the current one, or one that root becomes.
fn play(stage: &Stage, script: &str, flags: &[&str]) -> Output {
    let prompt = format!("Play this:\n```agent\n{script}\n```\n");
    let words = [&["run", "--agent", "simulated", &prompt], flags].concat();
    let mut command = stage.caretaker(&words);
    if !rustix::process::getuid().is_root() {
        return command.output().unwrap();
    }
    give_away(&stage.root(), ORDINARY_USER);
    as_user(ORDINARY_USER, &command).output().unwrap()
}

/// Returns the same command as another user. Only root can do this.
pub(crate) fn as_user(uid: u32, command: &Command) -> Command {
    let uid = uid.to_string();
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--reuid", &uid, "--regid", &uid, "--clear-groups"]);
    wrapped_in(setpriv, command)
}

pub(crate) fn give_away(directory: &Path, uid: u32) {
    let status =
        Command::new("chown").args(["-hR", &format!("{uid}:{uid}")]).arg(directory).status();
    assert!(status.unwrap().success());
}

/// Writes a profile that extends `strict`.
pub(crate) fn extend_strict(stage: &Stage, name: &str, more: &str) {
    let profiles = stage.home().join(".config/caretaker/profiles");
    fs::create_dir_all(&profiles).unwrap();
    fs::write(profiles.join(format!("{name}.toml")), format!("extends = \"strict\"\n{more}"))
        .unwrap();
}

fn repository(stage: &Stage) {
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args);
        let output = command.current_dir(stage.workspace()).output().unwrap();
        assert_exit(&output, 0);
    };
    git(&["init", "-q"]);
    fs::write(stage.workspace().join("file"), "1").unwrap();
    git(&["add", "file"]);
    git(&["commit", "-qm", "one"]);
}

#[test]
fn strict_allows_work_on_files_but_not_on_files_that_programs_obey() {
    let stage = Stage::new();
    repository(&stage);
    let script = "\
shell echo 2 > file; git status --short > /tmp/status; cat /tmp/status; git log --oneline | wc -l
shell for d in .vscode .claude .idea .github .devcontainer .husky; do mkdir -p $d/x 2>/dev/null && echo MADE-$d; done; true
shell for f in .mcp.json .envrc .cursorignore .gitmodules .gitlab-ci.yml; do (echo evil > $f) 2>/dev/null && echo WROTE-$f; rm $f 2>/dev/null && echo REMOVED-$f; done; true
shell (echo evil > .git/hooks/pre-commit) 2>/dev/null && echo WROTE-HOOK; git commit -qam two 2>/dev/null && echo COMMITTED; mv .git .old 2>/dev/null && echo MOVED; true
shell cat /proc/net/dev | grep -c : ; ls ~/.cursor/chats/*
say done";
    extend_strict(&stage, "strict-here", "[limits]\nrequired = false\n");
    let output = play(&stage, script, &["--profile", "strict-here"]);
    assert_exit(&output, 0);
    assert_eq!(fs::read_to_string(stage.workspace().join("file")).unwrap(), "2\n");
    let run = stage.run_ids().pop().unwrap();
    let journal = fs::read_to_string(stage.journal_path(&run)).unwrap();
    for word in ["MADE-.", "WROTE-.", "REMOVED-.", "WROTE-HOOK\\n", "COMMITTED\\n", "MOVED\\n"] {
        let printed = format!("\"stdout\":\"{word}");
        assert!(!journal.contains(&printed), "{word}: {journal}");
    }
    let mut left: Vec<String> = fs::read_dir(stage.workspace())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, [".git", "file"]);
}

#[test]
fn strict_runs_with_limits_that_hold_or_not_at_all() {
    let stage = Stage::new();
    let output = play(&stage, "shell touch it-ran\nsay done", &["--profile", "strict"]);
    let said = stderr(&output);
    let has_run = stage.workspace().join("it-ran").exists();
    match output.status.code() {
        Some(0) => {
            assert!(has_run);
            let run = stage.run_ids().pop().unwrap();
            let journal = stage.journal(&run);
            let ready = journal.iter().find(|entry| entry.line["run"]["kind"] == "sandbox_ready");
            assert_ne!(ready.unwrap().line["run"]["limits"]["backend"], "rlimits");
        }
        Some(125) => {
            assert!(!has_run && said.contains("the profile requires enforced limits"), "{said}");
            assert_eq!(stage.run_ids(), Vec::<String>::new());
            // A refused run leaves nothing behind, not even an empty session.
            assert!(!stage.session_dir("x").parent().unwrap().exists());
            assert_eq!(fs::read_dir(stage.workspace()).unwrap().count(), 0);
        }
        code => panic!("{code:?}: {said}"),
    }
}

#[test]
fn strict_is_not_for_root_and_says_what_to_do() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let stage = Stage::new();
    let output = stage.play("say never", &["--profile", "strict"]);
    assert_exit(&output, 2);
    let said = stderr(&output);
    assert!(said.contains("the profile `strict` refuses root") && said.contains("chown"), "{said}");
    assert_eq!(stage.run_ids(), Vec::<String>::new());
}

#[test]
fn a_users_profile_may_extend_strict() {
    let stage = Stage::new();
    let profiles = stage.home().join(".config/caretaker/profiles");
    fs::create_dir_all(&profiles).unwrap();
    let text =
        "extends = \"strict\"\n[caller]\nroot = \"warn\"\n[workspace]\nmissing = \"allowed\"\n";
    fs::write(profiles.join("mine.toml"), text).unwrap();
    let output = stage.play("shell mkdir .vscode\nsay done", &["--profile", "mine"]);
    assert_exit(&output, 0);
    assert!(stage.workspace().join(".vscode").is_dir());
    let explained =
        stage.output(&["sandbox", "explain", "--profile", "mine", "--agent", "simulated"]);
    let text = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(text.contains("strict.toml:") && text.contains("default.toml:"), "{text}");
}

/// Two things stay unprotected: too many repositories, and a second name for a protected file.
#[test]
fn strict_refuses_files_that_it_cannot_protect_and_default_names_them() {
    let many = |stage: &Stage| {
        for number in 0..520 {
            let inner = stage.workspace().join(format!("repositories/{number}"));
            fs::create_dir_all(&inner).unwrap();
            fs::write(inner.join(".git"), "gitdir: nowhere\n").unwrap();
        }
    };
    let hard_link = |stage: &Stage| {
        fs::write(stage.workspace().join(".envrc"), "").unwrap();
        fs::hard_link(stage.workspace().join(".envrc"), stage.workspace().join("other")).unwrap();
    };
    let cases = [
        (many as fn(&Stage), "the search for repositories stopped", "--worktree"),
        (hard_link, "has another name (a hard link)", "replace it with a plain file"),
    ];
    for (furnish, what, hint) in cases {
        let stage = Stage::new();
        furnish(&stage);
        extend_strict(&stage, "strict-here", "[limits]\nrequired = false\n");
        let before = fs::read_dir(stage.workspace()).unwrap().count();
        let output = play(&stage, "shell touch it-ran\nsay done", &["--profile", "strict-here"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("refuses to run while a file stays unprotected"), "{said}");
        assert!(said.contains(what) && said.contains("hint: ") && said.contains(hint), "{said}");
        assert_eq!(fs::read_dir(stage.workspace()).unwrap().count(), before);
        assert_eq!(stage.run_ids(), Vec::<String>::new());

        let output = play(&stage, "shell touch it-ran\nsay done", &[]);
        assert_exit(&output, 0);
        assert!(stage.workspace().join("it-ran").exists());
        let run = stage.run_ids().pop().unwrap();
        let journal = fs::read_to_string(stage.journal_path(&run)).unwrap();
        assert!(journal.contains(what), "{journal}");
    }
}
