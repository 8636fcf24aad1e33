//! A workspace in a temporary directory, with everything that the tools need.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use cursor_home::ProjectDir;
use uuid::Uuid;

use super::{
    Generation, PreparedCall, TodoList, ToolEnvironment, ToolRequest, ToolRun, prepare, run,
};
use crate::mcp_client::McpClients;
use crate::permissions::{ApprovalPolicy, Permissions};
use crate::process::groups::ProcessGroups;

pub(crate) struct TestEnvironment {
    pub(crate) directory: tempfile::TempDir,
    environment: ToolEnvironment,
}

impl TestEnvironment {
    /// Makes an environment of the newer generation with `--force`.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let workspace = directory.path().canonicalize().unwrap().join("workspace");
        fs::create_dir(&workspace).unwrap();
        let environment = ToolEnvironment {
            permissions: Permissions::new(
                ApprovalPolicy::Force,
                &[""; 0],
                &[""; 0],
                &workspace,
                directory.path(),
            ),
            workspace,
            project_directory: ProjectDir::at(directory.path().join("data/projects/workspace")),
            session_id: Uuid::new_v4(),
            request_id: Uuid::new_v4().to_string(),
            generation: Generation::V2026_09,
            env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            mcp: McpClients::default(),
            todos: TodoList::default(),
            processes: ProcessGroups::default(),
        };
        Self { directory, environment }
    }

    pub(crate) fn permit(&mut self, policy: ApprovalPolicy, allow: &[&str], deny: &[&str]) {
        let workspace = self.environment.workspace.clone();
        self.environment.permissions =
            Permissions::new(policy, allow, deny, &workspace, self.directory.path());
    }

    /// Writes a workspace file and returns its path.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.workspace.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn call(&self, request: &ToolRequest) -> (PreparedCall, ToolRun) {
        let prepared = prepare(request, "call_1\nfc_1", &self.environment);
        let tool_run = run(request, &prepared, &self.environment);
        (prepared, tool_run)
    }
}

impl Deref for TestEnvironment {
    type Target = ToolEnvironment;

    fn deref(&self) -> &ToolEnvironment {
        &self.environment
    }
}

impl DerefMut for TestEnvironment {
    fn deref_mut(&mut self) -> &mut ToolEnvironment {
        &mut self.environment
    }
}
