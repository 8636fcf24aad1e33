//! The tools of the simulated agent: the event before a call, the call itself, and the event after it.
//!
//! Files, shells and MCP servers are real; no web page is fetched. Every tool is bounded in time and memory. The processes
//! that it starts are in [`ProcessGroups`] and end with the agent.

mod files;
mod mcp;
mod plan;
mod shell;
mod subagent;
mod todos;
mod web;

pub use shell::{Background, ShellRequest};
pub use todos::{TodoItem, TodoList, TodoStatus, TodoUpdate};

pub(crate) use files::read_json;
pub(crate) use shell::{ParsedCommand, SimpleCommand};
pub(crate) use todos::status_of;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cursor_home::{ProjectDir, without_dots};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::mcp_client::McpClients;
use crate::permissions::Permissions;
use crate::process::groups::ProcessGroups;
use files::search;

/// The build to imitate: captured builds differ in their key sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// 2026.01.28: the older captures.
    V2026_01,
    /// 2026.09.15: the newer captures.
    V2026_09,
}

/// The state that a run's tools share. Calls use it from several threads at once.
#[derive(Debug)]
pub struct ToolEnvironment {
    /// The physical path of the workspace.
    pub workspace: PathBuf,
    /// Long outputs and the outputs of background shells go below it.
    pub project_directory: ProjectDir,
    pub session_id: Uuid,
    pub request_id: String,
    pub generation: Generation,
    /// The agent's own environment. Shells inherit it, MCP servers do not.
    pub env: Vec<(OsString, OsString)>,
    pub permissions: Permissions,
    pub mcp: McpClients,
    pub todos: TodoList,
    /// Shared with [`McpClients::connect`], so that one `kill_all` reaches everything.
    pub processes: ProcessGroups,
}

impl ToolEnvironment {
    fn absolute(&self, path: &Path) -> PathBuf {
        // Joining an absolute path replaces the workspace.
        without_dots(&self.workspace.join(path))
    }

    /// Returns the absolute path as text. Node also cannot handle names that are not UTF-8.
    fn shown(&self, path: &Path) -> String {
        self.absolute(path).to_string_lossy().into_owned()
    }
}

/// A tool call in a script. Relative paths start at the workspace.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolRequest {
    Shell(ShellRequest),
    Read {
        path: PathBuf,
    },
    /// Replaces the only occurrence of `old`.
    Edit {
        path: PathBuf,
        old: String,
        new: String,
    },
    Write {
        path: PathBuf,
        content: String,
    },
    /// Looks for a regular expression in files.
    Grep {
        pattern: String,
        path: PathBuf,
    },
    Glob {
        pattern: String,
    },
    Ls {
        path: PathBuf,
    },
    Delete {
        path: PathBuf,
    },
    UpdateTodos {
        items: Vec<TodoItem>,
        update: TodoUpdate,
    },
    ReadTodos,
    Mcp {
        server: String,
        tool: String,
        args: Map<String, Value>,
    },
    WebFetch {
        url: String,
    },
    AskQuestion {
        question: String,
    },
    CreatePlan {
        plan: String,
    },
    Task {
        description: String,
        prompt: String,
    },
}

/// Everything that `started` prints, before the tool runs.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedCall {
    /// The key in the stream, such as `shellToolCall`.
    pub key: &'static str,
    /// The name in the store's messages, such as `Shell`.
    pub tool_name: &'static str,
    /// The arguments in the stream, with the exact keys of the generation.
    pub args: Value,
    /// The model's arguments, for the store's messages.
    pub model_args: Value,
    /// Printed next to the arguments.
    pub description: Option<String>,
    /// A question between `started` and `completed`.
    pub query: Option<InteractionQuery>,
}

impl PreparedCall {
    pub(crate) fn new(
        key: &'static str,
        tool_name: &'static str,
        args: Value,
        model_args: Value,
    ) -> Self {
        Self { key, tool_name, args, model_args, description: None, query: None }
    }
}

/// A question from the agent. The command line answers it itself, in the same millisecond.
#[derive(Debug, Clone, PartialEq)]
pub struct InteractionQuery {
    /// Such as `webFetchRequestQuery`.
    pub query_type: &'static str,
    pub request: Value,
    /// Such as `webFetchRequestResponse`.
    pub response_key: &'static str,
    pub response: Value,
}

