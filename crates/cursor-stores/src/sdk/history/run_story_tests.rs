use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;
use store_fixtures::sdk::events::{
    completed, failed, request, running, status, system, task, text, thinking, thought, tool_use,
    usage, user,
};

use super::*;
use crate::model::{ToolResult, ToolState};

fn story_of(messages: Vec<Json>) -> RunStory {
    let payloads = messages
        .into_iter()
        .map(|message| json!({"schemaVersion": 1, "type": "sdk_message", "message": message}))
        .collect();
    story_of_payloads(payloads)
}

fn story_of_payloads(payloads: Vec<Json>) -> RunStory {
    let run = Run { id: "run".to_owned(), ..Run::default() };
    let events = payloads.into_iter().enumerate().map(|(number, payload)| Event {
        seq: number as i64 + 1,
        kind: "run_stream_event".to_owned(),
        at: Some(1_790_000_000_000 + number as i64),
        payload: Payload::Json(payload.to_string().into_bytes()),
    });
    RunStory::of(&run, events.collect(), &|_| None)
}

fn parts(story: &RunStory) -> Vec<Vec<Part>> {
    story.messages.iter().map(|message| message.parts.clone()).collect()
}

#[test]
fn pieces_are_joined_across_events_without_content() {
    let story = story_of(vec![
        user("Do it."),
        thinking("Let me "),
        usage(json!({})),
        thinking("think."),
        thought(1234),
        thinking("Again."),
        text("I lo"),
        status("RUNNING", None),
        request("r-1"),
        text("ok."),
    ]);
    let expected = vec![
        vec![Part::text("Do it.")],
        vec![
            Part::Reasoning {
                text: "Let me think.".to_owned(),
                duration_ms: Some(1234),
                is_redacted: false,
            },
            Part::reasoning("Again."),
            Part::text("I look."),
        ],
    ];
    assert_eq!(parts(&story), expected);
    assert_eq!(story.request_id.as_deref(), Some("r-1"));
    assert_eq!(story.messages[1].id.as_deref(), Some("run/2"));
    assert_eq!(story.messages[1].at, Some(crate::model::Moment::recorded(1_790_000_000_001)));
}

#[test]
fn a_step_of_the_model_is_a_message() {
    let story = story_of(vec![
        thinking("a"),
        text("b"),
        running("1", "read", json!({"path": "x"})),
        running("2", "ls", json!({"path": "y"})),
        text("c"),
        thinking("d"),
        text("e"),
    ]);
    let n_parts: Vec<usize> = story.messages.iter().map(|message| message.parts.len()).collect();
    assert_eq!(n_parts, [4, 1, 2]);
}

#[test]
fn the_events_of_a_call_are_one_call() {
    let story = story_of(vec![
        tool_use("1", "shell", json!({"command": "l"})),
        running("1", "shell", json!({"command": "ls"})),
        running("2", "shell", json!({"command": "pwd"})),
        completed("1", "shell", json!({}), json!({"stdout": "a", "exitCode": 0})),
        failed("2", "shell", json!({"command": "pwd -P"}), json!({"message": "no"})),
    ]);
    let calls: Vec<ToolCall> =
        story.messages.iter().flat_map(Message::tool_calls).cloned().collect();
    let at = |number: i64| recorded(Some(1_790_000_000_000 + number));
    let expected = [
        ToolCall {
            id: Some("1".to_owned()),
            result: Some(ToolResult {
                output: json!({"stdout": "a", "exitCode": 0}),
                error: None,
                is_truncated: false,
            }),
            state: ToolState::Succeeded,
            started: at(0),
            duration_ms: Some(3),
            ..ToolCall::new("shell", json!({"command": "ls"}))
        },
        ToolCall {
            id: Some("2".to_owned()),
            result: Some(ToolResult {
                output: Json::Null,
                error: Some("no".to_owned()),
                is_truncated: false,
            }),
            state: ToolState::Failed,
            started: at(2),
            duration_ms: Some(2),
            ..ToolCall::new("shell", json!({"command": "pwd -P"}))
        },
    ];
    assert_eq!(calls, expected);
}

#[test]
fn a_partial_input_never_replaces_a_complete_one() {
    let cut = |part: &str, args: &str| {
        json!({"type": "tool_call", "call_id": "1", "name": "write", "status": "running", "args": {"text": args},
               "result": {"status": "success", "value": "v"}, "truncated": {part: true}})
    };
    let story = story_of(vec![running("1", "write", json!({"text": "whole"})), cut("args", "who")]);
    assert_eq!(story.messages[0].tool_calls().next().unwrap().input, json!({"text": "whole"}));
    assert_eq!((story.n_cut_inputs(), story.has_incomplete_calls()), (0, false));

    let mut story = story_of(vec![cut("args", "who"), cut("result", "")]);
    assert_eq!((story.n_cut_inputs(), story.has_incomplete_calls()), (0, true));
    let known = ToolCall {
        result: Some(ToolResult { output: json!("all of it"), error: None, is_truncated: false }),
        ..ToolCall::new("write", json!({"text": "whole"}))
    };
    story.complete_calls(&HashMap::from([("1", &known)]));
    let call = story.messages[0].tool_calls().next().unwrap();
    assert_eq!(call.result, known.result);

    let mut story = story_of(vec![cut("args", "who")]);
    assert_eq!(story.n_cut_inputs(), 1);
    story.complete_calls(&HashMap::from([("1", &known)]));
    assert_eq!(story.n_cut_inputs(), 0);
    assert_eq!(story.messages[0].tool_calls().next().unwrap().input, known.input);
}

