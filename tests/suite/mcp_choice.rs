//! Which MCP servers an agent gets: chosen for a run, changed while it runs, kept for the session.

use std::io::Write;
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::network::outside::Outside;
use crate::stage::{Stage, stderr};

const KEY: &str = "key-of-the-users-own-server";

/// A server with as many tools as it is told to have, of which `tell` is one.
const SERVER: &str = r#"
tools='{"name":"tell","inputSchema":{"type":"object"}}'
n=1; while [ "$n" -lt "${N_TOOLS:-1}" ]; do tools="$tools,{\"name\":\"t$n\",\"inputSchema\":{\"type\":\"object\"}}"; n=$((n+1)); done
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
    *'"initialize"'*) answer='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) answer="{\"tools\":[$tools]}" ;;
    *'"tools/call"'*) answer="{\"content\":[{\"type\":\"text\",\"text\":\"told by $NAME: $NOTES_KEY\"}],\"isError\":false}" ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$answer"
done
"#;

pub(crate) fn server(name: &str) -> Value {
    json!({"command": "/bin/sh", "args": ["-c", SERVER], "env": {"NAME": name, "NOTES_KEY": KEY}})
}

/// A stage whose user has these servers of their own.
fn stage_with(servers: Value) -> Stage {
    let stage = Stage::new();
    std::fs::create_dir_all(stage.home().join(".cursor")).unwrap();
    let file = stage.home().join(".cursor/mcp.json");
    std::fs::write(file, json!({"mcpServers": servers}).to_string()).unwrap();
    stage
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

#[track_caller]
fn done(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

fn events(stage: &Stage, run: &str, kind: &str) -> Vec<Value> {
    let events = stage.journal(run).into_iter().map(|entry| entry.line["run"].clone());
    events.filter(|event| event["kind"] == kind).collect()
}

/// Names of the servers in a file that somebody read.
fn names(file: &str) -> Vec<String> {
    let file: Value = serde_json::from_str(file).unwrap();
    file["mcpServers"].as_object().unwrap().keys().cloned().collect()
}

/// A FIFO of the workspace at which a script waits until it is let go on.
struct Gate(PathBuf);

impl Gate {
    fn new(stage: &Stage, name: &str) -> Self {
        let path = stage.workspace().join(name);
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        Self(path)
    }

    /// Returns when the script has come here, and lets it go on.
    fn open(&self) {
        let mut gate = std::fs::OpenOptions::new().write(true).open(&self.0).unwrap();
        gate.write_all(b"go\n").unwrap();
    }
}

#[test]
fn a_server_that_is_switched_off_leaves_the_file_of_the_agent_that_runs_and_stays_off_for_the_session()
 {
    let stage = stage_with(json!({"notes": server("notes"), "slack": server("slack")}));
    let (first, second) = (Gate::new(&stage, "first"), Gate::new(&stage, "second"));
    let script = "shell cat first; cat .cursor/mcp.json > before\n\
                  shell cat second; cat .cursor/mcp.json > after\nsay done";
    let run = stage.detach(script, &["--user-mcp"]);
    first.open();
    // The first look is over when the second is waited for, which the journal shows.
    stage.wait_until(&run, |line| {
        line["kind"] == "agent.tool_completed"
            && line["args"]["command"].to_string().contains("first")
    });
    let changed = done(&stage.output(&["mcp", "disable", &run, "notes", "--json"]));
    assert_eq!(changed["run"], json!(run));
    assert_eq!(changed["servers"], json!(["caretaker", "slack"]));
    let shown = done(&stage.output(&["mcp", "show", &run, "--json"]));
    assert_eq!((&shown["live"], &shown["off"]), (&json!(true), &json!(["notes"])));
    second.open();
    assert_eq!(stage.output(&["wait", &run]).status.code(), Some(0));
    let read = |name: &str| std::fs::read_to_string(stage.workspace().join(name)).unwrap();
    assert_eq!(names(&read("before")), ["caretaker", "notes", "slack"]);
    assert_eq!(names(&read("after")), ["caretaker", "slack"]);
    assert_eq!(
        events(&stage, &run, "mcp_changed"),
        [json!({"kind": "mcp_changed", "disabled": ["notes"], "servers": ["caretaker", "slack"]})]
    );
    // The repository's own place is as it was.
    assert!(!stage.workspace().join(".cursor").exists());

    let session = stage.session_of(&run);
    let script = "shell cat .cursor/mcp.json > later\nmcp notes tell {}\nsay done";
    let resumed = stage.resume(&session, script, &["--user-mcp"]);
    assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
    assert!(
        stderr(&resumed).contains("switched off for this session: notes"),
        "{}",
        stderr(&resumed)
    );
    assert_eq!(names(&read("later")), ["caretaker", "slack"]);
    let later = stage.run_ids().pop().unwrap();
    assert_eq!(events(&stage, &later, "mcp_changed")[0]["disabled"], json!(["notes"]));
    assert!(
        !std::fs::read_to_string(stage.journal_path(&later)).unwrap().contains("told by notes")
    );

    // Between runs it can be switched on again, and the next run has it.
    let changed = done(&stage.output(&["mcp", "enable", &later, "notes", "--json"]));
    assert_eq!(
        (&changed["run"], &changed["servers"]),
        (&Value::Null, &json!(["caretaker", "notes", "slack"]))
    );
    let resumed = stage.resume(&session, "mcp notes tell {}\nsay done", &["--user-mcp"]);
    assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
    let last =
        std::fs::read_to_string(stage.journal_path(&stage.run_ids().pop().unwrap())).unwrap();
    assert!(last.contains("told by notes: [redacted]"), "{last}");
}

#[test]
fn a_server_that_is_switched_off_stays_off_in_forks_and_in_a_session_that_begins_in_its_place() {
    let stage = stage_with(json!({"notes": server("notes"), "slack": server("slack")}));
    let show = "shell cat .cursor/mcp.json > shown\nsay done";
    let shown = || names(&std::fs::read_to_string(stage.workspace().join("shown")).unwrap());
    let output = stage.play(show, &["--user-mcp"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(shown(), ["caretaker", "notes", "slack"]);
    let run = stage.run_ids().pop().unwrap();
    assert_eq!(stage.output(&["mcp", "disable", &run, "notes"]).status.code(), Some(0));

    let fork = |session: &str| {
        let forked = stage.output(&["sessions", "fork", session]);
        assert_eq!(forked.status.code(), Some(0), "{}", stderr(&forked));
        stdout(&forked).trim().to_owned()
    };
    let one = fork(&stage.session_of(&run));
    for session in [fork(&one), one] {
        for _ in 0..2 {
            let resumed = stage.resume(&session, show, &[]);
            assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
            assert_eq!(shown(), ["caretaker", "slack"]);
        }
        // It is the session's own, and can be changed like any other.
        let run = stage.run_ids().pop().unwrap();
        assert_eq!(stage.output(&["mcp", "enable", &run, "notes"]).status.code(), Some(0));
        assert_eq!(stage.resume(&session, show, &[]).status.code(), Some(0));
        assert_eq!(shown(), ["caretaker", "notes", "slack"]);
    }

    let run = stage.detach("wait 60s\nsay Never.", &["--user-mcp"]);
    stage.wait_until(&run, |line| line["kind"] == "agent.user");
    assert_eq!(stage.output(&["mcp", "disable", &run, "notes"]).status.code(), Some(0));
    assert_eq!(stage.output(&["suspend", &run]).status.code(), Some(0));
    let fresh = stage.resume(&stage.session_of(&run), show, &["--fresh"]);
    assert_eq!(fresh.status.code(), Some(0), "{}", stderr(&fresh));
    assert_eq!(shown(), ["caretaker", "slack"]);
}

#[test]
fn a_fork_that_fails_leaves_nothing_behind() {
    let stage = Stage::new();
    assert_eq!(stage.play("say done", &[]).status.code(), Some(0));
    let session = stage.session_of(&stage.run_ids()[0]);
    let sessions = || std::fs::read_dir(stage.root().join("state/sessions")).unwrap().count();
    let before = sessions();
    let refused = stage.output(&["sessions", "fork", &session, "--at", "9"]);
    assert_eq!(refused.status.code(), Some(3), "{}", stderr(&refused));
    assert_eq!(sessions(), before);
}

#[test]
fn a_server_of_the_user_can_be_added_while_the_agent_runs_and_its_key_stays_with_the_user() {
    let stage = stage_with(json!({"notes": server("notes"), "broken": {"args": []}}));
    let gate = Gate::new(&stage, "gate");
    let run = stage.detach("shell cat gate; cat .cursor/mcp.json\nsay done", &[]);
    let changed = done(&stage.output(&["mcp", "enable", &run, "notes", "--json"]));
    assert_eq!(changed["servers"], json!(["caretaker", "notes"]));
    let shown = stage.output(&["mcp", "show", &run]);
    assert_eq!(names(stdout(&shown)), ["caretaker", "notes"]);
    assert!(!stdout(&shown).contains(KEY), "{}", stdout(&shown));
    gate.open();
    assert_eq!(stage.output(&["wait", &run]).status.code(), Some(0));
    let journal = std::fs::read_to_string(stage.journal_path(&run)).unwrap();
    assert!(journal.contains("NOTES_KEY") && !journal.contains(KEY), "{journal}");
    assert_eq!(events(&stage, &run, "mcp_changed")[0]["enabled"], json!(["notes"]));
    // Nothing of it stays in the run's directory, and the next run has it without being asked.
    assert!(!stage.runs().join(&run).join("dotcursor/mcp.json").exists());
    let session = stage.session_of(&run);
    let resumed = stage.resume(&session, "mcp notes tell {}\nsay done", &[]);
    assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
    let last =
        std::fs::read_to_string(stage.journal_path(&stage.run_ids().pop().unwrap())).unwrap();
    assert!(last.contains("told by notes: [redacted]"), "{last}");
}

#[test]
fn a_change_that_cannot_be_made_changes_nothing() {
    let stage =
        stage_with(json!({"notes": server("notes"), "docs": {"url": "https://docs.test/mcp"}}));
    let gate = Gate::new(&stage, "gate");
    let run =
        stage.detach("shell cat gate; cat .cursor/mcp.json > after\nsay done", &["--user-mcp"]);
    for command in ["disable", "enable"] {
        let refused = stage.output(&["mcp", command, &run, "nobody"]);
        assert_eq!(refused.status.code(), Some(4), "{}", stderr(&refused));
    }
    gate.open();
    assert_eq!(stage.output(&["wait", &run]).status.code(), Some(0));
    let after = std::fs::read_to_string(stage.workspace().join("after")).unwrap();
    assert_eq!(names(&after), ["caretaker", "notes", "docs"]);
    assert_eq!(events(&stage, &run, "mcp_changed"), Vec::<Value>::new());
    // A file that is broken by now keeps nobody from switching a server off.
    std::fs::write(stage.home().join(".cursor/mcp.json"), "not json").unwrap();
    let changed = stage.output(&["mcp", "disable", &run, "caretaker", "--json"]);
    assert_eq!(done(&changed)["servers"], Value::Null);
}

#[test]
fn whoever_reads_the_file_while_it_changes_reads_all_of_it() {
    let stage = stage_with(json!({"notes": server("notes")}));
    let gate = Gate::new(&stage, "gate");
    let reader = "import json, os\n\
                  n = 0\n\
                  while not os.path.exists('stop'):\n    json.load(open('.cursor/mcp.json'))['mcpServers']\n    n += 1\n    open('reads', 'a').close()\n\
                  print(n)\n";
    std::fs::write(stage.workspace().join("reader.py"), reader).unwrap();
    let script = "shell cat gate; python3 reader.py > count 2> torn\nsay done";
    let run = stage.detach(script, &["--user-mcp"]);
    gate.open();
    let begun = stage.workspace().join("reads");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !begun.exists() {
        assert!(Instant::now() < deadline, "the reader has read nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..10 {
        for verb in ["disable", "enable"] {
            done(&stage.output(&["mcp", verb, &run, "notes"]));
        }
    }
    std::fs::write(stage.workspace().join("stop"), "").unwrap();
    assert_eq!(stage.output(&["wait", &run]).status.code(), Some(0));
    let read = |name: &str| std::fs::read_to_string(stage.workspace().join(name)).unwrap();
    assert_eq!(read("torn"), "");
    assert!(read("count").trim().parse::<u64>().unwrap() > 0);
    assert_eq!(events(&stage, &run, "mcp_changed").len(), 20);
}

#[test]
fn what_a_run_would_get_is_shown_without_starting_one() {
    let stage = stage_with(
        json!({"notes": server("notes"), "docs": {"url": "https://docs.test/mcp?key=hush-hush"}}),
    );
    let workspace = stage.workspace();
    let workspace = workspace.to_str().unwrap();
    let shown = stage.output(&["mcp", "show", "-C", workspace]);
    assert_eq!(names(stdout(&shown)), ["caretaker"]);
    let shown = stage.output(&["mcp", "show", "-C", workspace, "--user-mcp"]);
    assert_eq!(names(stdout(&shown)), ["caretaker", "notes", "docs"]);
    assert!(!stdout(&shown).contains("hush-hush"), "{}", stdout(&shown));
    assert!(stage.run_ids().is_empty());
}

/// The repository's own file.
fn repository_defines(stage: &Stage, servers: &Value) {
    std::fs::create_dir_all(stage.workspace().join(".cursor")).unwrap();
    let file = stage.workspace().join(".cursor/mcp.json");
    std::fs::write(file, json!({"mcpServers": servers}).to_string()).unwrap();
}

fn latest_journal(stage: &Stage) -> String {
    std::fs::read_to_string(stage.journal_path(&stage.run_ids().pop().unwrap())).unwrap()
}

#[test]
fn servers_are_taken_by_name_and_the_others_may_be_as_broken_as_they_like() {
    let stage = stage_with(json!({"notes": server("notes"), "slack": server("slack"), "bad": {}}));
    let script = "mcp notes tell {}\nmcp slack tell {}\nsay done";
    let output = stage.play(script, &["--mcp", "notes"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let journal = latest_journal(&stage);
    assert!(journal.contains("told by notes") && !journal.contains("told by slack"), "{journal}");
    // The configuration gives all of them; a name on the command line is the narrower word.
    stage.configure("min_free = '0'\nuser_mcp = true\n");
    let output = stage.play(script, &["--mcp", "slack"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let journal = latest_journal(&stage);
    assert!(journal.contains("told by slack") && !journal.contains("told by notes"), "{journal}");
}

#[test]
fn names_that_lead_nowhere_refuse_the_run_before_anything_exists() {
    let stage = stage_with(json!({"notes": server("notes"), "caretaker": server("c")}));
    for (flags, code, words) in [
        (&["--mcp", "nobody"][..], 3, "it has notes, caretaker"),
        (&["--mcp", "caretaker"], 2, "there is already an MCP server called `caretaker`"),
        (&["--mcp-from-repo", "nobody"], 2, "has no server `nobody`"),
        (&["--mcp", "notes", "--user-mcp"], 2, "cannot be used with"),
        (
            &["--mcp", "notes", "--sandbox", "off"],
            2,
            "without one the agent goes by your own files",
        ),
    ] {
        let output = stage.play("say done", flags);
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{flags:?}: {}", stderr(&output));
    }
    assert_eq!(stage.run_ids(), Vec::<String>::new());
}

#[test]
fn a_server_of_the_repository_needs_the_users_word_and_is_given_only_as_the_user_saw_it() {
    let stage = stage_with(json!({"notes": server("notes")}));
    repository_defines(&stage, &json!({"theirs": server("theirs")}));
    let refused = stage.play("say done", &["--mcp", "theirs"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let said = stderr(&refused);
    assert!(said.contains("the repository's, not yours") && said.contains("/bin/sh"), "{said}");
    assert!(said.contains("--mcp-from-repo theirs") && !said.contains(KEY), "{said}");
    assert!(stage.run_ids().is_empty());

    let script = "mcp theirs tell {}\nsay done";
    let output = stage.play(script, &["--mcp-from-repo", "theirs"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("the repository's MCP server `theirs`"),
        "{}",
        stderr(&output)
    );
    assert!(latest_journal(&stage).contains("told by theirs: [redacted]"));

    // Another definition is not what the user allowed, whoever continues the run.
    let run = stage.run_ids().pop().unwrap();
    let spec = std::fs::read_to_string(stage.runs().join(&run).join("spec.json")).unwrap();
    assert!(!spec.contains(KEY), "{spec}");
    repository_defines(
        &stage,
        &json!({"theirs": {"command": "/bin/sh", "args": ["-c", "touch it-ran"]}}),
    );
    let gate = Gate::new(&stage, "gate");
    repository_defines(&stage, &json!({"theirs": server("theirs")}));
    let run = stage.detach("shell cat gate\nsay done", &["--mcp-from-repo", "theirs"]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    assert_eq!(stage.output(&["suspend", &run]).status.code(), Some(0));
    drop(gate);
    repository_defines(
        &stage,
        &json!({"theirs": {"command": "/bin/sh", "args": ["-c", "touch it-ran"]}}),
    );
    let resumed = stage.output(&["resume", "--suspended", "--agent", "simulated"]);
    assert_eq!(resumed.status.code(), Some(2), "{}", stderr(&resumed));
    assert!(
        stderr(&resumed).contains("not defined as it was when you allowed it"),
        "{}",
        stderr(&resumed)
    );
    assert!(!stage.workspace().join("it-ran").exists());
}

#[test]
fn a_repository_s_file_that_is_no_plain_file_is_not_read() {
    let stage = stage_with(json!({}));
    std::fs::create_dir_all(stage.workspace().join(".cursor")).unwrap();
    let file = stage.workspace().join(".cursor/mcp.json");
    std::os::unix::fs::symlink(stage.home().join(".cursor/mcp.json"), &file).unwrap();
    let output = stage.play("say done", &["--mcp-from-repo", "notes"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    std::fs::remove_file(&file).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(made.success());
    let output = stage.play("say done", &["--mcp-from-repo", "notes"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("is a FIFO"), "{}", stderr(&output));
    assert!(stage.run_ids().is_empty());
}

#[test]
fn a_server_with_an_address_brings_its_host_along_only_if_the_user_named_it() {
    let Some(outside) = Outside::new() else { return };
    let stage = &outside.stage;
    std::fs::create_dir_all(stage.home().join(".cursor")).unwrap();
    let docs = json!({"docs": {"url": "https://allowed.test/mcp"}});
    std::fs::write(stage.home().join(".cursor/mcp.json"), json!({"mcpServers": docs}).to_string())
        .unwrap();
    let call = "curl -sS --cacert ca.pem -H 'content-type: application/json' \
                -d '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}' https://allowed.test/mcp";
    let script = format!(
        "shell {call} > got 2> complaint; curl -sS --cacert ca.pem https://denied.test >> got; true\nsay done"
    );
    let got = || std::fs::read_to_string(stage.workspace().join("got")).unwrap();

    let output = outside.play(&script, &["--mcp", "docs"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        got().starts_with("reached allowed.test") && !got().contains("denied.test"),
        "{}",
        got()
    );

    // All of the user's servers at once are no word for any host; it is said how to allow it.
    let output = outside.play(&script, &["--user-mcp"]);
    assert_eq!((output.status.code(), got().as_str()), (Some(0), ""), "{}", stderr(&output));
    assert!(stderr(&output).contains("the agent will not reach `docs`"), "{}", stderr(&output));

    // Nor does a later run of the session get the host without a word for it.
    let session = stage.session_of(&stage.run_ids().pop().unwrap());
    let continued = |flags: &[&str]| {
        outside.play(&script, &[&["--session", &session, "--mcp", "docs"], flags].concat())
    };
    let refused = continued(&[]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("--widen user-mcp"), "{}", stderr(&refused));
    let output = continued(&["--widen", "user-mcp"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(got().starts_with("reached allowed.test"), "{}", got());

    // What is off for the session is off the list of its next run.
    let run = stage.run_ids().remove(0);
    assert_eq!(stage.output(&["mcp", "disable", &run, "docs"]).status.code(), Some(0));
    let refused = outside.play(&script, &["--session", &stage.session_of(&run), "--mcp", "docs"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("was switched off for this session"), "{}", stderr(&refused));

    // The repository's choice of a host is not the user's.
    repository_defines(stage, &json!({"theirs": {"url": "https://allowed.test/mcp"}}));
    let refused = outside.play(&script, &["--mcp-from-repo", "theirs"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("hint: allow the host: --allow-host allowed.test"),
        "{}",
        stderr(&refused)
    );
    let output =
        outside.play(&script, &["--mcp-from-repo", "theirs", "--allow-host", "allowed.test"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(got().starts_with("reached allowed.test"), "{}", got());
}

#[test]
fn an_address_that_no_list_can_hold_is_refused_with_the_reason() {
    let stage = stage_with(json!({
        "plain": {"url": "http://docs.test/mcp"}, "here": {"url": "https://127.0.0.1:3000/mcp"},
        "docs": {"url": "https://docs.test/mcp"},
    }));
    for (flags, words) in [
        (&["--mcp", "plain"][..], "its address is not `https://` and the name of a host"),
        (&["--mcp", "here"], "its address is not `https://` and the name of a host"),
        (&["--mcp", "docs", "--network", "none"], "the run has no network"),
    ] {
        let output = stage.play("say done", flags);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{flags:?}: {}", stderr(&output));
    }
    assert!(stage.run_ids().is_empty());
}

#[test]
fn tools_are_counted_in_a_sandbox_and_more_than_forty_are_warned_of() {
    let mut many = server("many");
    many["env"]["N_TOOLS"] = json!("30");
    let marker = json!({"command": "/bin/sh", "args": ["-c", "touch \"$HOME/../it-ran-on-the-host\"; exit 1"]});
    let listed = json!({"url": "https://docs.test/mcp", "enabledTools": ["a", "b"]});
    let stage = stage_with(json!({"many": many, "docs": listed, "notes": server("notes")}));
    repository_defines(&stage, &json!({"theirs": marker}));
    let counted = done(&stage.output(&[
        "mcp",
        "tools",
        "--mcp",
        "notes",
        "--mcp-from-repo",
        "theirs",
        "--json",
    ]));
    assert_eq!((&counted["total"], &counted["is_over"]), (&json!(13), &json!(false)));
    assert_eq!(counted["uncounted"], json!(["theirs"]));
    let names: Vec<&Value> =
        counted["servers"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["caretaker", "notes", "theirs"]);
    assert_eq!(counted["servers"][1]["tools"], json!(["tell"]));
    assert_eq!(counted["servers"][2]["state"], "failed");
    assert!(!stage.root().join("it-ran-on-the-host").exists());

    let output = stage.output(&["mcp", "tools", "--user-mcp"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("45 tools in all"), "{}", stdout(&output));
    assert!(
        stderr(&output).contains("have 45 tools; Cursor is said to use 40"),
        "{}",
        stderr(&output)
    );
    // Nothing of it stays.
    assert_eq!(stage.run_ids(), Vec::<String>::new());
    assert!(!stage.home().join(".cursor/chats").exists());
}

/// A server that never answers, so that its tools are counted until the time is up.
fn silent_server() -> Value {
    json!({"command": "/bin/sleep", "args": ["60"]})
}

#[test]
fn a_count_of_tools_that_a_signal_ends_leaves_nothing_behind() {
    let stage = stage_with(json!({"silent": silent_server()}));
    let mut counting = stage.caretaker(&["mcp", "tools", "--user-mcp"]).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !stage.processes().iter().any(|(_, command)| command.contains("/bin/sleep")) {
        assert!(Instant::now() < deadline, "the server was not started");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_raw(counting.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(counting.wait().unwrap().code(), Some(130));
    assert_eq!(stage.run_ids(), Vec::<String>::new());
    let kept = std::fs::read_dir(stage.root().join("state/mcp-tools")).unwrap();
    assert_eq!(kept.count(), 0);
    stage.assert_no_survivors("a count of tools that a signal ended");
}

#[test]
fn what_a_killed_count_of_tools_left_is_swept_away() {
    let stage = Stage::new();
    let left = stage.root().join("state/mcp-tools/01234567-89ab-4cde-8f01-23456789abcd");
    std::fs::create_dir_all(left.join("chats")).unwrap();
    done(&stage.output(&["ps"]));
    assert!(!left.exists());
}

#[test]
fn the_number_of_tools_is_remarked_on_once() {
    let tools: Vec<String> = (0..50).map(|n| format!("t{n}")).collect();
    let stage = stage_with(
        json!({"docs": {"url": "https://docs.test/mcp", "enabledTools": tools}, "notes": server("notes")}),
    );
    let output = stage.output(&["mcp", "tools", "--user-mcp"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output).matches("Cursor is said to use").count(), 1, "{}", stderr(&output));
}

#[test]
fn an_agent_cannot_keep_its_servers_by_spoiling_its_approvals() {
    let stage = stage_with(json!({"notes": server("notes")}));
    let gate = Gate::new(&stage, "gate");
    let script = "shell cd ~/.cursor/projects/*/ && rm -f mcp-approvals.json && mkdir -p mcp-approvals.json/x && touch \"$OLDPWD/spoilt\"\n\
                  shell cat gate; cat .cursor/mcp.json > after\nsay done";
    let run = stage.detach(script, &["--user-mcp"]);
    stage.wait_until(&run, |line| {
        line["kind"] == "agent.tool_started" && line["args"]["command"].to_string().contains("gate")
    });
    assert!(stage.workspace().join("spoilt").exists());
    done(&stage.output(&["mcp", "disable", &run, "notes"]));
    gate.open();
    assert_eq!(stage.output(&["wait", &run]).status.code(), Some(0));
    let after = std::fs::read_to_string(stage.workspace().join("after")).unwrap();
    assert_eq!(names(&after), ["caretaker"]);
}

#[test]
fn without_a_sandbox_nothing_is_promised_about_servers() {
    let stage = stage_with(json!({"notes": server("notes")}));
    let session = stage.begin_session();
    let run = stage.run_ids().pop().unwrap();
    done(&stage.output(&["mcp", "disable", &run, "caretaker"]));
    // A restriction that could not be kept is not dropped in silence.
    let refused = stage.resume(&session, "say no", &["--sandbox", "off", "--widen", "profile"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("cannot be enforced"), "{}", stderr(&refused));
    assert_eq!(stage.run_ids().len(), 1);
    let output = stage.play("say done", &["--sandbox", "off"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = stage.run_ids().pop().unwrap();
    for args in [&["mcp", "show", &run][..], &["mcp", "disable", &run, "notes"]] {
        let refused = stage.output(args);
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    }
}
