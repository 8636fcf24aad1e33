use clap::{Args, Command};
use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A request with every field that a client may send.
fn everything() -> Value {
    let text = r#"{
        "prompt": "do it", "workspace": "/w", "worktree": true, "setup": "make",
        "session": "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "model": "m", "mode": "plan",
        "profile": "strict", "name": "nightly", "labels": {"team": "core"}, "env": {"X": "y"},
        "secret": ["TOKEN=file:/t"], "expose": ["/opt"], "fresh_cache": true, "network": "none",
        "allow_host": ["*.example.org:8443"], "registries": ["a.example.org"],
        "user_mcp": false, "no_user_mcp": true,
        "mcp": ["notes"], "mcp_from_repo": ["docs"], "timeout": "90s", "idle_timeout": "none",
        "max_tool_calls": "5", "max_tokens": "200000", "loop": "end", "journal": "512B", "memory": "67108864B",
        "processes": "512", "cpus": "1.500", "max_file_size": "none", "disk": "7B",
        "no_force": false, "force": true, "widen": ["max-tool-calls", "memory"], "stream": true,
        "no_checkpoint": true, "restart": true, "priority": -5, "delay": "1s", "after": ["a"],
        "after_ok": ["b"], "group": "night", "group_budget": "tool_calls=5,time=60s",
        "account": "work", "agent": "simulated", "agent_flags": ["--verbose"]
    }"#;
    serde_json::from_str(text).unwrap()
}

fn read(value: &Value) -> Result<RunRequest, NotARequest> {
    RunRequest::from_json(value.to_string().as_bytes())
}

#[test]
fn every_field_is_written_as_it_was_read() {
    let mut value = everything();
    assert_eq!(read(&value).unwrap_err().why, "`worktree` and `session` contradict each other");
    value["worktree"] = false.into();
    let request = read(&value).unwrap();
    assert_eq!(serde_json::to_value(&request).unwrap(), value);
    assert_eq!(request.priority, Some(-5));
    assert_eq!(request.memory, Some(MemoryLimit(64 << 20)));
}

/// Each command defines a few of these flags itself, so the test adds their names.
#[test]
fn the_fields_have_the_names_of_the_flags() {
    let command = RunRequest::augment_args(Command::new("run"));
    let mut flags: Vec<String> =
        command.get_arguments().map(|argument| argument.get_id().to_string()).collect();
    flags.extend(["prompt", "workspace", "worktree", "session"].map(ToOwned::to_owned));
    flags.sort();
    let mut fields: Vec<String> = everything().as_object().unwrap().keys().cloned().collect();
    fields.sort();
    assert_eq!(fields, flags);
    for argument in command.get_arguments() {
        let (id, long) = (argument.get_id().as_str(), argument.get_long());
        let singular = if id == "labels" { "label" } else { id };
        assert_eq!(long.unwrap_or("agent-flags"), singular.replace('_', "-"), "{id}");
    }
}

#[test]
fn a_command_line_and_json_mean_the_same() {
    let command = RunRequest::augment_args(Command::new("run"));
    let words = "run --mode plan --label a=b --env X=y --memory 4GiB --processes 512 --cpus 1.5 --timeout 20m \
        --max-tokens 5M --network none --allow-host a.example.org --widen memory,max-tokens --priority -3 \
        --group-budget tokens=5k --group night -- --verbose";
    let matches = command.get_matches_from(words.split(' '));
    let typed = <RunRequest as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
    let sent = json!({
        "mode": "plan", "labels": {"a": "b"}, "env": {"X": "y"}, "memory": "4GiB", "processes": 512,
        "cpus": 1.5, "timeout": "20m", "max_tokens": "5M", "network": "none",
        "allow_host": ["a.example.org"], "widen": ["memory", "max-tokens"], "priority": -3,
        "group_budget": "tokens=5000", "group": "night", "agent_flags": ["--verbose"],
    });
    assert_eq!(read(&sent).unwrap(), typed);
}

