//! Servers with a `url`, on loopback. The suite tests TLS and the way out of a sandbox.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use pretty_assertions::assert_eq;

use super::*;

/// A request that the server got.
#[derive(Debug, Clone)]
struct Asked {
    method: String,
    head: String,
    message: Value,
}

impl Asked {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(held, _)| held.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

/// A web server that answers every request with one function.
struct Web {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Web {
    /// `answer` writes the whole response; the connection ends when it returns.
    fn new(answer: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let web = Self { address: listener.local_addr().unwrap(), asked: Arc::default() };
        let (asked, answer) = (Arc::clone(&web.asked), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (asked, answer) = (Arc::clone(&asked), Arc::clone(&answer));
                thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let request = read(&stream);
                    asked.lock().unwrap().push(request.clone());
                    answer(&request, &mut stream);
                });
            }
        });
        web
    }

    fn server(&self) -> Value {
        json!({"url": format!("http://{}/mcp", self.address)})
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Asked {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let method = head.split(' ').next().unwrap().to_owned();
    let mut asked = Asked { method, head, message: Value::Null };
    if let Some(length) = asked.header("content-length") {
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        asked.message = serde_json::from_slice(&body).unwrap();
    }
    asked
}

/// Keeps the connection open until the client leaves.
fn wait_for_the_end(stream: &mut TcpStream) {
    stream.read_to_end(&mut Vec::new()).ok();
}

fn respond(stream: &mut TcpStream, head: &str, body: &str) {
    let length = body.len();
    write!(stream, "HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}").ok();
}

/// A good server's answer to a message; `None` for a notification.
fn answer_to(message: &Value) -> Option<Value> {
    let result = match message["method"].as_str()? {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}),
        "tools/list" => json!({"tools": [{"name": "echo"}, {"name": "hang"}]}),
        "tools/call" => {
            json!({"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]})
        }
        _ => return None,
    };
    Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

fn good(asked: &Asked, stream: &mut TcpStream) {
    match answer_to(&asked.message) {
        _ if asked.message["params"]["name"] == "hang" => wait_for_the_end(stream),
        Some(answer) => {
            let head =
                "200 OK\r\nContent-Type: application/json; charset=utf-8\r\nMCP-Session-Id: s-1";
            respond(stream, head, &answer.to_string());
        }
        None => respond(stream, "202 Accepted", ""),
    }
}

fn connect(servers: Value) -> (Machine, McpClients) {
    let machine = Machine::new();
    machine.configure(servers);
    let clients = machine.connect(ServerApproval::All);
    (machine, clients)
}

/// Returns the state of the only server, if it gives this answer to every request.
fn state_with(answer: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> ServerState {
    let web = Web::new(answer);
    let (_machine, clients) = connect(json!({"t": web.server()}));
    states(&clients).remove(0).1
}

#[test]
fn the_agent_greets_a_server_with_a_url_calls_it_and_ends_the_session() {
    let web = Web::new(good);
    let mut definition = web.server();
    definition["headers"] = json!({"X-Key": "a \"b\" \\c", "Empty": "", "accept": "text/html"});
    let (_machine, clients) = connect(json!({"t": definition}));
    assert_eq!(states(&clients), [("t".to_owned(), ServerState::Ready { n_tools: 2 })]);
    // Longer than a pipe's capacity, with every kind of character that JSON escapes.
    let text = "\"\\\n\u{1}ä".repeat(20_000);
    let answer = call(&clients, "echo", json!({"text": text})).unwrap();
    assert_eq!(answer["content"][0]["text"], json!(text));
    drop(clients);
    let asked = web.asked();
    let methods: Vec<_> = asked.iter().map(|asked| asked.message["method"].as_str()).collect();
    let expected = ["initialize", "notifications/initialized", "tools/list", "tools/call"];
    assert_eq!(methods[..4], expected.map(Some));
    assert_eq!((asked.len(), asked[4].method.as_str()), (5, "DELETE"));
    for (number, asked) in asked.iter().enumerate() {
        let in_session = |value| (number > 0).then_some(value);
        assert_eq!(asked.header("Mcp-Session-Id"), in_session("s-1"), "{asked:?}");
        assert_eq!(asked.header("MCP-Protocol-Version"), in_session("2025-06-18"), "{asked:?}");
        assert_eq!(asked.header("Accept"), Some("application/json, text/event-stream"));
        assert_eq!(asked.header("X-Key"), Some("a \"b\" \\c"));
        assert!(asked.head.contains("Empty:"), "{}", asked.head);
    }
}

#[test]
fn an_answer_may_come_in_a_stream_that_stays_open_and_asks_back() {
    let web = Web::new(|asked, stream| {
        let Some(answer) = answer_to(&asked.message) else {
            return respond(stream, "202 Accepted", "");
        };
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nmcp-session-id: s-2\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        write!(stream, "data: {{\"id\":\"q\",\ndata: \"method\":\"ping\"}}\n\n").unwrap();
        write!(stream, "data: {{\"id\":99,\"result\":{{}}}}\n\ndata: {answer}\r\n\r\n").unwrap();
        wait_for_the_end(stream);
    });
    let (_machine, clients) = connect(json!({"t": web.server()}));
    let answer = call(&clients, "echo", json!({"text": "hello"})).unwrap();
    assert_eq!(answer, json!({"content": [{"type": "text", "text": "hello"}]}));
    let asked = web.asked();
    let pongs: Vec<&Asked> = asked.iter().filter(|asked| asked.message["id"] == "q").collect();
    assert_eq!(pongs.len(), 3, "the greeting, the list and the call each came with a question");
    for pong in pongs {
        assert_eq!(pong.message["result"], json!({}));
        assert_eq!(pong.header("Mcp-Session-Id"), Some("s-2"));
    }
}

#[test]
fn a_call_without_an_answer_times_out_and_the_agent_tells_the_server() {
    let web = Web::new(good);
    let machine = Machine::new();
    machine.configure(json!({"t": web.server()}));
    let limits = TimeLimits { call: Duration::from_millis(100), ..TimeLimits::default() };
    let clients = machine.connect_within(ServerApproval::All, limits);
    let err = call(&clients, "hang", json!({})).unwrap_err();
    assert!(matches!(err, McpCallError::Request(RequestError::TimedOut)), "{err}");
    let is_cancelled = |asked: &Asked| asked.message["method"] == "notifications/cancelled";
    assert!(web.asked().iter().any(is_cancelled), "{:?}", web.asked());
    drop(clients);
    assert_eq!(machine.processes.kill_all(), 0);
}

#[test]
fn a_server_that_wants_a_login_says_so() {
    let login = state_with(|_, stream| {
        respond(stream, "401 Unauthorized\r\nWWW-Authenticate: Bearer", "");
    });
    assert_eq!(login, ServerState::NeedsLogin("the server requires a login (HTTP 401)".to_owned()));
}

#[test]
fn a_web_server_without_mcp_fails() {
    let failed = |text: &str| ServerState::Failed(text.to_owned());
    let status = |head: &'static str| state_with(move |_, stream| respond(stream, head, "<p>"));
    assert_eq!(status("500 Oh"), failed("the server answers with HTTP status 500"));
    assert_eq!(
        status("302 Found\r\nLocation: http://127.0.0.1:1/"),
        failed("the server answers with HTTP status 302")
    );
    assert_eq!(
        status("200 OK\r\nContent-Type: text/html"),
        failed("the server's answer is not MCP: it is `text/html`")
    );
    let other = state_with(|_, stream| {
        respond(stream, "200 OK\r\nContent-Type: application/json", r#"{"id":77,"result":{}}"#);
    });
    assert_eq!(other, failed("the server's answer is not MCP: it answers another request"));
    let cut = state_with(|_, stream| {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{}";
        stream.write_all(head.as_bytes()).unwrap();
    });
    assert_eq!(cut, failed("MCP error -32000: Connection closed"));
}

#[test]
fn a_server_that_never_stops_fails() {
    for kind in ["application/json", "text/event-stream"] {
        let state = state_with(move |_, stream| {
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n").unwrap();
            while stream.write_all(&[b' '; 65536]).is_ok() {}
        });
        let text = "the server's answer is not MCP: it is larger than 16 MiB";
        assert_eq!(state, ServerState::Failed(text.to_owned()), "{kind}");
    }
    let headers = state_with(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n").unwrap();
        while stream.write_all(b"a: b\r\n").is_ok() {}
    });
    assert!(matches!(headers, ServerState::Failed(_)), "{headers:?}");
    let tools = state_with(|asked, stream| {
        let mut answer = answer_to(&asked.message).unwrap_or_default();
        if asked.message["method"] == "tools/list" {
            let description = "x".repeat(1024 * 1024);
            answer["result"] =
                json!({"tools": [{"name": "a", "description": description}], "nextCursor": "2"});
        }
        respond(stream, "200 OK\r\nContent-Type: application/json", &answer.to_string());
    });
    let text = "the server lists more than 4 MiB of tools";
    assert_eq!(tools, ServerState::Failed(text.to_owned()));
}

#[test]
fn a_server_that_is_silent_or_away_fails_within_the_limit() {
    let silent = Web::new(|_, stream| wait_for_the_end(stream));
    let away = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let machine = Machine::new();
    machine.configure(json!({
        "silent": silent.server(), "away": {"url": format!("http://{away}")},
        "file": {"url": "file:///etc/passwd"}, "odd": {"url": "http://a\nb"},
    }));
    let limits = TimeLimits { connect: Duration::from_secs(2), ..TimeLimits::default() };
    let clients = machine.connect_within(ServerApproval::All, limits);
    let states = states(&clients);
    for ((name, state), words) in states.into_iter().zip([
        "MCP error -32001: Request timed out",
        "the server cannot be reached: curl: (7) ",
        "the server cannot be reached: curl: (1) ",
        "its `url` has characters that cannot be sent",
    ]) {
        let ServerState::Failed(problem) = state else { panic!("{name} is {state:?}") };
        assert!(problem.starts_with(words), "{name}: {problem}");
    }
    assert_eq!(machine.processes.kill_all(), 0, "no request is left");
}

#[test]
fn without_curl_the_error_names_it() {
    let mut machine = Machine::new();
    machine.env = vec![("PATH".into(), "/nowhere".into())];
    machine.configure(json!({"t": {"url": "https://example.invalid"}}));
    let clients = machine.connect(ServerApproval::All);
    let text = "the server cannot be reached: `curl` is not installed";
    assert_eq!(states(&clients), [("t".to_owned(), ServerState::Failed(text.to_owned()))]);
}

#[test]
fn a_request_uses_the_proxy_of_the_environment() {
    let proxy = Web::new(good);
    let mut machine = Machine::new();
    machine.env.push(("http_proxy".into(), format!("http://{}", proxy.address).into()));
    machine.configure(json!({"t": {"url": "http://docs.invalid/mcp"}}));
    let clients = machine.connect(ServerApproval::All);
    assert_eq!(states(&clients), [("t".to_owned(), ServerState::Ready { n_tools: 2 })]);
    assert!(proxy.asked()[0].head.starts_with("POST http://docs.invalid/mcp "));
}
