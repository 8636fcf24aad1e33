//! Everything that can be wrong with a run request. Each mistake has its own message and exit code, and leaves nothing
//! behind.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use nix::sys::stat::Mode;
use nix::unistd::{Uid, chown, geteuid, mkfifo};
use pretty_assertions::assert_eq;

use crate::scene::{Answer, Scene};

/// Checks that the run is refused with this exit code and message, and that it leaves no files behind.
#[track_caller]
fn refused_in(scene: &Scene, args: &[&OsStr], code: i32, words: &str) {
    let before = scene.inventory();
    let answer = scene.caretaker(args);
    assert_refusal(&answer, code, words);
    assert_eq!(scene.inventory(), before, "something was left behind");
}

#[track_caller]
fn assert_refusal(answer: &Answer, code: i32, words: &str) {
    let stderr = answer.stderr();
    assert!(stderr.contains(words), "`{words}` is not in:\n{stderr}");
    assert_eq!((answer.code(), answer.stdout()), (code, ""), "{stderr}");
    assert!(stderr.starts_with("error: "), "{stderr}");
}

/// Checks that `run --agent simulated "x"` with more arguments is refused.
#[track_caller]
fn refused_with(scene: &Scene, more: &[&str], code: i32, words: &str) {
    let mut args: Vec<&OsStr> = ["run", "--agent", "simulated", "x"].map(OsStr::new).to_vec();
    args.extend(more.iter().map(OsStr::new));
    refused_in(scene, &args, code, words);
}

#[track_caller]
fn refused_workspace(scene: &Scene, workspace: &Path, code: i32, words: &str) {
    let args = ["run", "--agent", "simulated", "x", "--workspace"].map(OsStr::new);
    refused_in(scene, &[&args[..], &[workspace.as_os_str()]].concat(), code, words);
}

#[test]
fn an_empty_or_invalid_prompt() {
    let scene = Scene::new();
    let run = ["run", "--agent", "simulated"];
    assert_refusal(&scene.caretaker(run), 2, "the prompt is empty");
    for (input, words) in [
        (&b" \n"[..], "the prompt is empty"),
        (b"a\0b", "NUL character, at byte 1"),
        (b"caf\xe9", "not UTF-8, from byte 3"),
    ] {
        assert_refusal(&scene.caretaker_reading(&run, input), 2, words);
    }
    let missing = scene.path("no such prompt");
    let args = ["run", "--agent", "simulated", "-f"].map(OsStr::new);
    refused_in(&scene, &[&args[..], &[missing.as_os_str()]].concat(), 3, "no such prompt");
}

#[test]
fn a_prompt_in_two_places() {
    let scene = Scene::new();
    refused_with(&scene, &["-f", "prompt.md"], 2, "cannot be used with");
}

#[test]
fn a_workspace_that_is_not_a_directory() {
    let scene = Scene::new();
    let file = scene.write("home/file", "");
    symlink(scene.path("home/work"), scene.path("home/link")).unwrap();
    refused_workspace(&scene, &scene.path("home/none"), 3, "does not exist");
    refused_workspace(&scene, &file, 2, "is not a directory");
    refused_workspace(&scene, &scene.path("home/link"), 2, "is a symlink");
}

#[test]
fn a_workspace_that_holds_too_much() {
    let scene = Scene::new();
    for path in
        [Path::new("/"), Path::new("/usr"), Path::new("/tmp"), &scene.path("home"), &scene.path("")]
    {
        let args = ["run", "--agent", "simulated", "x", "--workspace"].map(OsStr::new);
        refused_in(&scene, &[&args[..], &[path.as_os_str()]].concat(), 2, "the workspace");
    }
    fs::create_dir(scene.path("state")).unwrap();
    refused_workspace(&scene, &scene.path("state"), 2, "the workspace");
    refused_workspace(&scene, &scene.path("run"), 2, "the workspace");
}

