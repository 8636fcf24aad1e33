//! The stream itself: forms of text, parallel calls, formats, generations.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::sandbox::{FORCED, NORMAL, Sandbox, finish, name, prompt};

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn text(event: &Value) -> &str {
    event["message"]["content"][0]["text"].as_str().unwrap()
}

#[test]
fn a_turn_has_its_events_in_order() {
    let sandbox = Sandbox::new();
    let script = "think Hm, well.\nsay Looking.\nls\nsay One.\nsay Two.";
    let finished = sandbox.play(NORMAL, script);
    assert_eq!(
        finished.names(),
        [
            "system/init",
            "user",
            "thinking/delta",
            "thinking/delta",
            "thinking/delta",
            "thinking/delta",
            "thinking/completed",
            "assistant",
            "tool_call/started",
            "tool_call/completed",
            "assistant",
            "result/success"
        ]
    );
    assert_eq!(finished.answer(), "Looking.One.\nTwo.");
    assert_eq!(finished.stderr, "");
    let events = finished.events();
    assert!(events.iter().all(|event| event["session_id"] == events[0]["session_id"]));
    assert_eq!(events[0]["apiKeySource"], json!("env"));
    assert_eq!(events[0]["model"], json!("Auto"));
    assert_eq!(
        keys(&events[7]),
        ["type", "message", "session_id", "model_call_id", "timestamp_ms"]
    );
    assert_eq!(keys(&events[10]), ["type", "message", "session_id"]);
    let request_id = events[11]["request_id"].as_str().unwrap();
    assert!(events[7]["model_call_id"].as_str().unwrap().starts_with(&format!("{request_id}-0-")));
    assert_eq!(events[7]["model_call_id"], events[8]["model_call_id"]);
}

#[test]
fn each_flush_is_its_partial_deltas_joined() {
    let sandbox = Sandbox::new();
    let arguments = [NORMAL, &["--stream-partial-output"]].concat();
    let script =
        "say I will, as you asked,\nsay look around.\nls\nsay <<END\nDone:\n\n  `ünï` 🦀\nEND";
    let finished = sandbox.play(&arguments, script);
    let mut segment = String::new();
    let mut flushed = String::new();
    for event in finished.events().iter().filter(|event| event["type"] == "assistant") {
        let is_delta = event.get("timestamp_ms").is_some() && event.get("model_call_id").is_none();
        if is_delta {
            segment.push_str(text(event));
        } else {
            assert_eq!(text(event), std::mem::take(&mut segment));
            flushed.push_str(text(event));
        }
    }
    assert_eq!(segment, "");
    assert_eq!(flushed, "I will, as you asked,\nlook around.Done:\n\n  `ünï` 🦀");
    assert_eq!(finished.answer(), flushed);
}

#[test]
fn parallel_calls_share_a_step_and_complete_in_their_own_order() {
    let sandbox = Sandbox::new();
    let script =
        "parallel\n  shell sleep 1; echo slow\n  shell echo fast\nend\nshell true\nsay done";
    let events = sandbox.play(FORCED, script).events();
    let calls: Vec<(String, &Value, &Value)> = events
        .iter()
        .filter(|event| event["type"] == "tool_call")
        .map(|event| (name(event), &event["call_id"], &event["model_call_id"]))
        .collect();
    let [slow_started, fast_started, fast, slow, later, ..] = &calls[..] else {
        panic!("{calls:?}");
    };
    assert_eq!(
        [&slow_started.0, &fast_started.0, &fast.0, &slow.0].map(String::as_str),
        ["tool_call/started", "tool_call/started", "tool_call/completed", "tool_call/completed"]
    );
    assert_eq!((slow_started.1, fast_started.1), (slow.1, fast.1));
    assert_eq!(slow_started.2, fast.2);
    assert_ne!(later.2, fast.2);
}

#[test]
fn the_query_for_a_web_page_comes_after_its_start_and_a_question_before() {
    let sandbox = Sandbox::new();
    let finished =
        sandbox.play(NORMAL, "say Fetching.\nfetch https://example.com\nsay Asking.\nask Which?");
    assert_eq!(
        finished.names()[2..],
        [
            "assistant",
            "tool_call/started",
            "interaction_query/request",
            "interaction_query/response",
            "tool_call/completed",
            "assistant",
            "interaction_query/request",
            "interaction_query/response",
            "tool_call/started",
            "tool_call/completed",
            "result/success"
        ]
    );
    let events = finished.events();
    assert!(events[2].get("model_call_id").is_some());
    assert_eq!(keys(&events[7]), ["type", "message", "session_id", "timestamp_ms"]);
    assert_eq!(keys(&events[4]["query"]), ["id", "webFetchRequestQuery"]);
    assert_eq!((&events[4]["query"]["id"], &events[8]["query"]["id"]), (&json!(0), &json!(1)));
    assert_eq!(keys(&events[6]["tool_call"]["webFetchToolCall"]), ["result"]);
}

