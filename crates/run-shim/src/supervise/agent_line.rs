//! Translates an agent's line into a sign for the state machine.

use agent_stream::{AssistantForm, EventKind, ShellArgs, StreamLine};
use run_protocol::RunSpec;

use crate::supervise::finished_call::FinishedCall;
use crate::supervise::run_state::AgentSign;
use crate::supervise::token_count::all_tokens;

/// The longest name or id to keep. A name from the agent may be as long as a line.
const LONGEST_NAME: usize = 256;

/// The session and workspace that the agent's first line must name.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    session: String,
    workspace: String,
}

impl Expected {
    pub(crate) fn of(spec: &RunSpec) -> Self {
        Self { session: spec.session.to_string(), workspace: spec.workspace.clone() }
    }
}

/// Returns the name of an unknown event.
pub(crate) fn drift(line: &StreamLine<'_>) -> Option<String> {
    let EventKind::Unknown { kind, subtype, .. } = &line.event.kind else { return None };
    let kind = kept(kind.as_deref().unwrap_or("(no type)"));
    Some(match subtype {
        Some(subtype) => format!("{kind}/{}", kept(subtype)),
        None => kind,
    })
}

pub(super) fn kept(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect()
}

/// Returns the meaning of a line.
pub(crate) fn sign_of(line: &StreamLine<'_>, expected: &Expected) -> AgentSign {
    let event = &line.event;
    match &event.kind {
        EventKind::Init { cwd, .. } => {
            let session = event.session_id.as_deref();
            let is_the_asked_session = session.is_none_or(|session| session == expected.session)
                && cwd.as_deref().is_none_or(|cwd| cwd == expected.workspace);
            AgentSign::Init { is_the_asked_session }
        }
        EventKind::ToolStarted(call) => AgentSign::ToolStarted {
            call_id: kept(call.call_id.as_deref().unwrap_or_default()),
            name: kept(call.name_or_unnamed()),
            declared_ms: call
                .args
                .filter(|_| call.name.as_deref() == Some("shell"))
                .and_then(|args| ShellArgs::read(args).timeout_ms)
                .and_then(|timeout| u64::try_from(timeout).ok()),
        },
        EventKind::ToolCompleted(call) => AgentSign::ToolCompleted {
            call_id: kept(call.call_id.as_deref().unwrap_or_default()),
            call: FinishedCall::of(call),
        },
        EventKind::Oversized(oversized) if line.started.is_some() => AgentSign::ToolCompleted {
            call_id: kept(oversized.call_id.as_deref().unwrap_or_default()),
            call: None,
        },
        EventKind::Assistant { form: AssistantForm::Last, .. } => AgentSign::FinalText,
        EventKind::Result(result) => {
            let is_error = result.is_error.unwrap_or(result.subtype.as_deref() != Some("success"));
            AgentSign::Result { is_error, tokens: result.usage.as_ref().and_then(all_tokens) }
        }
        _ => AgentSign::Other,
    }
}

#[cfg(test)]
mod tests {
    use agent_stream::AgentStream;

    use super::*;

    /// The meaning of each line.
    fn signs(lines: &str) -> Vec<AgentSign> {
        let expected = Expected { session: String::new(), workspace: String::new() };
        let mut signs = Vec::new();
        AgentStream::default().feed(lines.as_bytes(), |line| signs.push(sign_of(&line, &expected)));
        signs
    }

    #[test]
    fn very_long_names_and_ids_are_shortened_but_still_match() {
        let id = "i".repeat(1 << 20);
        let line = |subtype: &str| {
            format!(
                r#"{{"type":"tool_call","subtype":"{subtype}","call_id":"{id}","tool_call":{{"{id}ToolCall":{{"args":{{}}}}}}}}"#
            )
        };
        let lines = format!("{}\n{}\n", line("started"), line("completed"));
        let signs = signs(&lines);
        let [
            AgentSign::ToolStarted { call_id, name, .. },
            AgentSign::ToolCompleted { call_id: completed, .. },
        ] = signs.as_slice()
        else {
            panic!("not a call that began and ended")
        };
        assert!(call_id.len() == LONGEST_NAME && name.len() <= LONGEST_NAME);
        assert_eq!(call_id, completed, "the shortened id still matches the end to its call");
    }
}
