use cursor_home::TOOL_LIMIT;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new(servers: &Value) -> Self {
        let files = Self { directory: tempfile::tempdir().unwrap() };
        files.write("mcp.json", servers);
        files
    }

    fn write(&self, name: &str, content: &Value) {
        fs::write(self.path(name), content.to_string()).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn named(&self) -> UserMcpFiles {
        UserMcpFiles {
            servers: self.path("mcp.json").into(),
            disabled: vec![self.path("of-repository.json").into(), self.path("here.json").into()],
            only: None,
        }
    }

    fn merged(&self) -> Result<Merged, UserMcpError> {
        merged(&own(Path::new("/opt/caretaker")), &self.named(), None)
    }
}

fn names(servers: &McpServers) -> Vec<&str> {
    servers.iter().map(|(name, _)| name).collect()
}

#[test]
fn the_users_servers_come_after_ours_but_for_those_that_are_off_or_have_our_name() {
    let files = Files::new(&json!({"mcpServers": {
        "fetch": {"command": "uvx", "args": ["mcp-server-fetch"]},
        "Caretaker": {"command": "evil"},
        "here": {"url": "https://a"},
        "there": {"url": "https://b"},
        "remote": {"url": "https://c"},
    }}));
    files.write("of-repository.json", &json!(["there"]));
    files.write("here.json", &json!({"here": true, "fetch": false}));
    let merged = files.merged().unwrap();
    assert_eq!(names(&merged.servers), ["caretaker", "fetch", "remote"]);
    assert_eq!(merged.switched_off, ["here", "there"]);
    assert_eq!(merged.clashes[0].left_out, "Caretaker");
}

#[test]
fn nobody_need_have_switched_anything_off() {
    let files = Files::new(&json!({"mcpServers": {"a": {"command": "a"}}}));
    assert_eq!(names(&files.merged().unwrap().servers), ["caretaker", "a"]);
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let files = Files::new(&json!({"mcpServers": {"a": {}}}));
    let error = files.merged().unwrap_err();
    assert!(error.to_string().contains("mcp.json"), "{error}");
    files.write("mcp.json", &json!({"mcpServers": {}}));
    files.write("here.json", &json!("all"));
    assert!(files.merged().unwrap_err().to_string().contains("here.json"));
    fs::remove_file(files.path("mcp.json")).unwrap();
    assert!(matches!(files.merged(), Err(UserMcpError::Read { .. })));
    nix::unistd::mkfifo(&files.path("mcp.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(files.merged(), Err(UserMcpError::Read { .. })));
}

#[test]
fn our_own_tools_count_against_the_limit() {
    let many: Vec<String> = (0..TOOL_LIMIT).map(|number| format!("tool{number}")).collect();
    let files = Files::new(&json!({"mcpServers": {"big": {"command": "a", "enabledTools": many}}}));
    let servers = files.merged().unwrap().servers;
    let known = BTreeMap::from([(SERVER.to_owned(), mcp_server::n_tools())]);
    let budget = ToolBudget::of(&servers, &known);
    assert!(budget.is_over() && budget.unknown.is_empty());
    assert_eq!(budget.used, TOOL_LIMIT + mcp_server::n_tools());
}
