//! Conversations as values, for tests of views and exports.

use cursor_stores::model::{
    Activity, Conversation, Damage, Head, Message, MessageKind, Moment, Origin, Parent, Part,
    PendingCall, Role, StoreKind, Todo, TodoState, TokenUsage, ToolCall, ToolResult, ToolState,
    Turn, TurnState, Workspace,
};
use serde_json::{Value, json};

/// 2026-07-01 09:30 UTC.
pub const BEGAN_MS: i64 = 1_782_898_200_000;
/// The id of [`rich`].
pub const RICH_ID: &str = "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11";

/// A conversation in which every field has a value and every kind of part occurs.
#[must_use]
pub fn rich() -> Conversation {
    let mut conversation = Conversation::new(head());
    conversation.turns = turns();
    conversation.messages = messages();
    conversation.todos = vec![
        todo("Find the cause", TodoState::Completed),
        todo("Fix it", TodoState::InProgress),
        todo("Ask for a review", TodoState::Pending),
        todo("Rewrite everything", TodoState::Cancelled),
        todo("Whatever `blocked` means", TodoState::Unknown),
    ];
    conversation.plan = Some("# Plan\n\n1. Find the cause.\n2. Fix it.".to_owned());
    conversation.files = vec!["src/lib.rs".to_owned(), "src/parser.rs".to_owned()];
    conversation.also_kept.insert("checkpointId".to_owned(), 3);
    conversation.also_kept.insert("codeBlockDiff".to_owned(), 12);
    conversation.damage = vec![Damage::new("message 12", "its blob is missing")];
    conversation
}

fn head() -> Head {
    let origin = |store, path: &str, key: Option<&str>| Origin {
        store,
        path: path.into(),
        key: key.map(str::to_owned),
    };
    let cli = origin(StoreKind::Cli, "/home/ada/.cursor/chats/0a1b/6f1d9c3e/store.db", None);
    let mut head = Head::new(RICH_ID, cli);
    head.origins.push(origin(
        StoreKind::Transcript,
        "/home/ada/.cursor/projects/parser/agent-transcripts/6f1d9c3e.jsonl",
        Some("parser/6f1d9c3e"),
    ));
    head.title = Some("Fix the parser's lifetime error".to_owned());
    head.workspace = Some(Workspace::here("/home/ada/parser"));
    head.created = Some(Moment::recorded(BEGAN_MS));
    head.updated = Some(Moment::of_file(BEGAN_MS + 600_000));
    head.mode = Some("agent".to_owned());
    head.models = vec!["Composer 2".to_owned(), "GPT-5.2".to_owned()];
    head.n_messages = Some(6);
    head.n_bytes = Some(73_728);
    head.activity = Activity::Interrupted;
    head.parent = Some(Parent {
        id: "11111111-2222-4333-8444-555555555555".to_owned(),
        tool_call_id: Some("call_parent".to_owned()),
        type_name: Some("explore".to_owned()),
    });
    head.subagents = vec!["99999999-8888-4777-8666-555555555555".to_owned()];
    head.tokens = Some(TokenUsage {
        input: Some(14_921),
        output: Some(806),
        cache_read: Some(51_840),
        cache_write: Some(12),
        reasoning: Some(300),
        context_used: Some(12_799),
        context_limit: Some(200_000),
    });
    head.pending = vec![PendingCall {
        name: "Shell".to_owned(),
        id: Some("call_7".to_owned()),
        input: json!({"command": "cargo publish"}),
        started: Some(Moment::recorded(BEGAN_MS + 590_000)),
    }];
    head
}

fn turns() -> Vec<Turn> {
    vec![
        Turn {
            request_id: Some("req-1".to_owned()),
            model: Some("Composer 2".to_owned()),
            model_params: std::collections::BTreeMap::from([(
                "effort".to_owned(),
                "high".to_owned(),
            )]),
            started: Some(Moment::recorded(BEGAN_MS)),
            ended: Some(Moment::recorded(BEGAN_MS + 95_000)),
            state: TurnState::Finished,
            error: None,
            error_code: None,
            tokens: Some(TokenUsage { input: Some(14_000), ..TokenUsage::default() }),
        },
        Turn {
            model: Some("GPT-5.2".to_owned()),
            started: Some(Moment::recorded(BEGAN_MS + 300_000)),
            state: TurnState::Failed,
            error: Some("the provider did not answer".to_owned()),
            ..Turn::default()
        },
    ]
}

