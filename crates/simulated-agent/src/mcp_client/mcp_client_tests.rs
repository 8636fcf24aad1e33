use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use cursor_home::HostEnvironment;
use pretty_assertions::assert_eq;

use super::*;

#[path = "remote_tests.rs"]
mod remote;

/// A server as a shell script, which is enough for newline-delimited JSON-RPC. `$1` chooses its behaviour.
const SERVER: &str = r#"
echo "talk on stderr" >&2
echo "talk on the wrong stream"
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*)
      [ "$1" = mute ] && continue
      printf '{"jsonrpc":"2.0","id":"q","method":"ping"}\n'
      reply '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}' ;;
    *'"id":"q","result":{}'*) touch ponged ;;
    *'"method":"tools/list"'*'"cursor":"2"'*)
      reply '{"tools":[{"name":"environment"},{"name":"hang"},{"name":"crash"},{"name":"refuse"}]}' ;;
    *'"method":"tools/list"'*)
      reply '{"tools":[{"name":"echo","description":"Repeats","inputSchema":{"type":"object"}}],"nextCursor":"2"}' ;;
    *'"name":"echo"'*)
      text=$(printf '%s' "$line" | sed -n 's/.*"text":"\([^"]*\)".*/\1/p')
      reply "{\"content\":[{\"type\":\"text\",\"text\":\"$text\"}]}" ;;
    *'"name":"environment"'*)
      names=$(env | sed 's/=.*//' | sort | tr '\n' ' ')
      reply "{\"content\":[{\"type\":\"text\",\"text\":\"$names in $(pwd), TOKEN=$TOKEN\"}]}" ;;
    *'"name":"crash"'*) exit 3 ;;
    *'"name":"refuse"'*)
      printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"bad arguments"}}\n' "$id" ;;
    *'notifications/cancelled'*) touch cancelled ;;
  esac
done
touch ended
[ "$1" = stubborn ] && exec sleep 600
exit 0
"#;

/// A home, a workspace and a server script.
struct Machine {
    directory: tempfile::TempDir,
    roots: CursorRoots,
    workspace: WorkspacePath,
    project_directory: ProjectDir,
    env: Vec<(OsString, OsString)>,
    processes: ProcessGroups,
}

impl Machine {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("home/.cursor")).unwrap();
        fs::create_dir_all(top.join("ws/.cursor")).unwrap();
        fs::write(top.join("server.sh"), SERVER).unwrap();
        let host =
            HostEnvironment { home: Some(top.join("home").into()), ..HostEnvironment::default() };
        let roots = CursorRoots::of_host(&host).unwrap();
        let workspace = WorkspacePath::new(&top.join("ws")).unwrap();
        let project_directory = roots.project_dir(&workspace);
        fs::create_dir_all(project_directory.path()).unwrap();
        let env = [
            ("PATH", "/usr/bin:/bin"),
            ("HOME", "/h"),
            ("TOKEN", "inherited"),
            ("CURSOR_API_KEY", "secret"),
        ];
        let env = env.map(|(name, value)| (name.into(), value.into())).to_vec();
        Self {
            directory,
            roots,
            workspace,
            project_directory,
            env,
            processes: ProcessGroups::default(),
        }
    }

    fn server(&self, behaviour: &str) -> Value {
        let script = self.directory.path().canonicalize().unwrap().join("server.sh");
        json!({"command": "sh", "args": [script, behaviour]})
    }

    fn configure(&self, servers: Value) {
        let file = self.workspace.as_path().join(".cursor/mcp.json");
        fs::write(file, json!({"mcpServers": servers}).to_string()).unwrap();
    }

    fn in_workspace(&self, name: &str) -> PathBuf {
        self.workspace.as_path().join(name)
    }

    fn connect(&self, approval: ServerApproval) -> McpClients {
        self.connect_within(approval, TimeLimits::default())
    }

    fn connect_within(&self, approval: ServerApproval, time_limits: TimeLimits) -> McpClients {
        let setup = McpSetup {
            roots: &self.roots,
            project_root: &self.workspace,
            workspace: &self.workspace,
            project_directory: &self.project_directory,
            approval,
            env: &self.env,
            time_limits,
        };
        McpClients::connect(&setup, &self.processes)
    }
}

