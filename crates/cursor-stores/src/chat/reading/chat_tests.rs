//! Reads whole conversations from every generation of stores.

use std::path::Path;

use pretty_assertions::assert_eq;
use prost::Message as _;
use serde_json::json;
use store_fixtures::Closing;
use store_fixtures::chat::{
    Call, Chat, Generation, MetaForm, Outcome, Roots, Step, StoreWriter, Todo as TodoFixture, Turn,
    bucket_of,
};
use tempfile::TempDir;

use crate::chat::listing::ChatsRoot;
use crate::chat::schema::{
    AgentConversationTurnStructure, ConversationStateStructure, ConversationTurnStructure,
    SubagentPersistedState, SubagentRunState, SubagentRunStatus, Turn as StoredTurn, UserMessage,
};
use crate::model::{
    Activity, Confidence, Conversation, Message, MessageKind, Part, Role, StoreKind, Todo,
    TodoState, TokenUsage, ToolState, TurnState, Workspace,
};
use crate::store::{Branches, ConversationStore, Extent};

const ID: &str = "5f1c3a52-0a7e-4d9f-8f6e-0d3f3c1b2a10";
const WORKSPACE: &str = "/home/u/project";

fn key() -> String {
    format!("{}/{ID}", bucket_of(WORKSPACE))
}

fn cli(directory: &Path) -> ChatsRoot {
    ChatsRoot::new(StoreKind::Cli, directory.to_owned())
}

/// Writes a chat and reads it back.
fn read(chat: &Chat) -> Conversation {
    let home = tempfile::tempdir().unwrap();
    chat.write_cli(home.path(), Closing::Clean);
    cli(home.path()).read(&key(), Extent::default()).unwrap()
}

/// Writes every message on one line.
fn lines(conversation: &Conversation) -> Vec<String> {
    conversation.messages.iter().map(line).collect()
}

fn line(message: &Message) -> String {
    let mut line = format!("{:?}", message.role).to_lowercase();
    if message.kind != MessageKind::Said {
        line += &format!(" {:?}", message.kind).to_lowercase();
    }
    for part in &message.parts {
        line += " | ";
        line += &match part {
            Part::Text { text } => text.clone(),
            Part::Reasoning { text, duration_ms, is_redacted } => {
                let duration =
                    duration_ms.map_or(String::new(), |duration| format!(" {duration} ms"));
                format!("thought{duration}: {}", if *is_redacted { "(redacted)" } else { text })
            }
            Part::ToolCall(call) => {
                let output = call
                    .result
                    .as_ref()
                    .map_or("nothing".to_owned(), |result| result.output.to_string());
                format!("{}({}) {:?}: {output}", call.name, call.input, call.state)
            }
            Part::Attachment { name, .. } => format!("<{}>", name.as_deref().unwrap_or_default()),
            other => format!("{other:?}"),
        };
    }
    line
}

fn told(prompt: &str, steps: Vec<Step>) -> Turn {
    Turn::Agent { prompt: prompt.to_owned(), steps }
}

fn thinking(text: &str) -> Step {
    Step::Thinking(text.to_owned())
}

fn text(text: &str) -> Step {
    Step::Text(text.to_owned())
}

/// Two turns with all kinds of steps.
fn two_turns() -> Vec<Turn> {
    let failing = Call {
        id: "call_2".to_owned(),
        tool: "Grep".to_owned(),
        args: json!({"pattern": "x"}),
        result: Some(Outcome::Error("no such file".to_owned())),
    };
    vec![
        told(
            "list files",
            vec![
                thinking("hm"),
                text("I look."),
                Step::Call(Call::shell("call_1", "ls", "a.rs")),
                Step::Call(failing),
                text("Done."),
            ],
        ),
        told("and again", vec![text("Done.")]),
    ]
}

