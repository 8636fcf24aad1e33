//! Known secret values: the agent may have them, and nothing that is written down does.

use std::io::Write;
use std::process::Stdio;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::{Stage, stderr};

#[test]
fn a_known_secret_is_replaced_and_flagged_wherever_the_agent_prints_it() {
    let stage = Stage::new();
    let key = "key_0123456789abcdefghijklmnop";
    let mut child = stage
        .caretaker(&["run", "--agent", "simulated", "--file", "-"])
        .env("CURSOR_API_KEY", key)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let prompt = "```agent\nshell echo my key is $CURSOR_API_KEY\nsay done\n```\n";
    child.stdin.take().unwrap().write_all(prompt.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!String::from_utf8_lossy(&output.stdout).contains(key));
    let run = stage.run_ids().pop().unwrap();
    for file in std::fs::read_dir(stage.runs().join(&run)).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            let content = std::fs::read(&path).unwrap();
            assert!(!String::from_utf8_lossy(&content).contains(key), "{}", path.display());
        }
    }
    let flagged =
        stage.journal(&run).into_iter().find(|entry| entry.line["redacted"] == json!(true));
    assert!(flagged.unwrap().line.to_string().contains("my key is [redacted]"));
}

#[test]
fn a_known_secret_is_replaced_in_what_the_agent_tells_us_through_our_tools() {
    let stage = Stage::new();
    let key = "key_0123456789abcdefghijklmnop";
    // Not in the prompt: that is the user's own, and kept as it is.
    let script = stage.workspace().join("script");
    let orders = format!(
        "mcp caretaker report_progress {{\"text\":\"found {key} here\"}}\n\
         mcp caretaker report_result {{\"status\":\"done\",\"summary\":\"it is {key}\",\"artifacts\":[\"{key}.txt\"]}}\n\
         say done\n"
    );
    std::fs::write(&script, orders).unwrap();
    let output = stage
        .caretaker(&["run", "--agent", "simulated", "go"])
        .env("CURSOR_API_KEY", key)
        .env("SIMULATED_AGENT_SCRIPT", &script)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    let run = stage.run_ids().pop().unwrap();
    let told: Vec<Value> =
        stage.journal(&run).into_iter().map(|entry| entry.line["run"].clone()).collect();
    let find = |kind: &str| told.iter().find(|event| event["kind"] == kind).unwrap();
    assert_eq!(find("progress")["text"], "found [redacted] here");
    assert_eq!(find("reported")["summary"], "it is [redacted]");
    assert_eq!(find("reported")["artifacts"], json!(["[redacted].txt"]));

    let journal = std::fs::read(stage.journal_path(&run)).unwrap();
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
        assert!(!text.is_empty() && !text.contains(key), "{text}");
    }
}
