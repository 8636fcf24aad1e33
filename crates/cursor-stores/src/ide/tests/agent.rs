//! The messages that the model got, and how they complete what the IDE shows.

use cursor_stores_schema::{ConversationStateStructure, ConversationSummaryArchive};
use pretty_assertions::assert_eq;
use prost::Message as _;
use serde_json::{Value as Json, json};
use store_fixtures::ide::{
    IdeHome, agent_message, assistant_bubble, composer, header, tool_bubble, user_bubble,
};

use super::{ID, Stage, texts, with};
use crate::chat::schema as cursor_stores_schema;
use crate::model::{MessageKind, Part, Role, ToolState};

fn blob(home: &IdeHome, json: &Json) -> Vec<u8> {
    home.put_agent_blob(json.to_string().as_bytes()).to_vec()
}

fn user(text: &str, request: &str) -> Json {
    agent_message(
        "user",
        &json!([{"type": "text", "text": format!("<user_query>\n{text}\n</user_query>")}]),
        Some(request),
    )
}

fn call(id: &str, name: &str, args: Json) -> Json {
    json!({"type": "tool-call", "toolCallId": id, "toolName": name, "args": args})
}

fn result(id: &str, output: &str) -> Json {
    agent_message(
        "tool",
        &json!([{"type": "tool-result", "toolCallId": id, "toolName": "Shell", "result": output}]),
        None,
    )
}

fn put_root(home: &IdeHome, messages: &[Json]) -> ConversationStateStructure {
    ConversationStateStructure {
        root_prompt_messages_json: messages.iter().map(|message| blob(home, message)).collect(),
        ..ConversationStateStructure::default()
    }
}

fn checkpoint(home: &IdeHome, id: &str, root: &ConversationStateStructure) {
    let root = home.put_agent_blob(&root.encode_to_vec());
    home.put_bytes(&format!("agentKv:checkpoint:{id}"), hex::encode(root).as_bytes());
}

#[test]
fn a_conversation_without_bubbles_is_read_from_its_state() {
    let messages = [
        agent_message("system", &json!("You are an agent."), None),
        agent_message("user", &json!("<user_info>\nOS: linux\n</user_info>"), None),
        user("list the files", "r1"),
        agent_message(
            "assistant",
            &json!([
                {"type": "reasoning", "text": "ls", "providerOptions": {"cursor": {"modelName": "claude-5"}}},
                call("t1", "Shell", json!({"command": "ls"})),
            ]),
            None,
        ),
        result("t1", "a b"),
        agent_message("assistant", &json!([{"type": "text", "text": "Two files."}]), None),
    ];
    for is_inline in [false, true] {
        let stage = Stage::new();
        let root = put_root(&stage.home, &messages);
        let mut composer = composer(ID, 17, &[]);
        if is_inline {
            use base64::Engine;
            let encoded = base64::engine::general_purpose::STANDARD.encode(root.encode_to_vec());
            composer["conversationState"] = json!(format!("~{encoded}"));
        } else {
            checkpoint(&stage.home, ID, &root);
        }
        stage.home.put_conversation(&composer, &[]);
        let home = stage.close();
        let read = home.read(ID);
        let kinds: Vec<(Role, MessageKind)> =
            read.messages.iter().map(|message| (message.role, message.kind)).collect();
        assert_eq!(
            kinds,
            [
                (Role::System, MessageKind::Context),
                (Role::User, MessageKind::Context),
                (Role::User, MessageKind::Said),
                (Role::Assistant, MessageKind::Said),
                (Role::Assistant, MessageKind::Said),
            ]
        );
        assert_eq!(texts(&read)[2..], ["list the files", "", "Two files."]);
        let shell = read.messages[3].tool_calls().next().unwrap();
        assert_eq!((shell.tool.as_str(), shell.state), ("shell", ToolState::Succeeded));
        assert_eq!(shell.result.as_ref().unwrap().output, json!("a b"));
        assert_eq!(
            (read.head.models, read.head.n_messages),
            (vec!["claude-5".to_owned()], Some(3))
        );
        assert!(read.head.shelf.is_shown());
        assert_eq!(read.turns[0].request_id.as_deref(), Some("r1"));
        let listed = home.head(ID);
        assert_eq!((listed.shelf, listed.n_messages), (read.head.shelf, None));
    }
}

