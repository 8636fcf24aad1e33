use pretty_assertions::assert_eq;
use run_protocol::{McpCallOutcome, ReportedStatus};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinHandle;

use super::*;

/// A server on its own socket, and the receiver of its events.
struct Bench {
    directory: TempDir,
    server: JoinHandle<Infallible>,
    events: mpsc::Receiver<RunEvent>,
}

impl Bench {
    fn new() -> Self {
        Self::with(64, PATIENCE)
    }

    fn with(n_events: usize, patience: Patience) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("mcp.sock")).unwrap();
        let (sender, events) = mpsc::channel(n_events);
        let facts = facts();
        let desk = AgentDesk::for_test(directory.path(), facts.run, facts.session, None);
        let tools = RunTools::new(facts, sender, desk);
        let server = tokio::spawn(accept_connections(listener, tools, patience));
        Self { directory, server, events }
    }

    async fn connect(&self) -> Client {
        let socket = self.directory.path().join("mcp.sock");
        let (from_server, to_server) = UnixStream::connect(socket).await.unwrap().into_split();
        Client { to_server, from_server: BufReader::new(from_server).lines() }
    }

    async fn connect_and_shake_hands(&self) -> Client {
        let mut client = self.connect().await;
        client.shake_hands("2025-11-25").await;
        client
    }

    fn events(&mut self) -> Vec<RunEvent> {
        let without_why = |event| match event {
            RunEvent::McpCall { tool, outcome, .. } => {
                RunEvent::McpCall { tool, outcome, why: None }
            }
            other => other,
        };
        std::iter::from_fn(|| self.events.try_recv().ok()).map(without_why).collect()
    }
}

fn facts() -> WhoAmI {
    WhoAmI {
        run: "01941f29-7c00-7000-8000-000000000001".parse().unwrap(),
        session: Uuid::from_u128(7),
        name: Some("tidy".to_owned()),
        workspace: "/srv/my shop".to_owned(),
        model: None,
        deadline_ms: Some(0),
        max_tool_calls: Some(9),
        max_tokens: None,
        lineage: None,
    }
}

/// A client that speaks the protocol by hand.
struct Client {
    to_server: OwnedWriteHalf,
    from_server: Lines<BufReader<OwnedReadHalf>>,
}

impl Client {
    async fn say(&mut self, message: Value) {
        self.say_line(&message.to_string()).await.unwrap();
    }

    async fn say_line(&mut self, line: &str) -> std::io::Result<()> {
        self.to_server.write_all(format!("{line}\n").as_bytes()).await
    }

    async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.from_server.next_line().await.unwrap().unwrap()).unwrap()
    }

    /// Waits until the server closes, and returns its last lines.
    async fn hear_rest(&mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        while let Ok(Some(line)) = self.from_server.next_line().await {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        rest
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        let answer = self.hear().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    async fn shake_hands(&mut self, version: &str) -> Value {
        let params = json!({
            "protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "by hand", "version": "1"},
        });
        let answer = self.ask(0, "initialize", params).await;
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer["result"].clone()
    }

    /// Calls a tool and returns its text and whether it is an error.
    async fn call(&mut self, tool: &str, arguments: Value) -> (String, bool) {
        let params = json!({"name": tool, "arguments": arguments});
        let answer = self.ask(1, "tools/call", params).await;
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        (text.to_owned(), result["isError"] == true)
    }
}

fn call_event(tool: &str, outcome: McpCallOutcome) -> RunEvent {
    RunEvent::McpCall { tool: tool.to_owned(), outcome, why: None }
}

#[tokio::test]
async fn the_server_speaks_every_version_with_a_handshake() {
    let bench = Bench::new();
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("2031-01-01", "2025-11-25"),
    ] {
        let mut client = bench.connect().await;
        let hello = client.shake_hands(asked).await;
        assert_eq!(hello["protocolVersion"], agreed);
        assert_eq!(hello["serverInfo"]["name"], "caretaker");
        assert_eq!(hello["capabilities"], json!({"tools": {}}));
        let tools = client.ask(2, "tools/list", json!({})).await["result"]["tools"].clone();
        let names: Vec<_> =
            tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names[..3], ["whoami", "report_progress", "report_result"]);
        assert_eq!(names.len(), 12);
        assert_eq!(tools[2]["inputSchema"]["required"], json!(["status", "summary"]));
        assert_eq!(client.ask(3, "ping", json!({})).await["result"], json!({}));
    }
}