#[test]
fn plan_mode_hands_over_a_plan_and_writes_nothing() {
    let sandbox = Sandbox::new();
    let finished = finish(sandbox.agent(&[NORMAL, &["--plan"]].concat()), "Tidy up.");
    let names = finished.names();
    let asked = names.iter().position(|name| name == "interaction_query/request").unwrap();
    assert_eq!(
        names[asked..],
        [
            "interaction_query/request",
            "interaction_query/response",
            "tool_call/started",
            "tool_call/completed",
            "assistant",
            "result/success"
        ]
    );
    let events = finished.events();
    assert_eq!(events[asked]["query_type"], json!("createPlanRequestQuery"));
    let call = &events[asked + 3]["tool_call"]["createPlanToolCall"];
    assert_eq!(call["args"], events[asked]["query"]["createPlanRequestQuery"]["args"]);
    assert!(call["args"]["plan"].as_str().unwrap().starts_with("# Leave a note\n"));
    assert_eq!(call["result"], json!({ "success": {}, "planUri": "" }));
    assert_eq!(fs::read_dir(sandbox.workspace()).unwrap().count(), 0);
}

#[test]
fn the_early_generation_has_fewer_keys() {
    let sandbox = Sandbox::new();
    let events = sandbox.play(FORCED, "shell echo hi\nsay done\ngeneration 2026.01").events();
    let completed = events.iter().find(|event| name(event) == "tool_call/completed").unwrap();
    assert_eq!(keys(&completed["tool_call"]), ["shellToolCall"]);
    let result = events.last().unwrap();
    assert!(result.get("usage").is_none());
    assert_eq!(result["duration_ms"], result["duration_api_ms"]);
}

#[test]
fn the_other_formats_print_only_once() {
    let sandbox = Sandbox::new();
    let script = "think Hm.\nsay Looking.\nls\nsay Done.";
    let text = sandbox.play(&["-p", "--trust"], script);
    assert_eq!((text.stdout.as_str(), text.stderr.as_str()), ("Looking.Done.\n", ""));
    let json = sandbox.play(&["-p", "--output-format", "json"], script);
    assert_eq!(json.names(), ["result/success"]);
    assert!(json.events()[0].get("thinking_blocks").is_none());
    let thoughts = sandbox.play(&["-p", "--output-format=json", "--show-thinking"], script);
    assert_eq!(thoughts.events()[0]["thinking_blocks"], json!(["Hm."]));
}

#[test]
fn a_chosen_model_is_shown_by_its_name_and_stays_chosen() {
    let sandbox = Sandbox::new();
    let chosen = sandbox.play(&[NORMAL, &["--model", "gpt-5-mini"]].concat(), "say ok");
    assert_eq!(chosen.events()[0]["model"], json!("GPT-5 Mini"));
    assert_eq!(sandbox.play(NORMAL, "say ok").events()[0]["model"], json!("GPT-5 Mini"));
    let config = fs::read_to_string(sandbox.home().join(".cursor/cli-config.json")).unwrap();
    assert!(config.contains("\"hasChangedDefaultModel\": true"), "{config}");
}

#[test]
fn the_source_of_the_login_is_named() {
    let sandbox = Sandbox::new();
    let source = |command| finish(command, &prompt("say ok")).events()[0]["apiKeySource"].clone();
    let flag = [NORMAL, &["--api-key", "key_given"]].concat();
    assert_eq!(source(sandbox.agent(&flag)), json!("flag"));
    let config = sandbox.home().join(".config/cursor");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("auth.json"), r#"{"accessToken":"a","refreshToken":"r"}"#).unwrap();
    assert_eq!(source(sandbox.stranger(NORMAL)), json!("login"));
}

#[test]
fn a_call_that_is_not_allowed_is_rejected_and_the_turn_goes_on() {
    let sandbox = Sandbox::new();
    let finished =
        sandbox.play(NORMAL, "shell rm -rf everything\nwrite a.txt <<END\nhello\nEND\nsay done");
    let events = finished.events();
    let results: Vec<&Value> = events
        .iter()
        .filter(|event| name(event) == "tool_call/completed")
        .map(|event| event["tool_call"].as_object().unwrap().values().next().unwrap())
        .collect();
    assert!(results[0]["result"].get("rejected").is_some() && results[0].get("args").is_none());
    assert!(results[1]["result"].get("success").is_some(), "edits run without being allowed");
    assert_eq!(fs::read_to_string(sandbox.workspace().join("a.txt")).unwrap(), "hello\n");
    assert_eq!(finished.answer(), "done");
}

#[test]
fn a_script_may_come_from_the_environment() {
    let sandbox = Sandbox::new();
    let path = sandbox.home().join("script.txt");
    fs::write(&path, "say from the file").unwrap();
    let mut command = sandbox.agent(NORMAL);
    command.env("SIMULATED_AGENT_SCRIPT", &path);
    assert_eq!(finish(command, "anything").answer(), "from the file");
}
