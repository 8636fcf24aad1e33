//! Agents that repeat themselves.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::{Stage, assert_exit, stderr};

/// The `looping` events of the latest run.
fn loops(stage: &Stage) -> Vec<Value> {
    let run = stage.run_ids().pop().unwrap();
    let events = stage.journal(&run).into_iter().map(|entry| entry.line["run"].clone());
    events.filter(|event| event["kind"] == "looping").collect()
}

/// Plays this part of a script so many times, then what follows.
fn repeated(part: &str, times: usize, then: &str) -> String {
    format!("{}{then}", format!("{part}\n").repeat(times))
}

#[test]
fn an_agent_that_repeats_a_call_or_two_calls_in_turn_is_reported_and_goes_on() {
    let stage = Stage::new();
    assert_exit(&stage.play(&repeated("shell echo same", 13, "say done"), &[]), 0);
    let call = json!({"tool": "shell", "subject": "echo same"});
    assert_eq!(loops(&stage), [json!({"kind": "looping", "calls": [call], "in_a_row": 12})]);
    let shown = stage.output(&["show", "-"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("shell echo same (12 calls in a row, same results)"), "{shown}");

    // The second call fails, in the same way each time.
    let pair = "read no-such-file\nshell false";
    assert_exit(&stage.play(&repeated(pair, 6, "say done"), &[]), 0);
    let calls =
        json!([{"tool": "read", "subject": "no-such-file"}, {"tool": "shell", "subject": "false"}]);
    let [event] = &loops(&stage)[..] else { panic!("{:?}", loops(&stage)) };
    assert_eq!((event["calls"][1].clone(), &event["in_a_row"]), (calls[1].clone(), &json!(12)));
}

#[test]
fn with_loop_end_the_run_ends_as_looping_and_a_resumed_session_keeps_that() {
    let stage = Stage::new();
    let script = repeated("shell echo same", 12, "shell sleep 600");
    let output = stage.play(&script, &["--loop", "end"]);
    assert_exit(&output, 124);
    let ended = stage.ended();
    assert_eq!(ended["outcome"], "looping", "{ended}");
    assert!(ended["why"].as_str().unwrap().contains("--loop warn"), "{ended}");
    let tail = stage.output(&["tail", "-"]);
    let tail = String::from_utf8(tail.stdout).unwrap();
    assert!(tail.contains("! the agent repeats itself: shell echo same (12 calls"), "{tail}");

    let session = stage.session_of(&stage.run_ids().pop().unwrap());
    let wider = stage.resume(&session, "say hi", &["--loop", "warn"]);
    assert_exit(&wider, 2);
    assert!(stderr(&wider).contains("--widen loop"), "{}", stderr(&wider));
    assert_exit(&stage.resume(&session, &script, &[]), 124);

    stage.configure("min_free = \"0\"\n[limits]\nloop = \"end\"\n");
    assert_exit(&stage.play(&script, &[]), 124);
    assert_exit(&stage.play(&repeated("shell echo same", 13, "say done"), &["--loop", "warn"]), 0);
}

#[test]
fn changing_results_and_calls_that_wait_are_no_loop() {
    let stage = Stage::new();
    for part in [
        // The result changes.
        "shell date +%s%N",
        "shell echo x >> log; wc -l log",
        // They wait.
        "shell sleep 0; echo waiting",
        "mcp caretaker list_runs {}",
        "mcp caretaker check_inbox {}\nshell echo same",
    ] {
        assert_exit(&stage.play(&repeated(part, 14, "say done"), &["--loop", "end"]), 0);
        assert_eq!(loops(&stage), [] as [Value; 0], "{part}");
    }
}
