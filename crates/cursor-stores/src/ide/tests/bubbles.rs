//! Everything that one bubble may hold.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use store_fixtures::ide::{assistant_bubble, composer, header, tool_bubble, user_bubble};

use super::{ID, Stage, parts, with};
use crate::ide::conversation::bubble::read_bubble;
use crate::model::{
    Activity, MessageKind, Moment, Part, Role, Todo, TodoState, TokenUsage, ToolCall, ToolState,
    TurnState,
};

fn parts_of(bubble: Json) -> Vec<Part> {
    read_bubble(&bubble, &Json::Null).message.parts
}

fn attachment(kind: &str, name: &str, text: Option<&str>) -> Part {
    Part::Attachment {
        kind: kind.to_owned(),
        name: Some(name.to_owned()),
        text: text.map(str::to_owned),
    }
}

#[test]
fn one_bubble_thinks_speaks_and_acts_in_this_order() {
    let bubble = with(
        tool_bubble("b", "t", "read_file_v2", &json!({"targetFile": "a"}), &json!("")),
        json!({"text": "I read it.", "thinking": {"text": "need to read", "signature": "x"}}),
    );
    let parts = parts_of(bubble);
    assert_eq!(parts[..2], [Part::reasoning("need to read"), Part::text("I read it.")]);
    assert!(matches!(&parts[2], Part::ToolCall(call) if call.tool == "read"));
    assert_eq!(parts.len(), 3);
}

#[test]
fn thoughts_are_read_from_text_from_objects_and_from_blocks_and_may_be_redacted() {
    assert_eq!(
        parts_of(with(assistant_bubble("b", ""), json!({"thinking": "plain"}))),
        [Part::reasoning("plain")]
    );
    let blocks = json!({"thinking": {"text": "one"}, "allThinkingBlocks": [{"thinking": "one"}, {"text": "two"}]});
    assert_eq!(
        parts_of(with(assistant_bubble("b", ""), blocks)),
        [Part::reasoning("one"), Part::reasoning("two")]
    );
    let redacted = json!({"thinking": {"text": "", "redactedThinking": "AbC="}});
    let hidden = Part::Reasoning { text: String::new(), duration_ms: None, is_redacted: true };
    assert_eq!(parts_of(with(assistant_bubble("b", ""), redacted)), [hidden]);
}

#[test]
fn a_tool_without_a_name_is_a_failed_call() {
    let bubble = with(
        assistant_bubble("b", ""),
        json!({"toolFormerData": {"additionalData": {"status": "error"}}}),
    );
    let mut call = ToolCall::new("", Json::Null);
    call.state = ToolState::Failed;
    assert_eq!(parts_of(bubble), [Part::ToolCall(call)]);
    assert_eq!(parts_of(with(assistant_bubble("b", ""), json!({"toolFormerData": {}}))), []);
}

#[test]
fn arguments_and_results_are_text_or_objects_and_complete_each_other() {
    let call = |data: Json| match &parts_of(with(
        assistant_bubble("b", ""),
        json!({"toolFormerData": data}),
    ))[..]
    {
        [Part::ToolCall(call), ..] => call.clone(),
        parts => panic!("{parts:?}"),
    };
    let as_object = call(
        json!({"name": "grep", "params": {"pattern": "x"}, "result": {"hits": 1}, "status": "completed"}),
    );
    assert_eq!(as_object.input, json!({"pattern": "x"}));
    assert_eq!(as_object.result.unwrap().output, json!({"hits": 1}));
    let both = call(
        json!({"name": "edit_file", "params": "{\"path\":\"a\"}", "rawArgs": "{\"code_edit\":\"new\"}"}),
    );
    assert_eq!(both.input, json!({"path": "a", "code_edit": "new"}));
    let not_json = call(
        json!({"name": "x", "rawArgs": "just words", "result": "plain output", "status": "cancelled"}),
    );
    assert_eq!((not_json.input, not_json.state), (json!("just words"), ToolState::Cancelled));
    assert_eq!(not_json.result.unwrap().output, json!("plain output"));
    let failed =
        call(json!({"name": "x", "error": {"clientVisibleErrorMessage": "no"}, "status": "error"}));
    assert_eq!(failed.result.unwrap().error.as_deref(), Some("no"));
    let refused = call(json!({"name": "x", "userDecision": "rejected", "status": "completed"}));
    assert_eq!(refused.state, ToolState::Rejected);
}

