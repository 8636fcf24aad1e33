//! `--sandbox off`: only on request, with a warning and a record. Even then, no agent process outlives its run.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::{Stage, assert_exit, stderr, stdout};

#[test]
fn an_agent_without_a_sandbox_is_as_free_as_its_user_and_every_output_says_so() {
    let stage = Stage::new();
    fs::write(stage.home().join("private"), "mine").unwrap();
    let script = "shell cat ~/private; echo out > ~/made; echo $HOME; ls -A\nsay done";
    let output = stage.play(script, &["--sandbox", "off", "--force"]);
    assert_exit(&output, 0);
    let warnings = stderr(&output).matches("no sandbox").count();
    assert_eq!(warnings, 1, "{}", stderr(&output));
    assert_eq!(fs::read_to_string(stage.home().join("made")).unwrap(), "out\n");
    // The workspace has none of our files, and the session is where the user's own agent keeps it.
    assert_eq!(fs::read_dir(stage.workspace()).unwrap().count(), 0);
    let run = stage.run_ids().pop().unwrap();
    let session = stage.session_of(&run);
    assert!(stage.session_dir(&session).join("store.db").is_file());

    let events: Vec<Value> =
        stage.journal(&run).into_iter().map(|entry| entry.line["run"].clone()).collect();
    assert_eq!(events[0]["profile"], "off");
    let ready = events.iter().find(|event| event["kind"] == "sandbox_ready").unwrap();
    assert_eq!((&ready["profile"], &ready["mounts"]), (&json!("off"), &json!(0)));
    assert!(ready["warnings"][0].as_str().unwrap().contains("no sandbox"), "{ready}");
    assert!(stdout(&stage.output(&["ps", "--all"])).contains("no sandbox"));
    assert!(stdout(&stage.output(&["show", &run])).contains("off: no sandbox"));
    stage.assert_no_survivors("after the run");

    // Caretaker never drops the sandbox unless asked, not even after a run without one.
    let refused = stage.resume(&session, "recall", &[]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("--sandbox off"), "{}", stderr(&refused));
    let resumed = stage.resume(&session, "recall", &["--sandbox", "off", "--force"]);
    assert_exit(&resumed, 0);
    // The session continues in a sandbox, and then again without one.
    let resumed = stage.resume(&session, "recall", &["--profile", "default"]);
    assert_exit(&resumed, 0);
    let back = ["--profile", "off", "--force"];
    let refused = stage.resume(&session, "recall", &back);
    assert_exit(&refused, 2);
    let back = [&back[..], &["--widen", "profile"]].concat();
    let resumed = stage.resume(&session, "recall", &back);
    assert_exit(&resumed, 0);
}

#[test]
fn tools_run_without_approval_only_if_the_user_says_so() {
    let stage = Stage::new();
    let output = stage.play("shell touch it-ran\nsay done", &["--sandbox", "off"]);
    assert_exit(&output, 0);
    assert!(!stage.workspace().join("it-ran").exists());
    let output = stage.play("shell touch it-ran\nsay done", &["--sandbox", "off", "--force"]);
    assert_exit(&output, 0);
    assert!(stage.workspace().join("it-ran").exists());
    let refused = stage.play("say never", &["--force"]);
    assert_exit(&refused, 2);
}

#[test]
fn no_configuration_variable_or_profile_switches_the_sandbox_off() {
    let stage = Stage::new();
    stage.configure("profile = \"off\"\nmin_free = \"0\"\n");
    let output = stage.play("say never", &[]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("only the command line can remove the sandbox"));

    stage.configure("min_free = \"0\"\n");
    let profiles = stage.home().join(".config/caretaker/profiles");
    fs::create_dir_all(&profiles).unwrap();
    for text in ["extends = \"off\"\n", "description = \"x\"\nconfinement = \"none\"\n"] {
        for name in ["mine", "default", "off"] {
            let file = profiles.join(format!("{name}.toml"));
            fs::write(&file, text).unwrap();
            let output = stage.play("say never", &["--profile", name]);
            assert_eq!(output.status.code(), Some(2), "{name}: {}", stderr(&output));
            fs::remove_file(file).unwrap();
        }
    }
    assert_eq!(stage.run_ids(), Vec::<String>::new());

    let output = stage
        .caretaker(&["run", "--agent", "simulated", "```agent\nshell cat /proc/1/comm\n```"])
        .envs([("CARETAKER_PROFILE", "off"), ("CARETAKER_SANDBOX", "off")])
        .output()
        .unwrap();
    assert_exit(&output, 0);
    let run = stage.run_ids().pop().unwrap();
    assert_eq!(stage.journal(&run)[0].line["run"]["profile"], "default");
}

#[test]
fn a_process_that_hides_from_its_parent_ends_with_the_run() {
    let stage = Stage::new();
    let hide =
        "(setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done' > /dev/null 2>&1 &)";
    let script = format!("shell {hide}; {hide}; true\nmisbehave unkillable-child\nsay done");
    let output = stage.play(&script, &["--sandbox", "off", "--force"]);
    assert_eq!(output.status.code(), Some(0), "{} {}", stderr(&output), stage.ended());
    stage.assert_no_survivors("after the run ended");

    for (order, code) in [(&["kill"][..], 130), (&["kill", "--now"], 130)] {
        let run = stage.detach(
            &format!("shell {hide}; {hide}; true\nshell sleep 600"),
            &["--sandbox", "off", "--force"],
        );
        stage.wait_until(&run, |line| {
            line["kind"] == "agent.tool_started" && line.to_string().contains("sleep 600")
        });
        assert!(stage.output(&[order, &[&run]].concat()).status.success());
        assert_eq!(stage.output(&["wait", &run]).status.code(), Some(code));
        stage.assert_no_survivors(&format!("after {order:?}"));
    }
}

#[test]
fn a_killed_shim_and_a_killed_keeper_leave_nothing_behind() {
    let stage = Stage::new();
    let hide =
        "(setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done' > /dev/null 2>&1 &)";
    let start = || {
        let script = format!("shell {hide}; {hide}; true\nshell sleep 600");
        let run = stage.detach(&script, &["--sandbox", "off", "--force"]);
        let entries = stage.wait_for(&run, |line| {
            line["kind"] == "agent.tool_started" && line.to_string().contains("sleep 600")
        });
        let ready = entries.iter().find(|entry| entry.line["run"]["kind"] == "sandbox_ready");
        let keeper = ready.unwrap().line["run"]["sandbox_pid"].as_i64().unwrap();
        (run, i32::try_from(keeper).unwrap())
    };
    let kill = |pid: i32| {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    };
    let (run, _) = start();
    kill(i32::try_from(stage.shim_pid(&run)).unwrap());
    assert_eq!(stage.output(&["wait", &run]).status.code(), Some(5));
    stage.assert_no_survivors("after the supervisor was killed");

    let (run, keeper) = start();
    kill(keeper);
    stage.output(&["wait", &run]);
    assert_eq!(stage.ended()["outcome"], "failed");
    stage.assert_no_survivors("after the keeper was killed");
}