#[test]
fn missing_messages_are_added_to_the_bubbles_and_none_appears_twice() {
    let stage = Stage::new();
    let bubbles = [
        with(user_bubble("b0", "first"), json!({"requestId": "r1"})),
        with(
            tool_bubble("b1", "t1\nfc_1", "", &json!({}), &json!("")),
            json!({"toolFormerData": {"toolCallId": "t1\nfc_1", "status": "completed"}}),
        ),
        assistant_bubble("b2", "Done  with\nthe first."),
        with(user_bubble("b3", "second"), json!({"requestId": "r2"})),
    ];
    let headers: Vec<Json> = bubbles.iter().map(header).collect();
    stage.home.put_conversation(&composer(ID, 16, &headers), &bubbles);
    let root = put_root(
        &stage.home,
        &[
            agent_message("system", &json!("system prompt"), None),
            user("first", "r1"),
            agent_message(
                "assistant",
                &json!([
                    {"type": "text", "text": "Let me look."},
                    call("t1", "Shell", json!({"command": "ls"})),
                ]),
                None,
            ),
            result("t1", "a b"),
            agent_message(
                "assistant",
                &json!([{"type": "text", "text": "Done with the first."}]),
                None,
            ),
            user("second", "r2"),
            agent_message(
                "assistant",
                &json!([{"type": "reasoning", "text": "thinking"}, {"type": "text", "text": "Also done."}]),
                None,
            ),
            user("third, which is unknown to the IDE", "r3"),
        ],
    );
    checkpoint(&stage.home, ID, &root);
    let read = stage.close().read(ID);
    assert_eq!(
        texts(&read),
        [
            "first",
            "Let me look.",
            "",
            "Done  with\nthe first.",
            "second",
            "Also done.",
            "third, which is unknown to the IDE"
        ]
    );
    let shell = read.messages[2].tool_calls().next().unwrap();
    assert_eq!((shell.name.as_str(), &shell.input), ("Shell", &json!({"command": "ls"})));
    assert_eq!(shell.result.as_ref().unwrap().output, json!("a b"));
    assert_eq!(read.messages[5].parts[0], Part::reasoning("thinking"));
    assert_eq!(read.turns.len(), 3);
}

#[test]
fn without_a_checkpoint_an_unanswered_turn_is_found_by_its_request() {
    let stage = Stage::new();
    stage.say(
        ID,
        &[with(user_bubble("b0", "asked"), json!({"requestId": "r1"})), assistant_bubble("b1", "")],
    );
    blob(&stage.home, &user("someone else", "r0"));
    blob(&stage.home, &agent_message("assistant", &json!("an answer to someone else"), None));
    blob(&stage.home, &user("asked", "r1"));
    stage.home.put_agent_blob(b"\x0a\x03not a message");
    blob(
        &stage.home,
        &agent_message("assistant", &json!([{"type": "text", "text": "answered"}]), None),
    );
    blob(&stage.home, &user("the next", "r2"));
    blob(&stage.home, &agent_message("assistant", &json!("an answer to the next"), None));
    let read = stage.close().read(ID);
    assert_eq!(texts(&read), ["asked", "answered", ""]);
}

