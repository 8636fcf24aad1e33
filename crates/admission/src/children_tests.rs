use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

fn builtin(name: &str) -> &'static str {
    builtin_profiles().iter().find(|(builtin, _)| *builtin == name).unwrap().1
}

/// A parent's spec, with the fields in `otherwise` replaced.
fn parent(otherwise: Value) -> RunSpec {
    let mut spec = json!({
        "run": "01941f29-7c00-7000-8000-000000000001", "created_ms": 1,
        "session": "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11", "session_start": "new",
        "workspace": "/w",
        "agent": {"kind": "simulated", "program": "/a", "expose": ["/a"]},
        "tool_approval": "force",
        "profile": "default", "profile_text": builtin("default"),
        "expose": ["/srv/data"], "allow_hosts": ["registry.example.com", "*.example.org:8443"],
        "bwrap": "/b", "home": "/h", "host_config_root": "/h/.cursor",
        "secrets": ["TOKEN"], "env": {"A": "b"},
        "limits": {"wall_ms": 600_000},
        "resources": {"memory_bytes": 2_147_483_648_u64, "processes": 100},
        "socket_dir": "/s",
    });
    for (name, value) in otherwise.as_object().unwrap() {
        spec[name] = value.clone();
    }
    serde_json::from_value(spec).unwrap()
}

fn child(parent: &RunSpec, request: Value) -> Result<RunSpec, String> {
    let mut whole = json!({"prompt": "x"});
    for (name, value) in request.as_object().unwrap() {
        whole[name] = value.clone();
    }
    let request: ChildRequest = serde_json::from_value(whole).unwrap();
    narrow(parent, &request, Some(500_000)).map_err(|error| match error {
        NoChild::Forbidden(what) => what,
        NoChild::Failed(error) => panic!("{}", error.text()),
    })
}

#[test]
fn a_child_that_asks_for_nothing_gets_its_parents_rights_and_remaining_time() {
    let parent = parent(json!({}));
    let limits = RunLimits { wall_ms: 500_000, ..parent.limits.clone() };
    assert_eq!(child(&parent, json!({})).unwrap(), RunSpec { limits, ..parent });
}

#[test]
fn a_child_that_asks_for_less_gets_less() {
    let child = child(
        &parent(json!({})),
        json!({
            "profile": "strict", "network": "none", "hosts": ["a.example.org:8443"], "mode": "ask",
            "timeout_seconds": 60, "memory_mb": 512, "processes": 100, "disk_mb": 10,
        }),
    )
    .unwrap();
    assert_eq!(
        (child.profile.as_str(), child.profile_text.as_str()),
        ("strict", builtin("strict"))
    );
    assert_eq!(child.network, Some(NetworkMode::None));
    assert_eq!(child.allow_hosts, ["a.example.org:8443"]);
    assert_eq!(child.mode, Some(AgentMode::Ask));
    assert_eq!(child.limits.wall_ms, 60_000);
    assert_eq!(child.resources.memory_bytes, 512 * MEBIBYTE);
    assert_eq!((child.resources.processes, child.resources.disk_bytes), (100, 10 * MEBIBYTE));
}

#[test]
fn a_child_reaches_its_parent_s_registries_unless_it_asks_for_less() {
    let parent = parent(json!({"registries": ["mirror.example.net"]}));
    assert_eq!(child(&parent, json!({})).unwrap().registries, ["mirror.example.net"]);
    for less in [json!({"network": "none"}), json!({"profile": "strict"}), json!({"hosts": []})] {
        assert_eq!(child(&parent, less).unwrap().registries, [] as [&str; 0]);
    }
    let named = child(&parent, json!({"hosts": ["mirror.example.net"]})).unwrap();
    assert_eq!(named.allow_hosts, ["mirror.example.net"]);
}

#[test]
fn every_refusal_names_the_field_that_asks_for_too_much() {
    let parent = parent(json!({}));
    for (request, name) in [
        (json!({"profile": "off"}), "profile `off`"),
        (json!({"profile": "my-own"}), "profile `my-own`"),
        (json!({"network": "host"}), "network `host`"),
        (json!({"hosts": ["evil.example"]}), "host `evil.example`"),
        (json!({"hosts": ["registry.example.com:22"]}), "host `registry.example.com:22`"),
        (json!({"hosts": ["*.example.com"]}), "host `*.example.com`"),
        (json!({"timeout_seconds": 501}), "timeout_seconds `501`"),
        (json!({"timeout_seconds": 0}), "timeout_seconds `0`"),
        (json!({"memory_mb": 4096}), "memory_mb `4096`"),
        (json!({"memory_mb": 0}), "memory_mb `0`"),
        (json!({"memory_mb": u64::MAX}), "memory_mb"),
        (json!({"processes": 101}), "processes `101`"),
    ] {
        let refused = child(&parent, request.clone()).unwrap_err();
        assert!(refused.contains(name), "{request}: {refused}");
    }
}

#[test]
fn strict_does_not_count_as_narrower_than_a_users_own_profile() {
    let text = format!("extends = \"default\"\n# {}", "mine");
    let parent = parent(json!({"profile_text": text}));
    assert!(child(&parent, json!({"profile": "strict"})).is_err());
    assert_eq!(child(&parent, json!({"profile": "default"})).unwrap().profile_text, text);
}

#[test]
fn a_parent_without_a_sandbox_or_time_has_no_children_and_a_read_only_one_has_read_only_children() {
    let off = parent(json!({"profile": "off", "profile_text": builtin("off")}));
    assert!(child(&off, json!({})).unwrap_err().contains("without a sandbox"));
    let request = ChildRequest { prompt: "x".to_owned(), ..ChildRequest::default() };
    let late = narrow(&parent(json!({})), &request, Some(0));
    assert!(matches!(late, Err(NoChild::Forbidden(_))));
    let reader = parent(json!({"mode": "plan"}));
    assert_eq!(child(&reader, json!({})).unwrap().mode, Some(AgentMode::Plan));
}

#[test]
fn the_number_of_generations_is_limited() {
    let caps = ChildrenConfig { depth: 2, at_once: 1, in_all: 1 };
    assert_eq!(depth_of(&parent(json!({})), &caps).unwrap(), 1);
    let lineage = |depth: u32| {
        json!({"lineage": {
            "run": "01941f29-7c00-7000-8000-000000000009",
            "session": "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f12", "depth": depth,
        }})
    };
    assert_eq!(depth_of(&parent(lineage(1)), &caps).unwrap(), 2);
    assert!(matches!(depth_of(&parent(lineage(2)), &caps), Err(NoChild::Forbidden(_))));
}

/// A new field in a user's request must not become available to agents by accident.
#[test]
fn a_child_knows_only_the_fields_that_can_be_narrowed() {
    let all = serde_json::to_value(run_protocol::RunRequest::default()).unwrap();
    let mut known: Vec<&String> = all
        .as_object()
        .unwrap()
        .keys()
        .filter(|field| {
            let request = json!({"prompt": "x", field.as_str(): null});
            let error = serde_json::from_value::<ChildRequest>(request).err();
            error.is_none_or(|error| !error.to_string().contains("unknown field"))
        })
        .collect();
    known.sort();
    assert_eq!(known, ["mode", "name", "network", "processes", "profile", "prompt"]);
}
