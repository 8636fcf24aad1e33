//! The files that list the agent's MCP servers, and their changes while the agent runs.

use std::path::PathBuf;

use cursor_home::{CliConfig, McpServers, WorkspacePath};
use ground::with_causes;
use run_journal::StateRoot;
use run_protocol::{McpChoice, RunEvent, ServerChange};
use uuid::Uuid;

use crate::agent_tools::agent_servers::{NotChanged, Reach, RunServers, UserMcpError};
use crate::preparation::private_roots::{PrivateRoots, PrivateRootsError, RootsRequest};
use crate::session::session_record;

/// A run's servers, and the directories for the files that list them.
#[derive(Debug, Clone)]
pub(crate) struct ServerFiles {
    pub(crate) run_dir: PathBuf,
    pub(crate) session_dir: PathBuf,
    pub(crate) workspace: WorkspacePath,
    pub(crate) home: PathBuf,
    /// Caretaker's own program.
    pub(crate) relay: PathBuf,
    pub(crate) servers: RunServers,
    pub(crate) config: CliConfig,
}

impl ServerFiles {
    /// Makes the private roots.
    pub(crate) fn build(&self) -> Result<PrivateRoots, PrivateRootsError> {
        self.request(&self.servers.in_force()).build()
    }

    /// Returns the private roots that [`Self::build`] will make.
    pub(crate) fn expected_roots(&self) -> PrivateRoots {
        self.request(&self.servers.in_force()).expected()
    }

    /// Writes the files for a running agent. If the agent damaged its approvals directory, the user can still switch a
    /// server off.
    fn write(&self) -> Result<(), PrivateRootsError> {
        let servers = self.servers.in_force();
        let request = self.request(&servers);
        if let Err(error) = request.write_approvals() {
            tracing::warn!(error = with_causes(&error), "cannot write the approvals");
        }
        request.write_mcp_json()
    }

    fn request<'a>(&'a self, servers: &'a McpServers) -> RootsRequest<'a> {
        RootsRequest {
            run_dir: &self.run_dir,
            session_dir: &self.session_dir,
            workspace: &self.workspace,
            servers,
            config: &self.config,
            now_ms: ground::now_ms(),
        }
    }

    /// Returns the event for a change.
    fn event(&self, enabled: &[String], disabled: &[String]) -> RunEvent {
        let servers = self.servers.in_force().names();
        RunEvent::McpChanged { enabled: enabled.to_owned(), disabled: disabled.to_owned(), servers }
    }

    /// Returns the event for servers that the user changed before this run, if there are any.
    pub(crate) fn changed_before(&self) -> Option<RunEvent> {
        let McpChoice { off, on } = self.servers.choice();
        let on: Vec<String> = on.iter().flat_map(|on| on.only.iter().flatten()).cloned().collect();
        let on: Vec<String> = on.into_iter().filter(|name| !off.contains(name)).collect();
        (!off.is_empty() || !on.is_empty()).then(|| self.event(&on, off))
    }
}

/// The servers of a running agent.
#[derive(Debug)]
pub(crate) struct LiveServers {
    pub(crate) files: ServerFiles,
    /// The hosts that the run may reach. They do not change during the run.
    pub(crate) reach: Reach,
    pub(crate) state: StateRoot,
    pub(crate) session: Uuid,
}

impl LiveServers {
    /// Changes the agent's file and the session's record for the next run. On an error, both stay unchanged. The caller
    /// holds the session's lease.
    pub(crate) fn change(&mut self, change: &ServerChange) -> Result<RunEvent, String> {
        let servers = self.files.servers.changed(change).map_err(|error| with_causes(&error))?;
        let in_force = servers.in_force();
        let enabled = in_force.iter().filter(|(name, _)| change.enable.iter().any(|on| on == name));
        for (name, server) in enabled {
            if let Some(unreachable) = self.reach.problem(name, server) {
                let refused = NotChanged::from(UserMcpError::Unreachable(unreachable));
                return Err(format!("{refused}; a running agent cannot get more hosts"));
            }
        }
        let after = ServerFiles { servers, ..self.files.clone() };
        let choice = after.servers.choice().clone();
        after.write().map_err(|error| with_causes(&error))?;
        if let Err(error) = session_record::write_choice(&self.state, &self.session, choice) {
            // Change both or neither: without the record, the next run would not have the change.
            self.files.write().map_err(|error| with_causes(&error))?;
            return Err(format!("cannot write the session's record: {error}"));
        }
        self.files = after;
        Ok(self.files.event(&change.enable, &change.disable))
    }

    /// Returns the servers' secrets. Caretaker must not record them.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.files.servers.secrets()
    }
}
