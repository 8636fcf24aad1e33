use agent_stream::AgentStream;
use pretty_assertions::assert_eq;
use run_protocol::MessageSender;
use uuid::Uuid;

use super::*;

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s"}"#;
const SAID: &str =
    r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"x"}]}}"#;
const OTHER_CALL: &str = r#"{"type":"tool_call","subtype":"completed","call_id":"1","tool_call":{"mcpToolCall":{"args":{"toolName":"whoami"},"result":{"success":{}}}}}"#;
const OWN_CALL: &str = r#"{"type":"tool_call","subtype":"completed","call_id":"2","tool_call":{"mcpToolCall":{"args":{"toolName":"check_inbox"},"result":{"success":{}}}}}"#;
const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"x"}"#;

fn handover(texts: &[&str]) -> (tempfile::TempDir, Handover) {
    let directory = tempfile::tempdir().unwrap();
    let state = StateRoot::new(directory.path().to_owned());
    let inbox = Inbox::of(&state, Uuid::nil());
    for id in texts {
        let message = Message {
            id: (*id).to_owned(),
            at: 1,
            from: MessageSender::Person,
            text: "words".to_owned(),
            answers: None,
        };
        inbox.post(message).unwrap();
    }
    let run = RunId::generate();
    (directory, Handover::of(inbox, run))
}

fn see(handover: &Handover, line: &str) -> Vec<(HandOver, Vec<String>)> {
    let mut arrived = Vec::new();
    let mut stream = AgentStream::default();
    stream.feed(format!("{line}\n").as_bytes(), |line| arrived.extend(handover.see(&line)));
    arrived.into_iter().map(|arrived| (arrived.by, arrived.messages)).collect()
}

#[test]
fn the_visible_end_of_a_call_confirms_the_messages_it_returned() {
    let (_directory, handover) = handover(&["a", "b", "c"]);
    assert_eq!(see(&handover, OWN_CALL), []);
    handover.offer(1, 1000).unwrap();
    handover.offer(1, 1000).unwrap();
    assert_eq!(see(&handover, OTHER_CALL), []);
    let by = HandOver::CheckInbox;
    assert_eq!(see(&handover, OWN_CALL), [(by, vec!["a".to_owned()])]);
    assert_eq!(see(&handover, SAID), []);
    handover.offer(1, 1000).unwrap();
    // The turn has ended, so all messages are in the conversation.
    assert_eq!(see(&handover, RESULT), [(by, vec!["b".to_owned(), "c".to_owned()])]);
    assert_eq!(see(&handover, RESULT), []);
}

#[test]
fn a_prompt_counts_as_delivered_once_the_agent_reacts_to_it() {
    let (_directory, handover) = handover(&["a", "b"]);
    let both = ["a".to_owned(), "b".to_owned()];
    assert!(handover.offer_as_turn(&both).unwrap());
    assert_eq!(see(&handover, INIT), []);
    assert_eq!(see(&handover, "noise"), []);
    let arrived = see(&handover, SAID);
    assert_eq!(arrived, [(HandOver::Turn, both.to_vec())]);
    let arrived = Arrived { by: HandOver::Turn, messages: both.to_vec() };
    handover.confirm(&arrived).unwrap();
    assert!(!handover.offer_as_turn(&both).unwrap(), "once is enough");
}

#[test]
fn calls_without_a_visible_end_do_not_pile_up() {
    let (_directory, handover) = handover(&["a"]);
    for _ in 0..2 * MOST_CALLS {
        handover.underway().remember(Vec::new());
    }
    handover.offer(1, 1000).unwrap();
    assert_eq!(handover.underway().calls.len(), MOST_CALLS);
    assert_eq!(see(&handover, RESULT), [(HandOver::CheckInbox, vec!["a".to_owned()])]);
}