/// Whether `completed` keeps the arguments and the description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgsKept {
    Kept,
    /// A rejected call has none, unless it is a question.
    Dropped,
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRun {
    pub args_kept: ArgsKept,
    /// The whole `result` object.
    pub result: Value,
    /// The text that the model reads.
    pub for_model: String,
    pub is_error: bool,
}

impl ToolRun {
    fn success(value: Value, for_model: impl Into<String>) -> Self {
        let result = json!({"success": value});
        Self { args_kept: ArgsKept::Kept, result, for_model: for_model.into(), is_error: false }
    }

    /// A call that ran and failed. `outcome` is its key in the result.
    fn failed(outcome: &str, value: Value, for_model: impl Into<String>) -> Self {
        let result = json!({outcome: value});
        Self { args_kept: ArgsKept::Kept, result, for_model: for_model.into(), is_error: true }
    }

    /// A call that was not allowed and never ran.
    fn rejected(value: Value, for_model: impl Into<String>) -> Self {
        let result = json!({"rejected": value});
        Self { args_kept: ArgsKept::Dropped, result, for_model: for_model.into(), is_error: true }
    }
}

/// Prepares a call: everything that the agent prints before it runs.
pub fn prepare(
    request: &ToolRequest,
    call_id: &str,
    environment: &ToolEnvironment,
) -> PreparedCall {
    match request {
        ToolRequest::Shell(request) => shell::prepare(request, call_id, environment),
        ToolRequest::Read { path } => files::prepare_read(path, environment),
        ToolRequest::Edit { path, old, new } => files::prepare_edit(path, old, new, environment),
        ToolRequest::Write { path, content } => files::prepare_write(path, content, environment),
        ToolRequest::Delete { path } => files::prepare_delete(path, call_id, environment),
        ToolRequest::Grep { pattern, path } => {
            search::prepare_grep(pattern, path, call_id, environment)
        }
        ToolRequest::Glob { pattern } => search::prepare_glob(pattern, environment),
        ToolRequest::Ls { path } => search::prepare_ls(path, call_id, environment),
        ToolRequest::UpdateTodos { items, update } => todos::prepare_update(items, *update),
        ToolRequest::ReadTodos => todos::prepare_read(),
        ToolRequest::Mcp { server, tool, args } => mcp::prepare(server, tool, args, call_id),
        ToolRequest::WebFetch { url } => web::prepare_fetch(url, call_id, environment),
        ToolRequest::AskQuestion { question } => web::prepare_question(question, call_id),
        ToolRequest::CreatePlan { plan } => plan::prepare(plan, call_id),
        ToolRequest::Task { description, prompt } => subagent::prepare(description, prompt),
    }
}

/// Runs a call that [`prepare`] has prepared.
pub fn run(
    request: &ToolRequest,
    prepared: &PreparedCall,
    environment: &ToolEnvironment,
) -> ToolRun {
    match request {
        ToolRequest::Shell(request) => shell::run(request, environment),
        ToolRequest::Read { path } => files::read(path, environment),
        ToolRequest::Edit { path, old, new } => files::edit(path, old, new, environment),
        ToolRequest::Write { path, content } => files::write(path, content, environment),
        ToolRequest::Delete { path } => files::delete(path, environment),
        ToolRequest::Grep { pattern, path } => search::grep(pattern, path, environment),
        ToolRequest::Glob { pattern } => search::glob(pattern, environment),
        ToolRequest::Ls { path } => search::ls(path, environment),
        ToolRequest::UpdateTodos { items, update } => todos::update(items, *update, environment),
        ToolRequest::ReadTodos => todos::read(environment),
        ToolRequest::Mcp { server, tool, args } => mcp::run(server, tool, args, environment),
        ToolRequest::WebFetch { url } => web::fetch(url, environment),
        ToolRequest::AskQuestion { .. } => web::question(),
        ToolRequest::CreatePlan { .. } => plan::run(),
        ToolRequest::Task { prompt, .. } => subagent::run(prompt, prepared),
    }
}

#[cfg(test)]
mod test_environment;

#[cfg(test)]
mod capture_tests;
