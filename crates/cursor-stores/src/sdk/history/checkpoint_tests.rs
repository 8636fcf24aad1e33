use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;
use store_fixtures::sdk::events::{checkpoint_answer, checkpoint_prompt};

use super::*;

type Memory = HashMap<BlobId, Vec<u8>>;

fn put(memory: &mut Memory, data: Vec<u8>) -> BlobId {
    let id = BlobId::of(&data);
    memory.insert(id, data);
    id
}

fn put_root(memory: &mut Memory, messages: &[Json]) -> BlobId {
    let messages = messages
        .iter()
        .map(|message| put(memory, message.to_string().into_bytes()).to_vec())
        .collect();
    put(memory, RootMessages { messages }.encode_to_vec())
}

fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(Message::text).collect()
}

fn conversation() -> Vec<Json> {
    vec![
        json!({"role": "system", "content": "You are."}),
        json!({"role": "user", "content": "<user_info>\nOS\n</user_info>"}),
        checkpoint_prompt("one"),
        checkpoint_answer("first"),
        checkpoint_prompt("two"),
        checkpoint_answer("second"),
    ]
}

#[test]
fn a_run_has_the_messages_that_its_checkpoint_adds_to_the_previous_one() {
    let mut memory = Memory::new();
    let messages = conversation();
    let start = put_root(&mut memory, &messages[..4]);
    let end = put_root(&mut memory, &messages);
    for begin in [Begin::After(start), Begin::LastPrompt] {
        let exchange = exchange_of_run(&memory, begin, end).unwrap();
        assert_eq!(
            (texts(&exchange.prompts), texts(&exchange.answers)),
            (vec!["two".into()], vec!["second".into()])
        );
    }
    let whole = exchange_of_run(&memory, Begin::Conversation, end).unwrap();
    assert_eq!(texts(&whole.prompts), ["one", "two"]);
    assert_eq!(exchange_of_run(&memory, Begin::Conversation, BlobId::of(b"nowhere")), None);
}

#[test]
fn after_a_summary_a_run_begins_with_the_last_prompt() {
    let mut memory = Memory::new();
    let start = put_root(&mut memory, &conversation()[..4]);
    let summarised = [
        json!({"role": "system", "content": "You are."}),
        checkpoint_prompt("a summary of everything"),
        checkpoint_prompt("two"),
        checkpoint_answer("second"),
    ];
    let end = put_root(&mut memory, &summarised);
    let exchange = exchange_of_run(&memory, Begin::After(start), end).unwrap();
    assert_eq!(
        (texts(&exchange.prompts), texts(&exchange.answers)),
        (vec!["two".into()], vec!["second".into()])
    );
}

#[test]
fn calls_have_their_results() {
    let mut memory = Memory::new();
    let end = put_root(
        &mut memory,
        &[
            checkpoint_prompt("go"),
            json!({"role": "assistant", "content": [
                {"type": "reasoning", "text": "hm"},
                {"type": "redacted-reasoning", "data": "xx"},
                {"type": "tool-call", "toolCallId": "c1", "toolName": "Shell", "args": {"command": "ls"}},
                {"type": "tool-call", "toolCallId": "c2", "toolName": "Read", "args": {"path": "a"}},
                {"type": "newer", "x": 1},
            ]}),
            json!({"role": "tool", "content": [
                {"type": "tool-result", "toolCallId": "c1", "result": "a.txt"},
                {"type": "tool-result", "toolCallId": "c2", "result": "gone", "isError": true},
                {"type": "tool-result", "toolCallId": "c3", "result": "whose?"},
            ]}),
        ],
    );
    let exchange = exchange_of_run(&memory, Begin::Conversation, end).unwrap();
    let call = |id: &str, name: &str, input: Json, output: &str, state| {
        Part::ToolCall(ToolCall {
            id: Some(id.to_owned()),
            result: Some(ToolResult { output: output.into(), error: None, is_truncated: false }),
            state,
            ..ToolCall::new(name, input)
        })
    };
    let expected = vec![
        Part::reasoning("hm"),
        Part::Reasoning { text: String::new(), duration_ms: None, is_redacted: true },
        call("c1", "Shell", json!({"command": "ls"}), "a.txt", ToolState::Succeeded),
        call("c2", "Read", json!({"path": "a"}), "gone", ToolState::Failed),
        Part::Unknown { kind: "newer".to_owned(), value: json!({"type": "newer", "x": 1}) },
    ];
    assert_eq!(exchange.answers[0].parts, expected);
    assert_eq!(exchange.calls().len(), 2);
}

#[test]
fn a_conversation_is_cut_before_every_prompt() {
    let exchanges = split(conversation());
    let told: Vec<_> = exchanges.iter().map(|e| (texts(&e.prompts), texts(&e.answers))).collect();
    let pair = |prompt: &str, answer: &str| (vec![prompt.to_owned()], vec![answer.to_owned()]);
    assert_eq!(told, [pair("one", "first"), pair("two", "second")]);
}

proptest! {
    #[test]
    fn no_bytes_make_a_checkpoint_fail(root: Vec<u8>, message: Vec<u8>) {
        let mut memory = Memory::new();
        let id = put(&mut memory, message).to_vec();
        let good = put(&mut memory, RootMessages { messages: vec![id] }.encode_to_vec());
        let bad = put(&mut memory, root);
        for end in [good, bad] {
            let _exchange = exchange_of_run(&memory, Begin::After(bad), end);
            let _exchanges = all_exchanges(&memory, end);
        }
    }
}
