//! Questions from agents to users, and messages to agents: each arrives exactly once, even if a process dies.

use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::daemon_stage::DaemonStage;
use crate::stage::{Stage, assert_exit, stderr};

fn inbox(stage: &Stage) -> Value {
    stage.json(&["inbox", "--json"])
}

fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the ids of the messages that the journal reports as delivered, and how each was delivered.
fn delivered(stage: &Stage, run: &str) -> Vec<(String, String)> {
    let journal = stage.journal(run);
    let events = journal.iter().map(|entry| &entry.line["run"]);
    events
        .filter(|event| event["kind"] == "messages_delivered")
        .flat_map(|event| {
            let by = event["by"].as_str().unwrap().to_owned();
            let ids = event["messages"].as_array().unwrap().iter();
            ids.map(move |id| (by.clone(), id.as_str().unwrap().to_owned())).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn a_question_is_asked_shown_and_answered_and_its_answer_found_without_a_daemon() {
    let stage = Stage::new();
    let script = "mcp caretaker ask_human {\"question\":\"Which database?\",\"options\":[\"old\",\"new\"]}\n\
                  mcp caretaker request_access {\"host\":\"db.example.org\",\"why\":\"to look\"}\n\
                  until[text=\"the new one\"] caretaker check_inbox\nsay thanks";
    let run = stage.detach(script, &["--name", "asker"]);
    stage.wait_until(&run, |line| line["kind"] == "run.needs_human" && line["about"] == "access");

    let open = inbox(&stage);
    let question = open["questions"][0].clone();
    assert_eq!((&question["text"], &question["run"]), (&json!("Which database?"), &json!(run)));
    assert_eq!(question["options"], json!(["old", "new"]));
    assert_eq!(open["questions"][1]["host"], "db.example.org");
    let ps = stage.output(&["ps"]);
    assert!(said(&ps).contains("asks"), "{}", said(&ps));

    // Two questions are open, so the run alone is ambiguous.
    let unclear = stage.output(&["answer", "asker", "x"]);
    assert_exit(&unclear, 2);
    let id = question["question"].as_str().unwrap();
    let answered = stage.output(&["answer", id, "the new one"]);
    assert_exit(&answered, 0);
    assert!(stderr(&answered).contains("when it calls check_inbox"), "{}", stderr(&answered));
    let twice = stage.output(&["answer", id, "the old one"]);
    assert_exit(&twice, 4);
    assert_eq!(stage.output(&["answer", "q-nothing", "x"]).status.code(), Some(3));
    assert_eq!(stage.output(&["wait", &run, "--timeout", "2m"]).status.code(), Some(0));

    assert_eq!(delivered(&stage, &run).len(), 1);
    let open = inbox(&stage);
    assert_eq!(open["questions"].as_array().unwrap().len(), 1);
    assert_eq!(open["undelivered"], json!([]));
    let answered = stage.output(&["answer", "asker", "no"]);
    assert!(stderr(&answered).contains("daemon not running"), "{}", stderr(&answered));
}

#[test]
fn a_message_survives_the_shim_and_is_delivered_once() {
    let stage = Stage::new();
    let fifo = stage.workspace().join("hold");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let run = stage.detach("say hello\nshell cat hold\nmcp caretaker check_inbox", &[]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    assert!(stage.output(&["send", &run, "do not forget"]).status.success());
    assert_eq!(inbox(&stage)["undelivered"][0]["delivery"], "check_inbox");
    let shown = stage.output(&["inbox"]);
    assert!(said(&shown).contains("undelivered (live)"), "{}", said(&shown));
    let told = stderr(&shown);
    assert!(told.contains("check_inbox") && !told.contains("next turn"), "{told}");
    kill_shim(&stage, &run);
    assert_eq!(inbox(&stage)["undelivered"][0]["delivery"], "next_turn");

    let session = stage.session_of(&run);
    let script = "mcp caretaker check_inbox";
    for (n_delivered, flags) in [(1, &[][..]), (0, &[])] {
        let resumed = stage.resume(&session, script, flags);
        assert_exit(&resumed, 0);
        let latest = stage.run_ids().pop().unwrap();
        assert_eq!(delivered(&stage, &latest).len(), n_delivered);
        let journal = std::fs::read_to_string(stage.journal_path(&latest)).unwrap();
        assert_eq!(journal.contains("do not forget"), n_delivered == 1);
    }
}

#[test]
fn a_message_is_neither_lost_nor_delivered_twice_whenever_the_shim_dies() {
    let stage = Stage::new();
    let fifo = stage.workspace().join("hold");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // The shim dies as soon as the journal shows the call, or once it shows the delivery.
    for kind in ["run.mcp_call", "run.messages_delivered"] {
        let run = stage.detach("mcp caretaker check_inbox\nshell cat hold", &[]);
        assert!(stage.output(&["send", &run, "news"]).status.success());
        // If the agent checked its inbox before the message arrived, the next run gets the message.
        stage.wait_until(&run, |line| {
            line["kind"] == kind || line["kind"] == "agent.tool_started" && line["name"] == "shell"
        });
        kill_shim(&stage, &run);
        let session = stage.session_of(&run);
        let resumed = stage.resume(&session, "mcp caretaker check_inbox", &[]);
        assert_exit(&resumed, 0);
        let next = stage.run_ids().pop().unwrap();
        // The inbox is authoritative: it names one run that delivered the message, and that run's journal has an agent
        // line with the message.
        let file = stage.root().join(format!("state/inbox/{session}.jsonl"));
        let entries = std::fs::read_to_string(file).unwrap();
        let entries = entries.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let by: Vec<Value> =
            entries.filter(|it| it["kind"] == "delivered").map(|it| it["run"].clone()).collect();
        assert_eq!(by.len(), 1, "{kind}: {by:?}");
        let is_shown = |run: &str| {
            let journal = stage.journal(run);
            journal.iter().any(|entry| {
                let line = entry.line["agent"].to_string();
                line.contains("completed") && line.contains("news")
            })
        };
        assert!(is_shown(by[0].as_str().unwrap()), "{kind}");
        if by[0] == json!(run) {
            assert!(!is_shown(&next), "{kind}: the message arrived twice");
        }
        assert_eq!(inbox(&stage)["undelivered"], json!([]));
    }
}

fn kill_shim(stage: &Stage, run: &str) {
    let shim = stage.shim_pid(run).to_string();
    assert!(Command::new("kill").args(["-9", &shim]).status().unwrap().success());
    stage.output(&["wait", run, "--timeout", "1m"]);
}

#[test]
fn an_idle_session_gets_its_messages_as_its_next_turn_even_if_the_daemon_dies() {
    let stage = DaemonStage::new(2);
    let run = stage.queue("one", "say The first turn.", &["--name", "worker"]);
    assert_eq!(stage.wait_for_end(&run), Some(0));
    assert!(stage.output(&["queue", "pause"]).status.success());
    let mut events = stage.follow("/v1/events", Some("1.0")).unwrap();
    let text = "Please:\n```agent\nrecall\nsay I did it\n```";
    let sent = stage.output(&["send", "worker", text]);
    assert!(stderr(&sent).contains("the session's next turn"), "{}", stderr(&sent));
    let queued = events
        .find(|event| {
            event.data["run"] != json!(run) && event.data["event"]["kind"] == "run.queued"
        })
        .unwrap();
    let turn = queued.data["run"].as_str().unwrap().to_owned();
    drop(events);
    assert_eq!(inbox(&stage)["undelivered"][0]["text"], text);

    stage.kill_daemon();
    stage.start_daemon();
    assert!(stage.output(&["queue", "resume"]).status.success());
    assert_eq!(stage.wait_for_end(&turn), Some(0), "{}", stage.why(&turn));
    assert_eq!(stage.session_of(&turn), stage.session_of(&run));
    let journal = std::fs::read_to_string(stage.journal_path(&turn)).unwrap();
    assert!(journal.contains("I did it") && journal.contains("From a person"), "{journal}");
    assert_eq!(delivered(&stage, &turn).len(), 1);
    assert_eq!(delivered(&stage, &turn)[0].0, "turn");
    assert_eq!(inbox(&stage)["undelivered"], json!([]));
    assert_eq!(stage.run_ids(), [run, turn], "once");
}

#[test]
fn the_api_lists_answers_and_sends_as_the_commands_do() {
    let stage = DaemonStage::new(2);
    let script = "mcp caretaker ask_human {\"question\":\"Which?\"}\n\
                  until[text=\"word \" count=2] caretaker check_inbox\nsay done";
    let run = stage.queue("one", script, &[]);
    stage.wait_until(&run, |line| line["kind"] == "run.needs_human");
    let (status, open) = stage.get("/v1/inbox");
    assert_eq!((status, &open["questions"][0]["run"]), (200, &json!(run)));
    let id = open["questions"][0]["question"].as_str().unwrap();
    let path = format!("/v1/inbox/{id}/answer");
    assert_eq!(stage.post(&path, &json!({"text": " "})).0, 400);
    assert_eq!(stage.post(&path, &json!({"text": "x", "as": "somebody"})).0, 400);
    let (status, left) = stage.post(&path, &json!({"text": "word one"}));
    assert_eq!((status, &left["answers"]), (202, &json!(id)), "{left}");
    assert_eq!(left["delivery"], "check_inbox");
    assert_eq!(stage.post(&path, &json!({"text": "word one"})).0, 409);
    assert_eq!(stage.post("/v1/inbox/q-0/answer", &json!({"text": "word one"})).0, 404);
    let path = format!("/v1/runs/{run}/messages");
    assert_eq!(stage.post(&path, &json!({"text": "word two"})).0, 202);
    assert_eq!(stage.wait_for_end(&run), Some(0));
    assert_eq!(stage.post("/v1/runs/nobody/messages", &json!({"text": "x"})).0, 404);
    // Only a live run can get new children.
    let order = json!({"request": {"prompt": "x"}});
    assert_eq!(stage.post(&format!("/v1/runs/{run}/children"), &order).0, 409);
}