#[test]
fn a_workspace_whose_path_is_not_utf8() {
    let scene = Scene::new();
    let path = scene.path("home").join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&path).unwrap();
    refused_workspace(&scene, &path, 2, "is not UTF-8");
}

#[test]
fn a_workspace_whose_owner_cannot_use_our_state_directory() {
    if !geteuid().is_root() {
        eprintln!("only root can give a directory away: not tested");
        return;
    }
    let scene = Scene::new();
    // Caretaker runs the agent as the workspace's owner, but the state directory belongs to root.
    for path in ["home/work", "home"] {
        chown(&scene.path(path), Some(Uid::from_raw(65534)), None).unwrap();
    }
    let before = scene.inventory();
    let answer = scene.caretaker(["run", "--agent", "simulated", "x"]);
    assert_eq!((answer.code(), answer.stdout()), (125, ""), "{}", answer.stderr());
    // The first line names the user that the run would have belonged to.
    let (note, error) = answer.stderr().split_once('\n').unwrap();
    assert!(note.starts_with("note: you are root"), "{note}");
    assert!(error.starts_with("error: the run's directory could not be created"), "{error}");
    assert_eq!(scene.inventory(), before, "something was left behind");
}

#[test]
fn a_repository_that_ships_a_hostile_dot_cursor() {
    let scene = Scene::new();
    let dot_cursor = scene.path("home/work/.cursor");
    let make: [(&dyn Fn(), &str); 3] = [
        (&|| symlink("/oldroot/tmp/victim", &dot_cursor).unwrap(), ".cursor"),
        (&|| fs::write(&dot_cursor, "").unwrap(), ".cursor"),
        (&|| mkfifo(&dot_cursor, Mode::S_IRWXU).unwrap(), ".cursor"),
    ];
    for (make, words) in make {
        make();
        refused_with(&scene, &[], 2, words);
        fs::remove_file(&dot_cursor).unwrap();
    }
    fs::create_dir(&dot_cursor).unwrap();
    symlink("/oldroot/tmp/victim", dot_cursor.join("mcp.json")).unwrap();
    refused_with(&scene, &[], 2, ".cursor/mcp.json");
}

#[test]
fn an_unknown_or_invalid_profile() {
    let scene = Scene::new();
    scene.write("config/caretaker/profiles/mine.toml", "extends = \"default\"\n\nnetwrok = 1\n");
    refused_with(&scene, &["--profile", "nope"], 2, "there is no profile `nope`");
    refused_with(&scene, &["--profile", "../x"], 2, "cannot be the name of a profile");
    refused_with(&scene, &["--profile", "mine"], 2, "mine.toml:3");
    scene.write("config/caretaker/profiles/open.toml", "extends = \"off\"\n");
    refused_with(&scene, &["--profile", "open"], 2, "has no sandbox");
}

#[test]
fn a_configuration_with_a_typo() {
    let mut scene = Scene::new();
    scene.write(
        "config/caretaker/config.toml",
        "profile = \"default\"\n\n[limits]\nidel = \"3m\"\n",
    );
    refused_with(&scene, &[], 2, "line 4: unknown field `idel`");
    scene.set("CARETAKER_CONFIG", "/no/such/config.toml");
    refused_with(&scene, &[], 2, "/no/such/config.toml");
}

#[test]
fn an_agent_that_is_missing_not_executable_or_in_the_workspace() {
    let scene = Scene::new();
    let run = |agent: &Path| -> Vec<OsString> {
        vec!["run".into(), "x".into(), "--agent".into(), agent.into()]
    };
    let check = |agent: &Path, code: i32, words: &str| {
        let args = run(agent);
        let args: Vec<&OsStr> = args.iter().map(OsString::as_os_str).collect();
        refused_in(&scene, &args, code, words);
    };
    refused_in(&scene, &["run", "x"].map(OsStr::new), 127, "https://cursor.com/install");
    refused_in(&scene, &["run", "x"].map(OsStr::new), 127, "--agent simulated");
    check(&scene.path("bin/none"), 127, "there is no agent at");
    check(&scene.program("bin/agent", "", 0o644), 126, "cannot be executed");
    check(&scene.program("home/work/agent", "touch witness", 0o755), 2, "inside the workspace");
    assert!(!scene.path("home/work/witness").exists());
}

