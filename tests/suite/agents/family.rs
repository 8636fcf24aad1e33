//! Agents that start other agents: their rights and limits.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::daemon_stage::DaemonStage;
use crate::stage::repository::make_repository;
use crate::stage::{Stage, assert_exit};

/// Returns the script line that spawns a child with this script.
fn spawn(name: &str, script: &str, more: &Value) -> String {
    let mut request = json!({"name": name, "prompt": format!("Play:\n```agent\n{script}\n```")});
    for (name, value) in more.as_object().unwrap() {
        request[name] = value.clone();
    }
    format!("mcp caretaker spawn_run {request}\n")
}

fn spec(stage: &Stage, run: &str) -> Value {
    serde_json::from_slice(&fs::read(stage.runs().join(run).join("spec.json")).unwrap()).unwrap()
}

/// Returns the run's journal events of this kind.
fn events(stage: &Stage, run: &str, kind: &str) -> Vec<Value> {
    let journal = stage.journal(run);
    let events = journal.into_iter().map(|mut entry| entry.line["run"].take());
    events.filter(|event| event["kind"] == kind).collect()
}

/// Returns this tool's refusals as text.
fn refusals(stage: &Stage, run: &str, tool: &str) -> Vec<String> {
    let calls = events(stage, run, "mcp_call").into_iter();
    calls
        .filter(|call| call["tool"] == tool && call["outcome"] == "refused")
        .map(|call| call["why"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_parent_hears_of_its_three_children_and_none_may_do_more_than_the_parent() {
    let stage = DaemonStage::new(6);
    make_repository(&stage.workspace());
    let child = |name: &str, more: &str| {
        format!(
            "mcp caretaker report_progress {{\"text\":\"{name} begins\"}}\n{more}\
             mcp caretaker send_message {{\"to\":\"parent\",\"text\":\"{name} is ready\"}}\n\
             until[text=\"go on\"] caretaker check_inbox\n\
             shell echo {name} > {name}.txt\n\
             mcp caretaker report_result {{\"status\":\"done\",\"summary\":\"{name} did it\"}}\n\
             say done"
        )
    };
    let greedy = "mcp caretaker spawn_run {\"prompt\":\"x\",\"timeout_seconds\":301}\n\
                  mcp caretaker spawn_run {\"prompt\":\"x\",\"memory_mb\":513}\n\
                  mcp caretaker stop_run {\"run\":\"kid-a\"}\n\
                  mcp caretaker list_runs\n";
    let narrow = json!({"timeout_seconds": 300, "memory_mb": 512, "network": "none"});
    let mut script = String::new();
    script.push_str(&spawn("kid-a", &child("kid-a", ""), &json!({})));
    script.push_str(&spawn("kid-b", &child("kid-b", ""), &json!({"processes": 64})));
    script.push_str(&spawn("kid-c", &child("kid-c", greedy), &narrow));
    for more in [
        json!({"network": "host"}),
        json!({"hosts": ["evil.example"]}),
        json!({"profile": "off"}),
        json!({"expose": ["/etc"]}),
        json!({"timeout_seconds": 100_000}),
    ] {
        script.push_str(&spawn("greedy", "say never", &more));
    }
    script.push_str("until[text=\"is ready\" count=3] caretaker check_inbox\n");
    for name in ["kid-a", "kid-b", "kid-c"] {
        script.push_str(&format!(
            "mcp caretaker send_message {{\"to\":\"{name}\",\"text\":\"go on\"}}\n"
        ));
    }
    script.push_str(
        "until[text=\"is over: succeeded\" count=3] caretaker check_inbox\n\
         mcp caretaker list_runs\n\
         mcp caretaker report_result {\"status\":\"done\",\"summary\":\"all three did it\"}\nsay done",
    );
    let parent = stage.detach(&script, &["--name", "boss", "--timeout", "20m"]);
    assert_eq!(stage.wait_for_end(&parent), Some(0), "{}", stage.why(&parent));

    let queued = events(&stage, &parent, "child_queued");
    let names: Vec<&str> = queued.iter().map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["kid-a", "kid-b", "kid-c"]);
    let refused = refusals(&stage, &parent, "spawn_run").join("\n");
    for name in ["network `host`", "host `evil.example`", "profile `off`", "`expose`", "`100000`"] {
        assert!(refused.contains(name), "{name}: {refused}");
    }
    assert_eq!(stage.run_ids().len(), 4, "a refused child leaves nothing behind");

    let parent_spec = spec(&stage, &parent);
    let mut workspaces = BTreeSet::from([parent_spec["workspace"].to_string()]);
    for event in &queued {
        let (run, name) = (event["run"].as_str().unwrap(), event["name"].as_str().unwrap());
        assert_eq!(stage.wait_for_end(run), Some(0), "{}", stage.why(run));
        let spec = spec(&stage, run);
        assert!(workspaces.insert(spec["workspace"].to_string()), "{name} has its own workspace");
        assert_eq!(spec["lineage"]["run"], json!(parent));
        assert_eq!(spec["lineage"]["session"], parent_spec["session"]);
        for kept in ["expose", "env", "secrets", "home", "agent", "allow_hosts"] {
            assert_eq!(spec[kept], parent_spec[kept], "{kept}");
        }
        assert!(spec["limits"]["wall_ms"].as_u64().unwrap() <= 20 * 60_000);
        let work = Path::new(spec["workspace"].as_str().unwrap()).join(format!("{name}.txt"));
        assert_eq!(fs::read_to_string(work).unwrap().trim(), name);
        // The child got one message, from its parent.
        let heard = events(&stage, run, "messages_delivered");
        assert_eq!(heard.len(), 1, "{heard:?}");
        let shown = stage.output(&["show", run]);
        assert!(String::from_utf8_lossy(&shown.stdout).contains(&parent));
    }
    let third = queued[2]["run"].as_str().unwrap();
    let greedy = refusals(&stage, third, "spawn_run").join("\n");
    assert!(greedy.contains("`301`") && greedy.contains("`513`"), "{greedy}");
    let stop = refusals(&stage, third, "stop_run").join("\n");
    assert!(stop.contains("You can stop only your own children"), "{stop}");
    assert_eq!(spec(&stage, third)["network"], "none");
    let second = queued[1]["run"].as_str().unwrap();
    assert_eq!(spec(&stage, second)["resources"]["processes"], 64);

    // Three children were ready and three ended, and each report arrived once.
    let told: Vec<Value> = events(&stage, &parent, "messages_delivered")
        .into_iter()
        .flat_map(|event| event["messages"].as_array().unwrap().clone())
        .collect();
    let distinct: BTreeSet<String> = told.iter().map(Value::to_string).collect();
    assert_eq!((told.len(), distinct.len()), (6, 6), "{told:?}");
    let (_, open) = stage.get("/v1/inbox");
    assert_eq!((&open["questions"], &open["undelivered"]), (&json!([]), &json!([])));
}

#[test]
fn a_child_has_no_larger_limits_than_its_parent_and_stays_read_only_with_it() {
    let stage = DaemonStage::new(2);
    make_repository(&stage.workspace());
    let requests = [
        json!({"memory_mb": 0}),
        json!({"processes": 0}),
        json!({"disk_mb": 0}),
        json!({"mode": "agent"}),
    ];
    let mut script: String =
        requests.iter().map(|more| spawn("greedy", "say never", more)).collect();
    script.push_str("say done");
    let parent = stage.detach(&script, &["--mode", "plan"]);
    assert_eq!(stage.wait_for_end(&parent), Some(0), "{}", stage.why(&parent));
    let refused = refusals(&stage, &parent, "spawn_run").join("\n");
    for name in ["memory_mb `0`", "processes `0`", "disk_mb `0`", "`mode` must be `plan` or `ask`"]
    {
        assert!(refused.contains(name), "{name}: {refused}");
    }
    assert_eq!(stage.run_ids(), [parent], "a refused child leaves nothing behind");
}

#[test]
fn a_parent_that_ended_its_turn_hears_of_its_child_in_its_next_turn() {
    let stage = DaemonStage::new(3);
    make_repository(&stage.workspace());
    let parent = stage.detach(&spawn("kid", "say I am done", &json!({})), &["--name", "boss"]);
    let mut events = stage.follow("/v1/events", Some("1.0")).unwrap();
    let session = stage.session_of(&parent);
    let turn = loop {
        let event = events.next().unwrap();
        let run = event.data["run"].as_str().unwrap();
        if run != parent
            && event.data["event"]["kind"] == "run.ended"
            && stage.session_of(run) == session
        {
            break run.to_owned();
        }
    };
    let journal = fs::read_to_string(stage.journal_path(&turn)).unwrap();
    assert!(journal.contains("about your child `kid`"), "{journal}");
    assert!(journal.contains("is over: succeeded"), "{journal}");
    assert_eq!(
        stage.run_ids().len(),
        3,
        "a turn that reported the end itself causes no second report"
    );
}

#[test]
fn a_parent_stops_a_waiting_or_working_child_and_caps_hold() {
    let stage = DaemonStage::without_daemon(2);
    let config = fs::read_to_string(stage.home().join(".config/caretaker/config.toml")).unwrap();
    stage.configure(&format!("{config}[children]\ndepth = 1\nat_once = 2\n"));
    stage.start_daemon();
    make_repository(&stage.workspace());
    let endless = "mcp caretaker spawn_run {\"prompt\":\"x\"}\n\
                   mcp caretaker send_message {\"to\":\"parent\",\"text\":\"here\"}\n\
                   until[text=\"never said\"] caretaker check_inbox";
    let mut script = spawn("works", endless, &json!({}));
    script.push_str("until[text=\"here\"] caretaker check_inbox\n");
    // Only two children may run at once, so this one waits.
    script.push_str(&spawn("waits", "say never", &json!({})));
    script.push_str(&spawn("third", "say never", &json!({})));
    script.push_str(
        "mcp caretaker stop_run {\"run\":\"waits\"}\nmcp caretaker stop_run {\"run\":\"works\"}\n\
         until[text=\"is over: cancelled\" count=2] caretaker check_inbox\nsay done",
    );
    let parent = stage.detach(&script, &[]);
    assert_eq!(stage.wait_for_end(&parent), Some(0), "{}", stage.why(&parent));
    let too_many = refusals(&stage, &parent, "spawn_run").join("\n");
    assert!(too_many.contains("2 children are under way"), "{too_many}");
    assert_eq!(events(&stage, &parent, "child_stopped").len(), 2);
    let child = stage.run_ids()[1].clone();
    let deeper = refusals(&stage, &child, "spawn_run").join("\n");
    assert!(deeper.contains("1 generations"), "{deeper}");
}

#[test]
fn a_parent_stops_a_child_even_if_the_childs_shim_is_stopped() {
    let stage = DaemonStage::new(2);
    make_repository(&stage.workspace());
    let mut script = spawn("kid", "shell sleep 600", &json!({}));
    script.push_str("shell while [ ! -e go ]; do sleep 0.05; done\n");
    script.push_str("mcp caretaker stop_run {\"run\":\"kid\"}\nsay done");
    let parent = stage.detach(&script, &[]);
    stage.wait_until(&parent, |line| {
        line["kind"] == "agent.tool_started" && line.to_string().contains("-e go")
    });
    let child = stage.run_ids().pop().unwrap();
    stage.wait_until(&child, |line| line["kind"] == "agent.tool_started");
    let shim = stage.shim_pid(&child).to_string();
    assert!(Command::new("kill").args(["-STOP", &shim]).status().unwrap().success());
    let is_stopped = || fs::read_to_string(format!("/proc/{shim}/stat")).unwrap().contains(") T ");
    while !is_stopped() {
        std::thread::yield_now();
    }
    fs::write(stage.workspace().join("go"), "").unwrap();
    assert_eq!(stage.wait_for_end(&parent), Some(0), "{}", stage.why(&parent));
    let n_stopped = events(&stage, &parent, "child_stopped").len();
    Command::new("kill").args(["-CONT", &shim]).status().unwrap();
    assert_eq!(n_stopped, 1, "{:?}", refusals(&stage, &parent, "stop_run"));
    assert_eq!(stage.wait_for_end(&child), Some(130), "{}", stage.why(&child));
}

#[test]
fn without_a_daemon_or_a_repository_there_is_no_child_and_the_refusal_says_why() {
    let stage = Stage::new();
    let output = stage.play(&spawn("kid", "say never", &json!({})), &[]);
    assert_exit(&output, 0);
    let run = stage.run_ids().pop().unwrap();
    let call = &events(&stage, &run, "mcp_call")[0];
    assert_eq!(call["outcome"], "failed");
    assert!(call["why"].as_str().unwrap().contains("caretaker daemon start"), "{call}");

    let stage = DaemonStage::new(2);
    let run = stage.queue("plain", &spawn("kid", "say never", &json!({})), &[]);
    assert_eq!(stage.wait_for_end(&run), Some(0));
    let refused = refusals(&stage, &run, "spawn_run").join("\n");
    assert!(refused.contains("not in a git repository"), "{refused}");
    // An agent that sees only part of a repository must not get the rest through a child.
    make_repository(&stage.workspace());
    stage.new_workspace("project/part");
    let run = stage.queue("project/part", &spawn("kid", "say never", &json!({})), &[]);
    assert_eq!(stage.wait_for_end(&run), Some(0));
    let refused = refusals(&stage, &run, "spawn_run").join("\n");
    assert!(refused.contains("part of its git repository"), "{refused}");
    assert_eq!(stage.run_ids().len(), 2);
}

const HOSTILE_CLIENT: &str = r#"python3 - <<'PYTHON'
import json, socket
def connect():
    peer = socket.socket(socket.AF_UNIX)
    peer.connect('/run/caretaker/mcp.sock')
    peer.settimeout(20)
    return peer
def talk(lines):
    peer = connect()
    try:
        for line in lines:
            peer.sendall(line)
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(65536):
            pass
    except OSError:
        pass
def request(number, method, params):
    return json.dumps({'jsonrpc': '2.0', 'id': number, 'method': method, 'params': params}).encode() + b'\n'
client = {'name': 'x', 'version': '1'}
hello = request(0, 'initialize', {'protocolVersion': '2025-11-25', 'capabilities': {}, 'clientInfo': client})
talk([b'x' * 1000000])
talk([hello, b'not json\n', b'{"foo": 1}\n'])
peer = connect()
answers = peer.makefile('rb')
peer.sendall(hello)
answers.readline()
n_refused = 0
while n_refused < 100:
    peer.sendall(request(1, 'tools/call', {'name': 'whoami', 'arguments': {}}))
    n_refused += b'Too many calls' in answers.readline()
def greet():
    peer = connect()
    answers = peer.makefile('rb')
    try:
        peer.sendall(hello)
        answers.readline()
        peer.sendall(json.dumps({'jsonrpc': '2.0', 'method': 'notifications/initialized'}).encode() + b'\n')
        peer.sendall(request(1, 'tools/list', {}))
        answers.readline()
    except OSError:
        pass
    return peer, answers
crowd = [greet() for _ in range(12)]
print('turned ' + 'away' if b'no more than eight' in connect().recv(200) else 'let in')
PYTHON
"#;

#[test]
fn a_hostile_agent_reaches_no_other_socket_and_no_run_outside_its_family() {
    let stage = DaemonStage::new(3);
    let fifo = stage.new_workspace("other").join("hold");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let stranger = stage.queue("other", "shell cat hold\nsay done", &["--name", "stranger"]);
    stage.wait_until(&stranger, |line| line["kind"] == "agent.tool_started");
    let sockets = spec(&stage, &stranger)["socket_dir"].as_str().unwrap().to_owned();
    let sockets = Path::new(&sockets);
    let daemon_socket = stage.daemon_note()["socket"].as_str().unwrap().to_owned();
    let control = sockets.join(&stranger).join("control.sock");
    let inside = sockets.join(&stranger).join("inside/mcp.sock");
    assert!(control.exists() && inside.exists(), "these paths exist on the host");
    let state = stage.root().join("state");
    let look = format!(
        "for it in {daemon_socket} {} {} {} {}; do if [ -e $it ]; then echo FO''UND $it; fi; done; ls -R /run/caretaker",
        control.display(),
        inside.display(),
        state.display(),
        state.join("inbox").display(),
    );
    // A client on the run's own socket, without the relay: frames that are too long, frames that are invalid, a flood.
    let client = HOSTILE_CLIENT;
    let script = format!(
        "shell {look}\n\
         mcp caretaker get_run {{\"run\":\"{stranger}\"}}\n\
         mcp caretaker get_run {{\"run\":\"stranger\"}}\n\
         mcp caretaker stop_run {{\"run\":\"{stranger}\"}}\n\
         mcp caretaker send_message {{\"to\":\"{stranger}\",\"text\":\"boo\"}}\n\
         mcp caretaker whoami {{\"run\":\"{stranger}\"}}\n\
         shell[timeout=60s] <<END\n{client}END\n\
         say done"
    );
    let run = stage.queue("mine", &script, &[]);
    assert_eq!(stage.wait_for_end(&run), Some(0), "{}", stage.why(&run));
    let journal = fs::read_to_string(stage.journal_path(&run)).unwrap();
    assert!(!journal.contains("FOUND"), "{journal}");
    for tool in ["get_run", "stop_run", "send_message"] {
        let refused = refusals(&stage, &run, tool);
        assert!(!refused.is_empty(), "{tool}");
        assert!(refused.iter().all(|why| why.contains("no such run")), "{refused:?}");
    }
    assert!(
        journal.contains(&format!("\\\"run\\\":\\\"{run}\\\"")),
        "the answer names the calling run"
    );
    let turned_away = events(&stage, &run, "mcp_refused");
    let reasons: BTreeSet<&str> =
        turned_away.iter().map(|event| event["reason"].as_str().unwrap()).collect();
    assert!(reasons.contains("oversized"), "{turned_away:?}");
    assert!(journal.contains("turned away"), "{journal}");
    let limited = events(&stage, &run, "mcp_call");
    assert!(
        limited.iter().any(|call| call["outcome"] == "rate_limited"),
        "the journal records the flood"
    );
    assert!(limited.len() < 300, "the flood fills the journal: {}", limited.len());
    // The other run got no message and continues.
    assert!(events(&stage, &stranger, "stop_requested").is_empty());
    assert_eq!(fs::read_dir(state.join("inbox")).unwrap().count(), 0);
    fs::write(fifo, "go on").unwrap();
    assert_eq!(stage.wait_for_end(&stranger), Some(0));
}