fn states(clients: &McpClients) -> Vec<(String, ServerState)> {
    clients.list().into_iter().map(|status| (status.name, status.state)).collect()
}

fn call(clients: &McpClients, tool: &str, args: Value) -> Result<Value, McpCallError> {
    clients.call("t", tool, args.as_object().unwrap())
}

#[test]
fn an_approved_server_is_started_and_its_tools_can_be_called() {
    let machine = Machine::new();
    let definition = machine.server("");
    machine.configure(json!({"t": definition}));
    let server = McpServer::from_json(definition).unwrap();
    let id = approval_id(machine.workspace.as_utf8().unwrap(), "t", &server);
    fs::write(machine.project_directory.approvals(), json!([id]).to_string()).unwrap();
    let clients = machine.connect(ServerApproval::Recorded);
    assert_eq!(states(&clients), [("t".to_owned(), ServerState::Ready { n_tools: 5 })]);
    let tools = clients.list_tools("t").unwrap();
    assert_eq!((tools[0].name.as_str(), tools[0].description.as_str()), ("echo", "Repeats"));
    assert_eq!(tools[0].input_schema, json!({"type": "object"}));
    let answer = call(&clients, "echo", json!({"text": "hello"})).unwrap();
    assert_eq!(answer, json!({"content": [{"type": "text", "text": "hello"}]}));
    drop(clients);
    assert!(machine.in_workspace("ponged").exists(), "the server's ping was answered");
}

#[test]
fn a_server_without_approval_is_absent() {
    let machine = Machine::new();
    machine.configure(json!({"t": machine.server("")}));
    fs::write(machine.project_directory.approvals(), r#"["t-0000000000000000"]"#).unwrap();
    let clients = machine.connect(ServerApproval::Recorded);
    assert_eq!(states(&clients), [("t".to_owned(), ServerState::NeedsApproval)]);
    let err = call(&clients, "echo", json!({})).unwrap_err();
    assert_eq!(err.to_string(), "MCP server does not exist: t. Available servers: none");
    drop(clients);
    assert!(!machine.in_workspace("ended").exists());
}

#[test]
fn the_list_shows_servers_that_are_disabled_or_wrong() {
    let machine = Machine::new();
    machine.configure(json!({
        "off": machine.server(""), "wrong": {"command": 1},
        "missing": {"command": "/no/such/program"}, "t": machine.server(""),
    }));
    fs::write(machine.project_directory.disabled_servers(), r#"["off"]"#).unwrap();
    let clients = machine.connect(ServerApproval::All);
    let failed = |problem: &str| ServerState::Failed(problem.to_owned());
    let expected = [
        ("off", ServerState::Disabled),
        ("wrong", failed("its `command` is not a string")),
        ("missing", failed("MCP error -32000: Connection closed")),
        ("t", ServerState::Ready { n_tools: 5 }),
    ];
    assert_eq!(states(&clients), expected.map(|(name, state)| (name.to_owned(), state)));
}

#[test]
fn the_users_servers_are_used_unless_the_project_has_one_of_the_same_name() {
    let machine = Machine::new();
    let user =
        json!({"mcpServers": {"t": {"command": "/no/such/program"}, "u": machine.server("")}});
    fs::write(machine.roots.user_mcp_json(), user.to_string()).unwrap();
    let mut definition = machine.server("");
    definition["enabledTools"] = json!(["echo"]);
    machine.configure(json!({"t": definition}));
    let clients = machine.connect(ServerApproval::All);
    let ready = |n_tools| ServerState::Ready { n_tools };
    assert_eq!(states(&clients), [("t".to_owned(), ready(1)), ("u".to_owned(), ready(5))]);
    assert!(matches!(call(&clients, "crash", json!({})), Err(McpCallError::NoSuchTool { .. })));
}

#[test]
fn a_server_sees_only_a_curated_environment_and_its_own() {
    let machine = Machine::new();
    let mut definition = machine.server("");
    definition["env"] = json!({"TOKEN": "given"});
    definition["cwd"] = json!(".cursor");
    machine.configure(json!({"t": definition}));
    let clients = machine.connect(ServerApproval::All);
    let answer = call(&clients, "environment", json!({})).unwrap();
    let text = answer["content"][0]["text"].as_str().unwrap();
    // The shell itself sets PWD, OLDPWD, SHLVL and `_`.
    let names: Vec<&str> = text.split(" in ").next().unwrap().split_whitespace().collect();
    let names: Vec<&str> =
        names.into_iter().filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name)).collect();
    assert_eq!(names, ["HOME", "PATH", "TOKEN"]);
    assert!(text.ends_with("/ws/.cursor, TOKEN=given"), "{text}");
}

