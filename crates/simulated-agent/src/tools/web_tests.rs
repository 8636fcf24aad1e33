use pretty_assertions::assert_eq;

use super::*;
use crate::permissions::ApprovalPolicy;
use crate::tools::ToolRequest;
use crate::tools::test_environment::TestEnvironment;

fn fetch_request() -> ToolRequest {
    ToolRequest::WebFetch { url: "https://example.com".to_owned() }
}

#[test]
fn a_fetch_without_force_asks_and_is_rejected_as_in_the_capture() {
    let mut environment = TestEnvironment::new();
    environment.permit(ApprovalPolicy::AllowList, &[], &[]);
    let (prepared, tool_run) = environment.call(&fetch_request());
    let args = json!({"url": "https://example.com", "toolCallId": "call_1\nfc_1"});
    assert_eq!(prepared.args, args);
    assert_eq!(
        prepared.query,
        Some(InteractionQuery {
            query_type: "webFetchRequestQuery",
            request: json!({"args": args, "skipApproval": false}),
            response_key: "webFetchRequestResponse",
            response: json!({"rejected": {"reason": "User Rejected"}}),
        })
    );
    assert_eq!(tool_run.result, json!({"rejected": {"reason": "User Rejected"}}));
    assert_eq!(tool_run.args_kept, ArgsKept::Dropped);
}

#[test]
fn a_fetch_with_force_is_approved_and_fails_without_a_network() {
    let (prepared, tool_run) = TestEnvironment::new().call(&fetch_request());
    assert_eq!(prepared.query.unwrap().response, json!({"approved": {}}));
    assert_eq!(tool_run.result["error"]["error"], json!("The simulated agent has no network"));
    assert!(tool_run.is_error);
}

#[test]
fn a_question_is_skipped_even_with_force() {
    let (prepared, tool_run) = TestEnvironment::new()
        .call(&ToolRequest::AskQuestion { question: "Which one?".to_owned() });
    let query = prepared.query.unwrap();
    assert_eq!(query.query_type, "askQuestionInteractionQuery");
    assert_eq!(query.request["args"]["questions"][0]["prompt"], json!("Which one?"));
    assert_eq!(query.response, json!({"result": {"rejected": {"reason": QUESTION_SKIPPED}}}));
    assert_eq!(tool_run.result, json!({"rejected": {"reason": QUESTION_SKIPPED}}));
    assert_eq!(tool_run.args_kept, ArgsKept::Kept);
}

#[test]
fn a_subagent_answers_under_the_id_that_was_announced() {
    let (description, prompt) = ("Look around".to_owned(), "What is here?".to_owned());
    let (prepared, tool_run) =
        TestEnvironment::new().call(&ToolRequest::Task { description, prompt });
    let success = &tool_run.result["success"];
    assert_eq!(success["agentId"], prepared.args["agentId"]);
    assert_eq!(
        success["conversationSteps"][0]["assistantMessage"]["text"],
        json!(tool_run.for_model)
    );
    assert!(success["durationMs"].is_string());
}
