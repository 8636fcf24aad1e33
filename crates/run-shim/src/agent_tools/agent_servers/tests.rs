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
fn the_users_servers_come_after_ours_except_those_that_are_off_or_have_our_name() {
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
fn the_file_of_switched_off_servers_may_be_missing() {
    let files = Files::new(&json!({"mcpServers": {"a": {"command": "a"}}}));
    assert_eq!(names(&files.merged().unwrap().servers), ["caretaker", "a"]);
}

#[test]
fn the_error_names_a_file_that_cannot_be_used() {
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

/// A run in `workspace` without servers.
fn spec_in(workspace: &Path) -> RunSpec {
    let spec = json!({
        "run": "0191d0f6-1111-7000-8000-0123456789ab", "created_ms": 1,
        "session": "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11", "session_start": "new",
        "workspace": workspace, "profile": "default", "profile_text": "", "bwrap": "/usr/bin/bwrap",
        "agent": {"kind": "simulated", "program": "/bin/agent", "expose": []},
        "tool_approval": "force", "home": "/home/ada", "host_config_root": "/home/ada/.cursor",
        "limits": run_protocol::RunLimits::default(), "socket_dir": "/run/x",
    });
    serde_json::from_value(spec).unwrap()
}

fn gathered(spec: &RunSpec, off: &[&str]) -> Result<Vec<String>, UserMcpError> {
    let off = off.iter().map(ToString::to_string).collect();
    let choice = McpChoice { off, on: None };
    let servers = RunServers::gather(Path::new("/opt/caretaker"), spec, choice)?;
    Ok(servers.in_force().names())
}

#[test]
fn a_spec_from_an_earlier_version_names_no_servers() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(gathered(&spec_in(directory.path()), &[]).unwrap(), ["caretaker"]);
}

#[test]
fn the_agent_gets_all_servers_that_the_user_named_or_the_run_is_refused() {
    let files = Files::new(&json!({"mcpServers": {
        "a": {"command": "a"}, "b": {"command": "b"}, "caretaker": {"command": "c"}, "bad": {},
    }}));
    files.write("here.json", &json!(["b"]));
    let mut spec = spec_in(files.directory.path());
    let mut named = |names: &[&str], off: &[&str]| {
        let only = Some(names.iter().map(ToString::to_string).collect());
        spec.user_mcp = Some(UserMcpFiles { only, ..files.named() });
        gathered(&spec, off)
    };
    assert_eq!(named(&["a"], &[]).unwrap(), ["caretaker", "a"]);
    assert!(matches!(named(&["a", "b"], &[]), Err(UserMcpError::SwitchedOff(name)) if name == "b"));
    assert!(matches!(named(&["bad"], &[]), Err(UserMcpError::Unusable { .. })));
    assert!(matches!(named(&["gone"], &[]), Err(UserMcpError::Unusable { .. })));
    // A server that is off for the session need not exist.
    assert_eq!(named(&["a", "gone"], &["gone"]).unwrap(), ["caretaker", "a"]);
    assert!(matches!(named(&["caretaker"], &[]), Err(UserMcpError::NameTaken(_))));
}

#[test]
fn a_repositorys_file_is_refused_unless_it_is_a_plain_file() {
    let directory = tempfile::tempdir().unwrap();
    let (dot_cursor, elsewhere) = (directory.path().join(".cursor"), directory.path().join("x"));
    let servers = json!({"mcpServers": {"theirs": {"command": "a"}}}).to_string();
    let found = || repository_servers(directory.path());
    assert_eq!(found().unwrap(), Vec::<String>::new());
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("mcp.json"), &servers).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &dot_cursor).unwrap();
    assert!(matches!(found(), Err(UserMcpError::Read { .. })), "a linked directory");
    fs::remove_file(&dot_cursor).unwrap();
    fs::create_dir(&dot_cursor).unwrap();
    let file = dot_cursor.join("mcp.json");
    std::os::unix::fs::symlink(elsewhere.join("mcp.json"), &file).unwrap();
    assert!(matches!(found(), Err(UserMcpError::Read { .. })), "a linked file");
    fs::remove_file(&file).unwrap();
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(found(), Err(UserMcpError::Read { .. })), "a FIFO");
    fs::remove_file(&file).unwrap();
    fs::write(&file, servers).unwrap();
    assert_eq!(found().unwrap(), ["theirs"]);
}

#[test]
fn the_agent_gets_a_repositorys_server_as_the_user_allowed_it_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join(".cursor")).unwrap();
    let define = |command: &str| {
        let servers = json!({"mcpServers": {"theirs": {"command": command}}}).to_string();
        fs::write(directory.path().join(".cursor/mcp.json"), servers).unwrap();
    };
    define("first");
    let sha256 = repository_server(directory.path(), "theirs").unwrap().digest();
    let mut spec = spec_in(directory.path());
    let name = "theirs".to_owned();
    spec.repository_mcp = vec![run_protocol::RepositoryServer { name, sha256 }];
    assert_eq!(gathered(&spec, &[]).unwrap(), ["caretaker", "theirs"]);
    define("second");
    assert!(matches!(gathered(&spec, &[]), Err(UserMcpError::Changed(_))));
    assert_eq!(gathered(&spec, &["theirs"]).unwrap(), ["caretaker"]);
    fs::remove_file(directory.path().join(".cursor/mcp.json")).unwrap();
    assert!(matches!(gathered(&spec, &[]), Err(UserMcpError::Changed(_))));
}

#[test]
fn a_server_that_is_off_for_a_parent_is_off_for_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let state = StateRoot::new(directory.path().to_owned());
    let parent: Uuid = "7d0b1c6e-5a52-4f0b-9a1e-2b7c8d9e0f11".parse().unwrap();
    let run = "0191d0f6-2222-7000-8000-0123456789ab";
    fs::create_dir_all(state.session_dir(&parent)).unwrap();
    let record = json!({
        "v": 1, "session": parent, "workspace": "/w", "config_root": "/c", "run": run,
        "generation": 1, "at": 1, "mcp": {"off": ["notes"]},
    });
    fs::write(state.session_record(&parent), record.to_string()).unwrap();
    let mut spec = spec_in(directory.path());
    assert_eq!(choice_of(&state, &spec), McpChoice::default());
    let lineage = json!({"run": run, "session": parent, "depth": 1});
    spec.lineage = Some(serde_json::from_value(lineage).unwrap());
    assert_eq!(choice_of(&state, &spec).off, ["notes"]);
}