#[test]
fn every_generation_is_read_completely_and_once() {
    for generation in
        [Generation::Aug2025, Generation::Feb2026, Generation::Jul2026, Generation::Sep2026]
    {
        for roots in [Roots::All, Roots::Last] {
            let mut chat = Chat::new(generation, ID).with_turns(two_turns());
            chat.roots = roots;
            let conversation = read(&chat);
            let duration = if generation == Generation::Aug2025 { "" } else { " 1200 ms" };
            let answer = format!(
                "assistant | thought{duration}: hm | I look. | Shell({{\"command\":\"ls\"}}) Succeeded: \"a.rs\" \
                 | Grep({{\"pattern\":\"x\"}}) Failed: \"no such file\""
            );
            let mut expected = vec![
                "system context | You are an agent.",
                "user context | <user_info>",
                "user | list files",
                &answer,
                "assistant | Done.",
                "user | and again",
                "assistant | Done.",
            ];
            if generation == Generation::Aug2025 {
                expected.remove(1);
            }
            assert_eq!(lines(&conversation), expected, "{generation:?}");
            assert_eq!(conversation.damage, [], "{generation:?}");
            assert_eq!(conversation.head.n_messages, Some(5));
            assert_eq!(conversation.head.activity, Activity::Idle);
            let turns: Vec<_> = conversation.messages.iter().map(|message| message.turn).collect();
            let n_context = expected.len() - 5;
            assert_eq!(turns[..n_context], vec![None; n_context]);
            assert_eq!(turns[n_context..], [Some(0), Some(0), Some(0), Some(1), Some(1)]);
        }
    }
}

#[test]
fn a_head_has_the_facts_of_the_store() {
    let mut chat = Chat::new(Generation::Sep2026, ID).with_turns(two_turns());
    chat.workspace = "/home/u/my project".to_owned();
    let home = tempfile::tempdir().unwrap();
    let directory = chat.write_cli(home.path(), Closing::Clean);
    std::fs::remove_file(directory.join("meta.json")).unwrap();
    let root = cli(home.path());
    let key = format!("{}/{ID}", bucket_of(&chat.workspace));
    let head = root.read(&key, Extent::default()).unwrap().head;
    assert_eq!(head.id, ID);
    assert_eq!(head.origins[0].key.as_deref(), Some(key.as_str()));
    assert_eq!(head.origins[0].path.as_ref(), directory.join("store.db"));
    assert_eq!(head.title.as_deref(), Some("A chat"));
    // Field 9 of the root, decoded.
    assert_eq!(head.workspace, Some(Workspace::here("/home/u/my project")));
    assert_eq!(head.created.unwrap().at_ms, chat.created_ms);
    assert_eq!(head.updated.unwrap().confidence, Confidence::FileTime);
    assert_eq!(head.mode.as_deref(), Some("agent"));
    assert_eq!(head.models, ["claude-4.5-sonnet-thinking"]);
    let tokens = TokenUsage {
        context_used: Some(12_799),
        context_limit: Some(200_000),
        ..TokenUsage::default()
    };
    assert_eq!(head.tokens, Some(tokens));

    let mut completed = root.list().heads.remove(0);
    root.complete(&mut completed);
    assert_eq!(completed, head);
}

#[test]
fn counting_for_a_list_finds_as_many_as_reading() {
    let mut chats = Vec::new();
    for generation in [Generation::Aug2025, Generation::Feb2026, Generation::Sep2026] {
        chats.push(Chat::new(generation, ID).with_turns(two_turns()));
    }
    let mut compacted = Chat::new(Generation::Sep2026, ID).with_turns(two_turns());
    compacted.turns.push(Turn::Shell {
        command: "ls".to_owned(),
        stdout: String::new(),
        stderr: String::new(),
        exit_code: 0,
    });
    compacted.compaction = Some((1, "in short".to_owned()));
    compacted.pending = vec![text("almost")];
    chats.push(compacted);
    for chat in chats {
        let home = tempfile::tempdir().unwrap();
        chat.write_cli(home.path(), Closing::Clean);
        let root = cli(home.path());
        let mut head = root.list().heads.remove(0);
        root.complete(&mut head);
        let read = root.read(&key(), Extent::default()).unwrap();
        assert_eq!(head.n_messages, read.head.n_messages, "{:?}", lines(&read));
        assert_eq!(head.activity, Activity::Idle);
    }
}

