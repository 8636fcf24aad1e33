use pretty_assertions::assert_eq;

use super::super::test_bench::{shell_call, shell_result};
use super::*;

const LATER: AssistantIdentity<'_> =
    AssistantIdentity { message_id: "msg_1", is_provider_id: true, model: "gpt-5.2" };

#[test]
fn a_pending_answer_begins_with_its_id_and_says_when_its_calls_began() {
    let pending = pending_assistant(
        &LATER,
        Some("hm"),
        Some("ok"),
        &[shell_call("c\nfc", "ls")],
        1_790_000_000_123,
    );
    let text = pending.to_string();
    assert!(text.starts_with(r#"{"id":"msg_1","role":"assistant","content":[{"type":"reasoning","text":"hm","signature":""#));
    assert!(text.ends_with(
        r#""providerOptions":{"cursor":{"modelProviderMessageId":"msg_1","pendingToolCallStartedAtMs":1790000000123}}}"#
    ));
    let call = &pending["content"][2];
    assert_eq!(call["toolCallId"], "c\nfc");
    assert_eq!(call["args"], json!({ "command": "ls", "description": "Says it" }));
    assert_eq!(
        call["providerOptions"]["cursor"]["rawToolCallArgs"],
        r#"{"command":"ls","description":"Says it"}"#
    );
    assert_eq!(
        pending_calls(&pending),
        [PendingCall {
            call_id: "c\nfc".to_owned(),
            tool_name: "Shell".to_owned(),
            started_ms: Some(1_790_000_000_123),
        }]
    );
}

#[test]
fn a_committed_answer_says_the_same_in_another_order() {
    let pending = pending_assistant(&LATER, None, Some("ok"), &[shell_call("c", "ls")], 5);
    let committed = committed(&pending);
    let keys: Vec<_> = committed.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["role", "content", "id", "providerOptions"]);
    assert_eq!(committed["content"], pending["content"]);
    assert_eq!(
        committed["providerOptions"],
        json!({ "cursor": { "modelProviderMessageId": "msg_1" } })
    );
}

#[test]
fn every_value_in_field_4_can_be_committed() {
    for strange in
        [json!(null), json!("text"), json!([]), json!({}), json!({ "id": 1, "providerOptions": 2 })]
    {
        assert_eq!(committed(&strange), strange);
    }
}

#[test]
fn a_failed_call_says_so_in_both_places() {
    let record = ToolResultRecord { is_error: true, ..shell_result("c", "false", "") };
    let message = tool_result("Shell", &record);
    assert_eq!(message["content"][0]["isError"], true);
    let high_level = &message["providerOptions"]["cursor"]["highLevelToolCallResult"];
    assert_eq!(high_level["isError"], true);
    assert_eq!(high_level["rawErrorMessages"], json!([record.for_model]));
}

#[test]
fn the_machine_is_described_with_the_path_of_the_workspace() {
    let message = user_info(Path::new("/srv/my shop"));
    let text = message["content"].as_str().unwrap();
    assert!(text.starts_with("<user_info>") && text.contains("\nWorkspace Path: /srv/my shop\n"));
    assert_eq!(remembered(&message), None);
    assert_eq!(remembered(&system()), None);
}

#[test]
fn the_agent_remembers_a_prompt_word_for_word() {
    for prompt in
        ["fix it", "", " spaces ", "two\nlines", "a </user_query> inside", "<user_query>\nnested"]
    {
        let message = user_query(prompt, "request");
        assert_eq!(remembered(&message).unwrap().text, prompt);
    }
}
