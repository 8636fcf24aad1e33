//! A resumed session keeps the limits of its last run, unless the user asks for more.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::daemon_stage::DaemonStage;
use crate::stage::programs::program;
use crate::stage::repository::make_repository;
use crate::stage::{Stage, assert_exit, stderr};

fn spec(stage: &Stage, run: &str) -> Value {
    serde_json::from_slice(&fs::read(stage.runs().join(run).join("spec.json")).unwrap()).unwrap()
}

fn latest(stage: &Stage) -> String {
    stage.run_ids().pop().expect("the stage has a run")
}

/// Writes a user's own profile.
fn profile(stage: &Stage, name: &str, text: &str) {
    let profiles = stage.home().join(".config/caretaker/profiles");
    fs::create_dir_all(&profiles).unwrap();
    fs::write(profiles.join(format!("{name}.toml")), text).unwrap();
}

/// Writes a program that behaves like the installed agent.
fn agent(stage: &Stage, name: &str) -> String {
    let path = stage.home().join(name);
    let text =
        format!("#!/bin/sh\nexec {} simulated-agent \"$@\"\n", program("caretaker").display());
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn with_key(stage: &Stage, args: &[&str]) -> Output {
    stage.caretaker(args).env("CURSOR_API_KEY", "key_0123456789abcdef").output().unwrap()
}

const NARROW: &[&str] = &[
    "--network=none",
    "--memory=512MiB",
    "--processes=200",
    "--disk=1GiB",
    "--max-file-size=100MiB",
    "--timeout=10m",
    "--idle-timeout=5m",
    "--max-tool-calls=50",
    "--max-tokens=1000000",
    "--loop=end",
    "--model=gpt-5.4",
    "--mode=ask",
    "--profile=mine",
    "--allow-host=a.example.org",
    "--expose=/usr/share/misc",
    "--label=team=web",
    "--group=night",
    "--env=COLOUR=blue",
    "--no-force",
    "--no-checkpoint",
];

/// The fields of a spec that a session keeps from run to run.
const KEPT: &[&str] = &[
    "labels",
    "saving",
    "agent",
    "model",
    "mode",
    "tool_approval",
    "extra_flags",
    "profile",
    "profile_text",
    "expose",
    "network",
    "allow_hosts",
    "user_mcp",
    "env",
    "secrets",
    "limits",
    "resources",
    "restart",
    "group",
    "lineage",
];

#[track_caller]
fn assert_kept(stage: &Stage, before: &str, after: &str) {
    let (before, after) = (spec(stage, before), spec(stage, after));
    for field in KEPT {
        assert_eq!(before.get(field), after.get(field), "{field}");
    }
}

/// Makes a session with one narrow run, whose agent is not the installed one.
fn narrow_session(stage: &Stage) -> (String, String) {
    profile(stage, "mine", "extends = \"default\"\n[workspace]\ngit = \"read-only\"\n");
    let agent = agent(stage, "my-agent");
    let run = [&["run", "say hello", "--agent", &agent], NARROW].concat();
    assert_exit(&with_key(stage, &run), 0);
    let run = latest(stage);
    (stage.session_of(&run), run)
}

#[test]
fn a_resumed_run_keeps_every_restriction_and_name_of_the_last_run() {
    let stage = Stage::new();
    let (session, first) = narrow_session(&stage);
    assert_exit(&with_key(&stage, &["resume", &session, "go on"]), 0);
    assert_kept(&stage, &first, &latest(&stage));
    assert_exit(&with_key(&stage, &["run", "--session", &session, "go on"]), 0);
    assert_kept(&stage, &first, &latest(&stage));
    // The same holds for a third run, and a narrower run stays narrower.
    assert_exit(&with_key(&stage, &["resume", &session, "go on", "--memory", "256MiB"]), 0);
    assert_exit(&with_key(&stage, &["resume", &session, "go on"]), 0);
    assert_eq!(spec(&stage, &latest(&stage))["resources"]["memory_bytes"], 256 << 20);
}

#[test]
fn a_wider_configuration_does_not_widen_a_session() {
    let stage = Stage::new();
    profile(&stage, "mine", "extends = \"default\"\n");
    assert_exit(&stage.play("say hi", &["--profile", "mine"]), 0);
    let first = latest(&stage);
    fs::create_dir_all(stage.home().join(".cursor")).unwrap();
    fs::write(stage.home().join(".cursor/mcp.json"), "{\"mcpServers\":{}}").unwrap();
    stage.configure(
        "min_free = \"0\"\nprofile = \"default\"\nmodel = \"gpt-5\"\nexpose = [\"/usr/share/misc\"]\n\
         allow_hosts = [\"b.example.org\"]\nuser_mcp = true\n[limits]\nidle = \"3h\"\nmemory = \"none\"\n",
    );
    // If the profile allows more than before, the run uses the old version.
    let wider =
        "extends = \"default\"\n[network]\nmode = \"host\"\n[tools]\nexpose = [\"~/keys\"]\n";
    profile(&stage, "mine", wider);
    let output = stage.resume(&stage.session_of(&first), "say on", &[]);
    assert_exit(&output, 0);
    assert_kept(&stage, &first, &latest(&stage));
    assert!(stderr(&output).contains("the profile `mine` allows more than"), "{}", stderr(&output));
    // If it allows less, the run uses the new version.
    let narrower =
        "extends = \"default\"\n[workspace]\ngit = \"read-only\"\n[limits]\nmemory = \"1G\"\n";
    profile(&stage, "mine", narrower);
    assert_exit(&stage.resume(&stage.session_of(&first), "say on", &[]), 0);
    let now = spec(&stage, &latest(&stage));
    assert_eq!(
        (&now["profile_text"], &now["resources"]["memory_bytes"]),
        (&json!(narrower), &json!(1 << 30))
    );
}

#[test]
fn widening_needs_its_flag_and_is_printed_and_recorded() {
    let stage = Stage::new();
    let output = stage.play("say hi", &["--network", "none", "--memory", "512MiB"]);
    assert_exit(&output, 0);
    let session = stage.session_of(&latest(&stage));
    let flags = ["--memory", "2GiB", "--network", "allowlist"];
    for named in [&[][..], &["--widen", "memory"], &["--widen", "network,profile"]] {
        let refused = stage.resume(&session, "say never", &[&flags, named].concat());
        assert_exit(&refused, 2);
        let said = stderr(&refused);
        assert!(said.contains("--widen") && said.contains("hint:"), "{said}");
    }
    assert_eq!(stage.run_ids().len(), 1, "nothing was started");

    let widened =
        stage.resume(&session, "say on", &[&flags[..], &["--widen", "memory,network"]].concat());
    assert_exit(&widened, 0);
    let said = stderr(&widened);
    let warnings: Vec<&str> = said.lines().filter(|line| line.starts_with("warning:")).collect();
    assert_eq!(
        warnings,
        [
            "warning: this run may do more than the one before: network none → allowlist; memory 512.0 MiB → 2.0 GiB"
        ]
    );
    let events = stage.journal(&latest(&stage));
    let event =
        events.iter().map(|entry| &entry.line["run"]).find(|event| event["kind"] == "widened");
    assert_eq!(
        event.unwrap()["bounds"],
        json!([
            {"bound": "network", "from": "none", "to": "allowlist"},
            {"bound": "memory", "from": "512.0 MiB", "to": "2.0 GiB"},
        ])
    );
    // The next run inherits the wider limits without another warning.
    let wide = latest(&stage);
    let next = stage.resume(&session, "say on", &[]);
    assert_exit(&next, 0);
    assert_kept(&stage, &wide, &latest(&stage));
    assert!(!stderr(&next).contains("warning:"), "{}", stderr(&next));
    assert!(
        stage.journal(&latest(&stage)).iter().all(|entry| entry.line["run"]["kind"] != "widened")
    );
    // The option refers to an earlier run, and a new session has none.
    let refused = stage.play("say never", &["--widen", "memory"]);
    assert_exit(&refused, 2);
}

#[test]
fn a_plan_is_carried_out_on_request() {
    let stage = Stage::new();
    assert_exit(&stage.play("say a plan", &["--mode", "plan", "--no-force"]), 0);
    let session = stage.session_of(&latest(&stage));
    assert_exit(&stage.resume(&session, "say still a plan", &[]), 0);
    assert_eq!(spec(&stage, &latest(&stage))["mode"], "plan");
    let refused = stage.resume(&session, "say never", &["--mode", "agent"]);
    assert!(stderr(&refused).contains("--widen mode"), "{}", stderr(&refused));
    let flags = ["--mode", "agent", "--force", "--widen", "mode,force"];
    assert_exit(&stage.resume(&session, "shell touch done", &flags), 0);
    let now = spec(&stage, &latest(&stage));
    assert_eq!((now.get("mode"), &now["tool_approval"]), (None, &json!("force")));
    assert!(stage.workspace().join("done").exists());
}

#[test]
fn a_missing_agent_or_profile_is_not_replaced_unasked() {
    let stage = Stage::new();
    let (session, _) = narrow_session(&stage);
    let profiles = stage.home().join(".config/caretaker/profiles");
    fs::rename(profiles.join("mine.toml"), profiles.join("other.toml")).unwrap();
    let refused = with_key(&stage, &["resume", &session, "go on"]);
    assert_exit(&refused, 2);
    let said = stderr(&refused);
    assert!(said.contains("`mine`") && said.contains("hint: choose "), "{said}");
    // A profile with another name but the same rules is not wider.
    assert_exit(&with_key(&stage, &["resume", &session, "go on", "--profile", "other"]), 0);

    fs::remove_file(stage.home().join("my-agent")).unwrap();
    let other = agent(&stage, "other-agent");
    let refused = with_key(&stage, &["resume", &session, "go on"]);
    assert_exit(&refused, 127);
    let said = stderr(&refused);
    assert!(said.contains("my-agent") && said.contains("--agent PATH --widen agent"), "{said}");
    let refused = with_key(&stage, &["resume", &session, "go on", "--agent", &other]);
    assert_exit(&refused, 2);
    let flags = ["resume", &session, "go on", "--agent", &other, "--widen", "agent"];
    assert_exit(&with_key(&stage, &flags), 0);
}

#[test]
fn the_command_that_suspend_prints_continues_the_run_with_its_own_agent() {
    let stage = Stage::new();
    let agent = agent(&stage, "my-agent");
    let script = "```agent\nsay One.\nshell sleep 60\n```";
    assert_exit(&with_key(&stage, &["run", "--detach", "--agent", &agent, script]), 0);
    let run = latest(&stage);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let suspended = stage.output(&["suspend", &run]);
    let said = stderr(&suspended);
    let printed = said.split("caretaker resume ").nth(1).expect(&said).trim();
    let words: Vec<&str> = ["resume"].into_iter().chain(printed.split_whitespace()).collect();
    assert_exit(&with_key(&stage, &words), 0);
    assert_kept(&stage, &run, &latest(&stage));
}

#[test]
fn a_fork_and_a_session_whose_runs_were_deleted_keep_their_limits() {
    let stage = Stage::new();
    assert_exit(&stage.play("say hi", NARROW_SIMULATED), 0);
    let first = latest(&stage);
    let before = spec(&stage, &first);
    let session = stage.session_of(&first);
    let fork = stage.output(&["sessions", "fork", &session]);
    assert_exit(&fork, 0);
    let fork = String::from_utf8(fork.stdout).unwrap().trim().to_owned();
    assert_exit(&stage.output(&["gc", "--older-than", "1ms", "--yes"]), 0);
    assert!(stage.run_ids().is_empty());
    for session in [&session, &fork] {
        assert_exit(&stage.resume(session, "say on", &[]), 0);
        let after = spec(&stage, &latest(&stage));
        for field in KEPT {
            assert_eq!(before.get(field), after.get(field), "{field}");
        }
    }
    // The command does not guess earlier limits that it cannot read.
    fs::remove_dir_all(stage.runs()).unwrap();
    fs::remove_file(stage.root().join("state/sessions").join(&session).join("terms.json")).unwrap();
    let refused = stage.resume(&session, "say never", &[]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("hint: choose "), "{}", stderr(&refused));
    assert_exit(&stage.resume(&session, "say on", &["--profile", "default"]), 0);
}

const NARROW_SIMULATED: &[&str] =
    &["--network=none", "--memory=512MiB", "--model=gpt-5.4", "--group=night"];

#[test]
fn an_imported_session_starts_with_the_default_and_says_so() {
    let (first, second) = (Stage::new(), Stage::new());
    assert_exit(&first.play("say hi", NARROW_SIMULATED), 0);
    let session = first.session_of(&latest(&first));
    let file = first.root().join("bundle");
    let file = file.to_str().unwrap();
    assert_exit(&first.output(&["sessions", "bundle", &session, "--output", file]), 0);
    let imported = second.output(&["sessions", "import", file]);
    assert_exit(&imported, 0);
    let said = stderr(&imported);
    assert!(said.contains("starts with the default sandbox and limits"), "{said}");
    assert_exit(&second.resume(&session, "say on", &[]), 0);
    assert_eq!(spec(&second, &latest(&second)).get("network"), None);
    // On this machine the session has earlier runs.
    let again = first.output(&["sessions", "import", file]);
    assert!(!stderr(&again).contains("starts with the default"), "{}", stderr(&again));
}

#[test]
fn the_daemon_continues_a_session_with_its_limits() {
    let stage = DaemonStage::new(4);
    let flags = [NARROW_SIMULATED, &["--account=mine"]].concat();
    let first = stage.queue("a", "say hi", &flags);
    assert_eq!(stage.wait_for_end(&first), Some(0));
    let session = stage.session_of(&first);
    // The daemon delivers a message as the next turn.
    let mut events = stage.follow("/v1/events", Some("1.0")).unwrap();
    assert_exit(&stage.output(&["send", &first, "hello"]), 0);
    let is_next = |event: &crate::stage::daemon_stage::Event| {
        event.data["run"] != json!(first) && event.data["event"]["kind"] == "run.queued"
    };
    let second = events.find(is_next).unwrap().data["run"].as_str().unwrap().to_owned();
    drop(events);
    assert_eq!(stage.wait_for_end(&second), Some(0));
    assert_kept(&stage, &first, &second);
    // An API prompt also becomes the next turn, and widens only the bounds that it names.
    let workspace = spec(&stage, &first)["workspace"].clone();
    let body = json!({"prompt": "go on", "session": session, "workspace": workspace});
    let (status, answer) = stage.post("/v1/runs", &body);
    assert_eq!(status, 202, "{answer}");
    assert_eq!(answer.get("warnings"), None, "{answer}");
    let third = answer["run"].as_str().unwrap().to_owned();
    stage.wait_for_end(&third);
    assert_kept(&stage, &first, &third);
    assert_exit(&stage.resume(&session, "say on", &[]), 0);
    assert_kept(&stage, &first, &latest(&stage));
    assert_eq!(spec(&stage, &latest(&stage))["queue"]["account"], "mine");
    let mut wider = body.clone();
    wider["expose"] = json!(["/usr/share/misc"]);
    let (status, answer) = stage.post("/v1/runs", &wider);
    assert_eq!(status, 400, "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("expose"), "{answer}");
    // The API client gets the warning that a command would print.
    wider["widen"] = json!(["expose"]);
    let (status, answer) = stage.post("/v1/runs", &wider);
    assert_eq!(status, 202, "{answer}");
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(warning.contains("may do more than the one before: expose"), "{answer}");
    stage.wait_for_end(answer["run"].as_str().unwrap());
}

#[test]
fn a_message_from_a_parent_wakes_a_session_with_its_limits() {
    let stage = DaemonStage::new(3);
    make_repository(&stage.workspace());
    let child = json!({
        "name": "kid", "prompt": "```agent\nsay ready\n```",
        "network": "none", "memory_mb": 512, "timeout_seconds": 600, "mode": "ask",
    });
    let script = format!(
        "mcp caretaker spawn_run {child}\n\
         until[text=\"is over: succeeded\"] caretaker check_inbox\n\
         mcp caretaker send_message {{\"to\":\"kid\",\"text\":\"go on with --network host --widen network\"}}\nsay done"
    );
    let mut events = stage.follow("/v1/events", Some("1.0")).unwrap();
    let parent = stage.detach(&script, &["--name", "boss"]);
    let mut ended = Vec::new();
    while ended.len() < 2 {
        let event = events.next().unwrap();
        let run = event.data["run"].as_str().unwrap().to_owned();
        if run != parent && event.data["event"]["kind"] == "run.ended" {
            ended.push(run);
        }
    }
    assert_eq!(stage.session_of(&ended[0]), stage.session_of(&ended[1]));
    assert_eq!(spec(&stage, &ended[0])["network"], "none");
    assert_kept(&stage, &ended[0], &ended[1]);
}

#[test]
fn a_resume_is_refused_if_the_servers_file_is_gone_unless_the_user_leaves_the_servers_out() {
    let stage = Stage::new();
    let servers = stage.home().join(".cursor/mcp.json");
    fs::create_dir_all(stage.home().join(".cursor")).unwrap();
    fs::write(&servers, "{\"mcpServers\":{}}").unwrap();
    assert_exit(&stage.play("say hi", &["--user-mcp"]), 0);
    let session = stage.session_of(&latest(&stage));
    assert_exit(&stage.resume(&session, "say on", &[]), 0);
    assert_eq!(spec(&stage, &latest(&stage))["user_mcp"]["servers"], json!(servers));
    fs::remove_file(&servers).unwrap();
    let refused = stage.resume(&session, "say never", &[]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("--no-user-mcp"), "{}", stderr(&refused));
    assert_exit(&stage.resume(&session, "say on", &["--no-user-mcp"]), 0);
    assert_eq!(spec(&stage, &latest(&stage)).get("user_mcp"), None);
}