#[test]
fn each_attachment_appears_once() {
    let bubble = with(
        user_bubble("b", "look"),
        json!({
            "attachedCodeChunks": [{"relativeWorkspacePath": "src/a.rs", "lines": ["fn a() {", "}"], "startLineNumber": 3}],
            "images": [{"path": "/tmp/1.png", "uuid": "u1", "dimension": {"width": 1, "height": 1}}],
            "cursorRules": [{"filename": "style.mdc"}],
            "context": {
                "fileSelections": [{"uri": {"fsPath": "/srv/b.rs", "scheme": "file"}}],
                "selections": [{"uri": {"fsPath": "/srv/c.rs"}, "rawText": "let x;", "range": {}}],
                "terminalSelections": [{"name": "bash", "text": "$ ls"}],
                "selectedImages": [{"path": "/tmp/1.png", "uuid": "u1"}],
                "externalLinks": [{"url": "https://example.org", "uuid": "x"}],
                "mentions": {
                    "fileSelections": {"file:///srv/b.rs": [{"uuid": "1"}], "file:///srv/only-mentioned.rs": [{}]},
                    "gitDiff": [],
                },
            },
        }),
    );
    assert_eq!(
        parts_of(bubble),
        [
            Part::text("look"),
            attachment("selection", "src/a.rs", Some("fn a() {\n}")),
            Part::Image { media_type: None, path: Some("/tmp/1.png".to_owned()), n_bytes: None },
            attachment("rule", "style.mdc", None),
            attachment("file", "/srv/b.rs", None),
            attachment("selection", "/srv/c.rs", Some("let x;")),
            attachment("terminal", "bash", Some("$ ls")),
            attachment("link", "https://example.org", None),
            attachment("file", "/srv/only-mentioned.rs", None),
        ]
    );
}

#[test]
fn code_that_is_already_in_the_text_is_not_repeated() {
    let blocks = json!([
        {"content": "let a = 1;", "languageId": "rust", "codeBlockIdx": 0},
        {"content": "let b = 2;", "languageId": "rust", "codeBlockIdx": 1, "uri": {"fsPath": "/srv/b.rs"}},
    ]);
    let bubble = with(
        assistant_bubble("b", "```rust\nlet a = 1;\n```"),
        json!({
            "codeBlocks": blocks,
            "assistantSuggestedDiffs": [{"relativeWorkspacePath": "c.rs", "diff": "+x"}],
        }),
    );
    let code = |language: Option<&str>, path: &str, text: &str| Part::Code {
        language: language.map(str::to_owned),
        path: Some(path.to_owned()),
        text: text.to_owned(),
    };
    assert_eq!(
        parts_of(bubble),
        [
            Part::text("```rust\nlet a = 1;\n```"),
            code(Some("rust"), "/srv/b.rs", "let b = 2;"),
            code(None, "c.rs", "+x"),
        ]
    );
}

#[test]
fn todos_are_objects_or_text() {
    let todos = json!(["{\"id\":\"1\",\"content\":\"first\",\"status\":\"in_progress\"}", {"content": "second", "status": "cancelled"}]);
    let todo = |text: &str, state: TodoState| Todo { text: text.to_owned(), state };
    assert_eq!(
        parts_of(with(assistant_bubble("b", ""), json!({"todos": todos}))),
        [Part::Todos {
            todos: vec![todo("first", TodoState::InProgress), todo("second", TodoState::Cancelled)]
        }]
    );
}

#[test]
fn zero_tokens_are_unknown_and_a_counter_is_not_a_time() {
    let read = read_bubble(
        &with(assistant_bubble("b", "x"), json!({"timingInfo": {"clientStartTime": 4_745_281.3}})),
        &Json::Null,
    );
    assert_eq!((read.tokens, read.message.at), (None, None));
    let fields = json!({
        "tokenCount": {"inputTokens": 10, "outputTokens": 0},
        "timingInfo": {"clientStartTime": 1_790_000_000_000.5},
        "unifiedMode": 5,
    });
    let read = read_bubble(&with(assistant_bubble("b", "x"), fields), &Json::Null);
    assert_eq!(read.tokens, Some(TokenUsage { input: Some(10), ..TokenUsage::default() }));
    assert_eq!(read.message.at, Some(Moment::recorded(1_790_000_000_000)));
    assert_eq!(read.mode.as_deref(), Some("plan"));
}