#[test]
fn an_agent_without_a_login() {
    let mut scene = Scene::new();
    scene.program("bin/cursor-agent", "echo 2026.10.01-e373342", 0o755);
    let path = format!("{}:/usr/bin:/bin", scene.path("bin").display());
    scene.set("PATH", path);
    refused_in(&scene, &["run", "x"].map(OsStr::new), 77, "not logged in");
}

#[test]
fn flags_that_caretaker_depends_on() {
    let scene = Scene::new();
    for flag in
        ["--print", "--output-format=text", "--resume", "--workspace=/", "--force", "--api-key=x"]
    {
        let name = flag.split('=').next().unwrap();
        refused_with(&scene, &["--", flag], 2, &format!("the agent flag `{name}` is not accepted"));
    }
    refused_with(&scene, &["--", "words"], 2, "would become part of the prompt");
}

#[test]
fn invalid_names_labels_models_variables_and_durations() {
    let scene = Scene::new();
    for (args, words) in [
        (["--name", "a b"], "a name has"),
        (["--name", "beef"], "mistaken for"),
        (["--label", "x"], "NAME=VALUE"),
        (["--env", "LD_PRELOAD=x"], "before it starts"),
        (["--env", "PATH=/x"], "set by caretaker"),
        (["--env", "HTTPS_PROXY=http://x"], "in caretaker's own environment"),
        (["--env", "CURSOR_API_KEY=x"], "a secret does not belong"),
        (["--timeout", "20"], "is not a duration"),
        (["--mode", "think"], "possible values"),
        (["--session", "latest"], "invalid value"),
        (["--model", "a b"], "cannot be the name of a model"),
    ] {
        refused_with(&scene, &args, 2, words);
    }
}

#[test]
fn a_session_that_does_not_exist_is_not_created() {
    let scene = Scene::new();
    let session = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
    refused_with(&scene, &["--session", session], 3, "there is no session");
}

#[test]
fn a_path_to_expose_that_does_not_exist() {
    let scene = Scene::new();
    refused_with(&scene, &["--expose", "/no/such/tools"], 3, "/no/such/tools");
}

#[test]
fn sockets_whose_path_would_be_too_long() {
    let mut scene = Scene::new();
    let long = scene.path("x".repeat(80));
    fs::create_dir(&long).unwrap();
    scene.set("XDG_RUNTIME_DIR", long);
    refused_with(&scene, &[], 2, "too long for the kernel");
}

#[test]
fn a_disk_with_too_little_room() {
    let scene = Scene::new();
    scene.write("config/caretaker/config.toml", "min_free = \"4000000TiB\"\n");
    refused_with(&scene, &[], 125, "free for");
}

#[test]
fn a_host_without_bubblewrap_or_with_one_that_cannot_be_used() {
    let mut scene = Scene::new();
    scene.set("PATH", scene.path("bin"));
    refused_with(&scene, &[], 125, "bubblewrap is not installed");
    // If the test runs as root, this file counts as the system's bubblewrap and fails when Caretaker tries it. If a
    // user runs the test, Caretaker does not trust the file.
    scene.program(
        "bin/bwrap",
        "echo 'bwrap: No permissions to create new namespace' >&2; exit 1",
        0o755,
    );
    refused_with(&scene, &[], 125, "bubblewrap");
    scene.program("bin/bwrap", "", 0o777);
    refused_with(&scene, &[], 125, "cannot be trusted");
}

#[test]
fn a_run_that_does_not_exist() {
    let scene = Scene::new();
    for args in
        [["show", "nope"], ["tail", "nope"], ["kill", "nope"], ["wait", "nope"], ["show", "-"]]
    {
        refused_in(&scene, &args.map(OsStr::new), 3, "there is no run");
    }
}
