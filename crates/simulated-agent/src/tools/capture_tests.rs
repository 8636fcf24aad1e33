//! Prepares the calls of real captures again, with the same keys in the same order.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::Value;

use super::test_environment::TestEnvironment;
use super::{Background, Generation, ShellRequest, ToolRequest};

/// Returns every completed call of the captures, with the generation that printed it.
fn completed_calls() -> Vec<(Generation, String, Value)> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the captures are not part of the project; the variable says where they are"
    )]
    let Some(folder) = std::env::var_os("CARETAKER_CAPTURES").map(PathBuf::from) else {
        println!("CARETAKER_CAPTURES is not set: nothing to compare with");
        return Vec::new();
    };
    let mut calls = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".ndjson") {
            continue;
        }
        let generation =
            if name.contains("2026.09") { Generation::V2026_09 } else { Generation::V2026_01 };
        for line in fs::read_to_string(&path).unwrap().lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            if event["type"] == "tool_call" && event["subtype"] == "completed" {
                let call = event["tool_call"].as_object().unwrap();
                let (key, call) = call.iter().find(|(key, _)| key.ends_with("ToolCall")).unwrap();
                calls.push((generation, key.clone(), call.clone()));
            }
        }
    }
    assert!(!calls.is_empty());
    calls
}

/// Returns the keys of a value and of all values in it, in order. Ignores the values themselves.
fn shape(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let fields = map.iter().map(|(key, value)| format!("{key}:{}", shape(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.first().map(shape).unwrap_or_default()),
        Value::String(_) => "text".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Null => "null".to_owned(),
    }
}

#[test]
fn shells_have_the_shape_of_the_captures() {
    for (generation, _, captured) in
        completed_calls().into_iter().filter(|(_, key, _)| key == "shellToolCall")
    {
        let mut environment = TestEnvironment::new();
        environment.generation = generation;
        let args = &captured["args"];
        // The captured commands sleep or use the network, so the test prepares their arguments but runs another
        // command.
        let request = |command: &str| {
            ToolRequest::Shell(ShellRequest {
                command: command.to_owned(),
                timeout: Duration::from_millis(args["timeout"].as_u64().unwrap()),
                background: Background::No,
                description: args["description"].as_str().unwrap_or_default().to_owned(),
            })
        };
        let prepared =
            super::prepare(&request(args["command"].as_str().unwrap()), "call_1", &environment);
        assert_eq!(shape(&prepared.args), shape(args));
        for same in
            ["command", "timeout", "simpleCommands", "parsingResult", "fileOutputThresholdBytes"]
        {
            assert_eq!(prepared.args[same], args[same], "{same}");
        }
        assert_eq!(prepared.description.as_deref(), captured["description"].as_str());
        let (_, tool_run) = environment.call(&request("true"));
        assert_eq!(shape(&tool_run.result), shape(&captured["result"]));
    }
}

#[test]
fn reads_and_edits_have_the_shape_of_the_captures() {
    for (generation, key, captured) in completed_calls() {
        let mut environment = TestEnvironment::new();
        environment.generation = generation;
        let success = &captured["result"]["success"];
        let text = |field: &str| success[field].as_str().unwrap().to_owned();
        let path = PathBuf::from("notes.txt");
        let request = match key.as_str() {
            "readToolCall" => {
                environment.file("notes.txt", text("content"));
                ToolRequest::Read { path }
            }
            "editToolCall" => {
                environment.file("notes.txt", text("beforeFullFileContent"));
                let (old, new) = (text("beforeFullFileContent"), text("afterFullFileContent"));
                ToolRequest::Edit { path, old, new }
            }
            _ => continue,
        };
        let (prepared, tool_run) = environment.call(&request);
        assert_eq!(shape(&prepared.args), shape(&captured["args"]));
        assert_eq!(shape(&tool_run.result), shape(&captured["result"]));
        // Everything but the path is identical, byte for byte.
        let printed =
            tool_run.result.to_string().replace(environment.workspace.to_str().unwrap(), "/ws");
        let captured_path = captured["args"]["path"].as_str().unwrap();
        assert_eq!(printed, captured["result"].to_string().replace(captured_path, "/ws/notes.txt"));
    }
}

#[test]
fn a_rejected_fetch_is_the_same_as_in_the_capture() {
    let mut environment = TestEnvironment::new();
    environment.permit(crate::permissions::ApprovalPolicy::AllowList, &[], &[]);
    for (_, _, captured) in
        completed_calls().into_iter().filter(|(_, key, _)| key == "webFetchToolCall")
    {
        let (_, tool_run) =
            environment.call(&ToolRequest::WebFetch { url: "https://example.com".to_owned() });
        assert_eq!(tool_run.result, captured["result"]);
        assert_eq!(tool_run.args_kept == super::ArgsKept::Kept, captured.get("args").is_some());
    }
}
