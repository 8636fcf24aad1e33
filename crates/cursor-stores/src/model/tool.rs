//! Tool calls.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::moment::Moment;

/// One tool call, with its result if there is one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolCall {
    /// The call's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The store's name for the tool. Empty if it has none.
    pub name: String,
    /// One word for the same tool in all stores, see [`canonical_tool`].
    pub tool: String,
    /// The input of the tool.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    #[schema(value_type = serde_json::Value)]
    pub input: Json,
    /// The tool's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolResult>,
    /// How the call ended.
    pub state: ToolState,
    /// The time of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Moment>,
    /// The duration of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The conversation that the call started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
}

/// The result of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolResult {
    /// Text, or any other value from the store.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    #[schema(value_type = serde_json::Value)]
    pub output: Json,
    /// The error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The store kept only a part of the result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_truncated: bool,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolState {
    /// The call is running, or its writer was killed while it ran.
    Pending,
    Succeeded,
    Failed,
    /// The user, a rule or a policy refused it.
    Rejected,
    Cancelled,
    /// The store does not say.
    #[default]
    Unknown,
}

impl ToolCall {
    #[must_use]
    pub fn new(name: impl Into<String>, input: Json) -> Self {
        let name = name.into();
        Self { tool: canonical_tool(&name), name, input, ..Self::default() }
    }
}

impl ToolResult {
    /// A result without an error.
    #[must_use]
    pub fn of(output: impl Into<Json>) -> Self {
        Self { output: output.into(), ..Self::default() }
    }

    /// The exit code of a command, if the store has one.
    #[must_use]
    pub fn exit_code(&self) -> Option<i64> {
        self.output.get("exitCode")?.as_i64()
    }
}

/// The names that stores and versions use for the same tool.
const TOOLS: &[(&str, &[&str])] = &[
    (
        "shell",
        &[
            "shell",
            "shellexecute",
            "runterminalcmd",
            "runterminalcommand",
            "bash",
            "terminal",
            "pibash",
        ],
    ),
    ("read", &["read", "readfile", "fileread", "piread"]),
    ("write", &["write", "writefile", "filewrite", "piwrite"]),
    (
        "edit",
        &[
            "edit",
            "editfile",
            "strreplace",
            "searchreplace",
            "multiedit",
            "editnotebook",
            "reapply",
            "applypatch",
            "applyagentdiff",
            "fileedit",
            "piedit",
        ],
    ),
    ("delete", &["delete", "deletefile", "filedelete"]),
    ("glob", &["glob", "globfilesearch", "filesearch", "pifind"]),
    ("grep", &["grep", "rg", "ripgrep", "ripgreprawsearch", "grepsearch", "pigrep"]),
    ("ls", &["ls", "listdir", "listdirectory", "pils"]),
    ("read_lints", &["readlints", "readlinter", "readlintererrors"]),
    ("todo", &["updatetodos", "todowrite", "readtodos", "todoread"]),
    ("mcp", &["mcp", "callmcptool", "mcptool"]),
    ("semantic_search", &["semsearch", "semanticsearch", "codebasesearch"]),
    ("plan", &["createplan"]),
    ("task", &["task", "subagent"]),
    ("web_search", &["websearch"]),
    ("web_fetch", &["webfetch", "fetch"]),
    ("ask", &["askquestion"]),
    ("image", &["generateimage"]),
    ("record_screen", &["recordscreen"]),
];

/// Returns one word for the same tool in all stores: `run_terminal_command_v2`, `Shell`, `shellToolCall` and
/// `shell.execute` are all `shell`. An unknown tool keeps its own name.
#[must_use]
pub fn canonical_tool(name: &str) -> String {
    let trimmed = name.strip_suffix("ToolCall").unwrap_or(name);
    let mut plain: String = trimmed
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    // A version suffix says nothing about what the tool does.
    let without_digits = plain.trim_end_matches(|c: char| c.is_ascii_digit());
    if without_digits.len() < plain.len()
        && let Some(unversioned) = without_digits.strip_suffix('v')
    {
        plain = unversioned.to_owned();
    }
    TOOLS
        .iter()
        .find(|(_, names)| names.contains(&plain.as_str()))
        .map_or_else(|| name.to_owned(), |(tool, _)| (*tool).to_owned())
}

#[cfg(test)]
mod tests {
    use super::canonical_tool;

    #[test]
    fn a_tool_has_the_same_name_in_all_stores() {
        for name in [
            "Shell",
            "shell",
            "shellToolCall",
            "shell.execute",
            "run_terminal_cmd",
            "run_terminal_command_v2",
        ] {
            assert_eq!(canonical_tool(name), "shell", "{name}");
        }
        for name in ["edit_file_v2", "StrReplace", "MultiEdit", "search_replace", "apply_patch"] {
            assert_eq!(canonical_tool(name), "edit", "{name}");
        }
        assert_eq!(canonical_tool("task_v2"), "task");
        // The stream writes `piReadToolCall`, and the command line's store `pi_read`.
        for (name, tool) in [
            ("piReadToolCall", "read"),
            ("pi_bash", "shell"),
            ("piEdit", "edit"),
            ("pi_write", "write"),
            ("piGrep", "grep"),
            ("piFind", "glob"),
            ("pi_ls", "ls"),
        ] {
            assert_eq!(canonical_tool(name), tool, "{name}");
        }
    }

    #[test]
    fn an_unknown_tool_keeps_its_name() {
        assert_eq!(canonical_tool("mcp_github_create_issue"), "mcp_github_create_issue");
        assert_eq!(canonical_tool(""), "");
    }
}
