//! `doctor --trial`: with the simulated agent, and with stand-ins for cursor-agent that fail one check each.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pretty_assertions::assert_eq;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::stage::programs::{copy_program, program};
use crate::stage::{Stage, assert_exit, json_lines, stderr, stdout};

const CHECKS: [&str; 9] =
    ["first_line", "session", "mcp", "network", "exit", "bucket", "store", "memory", "clean"];

/// Makes a stage with a directory for temporary files.
fn stage() -> Stage {
    let stage = Stage::new();
    fs::create_dir(stage.root().join("tmp")).unwrap();
    stage
}

/// Installs a stand-in for cursor-agent: a shell script that works through the simulated agent next to it.
pub(crate) fn install(stage: &Stage, version: &str, does: &str) -> String {
    let directory = stage.home().join(".local/share/cursor-agent/versions").join(version);
    fs::create_dir_all(&directory).unwrap();
    copy_program(&program("simulated-agent"), &directory.join("simulated-agent"));
    let agent = directory.join("cursor-agent");
    let script = format!("#!/bin/bash\nagent=$(dirname \"$0\")/simulated-agent\n{does}\n");
    fs::write(&agent, script).unwrap();
    fs::set_permissions(&agent, Permissions::from_mode(0o755)).unwrap();
    agent.to_str().unwrap().to_owned()
}

const VERSION: &str = "2026.10.01-abc1234";
/// Behaves like cursor-agent.
const WELL: &str = "exec \"$agent\" \"$@\"";

fn trial(stage: &Stage, args: &[&str]) -> Command {
    let mut command = stage.caretaker(&[&["doctor", "--trial"], args].concat());
    command.env("CURSOR_API_KEY", "any-key").env("TMPDIR", stage.root().join("tmp"));
    command
}

/// Every path below a directory.
fn paths_below(directory: &Path, into: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            paths_below(&path, into);
        }
        into.insert(path);
    }
}

/// What is on the stage, except for the agent and for files that Caretaker has one of.
fn everything(stage: &Stage) -> BTreeSet<PathBuf> {
    let root = stage.root();
    let mut paths = BTreeSet::new();
    paths_below(&root, &mut paths);
    let relative = paths.iter().map(|path| path.strip_prefix(&root).unwrap().to_owned());
    relative.filter(|path| !path.starts_with("home/.local")).collect()
}

/// What a first run of any kind leaves: Caretaker's own directories, and files that it has one of.
const OF_EVERY_STATE: [&str; 16] = [
    "home/.cursor",
    "home/.cursor/chats",
    "run",
    "run/caretaker",
    "state",
    "state/agents",
    "state/bubblewrap-passed",
    "state/chats",
    "state/checkpoints",
    "state/placeholders",
    "state/removal.lock",
    "state/runs",
    "state/runs/.creating",
    "state/sessions",
    "state/workspaces",
    "state/workspaces/registry",
];

/// Checks that a trial has left nothing.
#[track_caller]
fn assert_nothing_is_left(stage: &Stage, before: &BTreeSet<PathBuf>, what: &str) {
    stage.assert_no_survivors(what);
    let is_left = |path: &&PathBuf| {
        !OF_EVERY_STATE.iter().any(|known| path.as_path() == Path::new(known))
            && !path.starts_with("state/placeholders")
            && !path.starts_with("state/index.db")
            && !path.starts_with("state/index.db.lock")
    };
    let after = everything(stage);
    let left: Vec<&PathBuf> = after.difference(before).filter(is_left).collect();
    assert_eq!(left, Vec::<&PathBuf>::new(), "{what}");
}

/// The trial's part of the output: each check's id, status, and for a failure what is wrong and what that means.
fn checks(output: &Output) -> Vec<(String, String, String)> {
    let answer = json_lines(output).pop().unwrap();
    let checks = answer["trial"]["checks"].as_array().unwrap();
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let shown = |check: &Value| {
        let status = text(check, "status");
        let words = match status.as_str() {
            "failure" => format!("{}. {}", text(check, "summary"), text(check, "fix")),
            _ => String::new(),
        };
        (text(check, "id"), status, words)
    };
    checks.iter().map(shown).collect()
}

