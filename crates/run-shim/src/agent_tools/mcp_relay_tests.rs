use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread::JoinHandle;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;
use crate::agent_tools::mcp_server::{self, WhoAmI};

/// A relay in a thread, and the agent's ends of its stdin and stdout.
struct Relay {
    to_relay: UnixStream,
    from_relay: BufReader<UnixStream>,
    thread: JoinHandle<io::Result<()>>,
}

impl Relay {
    fn start(socket: PathBuf) -> Self {
        let (to_relay, stdin) = UnixStream::pair().unwrap();
        let (stdout, from_relay) = UnixStream::pair().unwrap();
        let thread = thread::spawn(move || relay_between(stdin, stdout, &socket));
        Self { to_relay, from_relay: BufReader::new(from_relay), thread }
    }

    fn say(&mut self, text: &str) {
        self.to_relay.write_all(text.as_bytes()).unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.from_relay.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn hear_rest(&mut self) -> String {
        let mut rest = String::new();
        self.from_relay.read_to_string(&mut rest).unwrap();
        rest
    }
}

fn socket() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mcp.sock");
    (directory, path)
}

#[test]
fn bytes_pass_both_ways_and_answers_still_arrive_after_the_end_of_stdin() {
    let (_directory, path) = socket();
    let listener = UnixListener::bind(&path).unwrap();
    let mut relay = Relay::start(path);
    let (mut server, _) = listener.accept().unwrap();
    let said = "x".repeat(1_000_000) + "no newline at the end, and \0 too";
    let to_say = said.clone();
    let mut to_relay = relay.to_relay.try_clone().unwrap();
    let sayer = thread::spawn(move || {
        to_relay.write_all(to_say.as_bytes()).unwrap();
        to_relay.shutdown(Shutdown::Write).unwrap();
    });
    let mut heard = String::new();
    server.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, said);
    // The server can still answer, because the other direction is open.
    server.write_all(b"the answer\n").unwrap();
    drop(server);
    assert_eq!(relay.hear_rest(), "the answer\n");
    relay.thread.join().unwrap().unwrap();
    sayer.join().unwrap();
}

#[test]
fn a_relay_ends_when_its_server_does_even_if_stdin_is_open() {
    let (_directory, path) = socket();
    let listener = UnixListener::bind(&path).unwrap();
    let mut relay = Relay::start(path);
    let (mut server, _) = listener.accept().unwrap();
    relay.say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
    // The server leaves data unread, so its exit resets the connection.
    server.write_all(b"half").unwrap();
    drop(server);
    assert_eq!(relay.hear_rest(), "half");
    relay.thread.join().unwrap().unwrap();
}

#[test]
fn a_relay_ends_when_the_agent_stops_reading() {
    let (_directory, path) = socket();
    let listener = UnixListener::bind(&path).unwrap();
    let relay = Relay::start(path);
    let (mut server, _) = listener.accept().unwrap();
    drop(relay.from_relay);
    server.write_all(b"an answer for nobody\n").unwrap();
    relay.thread.join().unwrap().unwrap();
    drop(relay.to_relay);
}

#[test]
fn without_a_server_every_request_is_answered_at_once() {
    let (_directory, path) = socket();
    // The first socket never existed. The second one has lost its listener.
    let stale = path.with_file_name("stale.sock");
    drop(UnixListener::bind(&stale).unwrap());
    for path in [path, stale] {
        let mut relay = Relay::start(path);
        relay.say("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{}}\n");
        let answer = relay.hear();
        assert_eq!(answer["id"], 0);
        assert_eq!(answer["error"]["code"], -32000);
        assert_eq!(answer["error"]["message"], "caretaker is not reachable");
        assert!(answer["error"]["data"]["reason"].is_string());
        // Notifications get no answer.
        relay.say("garbage\n\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        relay.say("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n[]\n\"text\"\n");
        relay.say("{\"jsonrpc\":\"2.0\",\"id\":\"a\\nb\",\"method\":\"tools/call\"}\n");
        assert_eq!(relay.hear()["id"], "a\nb");
        relay.say("[{\"id\":1,\"method\":\"x\"},{\"method\":\"y\"},{\"id\":2,\"method\":\"z\"}]\n");
        assert_eq!((relay.hear()["id"].clone(), relay.hear()["id"].clone()), (json!(1), json!(2)));
        // The last line may lack its line feed.
        relay.say("{\"id\":9,\"method\":\"tools/list\"}");
        relay.to_relay.shutdown(Shutdown::Write).unwrap();
        assert_eq!(relay.hear()["id"], 9);
        assert_eq!(relay.hear_rest(), "");
        assert!(relay.thread.join().unwrap().is_err());
    }
}

#[test]
fn without_a_server_an_endless_line_takes_bounded_memory() {
    let line = "x".repeat(MOST_LINE_BYTES + 1) + "\n{\"id\":1,\"method\":\"x\"}\n";
    let mut output = Vec::new();
    answer_with_errors(line.as_bytes(), &mut output, &ErrorKind::NotFound.into()).unwrap();
    let answers: Vec<Value> =
        serde_json::Deserializer::from_slice(&output).into_iter().map(Result::unwrap).collect();
    assert_eq!(
        answers.iter().map(|answer| &answer["id"]).collect::<Vec<_>>(),
        [&Value::Null, &json!(1)]
    );
}

/// Serves the tools in a thread until told to stop, and returns the recorded events.
fn serve(
    path: &Path,
    stop: tokio::sync::oneshot::Receiver<()>,
) -> JoinHandle<Vec<run_protocol::RunEvent>> {
    // Bind first, so that the relay cannot connect too early.
    let listener = UnixListener::bind(path).unwrap();
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::UnixListener::from_std(listener).unwrap();
            let (sender, mut events) = tokio::sync::mpsc::channel(8);
            let facts = WhoAmI {
                run: "01941f29-7c00-7000-8000-000000000001".parse().unwrap(),
                session: uuid::Uuid::nil(),
                name: None,
                workspace: "/srv/my shop".to_owned(),
                model: None,
                deadline_ms: None,
                max_tool_calls: None,
                max_tokens: None,
                lineage: None,
            };
            let nowhere = Path::new("/nonexistent");
            let desk = crate::agent_tools::agent_desk::AgentDesk::for_test(
                nowhere,
                facts.run,
                facts.session,
                None,
            );
            tokio::select! {
                never = mcp_server::serve(listener, facts, sender, desk) => match never {},
                stopped = stop => stopped.unwrap(),
            }
            std::iter::from_fn(|| events.try_recv().ok()).collect()
        })
    })
}

#[test]
fn an_agent_reaches_its_tools_through_the_relay() {
    let (_directory, path) = socket();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let server = serve(&path, stopped);
    let mut relay = Relay::start(path);
    relay.say(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","#);
    relay.say(r#""capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#);
    relay.say("\n");
    assert_eq!(relay.hear()["result"]["serverInfo"]["name"], "caretaker");
    relay.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    relay.say("\n");
    relay.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami"}}"#);
    relay.say("\n");
    assert_eq!(relay.hear()["result"]["structuredContent"]["workspace"], "/srv/my shop");
    relay.to_relay.shutdown(Shutdown::Write).unwrap();
    assert_eq!(relay.hear_rest(), "");
    relay.thread.join().unwrap().unwrap();
    stop.send(()).unwrap();
    assert_eq!(server.join().unwrap().len(), 1);
}
