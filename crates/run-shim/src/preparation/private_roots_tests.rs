use std::os::unix::fs::MetadataExt;

use pretty_assertions::assert_eq;

use std::fs;

use super::*;
use crate::agent_tools::agent_servers;

struct Place {
    directory: tempfile::TempDir,
    workspace: WorkspacePath,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    for name in ["run", "session"] {
        fs::create_dir(directory.path().join(name)).unwrap();
    }
    Place { directory, workspace: WorkspacePath::new(Path::new("/srv/my work")).unwrap() }
}

impl Place {
    fn build(&self) -> PrivateRoots {
        let root = self.directory.path();
        RootsRequest {
            run_dir: &root.join("run"),
            session_dir: &root.join("session"),
            workspace: &self.workspace,
            servers: &agent_servers::own(Path::new("/opt/caretaker")),
            config: &CliConfig::default(),
            now_ms: 0,
        }
        .build()
        .unwrap()
    }
}

#[test]
fn the_agent_finds_our_server_approved_and_its_workspace_trusted() {
    let place = place();
    let roots = place.build();
    let mcp: serde_json::Value =
        serde_json::from_slice(&fs::read(roots.dot_cursor.join("mcp.json")).unwrap()).unwrap();
    let server = &mcp["mcpServers"]["caretaker"];
    assert_eq!(
        (&server["command"], &server["args"]),
        (&"/opt/caretaker".into(), &serde_json::json!(["mcp-relay"]))
    );
    assert_eq!(server["env"]["CARETAKER_SOCKET"], "/run/caretaker/mcp.sock");

    let project = ProjectDir::at(roots.projects.join("srv-my-work"));
    let approvals = fs::read_to_string(project.approvals()).unwrap();
    let expected = cursor_home::approval_id(
        "/srv/my work",
        "caretaker",
        &cursor_home::McpServer::from_json(server.clone()).unwrap(),
    );
    assert!(approvals.contains(&expected), "{approvals}");
    assert!(project.trust_marker().exists());
}

#[test]
fn our_files_are_private_and_can_be_written_again() {
    let place = place();
    place.build();
    let roots = place.build();
    for path in [&roots.dot_cursor, &roots.projects] {
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o700, "{}", path.display());
    }
    assert_eq!(fs::metadata(roots.dot_cursor.join("mcp.json")).unwrap().mode() & 0o777, 0o600);
    let leftovers = fs::read_dir(&roots.dot_cursor).unwrap().count();
    assert_eq!(leftovers, 2, "only mcp.json and cli.json, no temporary file");
}