#[test]
fn context_and_progress_are_not_messages() {
    let story = story_of(vec![
        system("m-1", &["shell"]),
        usage(json!({"inputTokens": 1, "outputTokens": 2})),
        usage(json!({"inputTokens": 10})),
        status("ERROR", Some("quota")),
    ]);
    assert_eq!(parts(&story), Vec::<Vec<Part>>::new());
    let expected = TokenUsage { input: Some(11), output: Some(2), ..TokenUsage::default() };
    assert_eq!(story.usage, Some(expected));
    assert_eq!(story.model.as_deref(), Some("m-1"));
    let error = |story: &RunStory| story.error.clone().map(|error| error.message);
    assert_eq!((story.outcome, error(&story)), (Some(RunStatus::Error), Some("quota".to_owned())));

    let result =
        json!({"type": "result", "runId": "run", "status": "cancelled", "errorCode": "late"});
    let story = story_of_payloads(vec![result, json!({"type": "done"})]);
    assert_eq!(
        (story.outcome, error(&story)),
        (Some(RunStatus::Cancelled), Some("late".to_owned()))
    );
}

#[test]
fn unknown_content_is_kept() {
    let story = story_of_payloads(vec![
        json!({"type": "sdk_message", "message": task("running", "half")}),
        json!({"type": "telemetry", "runId": "run", "x": 1}),
        // Without an envelope.
        text("bare"),
        json!({"type": "sdk_message", "message": {"type": "assistant", "message": {"content": [{"type": "audio", "n": 2}]}}}),
        json!({"type": "sdk_message", "message": {"type": "user", "message": {"content": "plain"}}}),
        json!(17),
        json!([]),
    ]);
    let unknown = |kind: &str, value: Json| Part::Unknown { kind: kind.to_owned(), value };
    let expected = vec![
        vec![
            unknown("task", json!({"type": "task", "status": "running", "text": "half"})),
            unknown("telemetry", json!({"type": "telemetry", "x": 1})),
        ],
        vec![Part::text("bare"), unknown("audio", json!({"type": "audio", "n": 2}))],
        vec![Part::text("plain")],
        // If the payload has no type, the store's name is used.
        vec![unknown("run_stream_event", json!(17)), unknown("run_stream_event", json!([]))],
    ];
    assert_eq!(parts(&story), expected);
}

#[test]
fn context_around_a_prompt_is_an_attachment() {
    let story = story_of(vec![
        user("<user_info>\nOS\n</user_info>\n<user_query>\nDo it.\n</user_query>"),
        user("<user_info>\nOS\n</user_info>"),
    ]);
    let context = Part::Attachment {
        kind: "context".to_owned(),
        name: Some("user_info".to_owned()),
        text: Some("\nOS\n".to_owned()),
    };
    assert_eq!(parts(&story), vec![vec![context.clone(), Part::text("Do it.")], vec![context]]);
    assert_eq!(story.messages[1].kind, MessageKind::Context);
}

#[test]
fn unreadable_events_are_reported() {
    let run = Run { id: "run".to_owned(), ..Run::default() };
    let event = |seq: i64, payload: Payload| Event { seq, kind: String::new(), at: None, payload };
    let resolve =
        |reference: &str| (reference == "here").then(|| text("found").to_string().into_bytes());
    let events = vec![
        event(1, Payload::Json(b"{\"type\":".to_vec())),
        event(2, Payload::Elsewhere("here".to_owned())),
        event(3, Payload::Elsewhere("there".to_owned())),
        event(4, Payload::TooLarge),
        event(5, Payload::Absent),
    ];
    let story = RunStory::of(&run, events, &resolve);
    let left = Part::damaged(b"{\"type\":");
    assert_eq!(parts(&story), vec![vec![left], vec![Part::text("found")]]);
    let expected = [
        Damage::new("event 1 of run", "it is not JSON"),
        Damage::new("event 3 of run", "its content is kept elsewhere, as `there`"),
        Damage::new("event 4 of run", "it is too large to read"),
    ];
    assert_eq!(story.damage, expected);
}

/// JSON of any shape, with names and words that mean something here.
fn any_json() -> impl Strategy<Value = Json> {
    let word = prop_oneof![
        "[a-z]{0,3}",
        Just("type".to_owned()),
        Just("sdk_message".to_owned()),
        Just("message".to_owned()),
        Just("content".to_owned()),
        Just("text".to_owned()),
        Just("assistant".to_owned()),
        Just("user".to_owned()),
        Just("tool_call".to_owned()),
        Just("tool_use".to_owned()),
        Just("call_id".to_owned()),
        Just("args".to_owned()),
        Just("result".to_owned()),
        Just("status".to_owned()),
        Just("error".to_owned()),
        Just("thinking".to_owned()),
        Just("truncated".to_owned()),
        Just("usage".to_owned()),
        Just("model".to_owned()),
        Just("value".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        word.clone().prop_map(Json::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
            prop::collection::vec((word.clone(), inner), 0..6)
                .prop_map(|fields| Json::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_event_makes_reading_fail(payloads in prop::collection::vec(any_json(), 0..8)) {
        let _story = story_of_payloads(payloads.clone());
        let _story = story_of(payloads);
    }

    #[test]
    fn where_the_text_is_cut_does_not_matter(text_in in "\\PC{1,40}", cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5)) {
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(text_in.chars().count() + 1)).collect();
        ends.sort_unstable();
        let chars: Vec<char> = text_in.chars().collect();
        let mut start = 0;
        let mut pieces = Vec::new();
        for end in ends.into_iter().chain([chars.len()]) {
            pieces.push(text(&chars[start..end].iter().collect::<String>()));
            start = end;
        }
        prop_assert_eq!(parts(&story_of(pieces)), vec![vec![Part::text(text_in)]]);
    }
}