#[test]
fn times_are_recorded_if_the_store_has_them_and_interpolated_otherwise() {
    let dated = read(&Chat::new(Generation::Sep2026, ID).with_turns(two_turns()));
    let said = |conversation: &Conversation| {
        let said = conversation.messages.iter().filter(|message| message.kind == MessageKind::Said);
        said.map(|message| message.at.unwrap()).collect::<Vec<_>>()
    };
    let recorded: Vec<i64> =
        said(&dated).iter().map(|at| (at.at_ms - 1_790_000_000_000) / 1000).collect();
    assert!(said(&dated).iter().all(|at| at.confidence == Confidence::Recorded));
    assert_eq!(recorded, [0, 60, 240, 300, 360]);
    let Part::ToolCall(call) = &dated.messages[3].parts[2] else { panic!() };
    assert_eq!(
        (call.started.unwrap().confidence, call.duration_ms),
        (Confidence::Recorded, Some(1_500))
    );
    assert_eq!(
        dated.turns[0].request_id.as_deref(),
        Some("request-5f1c3a52-0a7e-4d9f-8f6e-0d3f3c1b2a10-0")
    );
    assert_eq!(dated.turns[0].model.as_deref(), Some("Claude 4.5 Sonnet"));
    assert_eq!(dated.turns[0].state, TurnState::Finished);
    assert_eq!(dated.turns[1].ended.unwrap().at_ms, 1_790_000_000_000 + 7 * 60_000);

    let undated = read(&Chat::new(Generation::Jul2026, ID).with_turns(two_turns()));
    let times = said(&undated);
    assert!(times.iter().all(|at| at.confidence == Confidence::Interpolated));
    assert!(times.is_sorted_by_key(|at| at.at_ms));
    // Nine messages with their results, over an hour.
    assert_eq!(times[4].at_ms, 1_790_000_000_000 + 3_600_000);
    assert_eq!(times[0].at_ms, 1_790_000_000_000 + 3_600_000 * 2 / 8);
}

#[test]
fn times_run_forward_through_a_compaction() {
    for generation in [Generation::Jul2026, Generation::Sep2026] {
        let mut chat = Chat::new(generation, ID).with_turns(two_turns());
        chat.compaction = Some((1, "in short".to_owned()));
        let conversation = read(&chat);
        assert!(
            conversation.messages.is_sorted_by_key(|message| message.at.unwrap().at_ms),
            "{:?}",
            lines(&conversation)
        );
    }
}

#[test]
fn reading_only_the_end_gives_the_end_of_the_conversation() {
    for generation in [Generation::Aug2025, Generation::Feb2026, Generation::Sep2026] {
        let home = tempfile::tempdir().unwrap();
        let turns: Vec<Turn> = (0..30).flat_map(|_| two_turns()).collect();
        Chat::new(generation, ID).with_turns(turns).write_cli(home.path(), Closing::Clean);
        let root = cli(home.path());
        let whole = lines(&root.read(&key(), Extent::default()).unwrap());
        for n_wanted in [0, 1, 2, 3, 4, 7, 10, 1000] {
            let extent = Extent { last: Some(n_wanted), branches: Branches::Current };
            let end = root.read(&key(), extent).unwrap();
            assert_eq!(
                lines(&end),
                whole[whole.len().saturating_sub(n_wanted)..],
                "{generation:?} {n_wanted}"
            );
        }
    }
}

#[test]
fn pending_calls_are_shown_once_and_as_pending() {
    let mut chat = Chat::new(Generation::Sep2026, ID).with_turns(two_turns());
    let call = Call {
        id: "call_9".to_owned(),
        tool: "Shell".to_owned(),
        args: json!({"command": "sleep 9"}),
        result: None,
    };
    chat.turns.push(told("wait", vec![]));
    chat.pending = vec![text("I wait."), Step::Call(call)];
    let conversation = read(&chat);
    assert_eq!(
        lines(&conversation)[7..],
        [
            "user | wait",
            "assistant pending | I wait. | Shell({\"command\":\"sleep 9\"}) Pending: nothing"
        ]
    );
    let head = &conversation.head;
    assert_eq!(head.activity, Activity::Interrupted);
    assert_eq!(head.pending.len(), 1);
    assert_eq!(
        (head.pending[0].name.as_str(), head.pending[0].id.as_deref()),
        ("Shell", Some("call_9"))
    );
    assert!(head.pending[0].started.is_some());
    assert_eq!(conversation.messages.last().unwrap().turn, Some(2));
}

#[test]
fn a_compaction_loses_nothing() {
    let mut chat = Chat::new(Generation::Sep2026, ID).with_turns(two_turns());
    chat.turns.push(told("go on", vec![text("Gone on.")]));
    chat.compaction = Some((2, "They listed files.".to_owned()));
    let conversation = read(&chat);
    let compacted = lines(&conversation);
    assert_eq!(
        compacted[..7],
        lines(&read(&Chat::new(Generation::Sep2026, ID).with_turns(two_turns())))
    );
    assert_eq!(
        compacted[7..],
        [
            "user summary | <summary>\nThey listed files.\n</summary>",
            "user | go on",
            "assistant | Gone on."
        ]
    );
    assert_eq!(conversation.damage, []);
}