#[test]
fn the_simulated_agent_passes_every_check_and_nothing_of_the_trial_is_left() {
    let stage = stage();
    let before = everything(&stage);
    let output = trial(&stage, &["--agent", "simulated", "--json"]).output().unwrap();
    assert_exit(&output, 0);
    let answer = json_lines(&output).pop().unwrap();
    assert_eq!((&answer["ok"], &answer["trial"]["agent"]), (&json!(true), &json!("simulated")));
    let all_well = CHECKS.map(|id| (id.to_owned(), "ok".to_owned(), String::new()));
    assert_eq!(checks(&output), all_well);
    assert_nothing_is_left(&stage, &before, "after a trial");
}

/// A stand-in, the check that it fails, the checks that it makes impossible, and the words about it.
struct Row {
    fails: &'static str,
    does: &'static str,
    not_reached: &'static [&'static str],
    words: &'static str,
}

const FORGOTTEN: &str = "a second run resumed the session, and the agent had forgotten a word. A resumed session would \
                         begin with an empty memory. Do not rely on `resume` with this agent.";

const ROWS: &[Row] = &[
    Row {
        fails: "first_line",
        does: "echo 'Error: a library is missing' >&2; exit 1",
        not_reached: &["session", "mcp", "network", "exit", "bucket", "store", "memory"],
        words: "the agent did not print its first line, `system/init`: the agent failed: Error: a library is missing. Every run would end like this. If the agent works outside \
                (`cursor-agent -p hello`), the sandbox hides something that it needs, or its output has changed.",
    },
    Row {
        fails: "session",
        does: "\"$agent\" \"$@\" | sed -u 's/\"session_id\":\"[0-9a-f-]*\"/\"session_id\":\"0b7c8d9e\"/'",
        not_reached: &["mcp", "network", "exit", "bucket", "store", "memory"],
        words: "the agent began another session than it was asked to. Caretaker could not find the conversation again, \
                so it ends such a run. This agent treats `--resume` differently.",
    },
    Row {
        fails: "mcp",
        does: "sed '/^mcp /d' | \"$agent\" \"$@\"",
        not_reached: &[],
        words: "the agent did not call Caretaker's tool `report_progress`. Runs work, but progress, questions and \
                messages do not. Either the agent did not start Caretaker's MCP server, or the model ignored the \
                request: try again.",
    },
    Row {
        fails: "network",
        does: "sed '/^shell /d' | \"$agent\" \"$@\"",
        not_reached: &[],
        words: "the agent did not try to reach example.com: it did not run the shell command, or the model ignored the \
                request. Nothing shows that the sandbox refuses hosts that are not on its list.",
    },
    Row {
        fails: "exit",
        does: "SIMULATED_AGENT_MISBEHAVE=linger exec \"$agent\" \"$@\"",
        not_reached: &[],
        words: "the agent gave its result, but its process did not end. Caretaker ends such an agent after `linger`, so \
                only time is lost.",
    },
    Row {
        fails: "exit",
        does: "SIMULATED_AGENT_MISBEHAVE=no-result exec \"$agent\" \"$@\"",
        not_reached: &["bucket", "store", "memory"],
        words: "the agent gave no result: the agent exited without an error and without a result. Caretaker never counts a \
                run without a result as a success.",
    },
    Row {
        fails: "bucket",
        does: "CURSOR_CONFIG_DIR=/tmp/elsewhere exec \"$agent\" \"$@\"",
        not_reached: &["store", "memory"],
        words: "the session is not where Cursor keeps the sessions of a workspace. This agent names the directories of \
                its sessions differently. Its own `--resume` would not find this session, and Caretaker may lose it.",
    },
    Row {
        fails: "store",
        does: "\"$agent\" \"$@\"; for store in ~/.cursor/chats/*/*/store.db; do echo garbage > \"$store\"; done",
        not_reached: &["memory"],
        words: "Caretaker cannot read the whole session: the session's store is damaged, or not a database at all. Runs \
                work, but Caretaker does not resume such sessions, and shows only parts of them. This agent may write \
                its store differently.",
    },
    Row {
        fails: "memory",
        does: "sed 's/^recall$/say I do not know./' | \"$agent\" \"$@\"",
        not_reached: &[],
        words: FORGOTTEN,
    },
    Row {
        fails: "memory",
        does: "prompt=$(cat); case $prompt in *recall*) export SIMULATED_AGENT_MISBEHAVE=forget;; esac\n\
               exec \"$agent\" \"$@\" <<< \"$prompt\"",
        not_reached: &[],
        words: FORGOTTEN,
    },
    Row {
        fails: "clean",
        does: "\"$agent\" \"$@\"; echo notes > notes.txt",
        not_reached: &[],
        words: "something was left: notes.txt in the workspace. Every run would leave this. The prompts ask for no file, \
                so look at what an agent changed with `caretaker diff` after your runs.",
    },
    Row {
        fails: "clean",
        does: "\"$agent\" \"$@\"; for bucket in ~/.cursor/chats/*; do mkdir $bucket/child; echo > $bucket/child/store.db; done",
        not_reached: &[],
        words: "something was left: session child. Every run would leave this. The prompts ask for no file, so look at \
                what an agent changed with `caretaker diff` after your runs.",
    },
];