#[tokio::test]
async fn the_server_speaks_the_version_without_a_handshake() {
    let mut bench = Bench::new();
    let mut client = bench.connect().await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "by hand", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let found = client.ask(1, "server/discover", json!({"_meta": meta})).await;
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{found}");
    let params = json!({"_meta": meta, "name": "whoami", "arguments": {}});
    let answer = client.ask(2, "tools/call", params).await;
    assert_eq!(answer["result"]["structuredContent"]["name"], "tidy", "{answer}");
    assert_eq!(bench.events(), [call_event("whoami", McpCallOutcome::Ok)]);
}

#[tokio::test]
async fn a_call_gets_an_answer_and_becomes_an_event() {
    let mut bench = Bench::new();
    let mut client = bench.connect_and_shake_hands().await;
    let answer = client.ask(1, "tools/call", json!({"name": "whoami"})).await;
    assert_eq!(
        answer["result"]["structuredContent"],
        json!({
            "run": "01941f29-7c00-7000-8000-000000000001",
            "session": "00000000-0000-0000-0000-000000000007",
            "name": "tidy",
            "workspace": "/srv/my shop",
            "model": null,
            "parent": null,
            "depth": 0,
            "deadline_ms": 0,
            "seconds_left": 0,
            "max_tool_calls": 9,
            "max_tokens": null,
        })
    );
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), answer["result"]["structuredContent"]);
    let progress = client.call("report_progress", json!({"text": "half", "percent": 50})).await;
    assert_eq!(progress, ("Recorded.".to_owned(), false));
    let report = json!({"status": "blocked", "summary": "needs a key", "artifacts": ["a.md"]});
    assert_eq!(client.call("report_result", report).await, ("Recorded.".to_owned(), false));
    assert_eq!(
        bench.events(),
        [
            call_event("whoami", McpCallOutcome::Ok),
            call_event("report_progress", McpCallOutcome::Ok),
            RunEvent::Progress { text: "half".to_owned(), percent: Some(50.0) },
            call_event("report_result", McpCallOutcome::Ok),
            RunEvent::Reported {
                status: ReportedStatus::Blocked,
                summary: "needs a key".to_owned(),
                artifacts: vec!["a.md".to_owned()],
            },
        ]
    );
}

#[tokio::test]
async fn a_run_may_report_one_result_over_all_its_connections() {
    let mut bench = Bench::new();
    let report = json!({"status": "done", "summary": "all of it"});
    let mut client = bench.connect_and_shake_hands().await;
    assert!(!client.call("report_result", report.clone()).await.1);
    assert_eq!(bench.events().len(), 2);
    let mut client = bench.connect_and_shake_hands().await;
    assert!(client.call("report_result", report).await.1);
    assert_eq!(bench.events(), [call_event("report_result", McpCallOutcome::RateLimited)]);
}

#[tokio::test]
async fn the_agent_gets_an_error_instead_of_waiting_for_a_full_channel() {
    let mut bench = Bench::with(3, PATIENCE);
    let mut client = bench.connect_and_shake_hands().await;
    assert!(!client.call("whoami", json!({})).await.1);
    assert!(!client.call("whoami", json!({})).await.1);
    // Two events do not fit. The agent may report an unrecorded result again.
    let report = json!({"status": "done", "summary": "all of it"});
    let (text, is_error) = client.call("report_result", report.clone()).await;
    assert!(is_error && text.contains("busy"), "{text}");
    assert_eq!(bench.events().len(), 2);
    assert!(!client.call("report_result", report).await.1);
    assert_eq!(bench.events().len(), 2);
    drop(bench.events);
    let (text, is_error) = client.call("whoami", json!({})).await;
    assert!(is_error && text.contains("ending"), "{text}");
}

