//! The agent's key, and values passed with `--secret`: the agent has them, but no file and no process list shows them.

use std::fs;
use std::path::Path;
use std::process::Output;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::daemon_stage::DaemonStage;
use crate::stage::{Stage, assert_exit, stderr};

const API_KEY: &str = "key_0123456789abcdefghijklmnop";
const TOKEN: &str = "npm-0123456789abcdefghijkl";
const KEY: &str =
    "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----";

/// Plays a script from outside the prompt, because Caretaker keeps a user's prompt unchanged.
fn play_apart(stage: &Stage, script: &str, variables: &[(&str, &str)], flags: &[&str]) -> Output {
    let script_file = stage.workspace().join("script");
    fs::write(&script_file, script).unwrap();
    stage
        .caretaker(&[&["run", "--agent", "simulated", "go"], flags].concat())
        .env("SIMULATED_AGENT_SCRIPT", &script_file)
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

/// Checks that no file below a directory contains a secret.
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
fn a_known_secret_is_replaced_and_flagged_wherever_the_agent_prints_it() {
    let stage = Stage::new();
    let prompt = "```agent\nshell echo my key is $CURSOR_API_KEY\nsay done\n```\n";
    let args = ["run", "--agent", "simulated", prompt];
    let output = stage.caretaker(&args).env("CURSOR_API_KEY", API_KEY).output().unwrap();
    assert_exit(&output, 0);
    assert!(!String::from_utf8_lossy(&output.stdout).contains(API_KEY));
    let run = stage.run_ids().pop().unwrap();
    for file in fs::read_dir(stage.runs().join(&run)).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            let content = fs::read(&path).unwrap();
            assert!(!String::from_utf8_lossy(&content).contains(API_KEY), "{}", path.display());
        }
    }
    let flagged =
        stage.journal(&run).into_iter().find(|entry| entry.line["redacted"] == json!(true));
    assert!(flagged.unwrap().line.to_string().contains("my key is [redacted]"));
}

#[test]
fn a_known_secret_is_replaced_in_the_agents_calls_of_our_tools() {
    let stage = Stage::new();
    let orders = format!(
        "mcp caretaker report_progress {{\"text\":\"found {API_KEY} here\"}}\n\
         mcp caretaker report_result {{\"status\":\"done\",\"summary\":\"it is {API_KEY}\",\"artifacts\":[\"{API_KEY}.txt\"]}}\n\
         say done\n"
    );
    let output = play_apart(&stage, &orders, &[("CURSOR_API_KEY", API_KEY)], &[]);
    assert_exit(&output, 0);

    let run = stage.run_ids().pop().unwrap();
    let told: Vec<Value> =
        stage.journal(&run).into_iter().map(|entry| entry.line["run"].clone()).collect();
    let find = |kind: &str| told.iter().find(|event| event["kind"] == kind).unwrap();
    assert_eq!(find("progress")["text"], "found [redacted] here");
    assert_eq!(find("reported")["summary"], "it is [redacted]");
    assert_eq!(find("reported")["artifacts"], json!(["[redacted].txt"]));

    let journal = fs::read(stage.journal_path(&run)).unwrap();
    let views: [&[&str]; 6] = [
        &["tail", &run],
        &["tail", &run, "--json"],
        &["tail", &run, "--raw"],
        &["show", &run],
        &["show", &run, "--json"],
        &["ps", "--all", "--json"],
    ];
    let shown = views.map(|view| stage.output(view).stdout);
    for bytes in [journal, output.stdout].iter().chain(&shown) {
        let text = String::from_utf8_lossy(bytes);
        assert!(!text.is_empty() && !text.contains(API_KEY), "{text}");
    }
}

