//! The document and the code say the same.

use std::collections::{BTreeMap, BTreeSet};

use admission::brought::ChildOrder;
use admission::budgets::budget::{BudgetKind, BudgetScope, Overspent};
use admission::config::caps::{CapKind, Caps};
use pretty_assertions::assert_eq;
use run_journal::{EventNumber, RunOverview, RunState};
use run_protocol::{
    BytesPath, ChildRequest, FailureClass, LimitKind, Lineage, NoResult, RunId, RunOutcome,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::openapi::DOCUMENT;
use super::*;
use crate::schedule::Waiting;

fn document() -> Value {
    serde_json::from_str(DOCUMENT).unwrap()
}

#[test]
fn the_document_has_exactly_the_routes_that_there_are() {
    let document = document();
    let described: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap();
            methods.keys().map(move |method| (method.to_uppercase(), path.clone()))
        })
        .collect();
    let served: BTreeSet<(String, String)> =
        routes().iter().map(|route| (route.method.to_string(), route.path.to_owned())).collect();
    assert_eq!(described, served);
}

#[test]
fn every_reference_in_the_document_leads_somewhere() {
    fn walk(value: &Value, document: &Value) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    let place = reference.strip_prefix('#').unwrap();
                    assert!(document.pointer(place).is_some(), "{reference}");
                }
                members.values().for_each(|member| walk(member, document));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, document)),
            _ => {}
        }
    }
    let document = document();
    walk(&document, &document);
    for (path, methods) in document["paths"].as_object().unwrap() {
        for piece in path.split('/').filter_map(|piece| piece.strip_prefix('{')) {
            let name = piece.trim_end_matches('}');
            for method in methods.as_object().unwrap().values() {
                let parameters = method["parameters"].as_array().unwrap();
                let is_it = |it: &Value| it["in"] == "path" && it["name"] == name;
                assert!(parameters.iter().any(is_it), "{path}");
            }
        }
    }
}

/// Says where a value is not as its schema has it; the few words of JSON Schema that the document uses.
fn mismatch(value: &Value, schema: &Value, document: &Value) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return mismatch(value, document.pointer(&reference[1..]).unwrap(), document);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let n_fitting =
            choices.iter().filter(|choice| mismatch(value, choice, document).is_none()).count();
        return (n_fitting != 1).then(|| format!("{value} fits {n_fitting} of the choices"));
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
        _ => return Some(format!("the schema of {value} has no type")),
    };
    if !allowed.contains(&kind) {
        return Some(format!("{value} is {kind}, not {allowed:?}"));
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        return Some(format!("{value} is none of {values:?}"));
    }
    match value {
        Value::Array(items) => {
            items.iter().find_map(|item| mismatch(item, &schema["items"], document))
        }
        Value::Object(members) => {
            let required = schema["required"].as_array().into_iter().flatten();
            for name in required.filter_map(Value::as_str) {
                if !members.contains_key(name) {
                    return Some(format!("`{name}` is missing"));
                }
            }
            members.iter().find_map(|(name, member)| match schema["properties"].get(name) {
                Some(schema) => {
                    mismatch(member, schema, document).map(|problem| format!("{name}: {problem}"))
                }
                None => match &schema["additionalProperties"] {
                    Value::Bool(true) => None,
                    Value::Object(_) => mismatch(member, &schema["additionalProperties"], document),
                    _ => Some(format!("`{name}` is not in the document")),
                },
            })
        }
        _ => None,
    }
}

#[track_caller]
fn assert_described(name: &str, value: &impl Serialize) {
    let document = document();
    let schema = &document["components"]["schemas"][name];
    assert!(!schema.is_null(), "{name} is not described");
    let value = serde_json::to_value(value).unwrap();
    let problem = mismatch(&value, schema, &document);
    assert_eq!(problem, None, "{name} is not as the document has it: {value}");
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
fn every_answer_is_as_the_document_has_it() {
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
    assert_described("LeftReport", &inbox::LeftReport::example());
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
fn every_request_can_say_what_the_document_says_and_no_more() {
    // Values of a run request are read strictly, so here only the names are compared; its own tests have the values.
    let document = document();
    let described = document["components"]["schemas"]["Submit"]["properties"].as_object().unwrap();
    let described: BTreeSet<&String> = described.keys().collect();
    let request = serde_json::to_value(run_protocol::RunRequest::default()).unwrap();
    assert_eq!(described, request.as_object().unwrap().keys().collect::<BTreeSet<_>>());
    assert_can_say::<ChildRequest>("ChildRequest", json!({"prompt": "x"}));
}

#[track_caller]
fn assert_can_say<T: Serialize + serde::de::DeserializeOwned>(name: &str, mut request: Value) {
    let document = document();
    let properties = document["components"]["schemas"][name]["properties"].as_object().unwrap();
    for (name, schema) in properties {
        let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str()).unwrap();
        request[name] = match kind {
            "string" => json!("x"),
            "integer" => json!(1),
            "boolean" => json!(true),
            "array" => json!(["x"]),
            _ => json!({"x": "y"}),
        };
    }
    let parsed: T = serde_json::from_value(request.clone()).unwrap();
    assert_eq!(serde_json::to_value(parsed).unwrap(), request, "a field is not in both");
    request["colour"] = json!("red");
    assert!(serde_json::from_value::<T>(request).is_err());
}
