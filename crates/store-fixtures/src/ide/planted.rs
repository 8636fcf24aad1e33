//! A home with a unique word in every text field.

use std::path::Path;

use cursor_stores::chat::schema::ConversationStateStructure;
use prost::Message;
use serde_json::{Value as Json, json};

use super::{
    HeaderColumns, HeaderRow, IdeHome, assistant_bubble, composer, header, inline_composer,
    user_bubble,
};
use crate::Closing;

/// A word and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planted {
    /// Such as `bubbleId thinking.text`.
    pub place: String,
    pub word: String,
    /// The conversation that contains it; empty if there is none.
    pub key: String,
}

/// The id of the conversation that has nearly all planted words, and the id of one from the oldest build.
const ID: &str = "7a1d0000-0000-4000-8000-000000000001";
const OLD_ID: &str = "7a1d0000-0000-4000-8000-000000000002";

/// Writes a home and returns its words. Each begins with `prefix`, so that several homes have different words.
pub fn plant(user_dir: &Path, prefix: &str) -> Vec<Planted> {
    let home = IdeHome::new(user_dir);
    let mut garden = Garden { prefix, planted: Vec::new() };
    let bubbles = bubbles(&mut garden);
    let headers: Vec<Json> = bubbles.iter().map(header).collect();
    let mut main = composer(ID, 16, &headers);
    for (field, value) in [
        ("name", json!("%")),
        ("text", json!("%")),
        ("subtitle", json!("%")),
        ("todos", json!([{"id": "1", "content": "%", "status": "pending"}])),
        ("context", json!({"fileSelections": [{"uri": {"fsPath": "/srv/%.rs"}}]})),
        ("latestConversationSummary", json!({"summary": {"summary": "%"}, "lastBubbleId": "b1"})),
        ("usageData", json!({"%": {"amount": 1}})),
        ("codeBlockData", json!({"file:///srv/a.rs": [{"codeblockId": "1", "content": "%"}]})),
        ("fieldOfTomorrow", json!({"deep": ["%"]})),
    ] {
        // Here the word is a field name, which a search does not read.
        if field != "usageData" {
            main[field] = garden.fill(&format!("composerData {field}"), ID, value);
        }
    }
    main["blobEncryptionKey"] = json!("5ec2e75ec2e75ec2e75ec2e7");
    home.put_conversation(&main, &bubbles);
    side_rows(&home, &mut garden);
    blobs(&home, &mut garden);
    inline(&home, &mut garden);
    catalogues(&home, &mut garden);
    home.put_item("cursorAuth/accessToken", &json!("5ec2e7-token"));
    home.close(Closing::Clean);
    garden.planted
}

struct Garden<'a> {
    prefix: &'a str,
    planted: Vec<Planted>,
}

impl Garden<'_> {
    fn word(&mut self, place: &str, key: &str) -> String {
        let word = format!("{}{:03}x", self.prefix, self.planted.len());
        self.planted.push(Planted {
            place: place.to_owned(),
            word: word.clone(),
            key: key.to_owned(),
        });
        word
    }

    /// Replaces `%` with a new word.
    fn fill(&mut self, place: &str, key: &str, value: Json) -> Json {
        let word = self.word(place, key);
        serde_json::from_str(&value.to_string().replace('%', &word)).unwrap()
    }
}

fn bubbles(garden: &mut Garden<'_>) -> Vec<Json> {
    let mut user = user_bubble("b0", "");
    let mut assistant = assistant_bubble("b1", "");
    for (bubble, field, value) in [
        (0, "text", json!("%")),
        (0, "richText", json!(super::lexical("%").to_string())),
        (0, "images", json!([{"path": "/tmp/%.png", "uuid": "1"}])),
        (
            0,
            "attachedCodeChunks",
            json!([{"relativeWorkspacePath": "a.rs", "lines": ["%"], "startLineNumber": 1}]),
        ),
        (0, "cursorRules", json!([{"filename": "%.mdc"}])),
        (
            0,
            "context",
            json!({
                "selections": [{"uri": {"fsPath": "/srv/a.rs"}, "rawText": "%"}],
                "mentions": {"fileSelections": {}},
            }),
        ),
        (0, "terminalSelections", json!([{"text": "%"}])),
        (0, "externalLinks", json!([{"url": "https://example.org/%"}])),
        (0, "fieldOfTomorrow", json!({"deep": [["%"]]})),
        (1, "text", json!("%")),
        (1, "thinking", json!({"text": "%", "signature": "x"})),
        (1, "codeBlocks", json!([{"content": "%", "languageId": "rust", "codeBlockIdx": 0}])),
        (1, "suggestedCodeBlocks", json!([{"code": "%"}])),
        (1, "assistantSuggestedDiffs", json!([{"diff": "%"}])),
        (1, "todos", json!(["{\"id\":\"1\",\"content\":\"%\",\"status\":\"completed\"}"])),
        (1, "errorDetails", json!({"message": "%"})),
        (1, "toolResults", json!([{"toolCallId": "t", "result": "%"}])),
    ] {
        let bubble = if bubble == 0 { &mut user } else { &mut assistant };
        bubble[field] = garden.fill(&format!("bubbleId {field}"), ID, value);
    }
    let mut tool =
        super::tool_bubble("b2", "call_1\nfc_1", "run_terminal_command_v2", &json!({}), &json!({}));
    for (field, value) in [
        ("name", json!("mcp_%")),
        ("params", json!("{\"command\":\"%\"}")),
        ("rawArgs", json!("{\"command\":\"%\"}")),
        ("result", json!("{\"output\":\"line\\n%\"}")),
        ("error", json!({"modelVisibleErrorMessage": "%"})),
        ("additionalData", json!({"composerData": "{\"name\":\"%\"}"})),
    ] {
        tool["toolFormerData"][field] =
            garden.fill(&format!("bubbleId toolFormerData.{field}"), ID, value);
    }
    vec![user, assistant, tool]
}