#[test]
fn the_role_may_only_be_in_the_header() {
    let header = json!({"bubbleId": "b", "type": 1, "createdAt": 1_790_000_000_000_i64});
    let read = read_bubble(&json!({"text": "hello"}), &header);
    assert_eq!((read.message.role, read.message.id.as_deref()), (Role::User, Some("b")));
    assert_eq!(read.message.at, Some(Moment::recorded(1_790_000_000_000)));
    assert_eq!(
        read_bubble(&json!({"type": {}, "text": 7}), &Json::Null).message.role,
        Role::Unknown
    );
}

#[test]
fn an_unfinished_conversation_shows_its_pending_call() {
    let stage = Stage::new();
    let tool = with(
        assistant_bubble("b1", ""),
        json!({"toolFormerData": {
            "name": "run_terminal_cmd", "toolCallId": "t1", "rawArgs": "{\"command\":\"sleep 9\"}", "status": "loading",
        }}),
    );
    let bubbles = [user_bubble("b0", "wait"), tool];
    let headers: Vec<Json> = bubbles.iter().map(header).collect();
    let live = json!({"status": "generating", "generatingBubbleIds": ["b1"]});
    stage.home.put_conversation(&with(composer(ID, 10, &headers), live), &bubbles);
    // A process has the database open: there is a log.
    let store = super::open(stage.directory.path()).unwrap();
    assert_eq!(store.list().heads[0].activity, Activity::Live);
    let home = stage.close();
    let read = home.read(ID);
    // No process has it open any more.
    assert_eq!(read.head.activity, Activity::Interrupted);
    assert_eq!(read.messages[1].kind, MessageKind::Pending);
    assert_eq!(read.turns[0].state, TurnState::Running);
    assert_eq!(read.head.pending[0].input, json!({"command": "sleep 9"}));
    assert!(
        matches!(&parts(&read, 1)[..], [Part::ToolCall(call)] if call.state == ToolState::Pending)
    );
}

#[test]
fn an_error_ends_its_turn() {
    let stage = Stage::new();
    let failed =
        with(assistant_bubble("b1", ""), json!({"errorDetails": {"message": "overloaded"}}));
    stage.say(ID, &[user_bubble("b0", "go"), failed, user_bubble("b2", "again")]);
    let read = stage.close().read(ID);
    assert_eq!(
        (read.turns[0].state, read.turns[0].error.as_deref()),
        (TurnState::Failed, Some("overloaded"))
    );
    assert_eq!(parts(&read, 1), [Part::Error { text: "overloaded".to_owned() }]);
    assert_eq!(read.turns[1].state, TurnState::Finished);
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        "\\PC{0,8}|\\{\"a\":[1]\\}|\\[\"x\"\\]|2026-10-01T10:00:00Z".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let names = prop_oneof![
            Just("text".to_owned()),
            Just("uri".to_owned()),
            Just("status".to_owned()),
            Just("children".to_owned()),
            "[a-z]{1,3}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::vec((names, inner), 0..4)
                .prop_map(|fields| Json::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_in_a_field_makes_a_bubble_unreadable(value in any_json(), number in 0_usize..24) {
        let fields = [
            "type", "text", "richText", "thinking", "allThinkingBlocks", "toolFormerData", "codeBlocks", "context",
            "images", "todos", "tokenCount", "timingInfo", "createdAt", "modelInfo", "errorDetails", "toolResults",
            "attachedCodeChunks", "cursorRules", "suggestedCodeBlocks", "unifiedMode", "requestId", "workspaceUris",
            "bubbleId", "delegate",
        ];
        let bubble = with(assistant_bubble("b", "still said"), json!({fields[number]: value.clone()}));
        let read = read_bubble(&bubble, &value);
        if fields[number] != "text" {
            prop_assert!(read.message.text().contains("still said"));
        }
        let inner = with(json!({}), json!({"toolFormerData": {"params": value, "result": value, "error": value}}));
        let _read = read_bubble(&inner, &Json::Null);
    }
}
