use pretty_assertions::assert_eq;

use super::*;

fn desk(state: &std::path::Path) -> Arc<AgentDesk> {
    AgentDesk::for_test(state, RunId::generate(), Uuid::from_u128(1), None)
}

fn ask(text: &str) -> DeskCall {
    DeskCall::AskHuman { question: text.to_owned(), options: vec!["yes".to_owned()] }
}

#[test]
fn a_question_is_asked_without_secrets_and_its_answer_comes_once() {
    let state = tempfile::tempdir().unwrap();
    let desk = desk(state.path());
    let served = desk.serve(ask("is a-secret-of-the-run good?")).unwrap();
    let Some(RunEvent::NeedsHuman { question, text, .. }) = served.event else {
        panic!("no event")
    };
    assert_eq!(text, "is [redacted] good?");
    let inbox = Inbox::of(&StateRoot::new(state.path().to_owned()), Uuid::from_u128(1));
    inbox.answer(&question, "it is".to_owned()).unwrap();
    let seen = desk.serve(DeskCall::CheckInbox).unwrap().reply;
    assert_eq!(seen["messages"][0]["text"], "it is");
    assert_eq!(seen["messages"][0]["your_question"], text);
    assert_eq!(seen["open_questions"], json!([]));
    let again = desk.serve(DeskCall::CheckInbox).unwrap().reply;
    assert_eq!(again["messages"], json!([]));
}

#[test]
fn three_questions_are_open_and_no_more() {
    let state = tempfile::tempdir().unwrap();
    let desk = desk(state.path());
    for _ in 0..3 {
        desk.serve(ask("?")).unwrap();
    }
    let wish = DeskCall::RequestAccess { host: None, why: "so".to_owned() };
    let refused = desk.serve(wish).unwrap_err();
    assert_eq!(refused.outcome, McpCallOutcome::Refused);
    assert!(refused.text.contains("3 of your questions"), "{}", refused.text);
}

#[test]
fn an_unrelated_run_looks_as_if_it_did_not_exist() {
    let state = tempfile::tempdir().unwrap();
    std::fs::create_dir(state.path().join("runs")).unwrap();
    let desk = desk(state.path());
    let forged = RunId::generate().to_string();
    for call in [
        DeskCall::GetRun { run: forged.clone() },
        DeskCall::StopRun { run: forged.clone() },
        DeskCall::SendMessage { to: forged, text: "hello".to_owned() },
        DeskCall::SendMessage { to: "parent".to_owned(), text: "hello".to_owned() },
        DeskCall::GetRun { run: "../../etc".to_owned() },
    ] {
        let refused = desk.serve(call).unwrap_err();
        assert_eq!(refused.outcome, McpCallOutcome::Refused);
        assert!(refused.text.contains("no such run"), "{}", refused.text);
    }
}

#[test]
fn without_a_daemon_there_are_no_children_and_the_error_says_how_to_start_one() {
    let state = tempfile::tempdir().unwrap();
    let call = DeskCall::SpawnRun(Box::default());
    let failed = desk(state.path()).serve(call).unwrap_err();
    assert_eq!(failed.outcome, McpCallOutcome::Failed);
    assert!(failed.text.contains("caretaker daemon start"), "{}", failed.text);
}