#[test]
fn without_a_checkpoint_the_missing_parts_of_an_answered_turn_are_found_by_its_request() {
    let stage = Stage::new();
    let shown_call = with(
        tool_bubble("b3", "c2", "run_terminal_cmd", &json!({"command": "ls"}), &json!("")),
        json!({"toolFormerData": {"toolCallId": "c2", "name": "run_terminal_cmd", "status": "completed",
                                  "params": "{\"command\":\"ls\"}"}}),
    );
    stage.say(
        ID,
        &[
            with(user_bubble("b0", "first"), json!({"requestId": "r1"})),
            assistant_bubble("b1", "First done."),
            with(user_bubble("b2", "second"), json!({"requestId": "r2"})),
            shown_call,
            assistant_bubble("b4", "Second done."),
            with(user_bubble("b5", "third"), json!({"requestId": "r3"})),
            assistant_bubble("b6", "Third done."),
        ],
    );
    blob(&stage.home, &user("first", "r1"));
    let thought_and_called = json!([
        {"type": "reasoning", "text": "Which one?"},
        call("c1", "Shell", json!({"command": "pwd"})),
    ]);
    blob(&stage.home, &agent_message("assistant", &thought_and_called, None));
    blob(&stage.home, &result("c1", "/srv"));
    blob(&stage.home, &agent_message("assistant", &json!("First done."), None));
    blob(&stage.home, &user("second", "r2"));
    let called = json!([call("c2", "Shell", json!({"command": "ls"}))]);
    blob(&stage.home, &agent_message("assistant", &called, None));
    blob(&stage.home, &result("c2", "a b"));
    blob(&stage.home, &user("third", "r3"));
    // Looks like a message from another conversation that was written at the same time.
    blob(&stage.home, &agent_message("assistant", &json!("Somebody else's."), None));
    let home = stage.close();
    // The answer is the same each time.
    for _ in 0..2 {
        let read = home.read(ID);
        assert_eq!(
            texts(&read),
            ["first", "", "First done.", "second", "", "Second done.", "third", "Third done."]
        );
        let calls: Vec<_> =
            read.messages.iter().flat_map(crate::model::Message::tool_calls).collect();
        let outputs: Vec<Json> =
            calls.iter().map(|call| call.result.as_ref().unwrap().output.clone()).collect();
        assert_eq!(outputs, [json!("/srv"), json!("a b")]);
        assert_eq!(read.messages[1].parts[0], Part::reasoning("Which one?"));
    }
}

#[test]
fn archived_messages_come_first_and_blobs_may_be_hexadecimal() {
    let stage = Stage::new();
    let old = blob(&stage.home, &user("long ago", "r1"));
    let kept = agent_message("assistant", &json!("kept"), None);
    let archive = ConversationSummaryArchive {
        summarized_messages: vec![old, blob(&stage.home, &kept)],
        summary: "so far".to_owned(),
        ..ConversationSummaryArchive::default()
    };
    let mut root = put_root(&stage.home, &[kept]);
    root.summary_archives.push(stage.home.put_agent_blob(&archive.encode_to_vec()).to_vec());
    // In the format of older builds.
    let legacy = user("now", "r2").to_string();
    let id = crate::chat::BlobId::of(legacy.as_bytes());
    stage.home.put_bytes(&format!("agentKv:blob:{id}"), hex::encode(&legacy).as_bytes());
    root.root_prompt_messages_json.push(id.to_vec());
    root.root_prompt_messages_json.push(vec![7; 32]);
    checkpoint(&stage.home, ID, &root);
    stage.home.put_conversation(&composer(ID, 16, &[]), &[]);
    let read = stage.close().read(ID);
    assert_eq!(texts(&read), ["long ago", "kept", "now"]);
    assert_eq!(read.damage[0].place, format!("agentKv:blob:{}", "07".repeat(32)));
    assert_eq!(read.damage.len(), 1);
}

#[test]
fn a_key_to_encrypted_blobs_never_leaves_the_store() {
    let stage = Stage::new();
    let tool = with(
        assistant_bubble("b0", ""),
        json!({"toolFormerData": {"name": "task_v2", "additionalData": {
            "composerData": json!({"blobEncryptionKey": "5ec2e7", "name": "child"}).to_string(),
        }}}),
    );
    let fields =
        json!({"blobEncryptionKey": "5ec2e7", "speculativeSummarizationEncryptionKey": "5ec2e7"});
    stage.home.put_conversation(&with(composer(ID, 17, &[header(&tool)]), fields), &[tool]);
    let home = stage.close();
    let read = serde_json::to_string(&home.read(ID)).unwrap();
    assert!(read.contains("child") && !read.contains("5ec2e7"), "{read}");
}
