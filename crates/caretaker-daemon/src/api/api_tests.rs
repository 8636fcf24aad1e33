//! Checks that the OpenAPI document describes what the code does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use admission::budgets::budget::{BudgetKind, BudgetScope, Overspent};
use admission::config::caps::{CapKind, Caps};
use axum::http::StatusCode;
use pretty_assertions::assert_eq;
use run_journal::{EventNumber, RunOverview, RunState};
use run_protocol::{
    BytesPath, ChildOrder, FailureClass, LimitKind, Lineage, NoResult, RunId, RunOutcome,
    RunRequest,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::openapi::DOCUMENT;
use super::*;
use crate::schedule::Waiting;

fn document() -> Value {
    serde_json::from_str(&DOCUMENT).unwrap()
}

fn fixtures() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

#[test]
fn the_document_is_the_one_that_is_checked_in() {
    let published = fixtures().join("api/openapi.json");
    let published = std::fs::read_to_string(published).unwrap_or_default();
    if published.trim_end() != *DOCUMENT {
        let beside = std::env::temp_dir().join("openapi.json");
        std::fs::write(&beside, format!("{}\n", *DOCUMENT)).unwrap();
        eprintln!("the current document was written to {}", beside.display());
    }
    assert_eq!(published.trim_end(), *DOCUMENT, "the API changed; is it still the same version?");
}

/// The operations, each with its path and method.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap();
        methods.iter().map(move |(method, operation)| (format!("{method} {path}"), operation))
    });
    operations.collect()
}

/// Calls `look` with the path and the value of every object in the document.
fn walk(value: &Value, place: &str, look: &mut dyn FnMut(&str, &serde_json::Map<String, Value>)) {
    match value {
        Value::Object(members) => {
            look(place, members);
            members.iter().for_each(|(name, it)| walk(it, &format!("{place}/{name}"), look));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, it)| walk(it, &format!("{place}/{n}"), look));
        }
        _ => {}
    }
}

#[test]
fn every_operation_has_a_unique_id_a_summary_and_a_known_tag() {
    let document = document();
    let tags = document["tags"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for (name, operation) in operations(&document) {
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{name}");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{name}");
        let tag = &operation["tags"][0];
        assert!(tags.iter().any(|known| known["name"] == *tag), "{name}");
    }
}

#[test]
fn every_reference_resolves_and_every_path_declares_its_parameters() {
    let document = document();
    walk(&document, "", &mut |place, members| {
        if let Some(Value::String(reference)) = members.get("$ref") {
            assert!(document.pointer(&reference[1..]).is_some(), "{reference} of {place}");
        }
    });
    for (name, operation) in operations(&document) {
        for piece in name.split('/').filter_map(|piece| piece.strip_prefix('{')) {
            let wanted = piece.trim_end_matches('}');
            let parameters = operation["parameters"].as_array().unwrap();
            let is_it = |it: &Value| it["in"] == "path" && it["name"] == wanted;
            assert!(parameters.iter().any(is_it), "{name}");
        }
    }
}

#[test]
fn every_property_and_every_parameter_is_described() {
    let document = document();
    let mut bare = Vec::new();
    walk(&document, "", &mut |place, members| {
        if let Some(Value::Object(properties)) = members.get("properties") {
            for (name, property) in properties {
                // The description of an enum variant also covers the variant's tag.
                let is_tag = property["enum"].as_array().is_some_and(|words| words.len() == 1);
                let described = |it: &Value| it["description"].is_string();
                let of_some = property["oneOf"].as_array().into_iter().flatten().any(described);
                if !is_tag && !described(property) && !of_some {
                    bare.push(format!("{place}/{name}"));
                }
            }
        }
        if members.contains_key("in") && !members.contains_key("description") {
            bare.push(place.to_owned());
        }
    });
    assert_eq!(bare, Vec::<String>::new());
}

#[test]
fn every_refusal_names_its_codes() {
    let document = document();
    for (code, meaning) in ErrorCode::ALL {
        let status = code.status();
        let answer = &document["components"]["responses"][format!("Refused{}", status.as_u16())];
        let line = format!("- `{}`:{meaning}\n", json!(code).as_str().unwrap());
        assert!(answer["description"].as_str().unwrap().contains(&line), "{code:?}");
    }
    for (name, operation) in operations(&document) {
        for (status, answer) in operation["responses"].as_object().unwrap() {
            if !status.parse::<StatusCode>().unwrap().is_success() {
                let reference = format!("#/components/responses/Refused{status}");
                assert_eq!(answer["$ref"], reference, "{name}");
            }
        }
    }
}

