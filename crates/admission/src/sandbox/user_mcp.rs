//! The user's own MCP servers: their files, and the notes about them before a run.

use std::path::Path;

use cursor_home::{CursorRoots, McpServer, ToolBudget, WorkspacePath};
use run_protocol::{BytesPath, ExitCode, RepositoryServer, RunRequest, RunSpec, UserMcpFiles};
use run_shim::{
    Unreachable, UserMcpError, UserMcpReport, choice_of, names_in, repository_server, user_mcp,
};

use crate::command_error::CommandError;
use crate::host::Host;
use crate::sandbox::profiles;
use crate::words::talk::Remark;

/// The files, if there are any.
pub fn find(workspace: &WorkspacePath, roots: &CursorRoots) -> Option<UserMcpFiles> {
    let servers = roots.user_mcp_json();
    servers.try_exists().is_ok_and(|exists| exists).then(|| {
        // Cursor uses the repository; older builds use the workspace.
        let mut disabled: Vec<BytesPath> = Vec::new();
        for root in repository_of(workspace).iter().chain([workspace]) {
            let file = BytesPath::from(roots.project_dir(root).disabled_servers());
            if !disabled.contains(&file) {
                disabled.push(file);
            }
        }
        UserMcpFiles { servers: servers.into(), disabled, only: None }
    })
}

fn repository_of(workspace: &WorkspacePath) -> Option<WorkspacePath> {
    let is_top = |directory: &&Path| directory.join(".git").exists();
    let top = workspace.as_path().ancestors().find(is_top)?;
    WorkspacePath::new(top).ok()
}

/// The user's file, limited to these servers. Each must exist.
pub fn named(
    workspace: &WorkspacePath,
    roots: &CursorRoots,
    names: &[String],
) -> Result<UserMcpFiles, CommandError> {
    let files = find(workspace, roots);
    let known = match &files {
        Some(files) => names_in(files)?,
        None => Vec::new(),
    };
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        return Err(match repository_server(workspace.as_path(), name) {
            Ok(server) => of_repository(name, &server),
            Err(_) => no_such_server(roots, name, &known),
        });
    }
    files.map(|files| UserMcpFiles { only: Some(names.to_owned()), ..files }).ok_or_else(|| {
        let what = format!("there is no `{}`", roots.user_mcp_json().display());
        CommandError::new(ExitCode::NotFound, what)
    })
}

fn no_such_server(roots: &CursorRoots, name: &str, known: &[String]) -> CommandError {
    let file = roots.user_mcp_json();
    let what = format!("there is no MCP server `{name}` in `{}`", file.display());
    let error = CommandError::new(ExitCode::NotFound, what);
    match known {
        [] => error,
        known => error.hint(format!("the file has {}", known.join(", "))),
    }
}

/// Returns the error for a server that the repository defines. It shows the definition, so that the user can decide
/// whether to allow it.
fn of_repository(name: &str, server: &McpServer) -> CommandError {
    let what = format!("the MCP server `{name}` belongs to the repository, not to you");
    CommandError::new(ExitCode::Usage, what)
        .because(format!("its .cursor/mcp.json defines it as {}", server.shown()))
        .hint(format!("if you trust it inside the sandbox: --mcp-from-repo {name}"))
}

/// The repository's servers that the user allows, with their current definitions.
pub(crate) fn from_repository(
    workspace: &WorkspacePath,
    names: &[String],
) -> Result<Vec<RepositoryServer>, CommandError> {
    let allowed = names.iter().map(|name| {
        let server = repository_server(workspace.as_path(), name)?;
        Ok(RepositoryServer { name: name.clone(), sha256: server.digest() })
    });
    allowed.collect()
}

/// Checks the MCP servers of a run that gets more than Caretaker's own.
pub fn check(
    host: &Host,
    spec: &RunSpec,
    asked: &RunRequest,
) -> Result<Option<UserMcpReport>, CommandError> {
    let off = choice_of(&host.state, spec).off;
    if let Some(name) = asked.mcp.iter().chain(&asked.mcp_from_repo).find(|name| off.contains(name))
    {
        return Err(UserMcpError::OffForSession(name.clone()).into());
    }
    if spec.profile == profiles::OFF && !off.is_empty() {
        let what = format!(
            "{} is switched off for this session, which cannot be enforced without a sandbox",
            off.join(", ")
        );
        return Err(CommandError::new(ExitCode::Usage, what)
            .hint("use a sandbox, or switch it on again: caretaker mcp enable RUN SERVER"));
    }
    Ok(user_mcp(&host.state, spec)?)
}

/// Notes on which of the user's and the repository's servers the run gets, if it asked for any. `counts_tools` omits
/// the note on the number of tools: the caller prints the real count.
pub(crate) fn notes(report: Option<&UserMcpReport>, counts_tools: bool) -> Vec<Remark> {
    let Some(report) = report else { return Vec::new() };
    let on_tools = tool_remark(&report.budget).filter(|_| counts_tools);
    let remarks = remarks(report).into_iter().filter(|remark| Some(remark) != on_tools.as_ref());
    remarks.map(Remark::Note).collect()
}

fn remarks(report: &UserMcpReport) -> Vec<String> {
    let UserMcpReport {
        added,
        of_repository,
        clashes,
        switched_off,
        off_for_session,
        unreachable,
        budget,
    } = report;
    let mut remarks = Vec::new();
    if !added.is_empty() {
        remarks.push(format!("the agent has your own MCP servers: {}", added.join(", ")));
    } else if of_repository.is_empty() {
        remarks.push("none of your own MCP servers are switched on".to_owned());
    }
    for (name, definition) in of_repository {
        remarks
            .push(format!("the agent has the repository's MCP server `{name}`, as {definition}"));
    }
    if !switched_off.is_empty() {
        remarks.push(format!("switched off for this workspace: {}", switched_off.join(", ")));
    }
    if !off_for_session.is_empty() {
        remarks.push(format!("switched off for this session: {}", off_for_session.join(", ")));
    }
    for clash in clashes {
        remarks.push(format!(
            "your MCP server `{}` is left out: Caretaker's own is called `{}`",
            clash.left_out, clash.ours
        ));
    }
    for Unreachable { name, why } in unreachable {
        remarks.push(format!(
            "the agent will not reach `{name}`: {why}; to allow its host: --mcp {name}"
        ));
    }
    remarks.extend(tool_remark(budget));
    remarks
}

/// The note about the number of tools, if one is needed.
pub fn tool_remark(budget: &ToolBudget) -> Option<String> {
    let limit = budget.limit;
    if budget.is_over() {
        return Some(format!(
            "the MCP servers have {} tools; Cursor is said to use only {limit}: list those that you need in \
            `enabledTools`",
            budget.used
        ));
    }
    (!budget.unknown.is_empty()).then(|| {
        format!(
            "Cursor is said to use only {limit} MCP tools: {} are known, and {} may have more",
            budget.used,
            budget.unknown.join(", ")
        )
    })
}

#[cfg(test)]
#[path = "user_mcp_tests.rs"]
mod tests;
