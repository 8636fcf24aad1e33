//! The daemon's sockets with clients that send half a request, or far too much.

mod prompts;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::daemon_stage::{DaemonStage, exchange};

/// An earlier version took longer than this to answer again.
const PATIENCE: Duration = Duration::from_secs(20);
/// The Unix socket accepts this many clients at once.
const MOST_CONNECTIONS: usize = 512;

struct TcpDoor {
    stage: DaemonStage,
    address: String,
    bearer: String,
    pid: i64,
}

impl TcpDoor {
    fn open() -> Self {
        let stage = DaemonStage::without_daemon(2);
        let started = stage.output(&["daemon", "start", "--listen", "127.0.0.1:0", "--json"]);
        let started: Value = serde_json::from_slice(&started.stdout).unwrap();
        let token = std::fs::read_to_string(started["token_file"].as_str().unwrap()).unwrap();
        Self {
            address: started["listen"].as_str().unwrap().to_owned(),
            bearer: format!("Bearer {}", token.trim()),
            pid: stage.daemon_note()["pid"].as_i64().unwrap(),
            stage,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let headers = [("host", self.address.as_str()), ("authorization", self.bearer.as_str())];
        exchange(self.connect(), method, path, &headers, body)
    }

    /// Returns a request head that contains the token and announces a body of `length` bytes.
    fn post_head(&self, length: usize) -> String {
        let Self { address, bearer, .. } = self;
        format!(
            "POST /v1/runs HTTP/1.1\r\nhost: {address}\r\nauthorization: {bearer}\r\n\
             content-length: {length}\r\n\r\n"
        )
    }

    /// Returns the daemon's peak memory, in KiB.
    fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

#[test]
fn half_open_requests_without_a_token_do_not_keep_the_owner_out() {
    let door = TcpDoor::open();
    let half_open: Vec<TcpStream> = (0..600)
        .map(|_| {
            let mut stream = door.connect();
            stream.write_all(b"GET /v1/version HTTP/1.1\r\n").unwrap();
            stream
        })
        .collect();
    assert_eq!(door.ask("GET", "/v1/version", "").0, 200);
    drop(half_open);
}

#[test]
fn clients_with_the_token_keep_their_connections_while_strangers_knock() {
    let door = TcpDoor::open();
    let mut owner = door.connect();
    let request = format!(
        "GET /v1/version HTTP/1.1\r\nhost: {}\r\nauthorization: {}\r\n\r\n",
        door.address, door.bearer
    );
    let mut ask_again = || {
        owner.write_all(request.as_bytes()).unwrap();
        let mut piece = [0; 4096];
        let length = owner.read(&mut piece).unwrap();
        assert!(piece[..length].starts_with(b"HTTP/1.1 200"));
    };
    ask_again();
    let strangers: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = door.connect();
            stream.write_all(b"GET /").unwrap();
            stream
        })
        .collect();
    assert_eq!(door.ask("GET", "/v1/version", "").0, 200);
    ask_again();
    drop(strangers);
}

#[test]
fn half_a_request_head_times_out_and_the_next_client_gets_its_place() {
    // On TCP, the newest unauthenticated client replaces the oldest. The daemon waits for a client that no other
    // replaces.
    let door = TcpDoor::open();
    let mut stream = door.connect();
    stream.write_all(b"GET /v1/version HTTP/1.1\r\nhost: ").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(String::from_utf8(answer).unwrap(), "");

    // On the Unix socket, unfinished heads take all connections. The next client gets one when they time out.
    let half_open: Vec<_> = (0..MOST_CONNECTIONS)
        .map(|_| {
            let mut stream = door.stage.connect().unwrap();
            stream.write_all(b"GET /v1/version HTTP/1.1\r\nhost: ").unwrap();
            stream
        })
        .collect();
    let next = door.stage.connect().unwrap();
    next.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(exchange(next, "GET", "/v1/version", &[], "").0, 200);
    drop(half_open);
}

#[test]
fn a_body_that_never_arrives_times_out() {
    let door = TcpDoor::open();
    let mut stream = door.connect();
    stream.write_all(format!("{}{{", door.post_head(100)).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[test]
fn large_bodies_are_refused_and_many_together_take_little_memory() {
    let door = TcpDoor::open();
    // The client announces too much: the daemon refuses it without reading.
    let mut stream = door.connect();
    stream.write_all(door.post_head(16 << 20).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("hint"), "{answer}");

    // The client announces no length and never stops sending.
    let mut stream = door.connect();
    let head = door.post_head(0).replace("content-length: 0", "transfer-encoding: chunked");
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = format!("100000\r\n{}\r\n", "x".repeat(0x10_0000));
    let refused = (0..64).any(|_| stream.write_all(chunk.as_bytes()).is_err());
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    assert!(refused || answer.starts_with(b"HTTP/1.1 413"), "the daemon read all of it");

    // Forty clients each send nearly as much as the daemon allows.
    let length = 3 << 20;
    let piece = vec![b' '; length - 1];
    let clients: Vec<_> = (0..40)
        .map(|_| {
            let (mut stream, head, piece) = (door.connect(), door.post_head(length), piece.clone());
            std::thread::spawn(move || {
                stream.write_all(head.as_bytes()).ok();
                stream.write_all(&piece).ok();
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).ok();
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let peak = door.peak_memory();
    assert!(peak < 100 * 1024, "the daemon used {peak} KiB");
    assert_eq!(door.ask("GET", "/v1/version", "").0, 200);
}

#[test]
fn an_array_is_not_accepted_as_an_object() {
    let door = TcpDoor::open();
    let (status, answer) = door.ask("POST", "/v1/queue/caps", r#" ["group", "g", 1]"#);
    assert_eq!(status, 400, "{answer}");
    for body in ["[]", "null", "garbage"] {
        assert_eq!(door.ask("POST", "/v1/queue/pause", body).0, 400, "{body}");
    }
    let named = json!({"cap": "group", "name": "g", "limit": 1}).to_string();
    assert_eq!(door.ask("POST", "/v1/queue/caps", &named).0, 200);
    assert_eq!(
        door.ask("POST", "/v1/queue/pause", "").0,
        200,
        "a missing body counts as an empty object"
    );
}