#[test]
fn a_call_that_hangs_times_out_and_the_agent_tells_the_server() {
    let machine = Machine::new();
    machine.configure(json!({"t": machine.server("")}));
    let limits = TimeLimits { call: Duration::from_millis(50), ..TimeLimits::default() };
    let clients = machine.connect_within(ServerApproval::All, limits);
    let err = call(&clients, "hang", json!({})).unwrap_err();
    assert!(matches!(err, McpCallError::Request(RequestError::TimedOut)), "{err}");
    drop(clients);
    assert!(machine.in_workspace("cancelled").exists());
}

#[test]
fn a_server_that_crashes_or_refuses_gives_an_error_at_once() {
    let machine = Machine::new();
    machine.configure(json!({"t": machine.server("")}));
    let clients = machine.connect(ServerApproval::All);
    let refused = call(&clients, "refuse", json!({})).unwrap_err();
    assert_eq!(refused.to_string(), "MCP error -32602: bad arguments");
    for _ in 0..2 {
        let err = call(&clients, "crash", json!({})).unwrap_err();
        assert!(matches!(err, McpCallError::Request(RequestError::Closed)), "{err}");
    }
}

#[test]
fn a_server_that_never_answers_fails_within_the_limit() {
    let machine = Machine::new();
    machine.configure(
        json!({"t": machine.server("mute"), "deaf": {"command": "sleep", "args": ["600"]}}),
    );
    let limits = TimeLimits { connect: Duration::from_millis(50), ..TimeLimits::default() };
    let clients = machine.connect_within(ServerApproval::All, limits);
    for (name, state) in states(&clients) {
        let ServerState::Failed(problem) = state else { panic!("{name} is {state:?}") };
        assert_eq!(problem, "MCP error -32001: Request timed out");
    }
    assert_eq!(machine.processes.kill_all(), 0, "the failed server was ended");
}

#[test]
fn dropping_the_clients_ends_the_servers_willing_or_not() {
    let machine = Machine::new();
    machine.configure(json!({"t": machine.server(""), "stubborn": machine.server("stubborn")}));
    let clients = machine.connect(ServerApproval::All);
    let started = Instant::now();
    drop(clients);
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(machine.in_workspace("ended").exists(), "the willing server ended by itself");
    assert_eq!(machine.processes.kill_all(), 0);
}

#[test]
fn killing_all_children_ends_servers_too() {
    let machine = Machine::new();
    machine.configure(json!({"t": machine.server("")}));
    let clients = machine.connect(ServerApproval::All);
    assert_eq!(machine.processes.kill_all(), 1);
    assert!(call(&clients, "echo", json!({"text": "x"})).is_err());
}

#[test]
fn calls_from_several_threads_get_their_own_answers() {
    let machine = Machine::new();
    machine.configure(json!({"t": machine.server("")}));
    let clients = machine.connect(ServerApproval::All);
    thread::scope(|scope| {
        for i in 0..8 {
            let clients = &clients;
            scope.spawn(move || {
                let answer = call(clients, "echo", json!({"text": format!("n{i}")})).unwrap();
                assert_eq!(answer["content"][0]["text"], json!(format!("n{i}")));
            });
        }
    });
}

#[test]
fn without_configuration_there_are_no_servers() {
    let machine = Machine::new();
    fs::write(machine.roots.user_mcp_json(), "not json").unwrap();
    assert!(machine.connect(ServerApproval::All).list().is_empty());
}