#[test]
fn the_users_commands_are_shown_where_they_were_run() {
    let mut turns = two_turns();
    let command = |exit_code| Turn::Shell {
        command: "make".to_owned(),
        stdout: "built".to_owned(),
        stderr: "warned".to_owned(),
        exit_code,
    };
    turns.insert(1, command(0));
    turns.insert(0, command(2));
    let conversation = read(&Chat::new(Generation::Feb2026, ID).with_turns(turns));
    let shown = lines(&conversation);
    let made = |state: &str, exit_code: i32| {
        format!(
            "user | shell({{\"command\":\"make\"}}) {state}: {{\"stdout\":\"built\",\"stderr\":\"warned\",\"exitCode\":{exit_code}}}"
        )
    };
    assert_eq!(shown[2], made("Failed", 2));
    assert_eq!(shown[3], "user | list files");
    assert_eq!(shown[6], made("Succeeded", 0));
    assert_eq!(shown[7], "user | and again");
    assert_eq!(conversation.turns.len(), 4);
}

#[test]
fn todos_plan_and_files_are_read() {
    for generation in [Generation::Feb2026, Generation::Sep2026] {
        let mut chat = Chat::new(generation, ID).with_turns(two_turns());
        chat.todos = vec![
            ("one".to_owned(), TodoFixture::Completed),
            ("two".to_owned(), TodoFixture::InProgress),
            ("three".to_owned(), TodoFixture::Pending),
            ("four".to_owned(), TodoFixture::Cancelled),
        ];
        chat.plan = Some("First this, then that.".to_owned());
        chat.files = vec![("/src/a.rs".to_owned(), "old".to_owned(), "new".to_owned())];
        let conversation = read(&chat);
        let todo = |text: &str, state| Todo { text: text.to_owned(), state };
        assert_eq!(
            conversation.todos,
            [
                todo("one", TodoState::Completed),
                todo("two", TodoState::InProgress),
                todo("three", TodoState::Pending),
                todo("four", TodoState::Cancelled)
            ]
        );
        assert_eq!(conversation.plan.as_deref(), Some("First this, then that."));
        assert_eq!(conversation.files, ["/src/a.rs"]);
    }
}

/// Writes a store by hand and reads it.
fn read_store(write: impl FnOnce(&mut StoreWriter)) -> Conversation {
    let home = tempfile::tempdir().unwrap();
    write_store(&home, write);
    cli(home.path()).read(&key(), Extent::default()).unwrap()
}

fn write_store(home: &TempDir, write: impl FnOnce(&mut StoreWriter)) {
    let directory = home.path().join(bucket_of(WORKSPACE)).join(ID);
    let mut store = StoreWriter::create(&directory, ID, 1_790_000_000_000);
    write(&mut store);
    store.close(Closing::Clean);
}

#[test]
fn the_meta_row_is_read_in_all_its_forms() {
    for form in [MetaForm::Hex, MetaForm::HexBlob, MetaForm::Json, MetaForm::JsonBlob] {
        let conversation = read_store(|store| {
            let message = store.put_json(&json!({"role": "user", "content": "hi"}));
            store.put_root(&ConversationStateStructure {
                root_prompt_messages_json: vec![message],
                ..Default::default()
            });
            store.set_meta("name", "Named");
            store.set_meta("lastUsedModel", json!({"id": "gpt-5.2"}));
            store.set_meta("createdAt", "1790000000000");
            store.put_meta(form);
        });
        assert_eq!(lines(&conversation), ["user | hi"]);
        assert_eq!(conversation.head.title.as_deref(), Some("Named"));
        assert_eq!(conversation.head.models, ["gpt-5.2"]);
        assert_eq!(conversation.head.created.unwrap().at_ms, 1_790_000_000_000);
    }
}

#[test]
fn turns_without_a_prompt_are_a_conversation_too() {
    let conversation = read_store(|store| {
        let user_message =
            store.put_message(&UserMessage { text: "hi".to_owned(), ..Default::default() });
        let step = store.put(b"\n\x07\n\x05hello");
        let turn = AgentConversationTurnStructure {
            user_message,
            steps: vec![step],
            ..Default::default()
        };
        let turn = store.put_message(&turn);
        store.put_root(&ConversationStateStructure { turns_old: vec![turn], ..Default::default() });
    });
    assert_eq!(lines(&conversation), ["user | hi", "assistant | hello"]);
}