#[test]
fn an_error_names_the_field_that_is_wrong() {
    for (value, field, part) in [
        (json!({"timeout": "soon"}), Some("timeout"), "not a duration"),
        (json!({"memory": "1MiB"}), Some("memory"), "at least 64MiB"),
        (json!({"mode": "think"}), Some("mode"), "`think` is not a mode"),
        (json!({"loop": "stop"}), Some("loop"), "expected `warn` or `end`"),
        (json!({"priority": 101}), Some("priority"), "from -100 to 100"),
        (json!({"labels": {"a b": "c"}}), Some("labels"), "a label is written"),
        (json!({"env": {"LD_PRELOAD": "x"}}), Some("env"), "would load something"),
        (json!({"name": "beef"}), Some("name"), "run's id"),
        (json!({"allow_host": ["https://a.example.org"]}), Some("allow_host"), "is a URL"),
        (json!({"session": "x"}), Some("session"), "UUID"),
        (json!({"widen": ["everything"]}), Some("widen"), "unknown variant"),
        (json!({"timeout": 5}), Some("timeout"), "invalid type"),
        (json!({"colour": "red"}), None, "unknown field `colour`"),
        (json!({"force": true, "no_force": true}), None, "`force` and `no_force` contradict"),
        (json!({"mcp": ["a"], "user_mcp": true}), None, "`mcp` and `user_mcp` contradict"),
        (json!([1]), None, "it is a list"),
        (json!("text"), None, "invalid type"),
    ] {
        let error = read(&value).unwrap_err();
        assert_eq!(error.field.as_deref(), field, "{value}: {error}");
        assert!(error.why.contains(part), "{value}: {error}");
        assert!(field.is_none() || !error.why.contains("at line"), "{error}");
    }
    assert!(RunRequest::from_json(b"{} {}").is_err());
    let secret = RunRequest::from_json(b"{\"secret\":\"TOKEN=hunter2\"}").unwrap_err();
    assert!(!secret.to_string().contains("hunter2"), "{secret}");
    assert!(RunRequest::from_json(b"{\"model\"").unwrap_err().why.contains("at line 1"));
}

prop_compose! {
    /// A layer with some fields of each kind: chosen, replaced, joined, by name, switched.
    fn layer()(
        model in option::of("[a-c]"),
        mode in option::of(prop_oneof![Just(Mode::Plan), Just(Mode::Ask), Just(Mode::Agent)]),
        memory in option::of((64u64 << 20)..(1 << 40)),
        timeout in option::of(0u64..5),
        labels in vec(("[a-c]", "[a-c]"), 0..3),
        expose in vec("/[a-c]", 0..3),
        agent_flags in vec("--[a-c]", 0..3),
        servers in 0..4,
        approval in 0..3,
        stream in any::<bool>(),
        secret in vec("[A-C]=env:[A-C]", 0..3),
    ) -> RunRequest {
        RunRequest {
            model, mode,
            memory: memory.map(MemoryLimit),
            timeout: timeout.map(HumanDuration::of_milliseconds),
            labels: by_name(Vec::new(), labels.into_iter().map(|(name, value)| Label { name, value }).fold(
                Vec::new(), |all, label| by_name(all, vec![label], |label| &label.name)), |label| &label.name),
            expose: joined(Vec::new(), expose.into_iter().map(PathBuf::from).collect()),
            agent_flags,
            user_mcp: servers == 1,
            no_user_mcp: servers == 2,
            mcp: if servers == 3 { vec!["notes".to_owned()] } else { Vec::new() },
            force: approval == 1,
            no_force: approval == 2,
            stream,
            secret: secret.into_iter().fold(Vec::new(), |all, it| by_name(all, vec![it], |it| secret_name(it))),
            ..RunRequest::default()
        }
    }
}

proptest! {
    #[test]
    fn an_empty_layer_changes_nothing(layer in layer()) {
        let nothing = RunRequest::default;
        prop_assert_eq!(&RunRequest::combine([layer.clone(), nothing()]), &layer);
        prop_assert_eq!(&RunRequest::combine([nothing(), layer.clone()]), &layer);
        prop_assert_eq!(RunRequest::combine([layer.clone(), layer.clone()]), layer);
    }

    #[test]
    fn a_later_layer_wins_and_values_that_only_one_layer_sets_are_kept(below in layer(), above in layer()) {
        let both = RunRequest::combine([below.clone(), above.clone()]);
        prop_assert_eq!(&both.model, if above.model.is_some() { &above.model } else { &below.model });
        prop_assert_eq!(both.memory, above.memory.or(below.memory));
        prop_assert_eq!(both.timeout, above.timeout.or(below.timeout));
        prop_assert!(above.labels.iter().all(|label| both.labels.contains(label)));
        for label in &below.labels {
            let is_said_again = above.labels.iter().any(|other| other.name == label.name);
            prop_assert_eq!(both.labels.contains(label), !is_said_again || above.labels.contains(label));
        }
        prop_assert!(below.expose.iter().chain(&above.expose).all(|path| both.expose.contains(path)));
        prop_assert_eq!(both.expose.len(), joined(below.expose, above.expose).len());
        let flags = if above.agent_flags.is_empty() { below.agent_flags } else { above.agent_flags };
        prop_assert_eq!(both.agent_flags, flags);
        prop_assert!(!both.user_mcp || !both.no_user_mcp);
        prop_assert!(!both.force || !both.no_force);
        prop_assert!(!both.user_mcp || both.mcp.is_empty());
        prop_assert_eq!(both.stream, below.stream || above.stream);
    }

    /// So a batch may combine the lower layers once, and then add each line.
    #[test]
    fn layers_can_be_combined_in_steps(one in layer(), two in layer(), three in layer()) {
        let steps = RunRequest::combine([RunRequest::combine([one.clone(), two.clone()]), three.clone()]);
        prop_assert_eq!(RunRequest::combine([one, two, three]), steps);
    }
}
