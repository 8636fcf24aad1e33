//! The user switches MCP servers on and off, while an agent runs and for the rest of its session.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Gate, KEY, done, events, names, server, stage_with};
use crate::stage::{Stage, assert_exit, stderr, stdout};

#[test]
fn a_server_that_is_switched_off_leaves_the_running_agents_file_and_stays_off_for_the_session() {
    let stage = stage_with(json!({"notes": server("notes"), "slack": server("slack")}));
    let (first, second) = (Gate::new(&stage, "first"), Gate::new(&stage, "second"));
    let script = "shell cat first; cat .cursor/mcp.json > before\n\
                  shell cat second; cat .cursor/mcp.json > after\nsay done";
    let run = stage.detach(script, &["--user-mcp"]);
    first.open();
    // Once the journal shows that the agent is waiting at the second gate, the agent has read the file.
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
    // The repository's own file is unchanged.
    assert!(!stage.workspace().join(".cursor").exists());

    let session = stage.session_of(&run);
    let script = "shell cat .cursor/mcp.json > later\nmcp notes tell {}\nsay done";
    let resumed = stage.resume(&session, script, &["--user-mcp"]);
    assert_exit(&resumed, 0);
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

    // Between runs the user can switch it on again, and the next run has it.
    let changed = done(&stage.output(&["mcp", "enable", &later, "notes", "--json"]));
    assert_eq!(
        (&changed["run"], &changed["servers"]),
        (&Value::Null, &json!(["caretaker", "notes", "slack"]))
    );
    let resumed = stage.resume(&session, "mcp notes tell {}\nsay done", &["--user-mcp"]);
    assert_exit(&resumed, 0);
    let last =
        std::fs::read_to_string(stage.journal_path(&stage.run_ids().pop().unwrap())).unwrap();
    assert!(last.contains("told by notes: [redacted]"), "{last}");
}