#[test]
fn each_way_to_fail_fails_one_check_and_says_what_it_means() {
    assert_eq!(
        ROWS.iter().map(|row| row.fails).collect::<BTreeSet<_>>(),
        BTreeSet::from(CHECKS),
        "every check fails once"
    );
    for Row { fails, does, not_reached, words } in ROWS {
        let stage = stage();
        let agent = install(&stage, VERSION, does);
        let before = everything(&stage);
        let output = trial(&stage, &["--agent", &agent, "--yes", "--json"]).output().unwrap();
        assert_exit(&output, 1);
        let expected = CHECKS.map(|id| {
            let status = match id {
                id if id == *fails => "failure",
                id if not_reached.contains(&id) => "not_reached",
                _ => "ok",
            };
            let words = if id == *fails { *words } else { "" };
            (id.to_owned(), status.to_owned(), words.to_owned())
        });
        assert_eq!(checks(&output), expected, "{does}");
        assert_nothing_is_left(&stage, &before, does);
    }
}

#[test]
fn a_report_names_versions_and_marks_and_nothing_of_the_machine() {
    let stage = stage();
    let path = stage.root().join("trial.json");
    let report = |agent: &str| -> Value {
        fs::remove_file(&path).ok();
        let args = ["--agent", agent, "--yes", "--report", path.to_str().unwrap()];
        let output = trial(&stage, &args).output().unwrap();
        assert_exit(&output, 1);
        let mut report: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        // Their form is tested where they are made.
        for version in ["caretaker", "bubblewrap", "kernel", "system"] {
            assert!(report["versions"][version].take().is_string());
        }
        report
    };
    let does = "\"$agent\" \"$@\"; echo ada > ada@example.org";
    let expected = |agent: &str| {
        let mut checks: Value = CHECKS.iter().map(|id| ((*id).to_owned(), json!("✓"))).collect();
        checks["clean"] = json!("✗");
        json!({
            "v": 1,
            "kind": "trial",
            "versions": {
                "caretaker": null, "agent": agent, "bubblewrap": null, "kernel": null, "system": null,
            },
            "checks": checks,
        })
    };
    assert_eq!(report(&install(&stage, VERSION, does)), expected(VERSION));
    // An agent outside Cursor's own directory can give itself any version.
    let installed = install(&stage, "2026.10.01-of-ada", does);
    assert_eq!(report(&installed), expected("unknown"));
}

