//! A tool call in a few words: its subject and its outcome.

use admission::words::safe_text::on_one_line;
use admission::words::units;
use agent_stream::{
    EditSuccess, FileArgs, McpArgs, McpSuccess, Outcome, OutcomeClass, OutcomeKind, ReadSuccess,
    RejectedCall, ShellArgs, ShellOutput, TaskArgs, few_words,
};
use serde_json::value::RawValue;

/// The subject of the call: a command, a path, a pattern.
pub(crate) fn subject(name: &str, args: Option<&RawValue>, description: Option<&str>) -> String {
    let Some(args) = args else { return cut(description.unwrap_or_default()) };
    let subject = match name {
        "shell" => ShellArgs::read(args).command,
        "task" => {
            let task = TaskArgs::read(args);
            task.description.or(task.prompt)
        }
        "mcp" => {
            let mcp = McpArgs::read(args);
            match (mcp.provider_identifier, mcp.tool_name) {
                (Some(server), Some(tool)) => Some(format!("{server}: {tool}").into()),
                (_, tool) => tool.or(mcp.name),
            }
        }
        "grep" => {
            let file = FileArgs::read(args);
            match (file.pattern, file.path) {
                (Some(pattern), Some(path)) => Some(format!("{pattern} in {path}").into()),
                (pattern, path) => pattern.or(path),
            }
        }
        _ => {
            let file = FileArgs::read(args);
            file.path
                .or(file.glob_pattern)
                .or(file.url)
                .or(file.search_term)
                .or(file.query)
                .or(file.pattern)
                .or(file.target_directory)
        }
    };
    match subject {
        Some(subject) => cut(&subject),
        None => cut(description.unwrap_or_default()),
    }
}

/// Details of the outcome, if there is more to say than success.
pub(crate) fn detail(name: &str, outcome: &Outcome<'_>) -> String {
    let detail = match (&outcome.kind, name) {
        (OutcomeKind::Success | OutcomeKind::Failure, "shell") => {
            let output = ShellOutput::read(outcome.detail);
            match (outcome.is_background, output.exit_code) {
                (true, _) => Some("continues in the background".to_owned()),
                (false, Some(0)) => None,
                (false, Some(code)) => Some(format!("exit {code}")),
                (false, None) => output.signal.map(|signal| format!("signal {signal}")),
            }
        }
        (OutcomeKind::Success, "edit") => {
            let edit = EditSuccess::read(outcome.detail);
            match (edit.lines_added, edit.lines_removed) {
                (None, None) => None,
                (added, removed) => {
                    Some(format!("+{} −{}", added.unwrap_or(0), removed.unwrap_or(0)))
                }
            }
        }
        (OutcomeKind::Success, "read") => ReadSuccess::read(outcome.detail)
            .total_lines
            .and_then(|lines| u64::try_from(lines).ok())
            .map(|lines| units::counted(lines, "line", "lines")),
        (OutcomeKind::Success, "mcp") => {
            let failed = McpSuccess::read(outcome.detail).is_error == Some(true);
            failed.then(|| "the server reports an error".to_owned())
        }
        (kind, _) if kind.class() != OutcomeClass::Good => {
            let refused = RejectedCall::read(outcome.detail);
            let why = refused.reason.or(refused.error).or(refused.error_message);
            match why.filter(|why| !why.is_empty()) {
                Some(why) => Some(format!("{}: {why}", kind.name())),
                None => Some(kind.name().to_owned()),
            }
        }
        _ => None,
    };
    cut(&detail.unwrap_or_default())
}

fn cut(text: &str) -> String {
    on_one_line(&few_words(text)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_call_is_described_by_its_important_arguments() {
        for (name, args, expected) in [
            ("shell", r#"{"command":"sleep 6\nls"}"#, "sleep 6…"),
            ("read", r#"{"path":"/w/notes.txt"}"#, "/w/notes.txt"),
            ("grep", r#"{"pattern":"TODO","path":"src"}"#, "TODO in src"),
            (
                "mcp",
                r#"{"providerIdentifier":"caretaker","toolName":"whoami"}"#,
                "caretaker: whoami",
            ),
            ("brandNew", r#"{"x":1}"#, "the description"),
        ] {
            assert_eq!(subject(name, Some(&raw(args)), Some("the description")), expected);
        }
    }

    #[test]
    fn an_outcome_is_described_by_what_went_wrong_or_changed() {
        for (name, kind, detail_json, expected) in [
            ("shell", OutcomeKind::Failure, r#"{"exitCode":7}"#, "exit 7"),
            ("edit", OutcomeKind::Success, r#"{"linesAdded":2,"linesRemoved":0}"#, "+2 −0"),
            (
                "webFetch",
                OutcomeKind::Rejected,
                r#"{"reason":"User Rejected"}"#,
                "rejected: User Rejected",
            ),
            ("ls", OutcomeKind::Unknown("odd".into()), "{}", "odd"),
            ("shell", OutcomeKind::Success, r#"{"exitCode":0}"#, ""),
        ] {
            let detail_json = raw(detail_json);
            let outcome = Outcome { kind, detail: &detail_json, is_background: false };
            assert_eq!(detail(name, &outcome), expected);
        }
    }
}