#[test]
fn a_server_that_is_switched_off_stays_off_in_forks_and_after_a_fresh_start() {
    let stage = stage_with(json!({"notes": server("notes"), "slack": server("slack")}));
    let show = "shell cat .cursor/mcp.json > shown\nsay done";
    let shown = || names(&std::fs::read_to_string(stage.workspace().join("shown")).unwrap());
    let output = stage.play(show, &["--user-mcp"]);
    assert_exit(&output, 0);
    assert_eq!(shown(), ["caretaker", "notes", "slack"]);
    let run = stage.run_ids().pop().unwrap();
    assert_eq!(stage.output(&["mcp", "disable", &run, "notes"]).status.code(), Some(0));

    let fork = |session: &str| {
        let forked = stage.output(&["sessions", "fork", session]);
        assert_exit(&forked, 0);
        stdout(&forked).trim().to_owned()
    };
    let one = fork(&stage.session_of(&run));
    for session in [fork(&one), one] {
        for _ in 0..2 {
            let resumed = stage.resume(&session, show, &[]);
            assert_exit(&resumed, 0);
            assert_eq!(shown(), ["caretaker", "slack"]);
        }
        // The server belongs to the session, and the user can change it like any other.
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
    assert_exit(&fresh, 0);
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
    assert_exit(&refused, 3);
    assert_eq!(sessions(), before);
}

#[test]
fn one_of_the_users_servers_can_be_added_while_the_agent_runs_and_its_key_stays_with_the_user() {
    let stage = stage_with(json!({"notes": server("notes"), "broken": {"args": []}}));
    let gate = Gate::new(&stage, "gate");
    let run = stage.detach("shell cat gate; cat .cursor/mcp.json\nsay done", &[]);
    let changed = done(&stage.output(&["mcp", "enable", &run, "notes", "--json"]));
    assert_eq!(changed["servers"], json!(["caretaker", "notes"]));
    let shown = stage.output(&["mcp", "show", &run]);
    assert_eq!(names(&stdout(&shown)), ["caretaker", "notes"]);
    assert!(!stdout(&shown).contains(KEY), "{}", stdout(&shown));
    gate.open();
    assert_eq!(stage.output(&["wait", &run]).status.code(), Some(0));
    let journal = std::fs::read_to_string(stage.journal_path(&run)).unwrap();
    assert!(journal.contains("NOTES_KEY") && !journal.contains(KEY), "{journal}");
    assert_eq!(events(&stage, &run, "mcp_changed")[0]["enabled"], json!(["notes"]));
    // The run's directory keeps no copy, and the next run gets the server without a new request.
    assert!(!stage.runs().join(&run).join("dotcursor/mcp.json").exists());
    let session = stage.session_of(&run);
    let resumed = stage.resume(&session, "mcp notes tell {}\nsay done", &[]);
    assert_exit(&resumed, 0);
    let last =
        std::fs::read_to_string(stage.journal_path(&stage.run_ids().pop().unwrap())).unwrap();
    assert!(last.contains("told by notes: [redacted]"), "{last}");
}

#[test]
fn a_change_that_cannot_be_made_changes_nothing_and_says_why() {
    let stage =
        stage_with(json!({"notes": server("notes"), "docs": {"url": "https://docs.test/mcp"}}));
    let gate = Gate::new(&stage, "gate");
    let run =
        stage.detach("shell cat gate; cat .cursor/mcp.json > after\nsay done", &["--user-mcp"]);
    for (args, words) in [
        (["disable", "nobody"], "no MCP server `nobody`; it has caretaker, notes, docs"),
        (["enable", "nobody"], "has no server `nobody`"),
    ] {
        let refused = stage.output(&["mcp", args[0], &run, args[1]]);
        assert_exit(&refused, 4);
        assert!(stderr(&refused).contains(words), "{}", stderr(&refused));
    }
    gate.open();
    assert_eq!(stage.output(&["wait", &run]).status.code(), Some(0));
    let after = std::fs::read_to_string(stage.workspace().join("after")).unwrap();
    assert_eq!(names(&after), ["caretaker", "notes", "docs"]);
    assert_eq!(events(&stage, &run, "mcp_changed"), Vec::<Value>::new());
    // A file that has become invalid does not stop the user from switching a server off.
    std::fs::write(stage.home().join(".cursor/mcp.json"), "not json").unwrap();
    let changed = stage.output(&["mcp", "disable", &run, "caretaker", "--json"]);
    assert_eq!(done(&changed)["servers"], Value::Null);
}

#[test]
fn a_reader_of_the_file_during_a_change_sees_a_whole_file() {
    let stage = stage_with(json!({"notes": server("notes")}));
    let (gate, begun) = (Gate::new(&stage, "gate"), Gate::new(&stage, "begun"));
    let reader = "import json, os\n\
                  n = 0\n\
                  while not os.path.exists('stop'):\n    json.load(open('.cursor/mcp.json'))['mcpServers']\n    n += 1\n    if n == 1: open('begun').read()\n\
                  print(n)\n";
    std::fs::write(stage.workspace().join("reader.py"), reader).unwrap();
    let script = "shell cat gate; python3 reader.py > count 2> torn\nsay done";
    let run = stage.detach(script, &["--user-mcp"]);
    gate.open();
    begun.open();
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
fn show_prints_the_servers_that_a_run_would_get_without_starting_one() {
    let stage = stage_with(
        json!({"notes": server("notes"), "docs": {"url": "https://docs.test/mcp?key=hush-hush"}}),
    );
    let workspace = stage.workspace();
    let workspace = workspace.to_str().unwrap();
    let shown = stage.output(&["mcp", "show", "-C", workspace]);
    assert_eq!(names(&stdout(&shown)), ["caretaker"]);
    let shown = stage.output(&["mcp", "show", "-C", workspace, "--user-mcp"]);
    assert_eq!(names(&stdout(&shown)), ["caretaker", "notes", "docs"]);
    assert!(!stdout(&shown).contains("hush-hush"), "{}", stdout(&shown));
    assert!(stage.run_ids().is_empty());
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
    // Caretaker refuses rather than silently drop a restriction that it cannot enforce.
    let refused = stage.resume(&session, "say no", &["--sandbox", "off", "--widen", "profile"]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("cannot be enforced"), "{}", stderr(&refused));
    assert_eq!(stage.run_ids().len(), 1);
    let output = stage.play("say done", &["--sandbox", "off"]);
    assert_exit(&output, 0);
    let run = stage.run_ids().pop().unwrap();
    for args in [&["mcp", "show", &run][..], &["mcp", "disable", &run, "notes"]] {
        let refused = stage.output(args);
        assert_exit(&refused, 2);
        assert!(stderr(&refused).contains("has no sandbox"), "{}", stderr(&refused));
    }
}
