//! `--secret`: the agent has it, and nothing that is written down or can be listed does.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;

use crate::daemon_stage::DaemonStage;
use crate::stage::{Stage, stderr};

const TOKEN: &str = "npm-0123456789abcdefghijkl";
const KEY: &str =
    "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----";

/// Every file below a directory holds none of the secrets.
fn check_files(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            check_files(&path);
        } else if kind.is_file() {
            let content = fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&content);
            for secret in [TOKEN, "MIIEvQIBADANBgkqhkiG9w0B", "AQEFAASCBKcwggSjAgEAAoIB"] {
                assert!(!text.contains(secret), "{}", path.display());
            }
        }
    }
}

#[test]
fn a_named_secret_reaches_the_agent_and_is_written_down_nowhere() {
    let stage = Stage::new();
    let key_file = stage.root().join("key");
    fs::write(&key_file, format!("{KEY}\n")).unwrap();
    let script = "\
shell test \"${#NPM_TOKEN}\" = 26 && echo \"token: $NPM_TOKEN\"; echo \"$DEPLOY_KEY\"; echo $NPM_TOKEN >&2
shell for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; done; tr '\\0' '\\n' < /proc/1/environ | grep -c . ; cat ~/.cursor/*.json .cursor/mcp.json
say done";
    // Not in the prompt: that is the user's own, and kept as it is.
    let script_file = stage.workspace().join("script");
    fs::write(&script_file, script).unwrap();
    let from_file = format!("DEPLOY_KEY=file:{}", key_file.display());
    let flags = ["--secret", "NPM_TOKEN=env:MY_TOKEN", "--secret", &from_file, "--json"];
    let output = stage
        .caretaker(&[&["run", "--agent", "simulated", "go"], &flags[..]].concat())
        .env("MY_TOKEN", TOKEN)
        .env("RUST_LOG", "trace")
        .env("SIMULATED_AGENT_SCRIPT", &script_file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = stage.run_ids().pop().unwrap();
    let journal = fs::read_to_string(stage.journal_path(&run)).unwrap();
    assert!(journal.contains("token: [redacted]"), "{journal}");
    check_files(&stage.root().join("state"));
    for bytes in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(bytes);
        assert!(!text.contains(TOKEN) && !text.contains("MIIEvQIBADAN"), "{text}");
    }
    // The names are known, so that whoever resumes can be told.
    let spec = fs::read_to_string(stage.runs().join(&run).join("spec.json")).unwrap();
    assert!(spec.contains("NPM_TOKEN") && spec.contains("DEPLOY_KEY"), "{spec}");

    let session = stage.session_of(&run);
    let resumed = stage.resume(&session, "shell test -z \"$NPM_TOKEN\"\nsay done", &[]);
    assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
    let said = stderr(&resumed);
    assert!(said.contains("the last run had the secret `NPM_TOKEN`"), "{said}");
    assert!(said.contains("--secret DEPLOY_KEY=…"), "{said}");
}

#[test]
fn the_agents_key_is_in_no_command_line_and_not_in_the_environment_of_the_first_process() {
    let stage = Stage::new();
    let script = stage.workspace().join("script");
    let orders = "shell for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done | sort > lines; cat /proc/1/environ > environ; true\nsay done";
    fs::write(&script, orders).unwrap();
    let key = "key_0123456789abcdefghijklmnop";
    let output = stage
        .caretaker(&["run", "--agent", "simulated", "go"])
        .env("CURSOR_API_KEY", key)
        .env("SIMULATED_AGENT_SCRIPT", &script)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let read = |name: &str| fs::read_to_string(stage.workspace().join(name)).unwrap();
    let lines = read("lines");
    assert!(lines.contains("simulated-agent") && !lines.contains(key), "{lines}");
    // The agent does not see the first process at all.
    assert!(!lines.contains("bwrap"), "{lines}");
    assert_eq!(read("environ"), "");
}

#[test]
fn a_secret_that_cannot_be_had_starts_nothing_and_is_not_repeated() {
    let stage = Stage::new();
    for (flag, code, part) in [
        ("X=hunter2hunter2", 2, "NAME=env:VARIABLE or NAME=file:PATH"),
        ("X=env:NOT_SET_ANYWHERE", 2, "`NOT_SET_ANYWHERE`"),
        ("X=file:missing", 3, "cannot be read"),
        ("PATH=env:HOME", 2, "is set by caretaker"),
        ("CURSOR_DATA_DIR=env:HOME", 2, "is set by caretaker"),
        ("HTTPS_PROXY=env:HOME", 2, "leads programs to the hosts that the run may reach"),
        ("NODE_OPTIONS=env:HOME", 2, "would load something into the agent"),
    ] {
        let output = stage.play("say never", &["--secret", flag]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{flag}: {said}");
        assert!(said.contains(part) && said.contains("hint:"), "{flag}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
    assert_eq!(stage.run_ids(), Vec::<String>::new());
}

#[test]
fn a_queued_run_has_its_secret_and_waits_for_it_where_the_daemon_forgot() {
    let stage = DaemonStage::new(2);
    let queue = |workspace: &str| {
        let workspace = stage.new_workspace(workspace);
        let script = "```agent\nshell test ${#NPM_TOKEN} = 26 && touch had-it\nsay done\n```";
        let args = ["run", "--detach", "--agent", "simulated", script];
        let output = stage
            .caretaker(&args)
            .args(["--secret", "NPM_TOKEN=env:MY_TOKEN", "-C"])
            .arg(&workspace)
            .env("MY_TOKEN", TOKEN)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let lucky = queue("one");
    assert_eq!(stage.wait_for_end(&lucky), Some(0), "{}", stage.why(&lucky));
    assert!(stage.home().join("one/had-it").exists());

    assert!(stage.output(&["queue", "pause"]).status.success());
    let forgotten = queue("two");
    check_files(&stage.root().join("state"));
    stage.kill_daemon();
    // What the new daemon has by that name is something else, and is not taken.
    let started = stage.caretaker(&["daemon", "start"]).env("NPM_TOKEN", TOKEN).output().unwrap();
    assert!(started.status.success(), "{}", stderr(&started));
    assert!(stage.output(&["queue", "resume"]).status.success());
    let other = stage.queue("three", "say hello", &[]);
    assert_eq!(stage.wait_for_end(&other), Some(0));
    assert!(stage.why(&forgotten).contains("NPM_TOKEN"), "{}", stage.why(&forgotten));
    assert!(!stage.home().join("two/had-it").exists());
    assert!(stage.output(&["kill", &forgotten]).status.success());
}
