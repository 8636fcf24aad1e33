//! The tools that ask the user first: fetching a page, and a question. In headless mode, the command line answers them
//! itself.

use serde_json::{Value, json};

use super::{ArgsKept, InteractionQuery, PreparedCall, ToolEnvironment, ToolRun};
use crate::permissions::Verdict;

const FETCH_REJECTED: &str = "User Rejected";
const QUESTION_SKIPPED: &str =
    "Questions skipped by the user, continue with the information you already have";

pub(super) fn prepare_fetch(
    url: &str,
    call_id: &str,
    environment: &ToolEnvironment,
) -> PreparedCall {
    let args = json!({"url": url, "toolCallId": call_id});
    let response = match environment.permissions.web_fetch(url) {
        Verdict::Allowed => json!({"approved": {}}),
        Verdict::NotAllowed | Verdict::Denied => json!({"rejected": {"reason": FETCH_REJECTED}}),
    };
    let query = InteractionQuery {
        query_type: "webFetchRequestQuery",
        request: json!({"args": args, "skipApproval": false}),
        response_key: "webFetchRequestResponse",
        response,
    };
    PreparedCall {
        query: Some(query),
        ..PreparedCall::new("webFetchToolCall", "WebFetch", args, json!({"url": url}))
    }
}

/// Fetches nothing: the simulated agent never touches the network.
pub(super) fn fetch(url: &str, environment: &ToolEnvironment) -> ToolRun {
    match environment.permissions.web_fetch(url) {
        Verdict::Allowed => {
            let error = "The simulated agent has no network";
            ToolRun::failed("error", json!({"url": url, "error": error}), error)
        }
        Verdict::NotAllowed | Verdict::Denied => {
            ToolRun::rejected(json!({"reason": FETCH_REJECTED}), FETCH_REJECTED)
        }
    }
}

pub(super) fn prepare_question(question: &str, call_id: &str) -> PreparedCall {
    // No capture shows a question without choices.
    let options = json!([{"id": "yes", "label": "Yes"}, {"id": "no", "label": "No"}]);
    let args = json!({
        "title": "",
        "questions": [{"id": "1", "prompt": question, "options": options, "allowMultiple": false}],
        "runAsync": false,
        "asyncOriginalToolCallId": "",
    });
    let query = InteractionQuery {
        query_type: "askQuestionInteractionQuery",
        request: json!({"args": args, "toolCallId": call_id}),
        response_key: "askQuestionInteractionResponse",
        response: json!({"result": skipped()}),
    };
    let model_args = json!({"questions": [{"id": "1", "prompt": question, "options": options}]});
    PreparedCall {
        query: Some(query),
        ..PreparedCall::new("askQuestionToolCall", "AskQuestion", args, model_args)
    }
}

pub(super) fn question() -> ToolRun {
    let skipped = ToolRun::rejected(skipped()["rejected"].clone(), QUESTION_SKIPPED);
    // Captures show a rejected question with its arguments, and every other rejected call without.
    ToolRun { args_kept: ArgsKept::Kept, ..skipped }
}

fn skipped() -> Value {
    json!({"rejected": {"reason": QUESTION_SKIPPED}})
}

#[cfg(test)]
#[path = "web_tests.rs"]
mod tests;