#[test]
fn a_named_secret_reaches_the_agent_and_no_file() {
    let stage = Stage::new();
    let key_file = stage.root().join("key");
    fs::write(&key_file, format!("{KEY}\n")).unwrap();
    let script = "\
shell test \"${#NPM_TOKEN}\" = 26 && echo \"token: $NPM_TOKEN\"; echo \"$DEPLOY_KEY\"; echo $NPM_TOKEN >&2
shell for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; done; tr '\\0' '\\n' < /proc/1/environ | grep -c . ; cat ~/.cursor/*.json .cursor/mcp.json
say done";
    let from_file = format!("DEPLOY_KEY=file:{}", key_file.display());
    let flags = ["--secret", "NPM_TOKEN=env:MY_TOKEN", "--secret", &from_file, "--json"];
    let variables = [("MY_TOKEN", TOKEN), ("RUST_LOG", "trace")];
    let output = play_apart(&stage, script, &variables, &flags);
    assert_exit(&output, 0);
    let run = stage.run_ids().pop().unwrap();
    let journal = fs::read_to_string(stage.journal_path(&run)).unwrap();
    assert!(journal.contains("token: [redacted]"), "{journal}");
    check_files(&stage.root().join("state"));
    for bytes in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(bytes);
        assert!(!text.contains(TOKEN) && !text.contains("MIIEvQIBADAN"), "{text}");
    }
    // The names are recorded, so that a resume can ask for them.
    let spec = fs::read_to_string(stage.runs().join(&run).join("spec.json")).unwrap();
    assert!(spec.contains("NPM_TOKEN") && spec.contains("DEPLOY_KEY"), "{spec}");

    let session = stage.session_of(&run);
    let resumed = stage.resume(&session, "shell test -z \"$NPM_TOKEN\"\nsay done", &[]);
    assert_exit(&resumed, 0);
    let said = stderr(&resumed);
    assert!(said.contains("the last run had the secret `NPM_TOKEN`"), "{said}");
    assert!(said.contains("--secret DEPLOY_KEY=…"), "{said}");
}

#[test]
fn the_agents_key_is_in_no_command_line_and_not_in_the_environment_of_the_first_process() {
    let stage = Stage::new();
    let orders = "shell for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done | sort > lines; cat /proc/1/environ > environ; true\nsay done";
    let output = play_apart(&stage, orders, &[("CURSOR_API_KEY", API_KEY)], &[]);
    assert_exit(&output, 0);
    let read = |name: &str| fs::read_to_string(stage.workspace().join(name)).unwrap();
    let lines = read("lines");
    assert!(lines.contains("simulated-agent") && !lines.contains(API_KEY), "{lines}");
    // The agent does not see the first process at all.
    assert!(!lines.contains("bwrap"), "{lines}");
    assert_eq!(read("environ"), "");
}

#[test]
fn a_missing_secret_starts_nothing_and_a_secret_in_the_arguments_is_not_repeated() {
    let stage = Stage::new();
    for (flag, code, part) in [
        ("X=hunter2hunter2", 2, "NAME=env:VARIABLE or NAME=file:PATH"),
        ("X=env:NOT_SET_ANYWHERE", 2, "`NOT_SET_ANYWHERE`"),
        ("X=file:missing", 3, "cannot be read"),
        ("PATH=env:HOME", 2, "is set by caretaker"),
        ("CURSOR_DATA_DIR=env:HOME", 2, "is set by caretaker"),
        ("HTTPS_PROXY=env:HOME", 2, "directs programs to the hosts that the run may reach"),
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
fn a_queued_run_gets_its_secret_and_waits_if_a_new_daemon_does_not_have_it() {
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
        assert_exit(&output, 0);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let lucky = queue("one");
    assert_eq!(stage.wait_for_end(&lucky), Some(0), "{}", stage.why(&lucky));
    assert!(stage.home().join("one/had-it").exists());

    assert!(stage.output(&["queue", "pause"]).status.success());
    let forgotten = queue("two");
    check_files(&stage.root().join("state"));
    stage.kill_daemon();
    // The new daemon has an NPM_TOKEN in its own environment, and must not use it.
    let started = stage.caretaker(&["daemon", "start"]).env("NPM_TOKEN", TOKEN).output().unwrap();
    assert_exit(&started, 0);
    assert!(stage.output(&["queue", "resume"]).status.success());
    let other = stage.queue("three", "say hello", &[]);
    assert_eq!(stage.wait_for_end(&other), Some(0));
    assert!(stage.why(&forgotten).contains("NPM_TOKEN"), "{}", stage.why(&forgotten));
    assert!(!stage.home().join("two/had-it").exists());
    assert!(stage.output(&["kill", &forgotten]).status.success());
}