#[test]
fn a_simulated_prompt_may_keep_its_words_in_a_separate_blob() {
    let conversation = read_store(|store| {
        let user_message = UserMessage {
            text_blob_id: Some(store.put(b"long words")),
            is_simulated_msg: Some(true),
            ..Default::default()
        };
        let agent = AgentConversationTurnStructure {
            user_message: store.put_message(&user_message),
            ..Default::default()
        };
        let turn =
            ConversationTurnStructure { turn: Some(StoredTurn::AgentConversationTurn(agent)) };
        let message = json!({"role": "user", "content": [{"type": "text", "text": "<user_query>\nlong words\n</user_query>"}]});
        store.put_root(&ConversationStateStructure {
            root_prompt_messages_json: vec![store.put_json(&message)],
            turns: vec![store.put_message(&turn)],
            ..Default::default()
        });
    });
    assert_eq!(lines(&conversation), ["user simulated | long words"]);
}

#[test]
fn messages_with_the_same_id_are_kept_apart() {
    let conversation = read_store(|store| {
        let say =
            |text: &str| store.put_json(&json!({"role": "assistant", "content": text, "id": "1"}));
        let messages = vec![say("a"), say("b"), say("a")];
        store.put_root(&ConversationStateStructure {
            root_prompt_messages_json: messages,
            ..Default::default()
        });
    });
    assert_eq!(lines(&conversation), ["assistant | a", "assistant | b", "assistant | a"]);
    let ids: std::collections::HashSet<_> =
        conversation.messages.iter().map(|message| message.id.clone().unwrap()).collect();
    assert_eq!((ids.len(), ids.contains("1")), (3, false));
}

