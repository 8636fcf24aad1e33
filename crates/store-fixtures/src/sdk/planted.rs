//! An agent with a unique word in every field.

use serde_json::json;

use super::events::{
    checkpoint_answer, checkpoint_prompt, completed, ending, failed, request, running, status,
    system, task, text, thinking, thought, tool_use, user,
};
use super::{Agent, Event, Run};

/// Creates an agent with a word in every field. `word` gives the word for a field.
pub fn planted_agent(id: &str, word: &mut dyn FnMut(&str) -> String) -> Agent {
    let mut agent = Agent::new(id, &format!("/home/u/{}", word("workspace_ref")));
    agent.name = Some(word("name"));
    agent.metadata = json!({"deep": [{"er": word("metadata_json")}]});
    let mut cut = |field: &str| {
        let word = word(field);
        let (start, end) = word.split_at(word.len() / 2);
        (start.to_owned(), end.to_owned())
    };
    let (text_start, text_end) = cut("assistant, in two pieces");
    let (thinking_start, thinking_end) = cut("thinking, in two pieces");
    let escaped: String =
        word("escaped").chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    let mut run = Run::new(
        &format!("run-of-{id}"),
        vec![
            system(&word("system.model"), &[&word("system.tools")]),
            user(&word("user")),
            thinking(&thinking_start),
            status("RUNNING", None),
            thinking(&thinking_end),
            thought(5),
            text(&text_start),
            text(&text_end),
            tool_use("call-0", &word("tool_use.name"), json!({"a": word("tool_use.input")})),
            running("call-1", &word("tool_call.name"), json!({"command": word("tool_call.args")})),
            completed("call-1", "shell", json!({}), json!({"stdout": word("tool_call.result")})),
            failed(
                "call-2",
                "read",
                json!({"path": "a"}),
                json!({"message": word("tool_call.error")}),
            ),
            json!({"type": "tool_call", "call_id": word("tool_call.call_id"), "name": "ls", "status": "completed"}),
            task("running", &word("task.text")),
            request(&word("request.request_id")),
            status("ERROR", Some(&word("status.message"))),
            json!({"type": word("message.type"), "value": word("unknown message")}),
            text(&format!("{{\"inner\":\"{escaped}\"}}")),
        ],
    );
    run.events.push(Event::payload(
        json!({"type": word("envelope.type"), "what": word("unknown envelope")}),
    ));
    run.events.extend(ending("error", Some(&word("result.errorCode"))));
    run.events.push(Event {
        event_type: word("event_type"),
        idempotency_key: Some(word("idempotency_key")),
        ..Event::elsewhere(&word("payload_ref"))
    });
    run.request_id = Some(word("request_id"));
    run.status = "ERROR".to_owned();
    run.model = Some(word("model"));
    run.model_params =
        json!([{"id": word("model_params.id"), "value": word("model_params.value")}]);
    run.error = Some(word("error_code"));
    run.usage = Some(json!({"inputTokens": 1, "note": word("usage_json")}));
    run.usage_ref = Some(word("usage_ref"));
    run.result = Some(word("result"));
    run.checkpoint = vec![
        json!({"role": "system", "content": word("checkpoint system")}),
        checkpoint_prompt(&word("checkpoint prompt")),
        checkpoint_answer(&word("checkpoint answer")),
    ];
    agent.with(run)
}