fn messages() -> Vec<Message> {
    vec![
        Message {
            kind: MessageKind::Context,
            ..message(Role::System, None, vec![Part::text("You are a coding agent.")])
        },
        Message {
            id: Some("message-1".to_owned()),
            turn: Some(0),
            ..message(Role::User, Some(0), prompt_parts())
        },
        Message {
            id: Some("message-2".to_owned()),
            turn: Some(0),
            model: Some("Composer 2".to_owned()),
            ..message(Role::Assistant, Some(20_000), answer_parts())
        },
        Message {
            kind: MessageKind::Summary,
            ..message(Role::Assistant, Some(100_000), vec![Part::text("So far: a lifetime.")])
        },
        Message {
            turn: Some(1),
            ..message(Role::User, Some(300_000), vec![Part::text("Thanks. Now publish it.")])
        },
        Message {
            kind: MessageKind::Simulated,
            ..message(Role::User, Some(301_000), vec![Part::text("A background task ended.")])
        },
        Message {
            turn: Some(1),
            model: Some("GPT-5.2".to_owned()),
            ..message(Role::Assistant, Some(310_000), failing_parts())
        },
        message(
            Role::Tool,
            None,
            vec![Part::ToolResult {
                call_id: Some("call_lost".to_owned()),
                tool_name: Some("Read".to_owned()),
                result: ToolResult {
                    output: json!({"content": "one\ntwo\n", "totalLines": 2}),
                    error: None,
                    is_truncated: true,
                },
            }],
        ),
        Message {
            kind: MessageKind::Pending,
            ..message(Role::Assistant, None, vec![Part::text("I am publ")])
        },
        message(
            Role::Unknown,
            None,
            vec![Part::Unknown {
                kind: "hologram".to_owned(),
                value: json!({"depth": 0.1, "layers": [1, 2.5e300, -7, 18_446_744_073_709_551_615_u64]}),
            }],
        ),
    ]
}

fn message(role: Role, after_ms: Option<i64>, parts: Vec<Part>) -> Message {
    Message {
        at: after_ms.map(|after| Moment::recorded(BEGAN_MS + after)),
        ..Message::new(role, parts)
    }
}

fn prompt_parts() -> Vec<Part> {
    vec![
        Part::text(
            "The tests of `parser` fail since yesterday:\n\n    error[E0597]: `line` does not live long enough\n\nPlease fix it. A plain fix, *no* rewrite.",
        ),
        Part::Attachment {
            kind: "selection".to_owned(),
            name: Some("src/lib.rs:10-12".to_owned()),
            text: Some("fn parse(line: &str) -> Tree {\n    todo(line)\n}".to_owned()),
        },
        Part::Attachment { kind: "rule".to_owned(), name: None, text: None },
        Part::Image {
            media_type: Some("image/png".to_owned()),
            path: Some("/tmp/screenshot.png".to_owned()),
            n_bytes: Some(34_567),
        },
    ]
}