#[tokio::test]
async fn nonsense_is_answered_if_the_client_may_wait_for_an_answer() {
    let mut bench = Bench::new();
    let mut client = bench.connect_and_shake_hands().await;
    client.say_line("garbage").await.unwrap();
    client.say_line("").await.unwrap();
    client.say_line("{\"jsonrpc\":\"2.0\",\"id\":1,").await.unwrap();
    client.to_server.write_all(b"\xff\xfe\n").await.unwrap();
    client.say(json!({"jsonrpc": "2.0", "method": "notifications/odd"})).await;
    client.say(json!({"jsonrpc": "2.0", "id": 5, "result": {}})).await;
    // Cancelling the next request must not leave it unanswered.
    let cancelled = json!({"requestId": 1});
    client
        .say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}))
        .await;
    assert_eq!(client.ask(1, "ping", json!({})).await["result"], json!({}));
    for odd in [
        json!({"foo": "bar"}),
        json!({"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"}),
        json!([]),
    ] {
        client.say(odd).await;
        let answer = client.hear().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)));
    }
    assert_eq!(client.ask(2, "no/such/method", json!({})).await["error"]["code"], -32601);
    let (text, is_error) = client.call("report_progress", json!("half")).await;
    assert!(is_error && text.contains("report_progress"), "{text}");
    let (text, is_error) = client.call("no\u{1b}tool", json!({})).await;
    assert!(is_error && text.contains("no tool with this name"), "{text}");
    assert_eq!(
        bench.events(),
        [
            // This is the first refusal. The others follow later in one event.
            RunEvent::McpRefused { reason: McpRefusal::Malformed, count: 1 },
            call_event("report_progress", McpCallOutcome::Refused),
            call_event("no tool", McpCallOutcome::Refused),
        ]
    );
}

#[tokio::test]
async fn an_endless_line_ends_only_its_own_connection() {
    let mut bench = Bench::new();
    let mut other = bench.connect_and_shake_hands().await;
    for is_after_handshake in [false, true] {
        let mut client = bench.connect().await;
        if is_after_handshake {
            client.shake_hands("2025-11-25").await;
        }
        // The server may close while the client is still writing.
        client.say_line(&"x".repeat(1024 * 1024)).await.ok();
        let rest = client.hear_rest().await;
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert_eq!(rest[0]["error"]["code"], -32600);
    }
    let long = json!({"text": "é".repeat(100_000)});
    assert!(!other.call("report_progress", long).await.1);
    let refused = RunEvent::McpRefused { reason: McpRefusal::Oversized, count: 1 };
    assert_eq!(bench.events()[0], refused);
}

#[tokio::test]
async fn a_question_over_the_socket_becomes_an_event() {
    let mut bench = Bench::new();
    let mut client = bench.connect_and_shake_hands().await;
    let (text, is_error) = client.call("ask_human", json!({"question": "which one?"})).await;
    assert!(!is_error && text.contains("q-"), "{text}");
    match bench.events().as_slice() {
        [call, RunEvent::NeedsHuman { text, .. }] => {
            assert_eq!(call, &call_event("ask_human", McpCallOutcome::Ok));
            assert_eq!(text, "which one?");
        }
        other => panic!("{other:?}"),
    }
    let (text, is_error) = client.call("check_inbox", json!({})).await;
    assert!(!is_error && text.contains("\"messages\":[]"), "{text}");
    let (text, is_error) = client.call("spawn_run", json!({"prompt": "x"})).await;
    assert!(is_error && text.contains("caretaker daemon start"), "{text}");
}

#[tokio::test]
async fn a_client_that_never_reads_is_not_read_either_and_is_disconnected() {
    let patience = Patience { for_reader: Duration::from_millis(50), ..PATIENCE };
    let bench = Bench::with(64, patience);
    let mut client = bench.connect_and_shake_hands().await;
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let flood = async {
        // This ends only because the server closes.
        while client.say_line(&request).await.is_ok() {}
    };
    tokio::time::timeout(Duration::from_secs(60), flood).await.unwrap();
    assert!(!bench.connect_and_shake_hands().await.call("whoami", json!({})).await.1);
}

#[tokio::test]
async fn a_flood_of_calls_leaves_a_bounded_number_of_events() {
    let mut bench = Bench::with(4096, PATIENCE);
    let mut client = bench.connect_and_shake_hands().await;
    let mut n_limited = 0;
    for _ in 0..600 {
        n_limited += u32::from(client.call("whoami", json!({})).await.1);
    }
    let events = bench.events();
    assert!(n_limited > 300, "{n_limited}");
    assert!((100..300).contains(&events.len()), "{}", events.len());
    assert!(events.contains(&call_event("whoami", McpCallOutcome::RateLimited)));
}