fn side_rows(home: &IdeHome, garden: &mut Garden<'_>) {
    for (family, value) in [
        ("messageRequestContext", json!({"terminalFiles": [], "projectLayouts": ["%"]})),
        ("codeBlockDiff", json!({"newModelDiffWrtV0": [{"original": {}, "modified": ["%"]}]})),
        ("checkpointId", json!({"files": [{"uri": {"path": "/srv/%"}}]})),
        ("codeBlockPartialInlineDiffFates", json!({"fates": [{"fate": "%"}]})),
    ] {
        let value = garden.fill(family, ID, value);
        home.put(&format!("{family}:{ID}:row-1"), &value);
    }
    // An abandoned branch, and a subagent of an older build.
    let orphan = garden.word("bubbleId orphan", ID);
    home.put_bubble(ID, &assistant_bubble("b9", &orphan));
    let task = "task-call_1\nfc_1";
    let word = garden.word("bubbleId of a task", task);
    home.put_bubble(task, &assistant_bubble("t0", &word));
}

fn blobs(home: &IdeHome, garden: &mut Garden<'_>) {
    let said = garden.word("agentKv JSON", ID);
    let escaped: String = garden
        .word("agentKv JSON in escapes", ID)
        .bytes()
        .map(|byte| format!("\\u{byte:04x}"))
        .collect();
    let message = json!({"role": "user", "content": [{"type": "text", "text": said}]}).to_string();
    let answer =
        format!(r#"{{"role":"assistant","content":[{{"type":"text","text":"{escaped}"}}]}}"#);
    let ids = [message, answer].map(|message| home.put_agent_blob(message.as_bytes()).to_vec());
    let root = ConversationStateStructure {
        root_prompt_messages_json: ids.to_vec(),
        // In the root itself, which is protobuf.
        pending_tool_calls: vec![
            json!({"role": "assistant", "content": garden.word("agentKv protobuf", ID)})
                .to_string(),
        ],
        ..ConversationStateStructure::default()
    };
    let root = home.put_agent_blob(&root.encode_to_vec());
    home.put_bytes(&format!("agentKv:checkpoint:{ID}"), hex::encode(root).as_bytes());
    let unowned = garden.word("agentKv without an owner", "");
    home.put_agent_blob(format!("\u{a}\u{4}{unowned}").as_bytes());
    // Older builds wrote blobs in hexadecimal.
    let hexadecimal = garden.word("agentKv in hexadecimal", "");
    let content = json!({"role": "tool", "content": hexadecimal}).to_string();
    home.put(&format!("agentKv:blob:{}", "ab".repeat(32)), &Json::Null);
    home.put_bytes(&format!("agentKv:blob:{}", "ac".repeat(32)), hex::encode(content).as_bytes());
}

fn inline(home: &IdeHome, garden: &mut Garden<'_>) {
    let conversation = json!([{"bubbleId": "i0", "type": 1, "text": garden.word("composerData conversation", OLD_ID)}]);
    let mut old = inline_composer(OLD_ID, conversation.as_array().unwrap());
    let tool = json!({"i0": {"name": "read_file", "rawArgs": "{}", "result": garden.word("composerData bubbleDataMap", OLD_ID)}});
    old["capabilities"] = json!([{"type": 15, "data": {"bubbleDataMap": tool.to_string()}}]);
    let map = json!({"tab": {"bubbles": [{"bubbleId": "i1", "type": 2, "text": garden.word("composerData conversationMap", OLD_ID)}]}});
    old["conversationMap"] = map;
    home.put_conversation(&old, &[]);
}

fn catalogues(home: &IdeHome, garden: &mut Garden<'_>) {
    let other = "7a1d0000-0000-4000-8000-000000000003";
    home.create_headers(HeaderColumns::Usual);
    let value = json!({"type": "head", "composerId": OLD_ID, "name": garden.word("composerHeaders table", OLD_ID)});
    let row = HeaderRow { composer_id: OLD_ID.to_owned(), value, ..HeaderRow::default() };
    home.put_header(&row, HeaderColumns::Usual);
    let listed = json!({"allComposers": [{"composerId": other, "name": garden.word("composer.composerHeaders", other)}]});
    home.put_item("composer.composerHeaders", &listed);
    home.put_item(
        "composer.planRegistry",
        &json!({"plan": garden.word("composer.planRegistry", "")}),
    );
    let in_workspace = "7a1d0000-0000-4000-8000-000000000004";
    home.put_conversation(&composer(in_workspace, 3, &[]), &[]);
    let heads = json!({"allComposers": [{"composerId": in_workspace, "name": garden.word("workspace head", in_workspace)}]});
    home.put_workspace(
        "aa11",
        Some(&json!({"folder": "file:///srv"})),
        &[("composer.composerData", heads)],
    );
}
