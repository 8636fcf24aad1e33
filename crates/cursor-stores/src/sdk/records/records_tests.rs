use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn row(value: Json) -> Map<String, Json> {
    value.as_object().unwrap().clone()
}

#[test]
fn the_end_of_a_run_is_read_from_any_column() {
    let updated = "2026-11-16T07:00:09.000Z";
    let ended = |status: &str, column: &str| {
        let mut fields = row(json!({"run_id": "r", "status": status, "updated_at": updated}));
        fields.insert(column.to_owned(), "2026-11-16T07:00:01.500Z".into());
        Run::from_row(&fields).unwrap().ended
    };
    let (own, change) = (Some(1_794_812_401_500), Some(1_794_812_409_000));
    assert_eq!(ended("FINISHED", "finished_at"), own);
    assert_eq!(ended("CANCELLED", "cancelled_at"), own);
    assert_eq!(ended("EXPIRED", "expired_at"), own);
    assert_eq!(ended("ERROR", "started_at"), change);
    assert_eq!(ended("RUNNING", "started_at"), None);
}

#[test]
fn wrong_types_cost_only_their_own_field() {
    let fields = row(json!({
        "run_id": "r", "agent_id": 7, "turn_number": "one", "status": ["FINISHED"], "model": {"id": "m"},
        "model_params_json": "[{\"id\":\"a\",\"value\":3},{\"id\":1},null]", "usage_json": "not JSON",
        "latest_checkpoint_ref_json": "{\"blobId\":\"short\"}", "created_at": 1_794_812_400_000_i64, "result": "done",
    }));
    let expected = Run {
        id: "r".to_owned(),
        model_params: BTreeMap::from([("a".to_owned(), "3".to_owned())]),
        result: Some("done".to_owned()),
        created: Some(1_794_812_400_000),
        ..Run::default()
    };
    assert_eq!(Run::from_row(&fields), Some(expected));
    assert_eq!(Run::from_row(&row(json!({"run_id": 5}))), None);
    assert_eq!(Agent::from_row(&row(json!({"name": "x"}))), None);
    assert_eq!(Agent::from_document(&row(json!({"agentId": ""}))), None);
}

#[test]
fn runs_are_in_the_order_of_their_turns_from_0_or_1() {
    let run = |id: &str, turn_number: Option<i64>, created: i64| Run {
        id: id.to_owned(),
        turn_number,
        created: Some(created),
        ..Run::default()
    };
    let mut runs = [
        run("d", None, 0),
        run("c", Some(10), 1),
        run("b", Some(2), 9),
        run("b2", Some(2), 10),
        run("a", Some(0), 50),
    ];
    sort_runs(&mut runs);
    let ids: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "b2", "c", "d"]);
}

#[test]
fn tokens_that_are_not_known_are_absent() {
    assert_eq!(token_usage(&json!({})), None);
    assert_eq!(token_usage(&json!({"inputTokens": "many"})), None);
    let known = token_usage(
        &json!({"inputTokens": 0, "cacheReadTokens": 3, "totalTokens": 3, "reasoningTokens": 1}),
    );
    let expected = TokenUsage {
        input: Some(0),
        cache_read: Some(3),
        reasoning: Some(1),
        ..TokenUsage::default()
    };
    assert_eq!(known, Some(expected));
}

#[test]
fn times_are_iso_or_milliseconds_and_nothing_else() {
    let table = [
        (json!("2026-11-16T07:00:01.500Z"), Some(1_794_812_401_500)),
        (json!("2026-11-16T08:00:01.500+01:00"), Some(1_794_812_401_500)),
        (json!(1_794_812_401_500_i64), Some(1_794_812_401_500)),
        (json!("1794812401500"), Some(1_794_812_401_500)),
        (json!(4_745_281.3), None),
        (json!("yesterday"), None),
        (json!(null), None),
        (json!(1e300), None),
    ];
    for (value, expected) in table {
        assert_eq!(at_ms(Some(&value)), expected, "{value}");
    }
}

#[test]
fn a_code_and_its_message_in_one_column_are_separated() {
    let split = |text: &str| {
        let RunError { code, message } = RunError::of(text.to_owned());
        (code.unwrap_or_default(), message)
    };
    let pair = |code: &str, message: &str| (code.to_owned(), message.to_owned());
    assert_eq!(split("[rate_limited] Too many"), pair("rate_limited", "Too many"));
    for text in ["rate_limited", "[rate_limited]", "[] nothing", "an [odd] one", "["] {
        assert_eq!(split(text), pair("", text));
    }
}