#[tokio::test]
async fn a_silent_client_is_disconnected() {
    let patience = Patience { for_handshake: Duration::from_millis(20), ..PATIENCE };
    let bench = Bench::with(64, patience);
    let mut silent = bench.connect().await;
    assert_eq!(silent.hear_rest().await, Vec::<Value>::new());
    let mut half = bench.connect().await;
    half.to_server.write_all(b"{\"jsonrpc\":").await.unwrap();
    assert_eq!(half.hear_rest().await, Vec::<Value>::new());
}

#[tokio::test]
async fn eight_connections_are_served_and_further_ones_are_refused() {
    let bench = Bench::new();
    let mut served = Vec::new();
    for _ in 0..MOST_CONNECTIONS {
        served.push(bench.connect_and_shake_hands().await);
    }
    for _ in MOST_CONNECTIONS..20 {
        let mut refused = bench.connect().await;
        let rest = refused.hear_rest().await;
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert_eq!(rest[0]["error"]["code"], -32000);
    }
    for client in &mut served {
        assert!(!client.call("whoami", json!({})).await.1);
    }
    // A client that leaves makes room for another. The server has noticed this once it closes its own side.
    let mut gone = served.pop().unwrap();
    gone.to_server.shutdown().await.unwrap();
    assert_eq!(gone.hear_rest().await, Vec::<Value>::new());
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let retry = async {
        loop {
            let mut client = bench.connect().await;
            client.say_line(&ping).await.ok();
            match client.hear().await {
                answer if answer["result"] == json!({}) => break,
                refusal => assert_eq!(refusal["error"]["code"], -32000),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), retry).await.unwrap();
}

#[tokio::test]
async fn a_newcomer_takes_the_place_of_a_client_that_says_nothing() {
    let bench = Bench::new();
    let mut talker = bench.connect_and_shake_hands().await;
    let mut silent = Vec::new();
    for _ in 0..2 * MOST_CONNECTIONS {
        silent.push(bench.connect().await);
    }
    assert!(!bench.connect_and_shake_hands().await.call("whoami", json!({})).await.1);
    // The active client stayed, and the oldest silent client had to leave.
    assert!(!talker.call("whoami", json!({})).await.1);
    assert_eq!(silent[0].hear_rest().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_thousand_connections_do_not_keep_the_next_one_waiting() {
    let bench = Bench::new();
    let path = bench.directory.path().join("mcp.sock");
    let crowd = tokio::task::spawn_blocking(move || {
        // A closed connection is still waiting in the backlog.
        (0..1_000).for_each(|_| drop(std::os::unix::net::UnixStream::connect(&path).unwrap()));
    });
    crowd.await.unwrap();
    let answered = async {
        let mut client = bench.connect_and_shake_hands().await;
        assert!(!client.call("whoami", json!({})).await.1);
    };
    // If the server accepted only one connection every fifty milliseconds, this would take fifty seconds.
    tokio::time::timeout(Duration::from_secs(20), answered).await.unwrap();
}

#[tokio::test]
async fn disconnecting_anywhere_harms_nothing() {
    let mut bench = Bench::new();
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
    }});
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami"}});
    let talk = format!("{hello}\n{call}\n");
    for n_bytes in (0..=talk.len()).step_by(17) {
        let mut client = bench.connect().await;
        client.to_server.write_all(&talk.as_bytes()[..n_bytes]).await.ok();
        drop(client);
    }
    // A client that sends everything and closes immediately still gets every answer.
    let retry = async {
        loop {
            let mut client = bench.connect().await;
            client.to_server.write_all(talk.as_bytes()).await.ok();
            client.to_server.shutdown().await.ok();
            match client.hear_rest().await.as_slice() {
                [hello, answer] => break (hello["id"].clone(), answer["id"].clone()),
                [refusal] if refusal["error"]["code"] == -32000 => {}
                other => panic!("{other:?}"),
            }
        }
    };
    let ids = tokio::time::timeout(Duration::from_secs(30), retry).await.unwrap();
    assert_eq!(ids, (json!(0), json!(1)));
    let n_calls = bench.events().len();
    assert!((1..=2).contains(&n_calls), "{n_calls}");
}

#[tokio::test]
async fn aborting_the_server_ends_everything() {
    let bench = Bench::new();
    let mut client = bench.connect_and_shake_hands().await;
    let mut silent = bench.connect().await;
    bench.server.abort();
    assert_eq!(client.hear_rest().await, Vec::<Value>::new());
    assert_eq!(silent.hear_rest().await, Vec::<Value>::new());
    let mut events = bench.events;
    assert_eq!(events.recv().await, None);
}
