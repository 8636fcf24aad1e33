//! The simulated agent prints the keys that real agents print: per kind of event and per CLI generation.
//!
//! `fixtures/streams/key-sets.json` is the manifest. The tests always compare the agent with the manifest, and the
//! manifest with captured transcripts if there are any. So neither can drift from the real agents unnoticed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pretty_assertions::assert_eq;
use serde::Deserialize;
use serde_json::Value;

use crate::stage::programs::{checkout, transcripts};
use crate::stage::simulated::{Home, Play};

/// Kind of event → the paths of all keys below it.
type KeySets = BTreeMap<String, BTreeSet<String>>;

#[derive(Deserialize)]
struct Manifest {
    /// Generation → the keys in captured transcripts.
    captured: BTreeMap<String, KeySets>,
    /// Keys from published, reported or documented streams, for kinds that no capture shows.
    described: KeySets,
}

fn manifest() -> Manifest {
    let path = checkout().join("fixtures/streams/key-sets.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Returns the key sets of a stream. Panics if one kind has two different key sets.
fn key_sets_of(stream: &str) -> KeySets {
    let mut sets = KeySets::new();
    for line in stream.lines().filter(|line| !line.trim().is_empty()) {
        let event: Value = serde_json::from_str(line).unwrap();
        let mut keys = BTreeSet::new();
        collect_keys(&event, "", &mut keys);
        let kind = kind_of(&event);
        if let Some(before) = sets.insert(kind.clone(), keys.clone()) {
            assert_eq!(before, keys, "{kind} has two different key sets");
        }
    }
    sets
}

fn kind_of(event: &Value) -> String {
    let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let kind = text("type");
    match kind.as_str() {
        "assistant" => {
            let has = |key: &str| event.get(key).is_some();
            match (has("timestamp_ms"), has("model_call_id")) {
                (true, false) => "assistant, delta or before a query".to_owned(),
                (_, true) => "assistant, before a tool call".to_owned(),
                (false, false) => "assistant, last".to_owned(),
            }
        }
        "tool_call" => {
            let call = event["tool_call"].as_object().unwrap();
            let (key, payload) = call.iter().find(|(key, _)| key.ends_with("ToolCall")).unwrap();
            let result = payload["result"].as_object();
            let outcome = result.and_then(|result| result.keys().next());
            let outcome = outcome.map_or(String::new(), |outcome| format!("/{outcome}"));
            format!("tool_call/{}/{key}{outcome}", text("subtype"))
        }
        "interaction_query" => {
            format!("interaction_query/{}/{}", text("subtype"), text("query_type"))
        }
        "user" => kind,
        _ => format!("{kind}/{}", text("subtype")),
    }
}

fn collect_keys(value: &Value, path: &str, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect_keys(value, &path, keys);
                keys.insert(path);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect_keys(item, &format!("{path}[]"), keys);
            }
        }
        _ => {}
    }
}

/// Calls the tools that the captures show, with arguments of the same form.
const CAPTURED_TOOLS: &str = "\
think Planning the work
say I'll look at the file.
read notes.txt
shell sleep 0
edit notes.txt <<END
first line
===
first line

second line
END
say DONE
";

/// A kind that the agent printed must have exactly the manifest's keys.
#[track_caller]
fn check(printed: &KeySets, expected: &KeySets, kinds: &[&str]) {
    for kind in kinds {
        let expected = expected.get(*kind).unwrap_or_else(|| panic!("no {kind} in the manifest"));
        let printed = printed.get(*kind).unwrap_or_else(|| panic!("the agent printed no {kind}"));
        assert_eq!(printed, expected, "{kind}");
    }
}

#[test]
fn the_current_generation_prints_the_captured_keys() {
    let home = Home::new();
    home.write("notes.txt", "first line\n");
    let forced = home.play_well(&Play::script(CAPTURED_TOOLS).flags(&["--force"]));
    let asked =
        home.play_well(&Play::script("say Fetching.\nfetch https://example.invalid\nsay No.\n"));
    let mut printed = key_sets_of(&forced.stdout);
    printed.extend(key_sets_of(&asked.stdout));
    let expected = &manifest().captured["2026.09"];
    check(&printed, expected, &expected.keys().map(String::as_str).collect::<Vec<_>>());
}

/// The captures of 2026.10 show partial output. The kinds that 2026.09 also has are unchanged.
#[test]
fn the_newest_generation_prints_the_captured_keys_in_pieces_too() {
    let home = Home::new();
    let script = "think Running it\nsay I'll run it.\nshell echo ok\nsay It printed ok.\n";
    let flags = ["--force", "--stream-partial-output"];
    let printed = key_sets_of(&home.play_well(&Play::script(script).flags(&flags)).stdout);
    let expected = &manifest().captured["2026.10"];
    check(&printed, expected, &expected.keys().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn the_old_generation_prints_the_captured_keys() {
    let home = Home::new();
    let script = "generation 2026.01\nthink Planning\nsay I'll wait.\nshell sleep 0\nsay done\n";
    let printed = key_sets_of(&home.play_well(&Play::script(script).flags(&["--force"])).stdout);
    let expected = &manifest().captured["2026.01"];
    check(&printed, expected, &expected.keys().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn kinds_that_no_capture_shows_have_the_described_keys() {
    let home = Home::new();
    let mut printed = KeySets::new();
    for play in [
        Play::script("say a b\nshell true\nsay c d\n")
            .flags(&["--force", "--stream-partial-output"]),
        Play::script("misbehave reconnect\nsay done\n").flags(&["--force"]),
        Play::script("misbehave reconnect-then-fail\nsay done\n").flags(&["--force"]),
        Play::script("shell[background] sleep 600\nsay done\n").flags(&[
            "--force",
            "--background-shell-timeout",
            "0",
        ]),
        // The command is not allowed, and no user can answer.
        Play::script("shell touch notes.txt\nask Which one?\nsay done\n"),
        Play::script("plan Write the notes.\nsay done\n").flags(&["--plan"]),
    ] {
        printed.extend(key_sets_of(&home.play(&play).stdout));
    }
    let described = manifest().described;
    check(&printed, &described, &described.keys().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn the_manifest_is_what_the_captures_show() {
    let files = transcripts();
    if files.is_empty() {
        return;
    }
    let mut captured: BTreeMap<String, KeySets> = BTreeMap::new();
    for file in files {
        let generation = generation_of(&file);
        let sets = key_sets_of(&std::fs::read_to_string(&file).unwrap());
        captured.entry(generation.to_owned()).or_default().extend(sets);
    }
    assert!(captured.contains_key("2026.09"), "the captures lack a generation");
    for (generation, sets) in captured {
        assert_eq!(manifest().captured.get(&generation), Some(&sets), "{generation}");
    }
}

/// The captures from early 2026 do not name their version, but their origin does.
fn generation_of(file: &Path) -> &'static str {
    let name = file.file_name().unwrap().to_str().unwrap();
    if name.contains("2026.10") {
        "2026.10"
    } else if name.contains("cursor-2026.09") {
        "2026.09"
    } else if name.starts_with("reifying__cursor-hack") {
        "2026.01"
    } else {
        panic!("unknown generation of {name}")
    }
}