#[test]
fn calls_whose_ids_are_used_again_get_their_own_results() {
    let conversation = read_store(|store| {
        let call = |args: i32| json!({"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "call_0", "toolName": "T", "args": args}]});
        let result = |result: i32| json!({"role": "tool", "content": [{"type": "tool-result", "toolCallId": "call_0", "toolName": "T", "result": result}]});
        let messages = [call(1), result(10), call(2), result(20), result(30)]
            .map(|message| store.put_json(&message))
            .to_vec();
        store.put_root(&ConversationStateStructure {
            root_prompt_messages_json: messages,
            ..Default::default()
        });
    });
    let shown = lines(&conversation);
    assert_eq!(shown[..2], ["assistant | T(1) Succeeded: 10", "assistant | T(2) Succeeded: 20"]);
    assert_eq!((shown.len(), conversation.messages[2].role), (3, Role::Tool));
}

#[test]
fn sub_agents_are_linked_to_their_calls() {
    let home = tempfile::tempdir().unwrap();
    let task = |id: &str| {
        Step::Call(Call {
            id: id.to_owned(),
            tool: "Task".to_owned(),
            args: json!({"description": "explore", "prompt": "look around"}),
            result: Some(Outcome::Success("Looked.".into())),
        })
    };
    let mut state = ConversationStateStructure::default();
    let inner = ConversationStateStructure {
        pending_tool_calls: vec![
            json!({"role": "assistant", "content": "I am inside."}).to_string(),
        ],
        ..Default::default()
    };
    let persisted = |state: &ConversationStateStructure| SubagentPersistedState {
        conversation_state: Some(state.clone()),
        created_timestamp_ms: 7,
        model_id: Some("composer-1".to_owned()),
        ..Default::default()
    };
    state.subagent_states.insert("inline".to_owned(), persisted(&inner));
    let run = |id: &str, status: SubagentRunStatus| SubagentRunState {
        subagent_id: Some(id.to_owned()),
        status: status.into(),
        title: Some("A run".to_owned()),
        ..Default::default()
    };
    let runs = &mut state.subagent_runs_by_parent_tool_call_id;
    runs.insert("call_inline".to_owned(), run("inline", SubagentRunStatus::Success));
    runs.insert("call_known".to_owned(), run("child-known", SubagentRunStatus::Success));
    let mut parent = Chat::new(Generation::Sep2026, ID).with_turns(vec![told(
        "explore",
        vec![task("call_inline"), task("call_known"), task("call_found")],
    )]);
    parent.more = state.encode_to_vec();
    parent.write_cli(home.path(), Closing::Clean);
    for (id, call) in [("child-known", "call_known"), ("child-found", "call_found")] {
        let mut child = Chat::new(Generation::Sep2026, id)
            .with_turns(vec![Turn::plain("look around", "Looked.")]);
        child.subagent_of = Some((ID.to_owned(), call.to_owned(), "explore".to_owned()));
        child.write_cli(home.path(), Closing::Clean);
    }
    let root = cli(home.path());
    let conversation = root.read(&key(), Extent::default()).unwrap();
    let linked: Vec<_> = conversation
        .messages
        .iter()
        .flat_map(Message::tool_calls)
        .map(|call| call.subagent.clone())
        .collect();
    let inside = format!("{ID}#inline");
    assert_eq!(
        linked,
        [Some(inside.clone()), Some("child-known".to_owned()), Some("child-found".to_owned())]
    );
    let mut subagents = conversation.head.subagents.clone();
    subagents.sort();
    assert_eq!(subagents, [inside.as_str(), "child-found", "child-known"]);

    let inner = root.read(&format!("{}#inline", key()), Extent::default()).unwrap();
    assert_eq!(lines(&inner), ["assistant pending | I am inside."]);
    assert_eq!(
        (inner.head.id.as_str(), inner.head.models.as_slice()),
        (inside.as_str(), ["composer-1".to_owned()].as_slice())
    );
    let own_key = inner.head.origins[0].key(&inner.head).to_owned();
    assert_eq!(own_key, format!("{}#inline", key()));
    let parent = inner.head.parent.unwrap();
    assert_eq!((parent.id.as_str(), parent.tool_call_id.as_deref()), (ID, Some("call_inline")));
    assert!(root.read(&format!("{}#nobody", key()), Extent::default()).is_err());

    let child = root
        .read(&format!("{}/child-found", bucket_of(WORKSPACE)), Extent::default())
        .unwrap()
        .head;
    assert_eq!(child.parent.as_ref().unwrap().id, ID);
    assert_eq!(child.parent.unwrap().type_name.as_deref(), Some("explore"));
}

#[test]
fn a_sub_agent_that_is_kept_by_reference_is_read_too() {
    let home = tempfile::tempdir().unwrap();
    write_store(&home, |store| {
        let said = store.put_json(&json!({"role": "assistant", "content": "from afar"}));
        let inner = ConversationStateStructure {
            root_prompt_messages_json: vec![said],
            ..Default::default()
        };
        let persisted =
            SubagentPersistedState { conversation_state: Some(inner), ..Default::default() };
        let call = json!({"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "call_1", "toolName": "Task", "args": {}}]});
        let mut state = ConversationStateStructure {
            root_prompt_messages_json: vec![store.put_json(&call)],
            ..Default::default()
        };
        // Stored under the call's id.
        state.subagent_state_refs.insert("call_1".to_owned(), store.put_message(&persisted));
        store.put_root(&state);
    });
    let root = cli(home.path());
    let extent = Extent { last: None, branches: Branches::WithOrphans };
    let conversation = root.read(&key(), extent).unwrap();
    // Its messages are not orphans.
    assert_eq!(conversation.messages.len(), 1);
    let call = conversation.messages[0].tool_calls().next().unwrap();
    assert_eq!(call.subagent, Some(format!("{ID}#call_1")));
    let inner = root.read(&format!("{}#call_1", key()), Extent::default()).unwrap();
    assert_eq!(lines(&inner), ["assistant | from afar"]);
}

#[test]
fn a_time_in_a_prompt_counts_as_recorded() {
    let conversation = read_store(|store| {
        let text = "<timestamp>Tuesday, Jul 21, 2026, 3:04 PM (UTC+2)</timestamp>\n<user_query>\nnow\n</user_query>";
        let messages = vec![store.put_json(&json!({"role": "user", "content": text}))];
        store.put_root(&ConversationStateStructure {
            root_prompt_messages_json: messages,
            ..Default::default()
        });
    });
    assert_eq!(
        conversation.messages[0].at,
        Some(crate::model::Moment::recorded(1_784_639_040_000))
    );
    assert_eq!(lines(&conversation), ["user | now"]);
}

#[test]
fn orphans_are_shown_once_each_and_only_on_request() {
    let home = tempfile::tempdir().unwrap();
    write_store(&home, |store| {
        let keep = store.put_json(&json!({"role": "user", "content": "kept"}));
        // The same message with its keys in a different order is not an orphan.
        store.put(br#"{"content":"kept","role":"user"}"#);
        store.put_json(&json!({"role": "user", "content": "edited away"}));
        store.put(br#"{"content":"edited away","role":"user","id":"1"}"#);
        store.put_json(&json!({"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c", "toolName": "T", "args": 1}]}));
        store.put_json(&json!({"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "result": "r"}]}));
        // A file that the agent edited.
        store.put(br#"{"name": "package"}"#);
        store.put_root(&ConversationStateStructure {
            root_prompt_messages_json: vec![keep],
            ..Default::default()
        });
    });
    let root = cli(home.path());
    assert_eq!(lines(&root.read(&key(), Extent::default()).unwrap()), ["user | kept"]);
    for last in [None, Some(1)] {
        let extent = Extent { last, branches: Branches::WithOrphans };
        let conversation = root.read(&key(), extent).unwrap();
        assert_eq!(
            lines(&conversation),
            [
                "user | kept",
                "user orphan | edited away",
                "assistant orphan | T(1) Succeeded: \"r\""
            ]
        );
    }
}

#[test]
fn thoughts_from_the_turns_go_before_the_answer() {
    let conversation = read_store(|store| {
        let user_message =
            store.put_message(&UserMessage { text: "hi".to_owned(), ..Default::default() });
        let thought = store.put(b"\x1a\x05\n\x03hmm");
        let said = store.put(b"\n\x07\n\x05hello");
        let turn = AgentConversationTurnStructure {
            user_message,
            steps: vec![thought, said],
            ..Default::default()
        };
        let messages = [
            json!({"role": "user", "content": "hi"}),
            json!({"role": "assistant", "content": "hello"}),
        ];
        store.put_root(&ConversationStateStructure {
            root_prompt_messages_json: messages
                .iter()
                .map(|message| store.put_json(message))
                .collect(),
            turns_old: vec![store.put_message(&turn)],
            ..Default::default()
        });
    });
    assert_eq!(lines(&conversation), ["user | hi", "assistant | thought: hmm | hello"]);
}

#[test]
fn an_acp_session_is_read_like_a_chat() {
    let home = tempfile::tempdir().unwrap();
    Chat::new(Generation::Sep2026, ID)
        .with_turns(two_turns())
        .write_acp(home.path(), Closing::Clean);
    let root = ChatsRoot::new(StoreKind::Acp, home.path().to_owned());
    let conversation = root.read(ID, Extent::default()).unwrap();
    assert_eq!(conversation.messages.len(), 7);
    assert_eq!(conversation.head.origins[0].key, None);
    assert_eq!(conversation.head.workspace, Some(Workspace::here(WORKSPACE)));
    assert_eq!(conversation.head.created.unwrap().at_ms, 1_790_000_000_000);
}

#[test]
fn a_conversation_that_a_killed_writer_left_can_be_read() {
    let home = tempfile::tempdir().unwrap();
    Chat::new(Generation::Sep2026, ID)
        .with_turns(two_turns())
        .write_cli(home.path(), Closing::Killed);
    assert_eq!(cli(home.path()).read(&key(), Extent::default()).unwrap().messages.len(), 7);
}

#[test]
fn no_output_contains_the_encryption_key() {
    let mut chat = Chat::new(Generation::Sep2026, ID).with_turns(two_turns());
    chat.subagent_of = Some(("p".to_owned(), "c".to_owned(), "t".to_owned()));
    let home = tempfile::tempdir().unwrap();
    chat.write_cli(home.path(), Closing::Clean);
    let root = cli(home.path());
    let extent = Extent { last: None, branches: Branches::WithOrphans };
    let conversation = root.read(&key(), extent).unwrap();
    let listing = root.list();
    let shown =
        format!("{conversation:?} {} {listing:?}", serde_json::to_string(&conversation).unwrap());
    assert!(!shown.contains("5ec2e7"));
}

#[test]
fn calls_have_a_state_even_without_a_result() {
    let conversation = read_store(|store| {
        let call = json!({"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c", "toolName": "T", "args": {}}]});
        let messages = vec![store.put_json(&call)];
        store.put_root(&ConversationStateStructure {
            root_prompt_messages_json: messages,
            ..Default::default()
        });
    });
    let call = conversation.messages[0].tool_calls().next().unwrap();
    assert_eq!((call.state, call.result.is_none()), (ToolState::Unknown, true));
}