#[test]
fn no_two_types_have_the_same_name_in_the_document() {
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    for (schemas, _, _) in handlers() {
        for (name, schema) in schemas {
            let schema = json!(schema);
            let before = known.entry(name.clone()).or_insert_with(|| schema.clone());
            assert_eq!(*before, schema, "{name} names two types; see `#[schema(as = …)]`");
        }
    }
    assert!(known.contains_key("RunOverview"));
}

/// Returns the members that the schema describes, or says where the value does not match. Knows only the JSON Schema
/// keywords that the document uses.
fn described(value: &Value, schema: &Value, document: &Value) -> Result<BTreeSet<String>, String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return described(value, document.pointer(&reference[1..]).unwrap(), document);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let tried = choices.iter().map(|choice| described(value, choice, document));
        let (fitting, unfit): (Vec<_>, Vec<_>) = tried.partition(Result::is_ok);
        let why = || unfit.into_iter().filter_map(Result::err).collect::<Vec<_>>().join("; ");
        return match fitting.as_slice() {
            [Ok(members)] => Ok(members.clone()),
            several => Err(format!("{value} fits {} of the choices: {}", several.len(), why())),
        };
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let parts = parts.iter().map(|part| described(value, part, document));
        return Ok(parts.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect());
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allowed = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        // The schema allows any value.
        _ => return Ok(BTreeSet::new()),
    };
    if !allowed.contains(&kind) {
        return Err(format!("{value} is {kind}, not {allowed:?}"));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Err(format!("{value} is none of {words:?}"));
    }
    match value {
        Value::Array(items) => {
            items.iter().try_for_each(|item| fit(item, &schema["items"], document))?;
            Ok(BTreeSet::new())
        }
        Value::Object(members) => described_members(members, schema, document),
        _ => Ok(BTreeSet::new()),
    }
}

fn described_members(
    members: &serde_json::Map<String, Value>,
    schema: &Value,
    document: &Value,
) -> Result<BTreeSet<String>, String> {
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !members.contains_key(name) {
            return Err(format!("`{name}` is missing"));
        }
    }
    let mut names = BTreeSet::new();
    for (name, member) in members {
        let others = Some(&schema["additionalProperties"]).filter(|it| it.is_object());
        let Some(schema) = schema["properties"].get(name).or(others) else { continue };
        fit(member, schema, document).map_err(|problem| format!("{name}: {problem}"))?;
        names.insert(name.clone());
    }
    Ok(names)
}

/// Like [`described`], but also fails if the schema leaves a member undescribed.
fn fit(value: &Value, schema: &Value, document: &Value) -> Result<(), String> {
    let names = described(value, schema, document)?;
    let is_any = schema.get("$ref").is_none() && schema.get("allOf").is_none();
    let is_any = is_any && schema.get("oneOf").is_none() && schema.get("type").is_none();
    let unknown = |name: &&String| !is_any && !names.contains(*name);
    match value.as_object().and_then(|members| members.keys().find(unknown)) {
        Some(name) => Err(format!("`{name}` is not in the document")),
        None => Ok(()),
    }
}

#[test]
fn every_published_event_matches_the_document() {
    let document = document();
    let events = std::fs::read_to_string(fixtures().join("events/schema-v1.jsonl")).unwrap();
    for line in events.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let schema = &document["components"]["schemas"]["PublicEvent"];
        assert_eq!(fit(&event, schema, &document), Ok(()), "{line}");
        let framed = json!({"run": run(), "event": event});
        let schema = &document["components"]["schemas"]["EventOfRun"];
        assert_eq!(fit(&framed, schema, &document), Ok(()), "{line}");
    }
}

#[track_caller]
fn assert_described(name: &str, value: &impl Serialize) {
    let document = document();
    let schema = &document["components"]["schemas"][name];
    assert!(!schema.is_null(), "{name} is not described");
    let value = serde_json::to_value(value).unwrap();
    let fits = fit(&value, schema, &document);
    assert_eq!(fits, Ok(()), "{name} does not match the document: {value}");
}

fn run() -> RunId {
    RunId::generate()
}