#[test]
fn a_report_that_cannot_be_written_stops_the_trial_before_it_costs_anything() {
    let stage = stage();
    let taken = stage.workspace().join("taken.json");
    fs::write(&taken, "mine").unwrap();
    for report in ["taken.json", "no-such-directory/trial.json"] {
        let output = trial(&stage, &["--agent", "simulated", "--report", report]).output().unwrap();
        assert_exit(&output, 2);
        assert!(stderr(&output).contains("hint: name a new file"), "{}", stderr(&output));
        assert!(stdout(&output).is_empty());
    }
    assert_eq!(fs::read_to_string(taken).unwrap(), "mine");
    assert_eq!(stage.run_ids(), Vec::<String>::new());
}

/// Answers the trial's question on a terminal.
fn answered(stage: &Stage, agent: &str, answer: &str) -> Output {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    // The terminal keeps the line until the command reads it.
    File::from(master.try_clone().unwrap()).write_all(answer.as_bytes()).unwrap();
    trial(stage, &["--agent", agent]).stdin(terminal).output().unwrap()
}

#[test]
fn a_trial_that_costs_something_asks_first() {
    let stage = stage();
    let agent = install(&stage, VERSION, WELL);
    let before = everything(&stage);
    let unasked = trial(&stage, &["--agent", &agent]).output().unwrap();
    assert_exit(&unasked, 2);
    let said = stderr(&unasked);
    assert!(said.contains("two short prompts to cursor-agent 2026.10.01-abc1234"), "{said}");
    assert!(said.contains("hint: agree with --yes"), "{said}");
    let refused = answered(&stage, &agent, "n\n");
    assert_exit(&refused, 130);
    assert!(stderr(&refused).contains("Start it? [y/N] "), "{}", stderr(&refused));
    assert!(!stage.root().join("state").exists());
    assert_nothing_is_left(&stage, &before, "after two refusals");
    let agreed = answered(&stage, &agent, "y\n");
    assert_exit(&agreed, 0);
    assert!(stdout(&agreed).contains("trial with cursor-agent 2026.10.01-abc1234\n✓ first_line"));
}

#[test]
fn ctrl_c_stops_the_run_and_leaves_nothing() {
    let stage = stage();
    let agent = install(&stage, VERSION, "sed 's/^say ready$/wait 600s/' | \"$agent\" \"$@\"");
    let before = everything(&stage);
    let mut command = trial(&stage, &["--agent", &agent, "--yes"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let run = line.trim().strip_prefix("trial: the first prompt, run ").expect(&line).to_owned();
    stage.wait_until(&run, |line| line["kind"] == "net.denied");
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.unwrap().success());
    let rest: Vec<String> = said.lines().map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(rest.join("\n").contains("cancelled: the trial stopped, and its runs are removed"));
    assert_nothing_is_left(&stage, &before, "after Ctrl-C");
}

#[test]
fn a_trial_does_not_start_if_another_check_fails() {
    let stage = stage();
    stage.configure("min_free = \"900TiB\"\n");
    let output = trial(&stage, &["--agent", "simulated", "--json"]).output().unwrap();
    assert_exit(&output, 1);
    let answer = json_lines(&output).pop().unwrap();
    assert_eq!((&answer["ok"], &answer["trial"]), (&json!(false), &Value::Null));
    assert!(stderr(&output).contains("hint: first mend what is marked ✗"), "{}", stderr(&output));
}

#[test]
fn the_runs_of_a_trial_stay_while_a_budget_counts_them() {
    let stage = stage();
    stage.configure_also("[budgets.day]\ntokens = 10_000_000\n");
    let output = trial(&stage, &["--agent", "simulated"]).output().unwrap();
    assert_exit(&output, 0);
    assert!(stderr(&output).contains("note: the trial's runs stay until tomorrow"));
    assert_eq!(stage.run_ids().len(), 2);
}