fn answer_parts() -> Vec<Part> {
    vec![
        Part::Reasoning {
            text: "The tree borrows from the line.\nSo the line must live longer.".to_owned(),
            duration_ms: Some(4_162),
            is_redacted: false,
        },
        Part::text(
            "The tree borrows from the line, so **the line must outlive it**. I will\n\n1. look at the test,\n2. move the `let`.\n\n```rust\nlet line = read();\nlet tree = parse(&line);\n```\n\nSee [the book](https://doc.rust-lang.org/book/) for why.",
        ),
        shell(
            "cargo test -p parser",
            ToolState::Failed,
            json!({
                "exitCode": 101, "stdout": "running 12 tests\n", "stderr": "error[E0597]\n",
            }),
        ),
        Part::ToolCall(ToolCall {
            id: Some("call_2".to_owned()),
            result: Some(ToolResult {
                output: json!("The file was changed."),
                error: None,
                is_truncated: false,
            }),
            state: ToolState::Succeeded,
            started: Some(Moment::recorded(BEGAN_MS + 40_000)),
            duration_ms: Some(12),
            ..ToolCall::new(
                "StrReplace",
                json!({
                    "path": "/home/ada/parser/src/lib.rs",
                    "old_string": "let tree = parse(&read());",
                    "new_string": "let line = read();\nlet tree = parse(&line);",
                }),
            )
        }),
        Part::ToolCall(ToolCall {
            state: ToolState::Rejected,
            result: Some(ToolResult {
                output: Value::Null,
                error: Some("the user said no".to_owned()),
                is_truncated: false,
            }),
            ..ToolCall::new("delete_file", json!({"target_file": "src/old.rs"}))
        }),
        Part::ToolCall(ToolCall {
            state: ToolState::Succeeded,
            subagent: Some("99999999-8888-4777-8666-555555555555".to_owned()),
            ..ToolCall::new("Task", json!({"description": "Look for other borrows"}))
        }),
        Part::Code {
            language: Some("rust".to_owned()),
            path: Some("src/lib.rs".to_owned()),
            text: "let line = read();\n".to_owned(),
        },
        Part::Todos {
            todos: vec![
                todo("Find the cause", TodoState::Completed),
                todo("Fix it", TodoState::Pending),
            ],
        },
        Part::text("Done: all twelve tests pass."),
    ]
}

fn failing_parts() -> Vec<Part> {
    vec![
        Part::Reasoning { text: String::new(), duration_ms: None, is_redacted: true },
        Part::ToolCall(ToolCall {
            id: Some("call_7".to_owned()),
            state: ToolState::Pending,
            ..ToolCall::new("Shell", json!({"command": "cargo publish"}))
        }),
        Part::ToolCall(ToolCall {
            state: ToolState::Cancelled,
            ..ToolCall::new("mcp_github_create_issue", json!(["an", "array"]))
        }),
        Part::ToolCall(ToolCall::new("", Value::Null)),
        Part::Error { text: "the provider did not answer".to_owned() },
    ]
}

fn shell(command: &str, state: ToolState, output: Value) -> Part {
    Part::ToolCall(ToolCall {
        id: Some("call_1".to_owned()),
        result: Some(ToolResult { output, error: None, is_truncated: false }),
        state,
        started: Some(Moment::recorded(BEGAN_MS + 21_000)),
        duration_ms: Some(9_200),
        ..ToolCall::new("Shell", json!({"command": command, "timeout": 30_000}))
    })
}

fn todo(text: &str, state: TodoState) -> Todo {
    Todo { text: text.to_owned(), state }
}

/// Like [`rich`], with `text` at the end of every free text and in names of tools' arguments.
#[must_use]
pub fn rich_with_everywhere(text: &str) -> Conversation {
    let mut whole = serde_json::to_value(rich()).unwrap();
    let mut places = Vec::new();
    strings(&whole, &mut String::new(), &mut places);
    let mut n_changed = 0;
    for place in &places {
        let Some(Value::String(value)) = whole.pointer_mut(place) else { continue };
        let before = value.clone();
        value.push_str(text);
        // One of the model's own words, such as a role: no other word is read back.
        if serde_json::from_value::<Conversation>(whole.clone()).is_err() {
            *whole.pointer_mut(place).unwrap() = Value::String(before);
        } else {
            n_changed += 1;
        }
    }
    assert!(n_changed > 50, "only {n_changed} fields hold text");
    let mut conversation: Conversation = serde_json::from_value(whole).unwrap();
    for part in conversation.messages.iter_mut().flat_map(|message| &mut message.parts) {
        if let Part::ToolCall(ToolCall { input: Value::Object(fields), .. }) = part {
            fields.insert(text.to_owned(), json!([text, {text: text}]));
        }
    }
    conversation.also_kept.insert(text.to_owned(), 1);
    conversation
}

fn strings(value: &Value, at: &mut String, places: &mut Vec<String>) {
    let mut below = |name: &str, value: &Value| {
        let length = at.len();
        at.push('/');
        at.push_str(name);
        strings(value, at, places);
        at.truncate(length);
    };
    match value {
        Value::String(_) => places.push(at.clone()),
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(n, value)| below(&n.to_string(), value));
        }
        Value::Object(fields) => fields.iter().for_each(|(name, value)| below(name, value)),
        _ => {}
    }
}