fn states() -> Vec<RunState> {
    let ended = |outcome| RunState::Ended {
        outcome,
        why: "it was".to_owned(),
        exit_code: Some(1),
        duration_ms: 1,
    };
    vec![
        RunState::Created,
        RunState::Queued { since_ms: 1 },
        RunState::Waiting { reason: "for it".to_owned() },
        RunState::Starting,
        RunState::Running { since_ms: 1, last_event_ms: 2, progress: None },
        ended(RunOutcome::Succeeded),
        ended(RunOutcome::Failed { class: FailureClass::RateLimited }),
        ended(RunOutcome::Unknown { why: NoResult::Lost }),
        ended(RunOutcome::TimedOut { limit: LimitKind::Tool { name: "shell".to_owned() } }),
        RunState::Lost { why: "gone".to_owned(), unreadable: false },
    ]
}

fn overview(state: RunState) -> RunOverview {
    RunOverview {
        run: run(),
        created_ms: 1,
        name: Some("fixer".to_owned()),
        labels: BTreeMap::from([("team".to_owned(), "blue".to_owned())]),
        session: "s".to_owned(),
        workspace: BytesPath::from("/w"),
        profile: "default".to_owned(),
        agent: BytesPath::from("/a"),
        agent_version: None,
        model: Some("auto".to_owned()),
        prompt_start: "fix".to_owned(),
        prompt_length: 3,
        retry_of: Some(run()),
        group: Some("night".to_owned()),
        worktree: None,
        lineage: Some(Lineage { run: run(), session: uuid::Uuid::nil(), depth: 1 }),
        needs_human: Some("which?".to_owned()),
        state,
        last_event: Some(EventNumber { epoch: 1, seq: 7 }),
        last_event_ms: 2,
        checkpoint: None,
        reported: None,
        spent: Some(run_protocol::Spend { tool_calls: Some(1), time_ms: Some(2), tokens: None }),
        journal_bytes: 100,
    }
}

fn waitings() -> Vec<Waiting> {
    vec![
        Waiting::Time { until_ms: 2, in_ms: 1 },
        Waiting::Runs { runs: vec![run()], to_succeed: true },
        Waiting::Resumption,
        Waiting::DiskBlocked { free_bytes: 1, needed_bytes: 2 },
        Waiting::Keys { names: vec!["CURSOR_API_KEY".to_owned()] },
        Waiting::Workspace { run: run() },
        Waiting::Session { run: run() },
        Waiting::RateLimit { account: "work".to_owned(), in_ms: 1 },
        Waiting::Cap { cap: CapKind::Group, name: "n".to_owned(), running: 1, limit: 1, before: 0 },
        Waiting::Budget {
            scope: BudgetScope::Group,
            name: "night".to_owned(),
            spent: Overspent {
                kind: BudgetKind::Time,
                spent: 2,
                n_unknown: 1,
                each_unknown: Some(3),
                limit: 2,
            },
        },
        Waiting::Retry { problem: "no".to_owned(), in_ms: 1 },
        Waiting::Start,
    ]
}

#[test]
fn every_answer_matches_the_document() {
    for state in states() {
        assert_described("RunState", &state);
        assert_described("RunOverview", &overview(state.clone()));
        assert_described("RunList", &json!({"v": 1, "runs": [overview(state)]}));
    }
    for waiting in waitings() {
        assert_described("Waiting", &waiting);
        assert_described("Accepted", &json!({"v": 1, "run": run(), "waiting": waiting}));
    }
    assert_described("Accepted", &json!({"v": 1, "run": run(), "waiting": null}));
    assert_described("OneRun", &runs::OneRun::example(overview(RunState::Starting)));
    assert_described("Group", &groups::Group::default());
    assert_described("GroupBudget", &groups::GroupBudget::example());
    assert_described("QueueReport", &queue::QueueReport::example(run()));
    assert_described("InboxReport", &inbox::InboxReport::example(run()));
    assert_described("LeftReport", &inbox::PostedReport::example());
    assert_described("ChildOrder", &ChildOrder::default());
    assert_described(
        "Version",
        &version::Version { protocol: 1, version: "1".to_owned(), pid: 1, since_ms: 1 },
    );
    let caps = Caps {
        total: 1,
        groups: BTreeMap::from([("a".to_owned(), 1)]),
        models: BTreeMap::new(),
        accounts: BTreeMap::new(),
    };
    assert_described("Caps", &caps);
}

#[test]
fn a_request_with_every_field_matches_the_document() {
    let everything = RunRequest::from_json(
        br#"{"prompt": "x", "workspace": "/w", "mode": "plan", "labels": {"a": "b"}, "priority": -3, "cpus": 1.5,
            "timeout": "20m", "max_tokens": 7, "widen": ["memory"], "network": "none", "group_budget": "time=8h"}"#,
    )
    .unwrap();
    assert_described("RunRequest", &everything);
}
