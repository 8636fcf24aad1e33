//! `mcp list`, `list-tools`, `enable` and `disable`.

use std::fs;
use std::path::Path;

use cursor_home::{McpServer, ProjectDir, WorkspacePath, approval_id};
use serde_json::{Value, json};

use crate::command_line::McpVerb;
use crate::mcp_client::{McpClients, McpSetup, ServerApproval, ServerState, TimeLimits};
use crate::process::ending::Ending;
use crate::process::groups::ProcessGroups;
use crate::say;
use crate::startup::{Startup, project_root};
use crate::tools::read_json;

pub(super) fn run(startup: &Startup<'_>, verb: &McpVerb) -> Result<(), Ending> {
    let workspace = startup.workspace()?;
    let root = project_root(&workspace);
    let project = startup.roots.project_dir(&root);
    if let McpVerb::Enable { server } = verb {
        return enable(startup, &workspace, &root, &project, server);
    }
    if let McpVerb::Disable { server } = verb {
        return disable(&project, server);
    }
    let processes = ProcessGroups::default();
    let setup = McpSetup {
        roots: &startup.roots,
        project_root: &root,
        workspace: &workspace,
        project_directory: &project,
        approval: match startup.options.approve_mcps {
            true => ServerApproval::All,
            false => ServerApproval::Recorded,
        },
        env: &startup.environment.variables,
        time_limits: TimeLimits::default(),
    };
    let clients = McpClients::connect(&setup, &processes);
    let outcome = match verb {
        McpVerb::ListTools { server } => list_tools(&clients, server),
        _ => list(&clients),
    };
    processes.kill_all();
    outcome
}

fn list(clients: &McpClients) -> Result<(), Ending> {
    let servers = clients.list();
    if servers.is_empty() {
        return say(
            "No MCP servers configured (expected in .cursor/mcp.json or ~/.cursor/mcp.json)\n",
        );
    }
    let lines = servers.into_iter().map(|server| {
        let state = match server.state {
            ServerState::Ready { .. } => "ready".to_owned(),
            ServerState::NeedsApproval => "not loaded (needs approval)".to_owned(),
            ServerState::Disabled => "disabled".to_owned(),
            ServerState::NeedsLogin(_) => "requires authentication".to_owned(),
            ServerState::Failed(reason) => format!("error: {reason}"),
        };
        format!("{}: {state}\n", server.name)
    });
    say(&lines.collect::<String>())
}

fn list_tools(clients: &McpClients, server: &str) -> Result<(), Ending> {
    let needs_approval = clients
        .list()
        .iter()
        .any(|status| status.name == server && status.state == ServerState::NeedsApproval);
    if needs_approval {
        return Err(Ending::error(format!(
            "MCP server \"{server}\" has not been approved. Run 'agent mcp enable {server}' first."
        )));
    }
    let tools = clients.list_tools(server).map_err(Ending::error)?;
    let lines = tools.iter().map(|tool| {
        let parameters = tool.input_schema["properties"].as_object().into_iter().flatten();
        let names: Vec<&str> = parameters.map(|(name, _)| name.as_str()).collect();
        format!("- {} ({})\n", tool.name, names.join(", "))
    });
    say(&format!("Tools for {server} ({}):\n{}", tools.len(), lines.collect::<String>()))
}

fn enable(
    startup: &Startup<'_>,
    workspace: &WorkspacePath,
    root: &WorkspacePath,
    project: &ProjectDir,
    server: &str,
) -> Result<(), Ending> {
    let unknown = || Ending::error(format!("MCP server \"{server}\" not found."));
    let definition = [workspace.as_path().join(".cursor/mcp.json"), startup.roots.user_mcp_json()]
        .iter()
        .find_map(|file| read_json(file)?.get("mcpServers")?.get(server).cloned())
        .and_then(|definition| McpServer::from_json(definition).ok())
        .ok_or_else(unknown)?;
    let id = approval_id(&root.as_path().to_string_lossy(), server, &definition);
    change_list(&project.approvals(), |ids| {
        if !ids.contains(&json!(id)) {
            ids.push(json!(id));
        }
    })?;
    change_list(&project.disabled_servers(), |names| names.retain(|name| name != server))?;
    say(&format!("✓ Enabled and approved MCP server: {server}\n"))
}

fn disable(project: &ProjectDir, server: &str) -> Result<(), Ending> {
    change_list(&project.disabled_servers(), |names| {
        if !names.contains(&json!(server)) {
            names.push(json!(server));
        }
    })?;
    say(&format!("✓ Disabled MCP server: {server}\n"))
}

/// Changes the list in a file. Leaves the file alone if the list stays the same.
fn change_list(path: &Path, change: impl FnOnce(&mut Vec<Value>)) -> Result<(), Ending> {
    let before = read_json(path).and_then(|file| file.as_array().cloned()).unwrap_or_default();
    let mut after = before.clone();
    change(&mut after);
    if before != after {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, format!("{:#}\n", json!(after)))?;
    }
    Ok(())
}
