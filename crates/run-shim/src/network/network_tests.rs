//! The listeners on an ordinary loopback. The suite tests the connections to the outside, in a network namespace.

use std::net::SocketAddr;
use std::time::Duration;

use pretty_assertions::assert_eq;
use run_protocol::{NetRefusal, NetVia};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::mpsc;

use super::*;

struct Inside {
    names: SocketAddr,
    names_over_tcp: SocketAddr,
    tls: SocketAddr,
    connect: SocketAddr,
    network: Network,
    events: mpsc::Receiver<RunEvent>,
}

fn limits() -> NetworkLimits {
    NetworkLimits {
        connections: 8,
        transfer: 1 << 20,
        handshake: Duration::from_secs(30),
        idle: Duration::from_secs(30),
    }
}

async fn open(limits: NetworkLimits) -> Inside {
    let listener = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let doors = Doors {
        names: UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap(),
        names_over_tcp: listener().await.unwrap(),
        tls: listener().await.unwrap(),
        connect: listener().await.unwrap(),
    };
    let (sender, events) = mpsc::channel(64);
    let allow = ["*.cursor.sh"];
    let registry: egress::AllowedHost = "registry.example.org".parse().unwrap();
    let policy = NetworkPolicy {
        allow: allow.iter().map(|host| host.parse::<egress::AllowedHost>().unwrap()).collect(),
        registries: [registry].into_iter().collect(),
        tun: None,
        limits,
        upstream: None,
    };
    Inside {
        names: doors.names.local_addr().unwrap(),
        names_over_tcp: doors.names_over_tcp.local_addr().unwrap(),
        tls: doors.tls.local_addr().unwrap(),
        connect: doors.connect.local_addr().unwrap(),
        network: Network::open(doors, policy, sender, mpsc::channel(1).0),
        events,
    }
}

/// Sends bytes to a listener, and returns its whole answer.
async fn say(listener: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut client = TcpStream::connect(listener).await.unwrap();
    client.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    answer
}

fn denial(event: RunEvent) -> (Option<String>, NetVia, NetRefusal) {
    match event {
        RunEvent::NetDenied { host, via, reason, .. } => (host, via, reason),
        other => panic!("{other:?}"),
    }
}

fn query(name: &str) -> Vec<u8> {
    let mut message = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, 1, 0, 1]);
    message
}

#[tokio::test]
async fn a_proxy_refuses_what_is_not_on_the_list_and_says_what_would_allow_it() {
    let mut inside = open(limits()).await;
    let answer = say(inside.connect, b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n").await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    assert!(answer.ends_with("to allow it: --allow-host evil.test\n"), "{answer}");
    let expected = (Some("evil.test".to_owned()), NetVia::Connect, NetRefusal::NotListed);
    assert_eq!(denial(inside.events.recv().await.unwrap()), expected);

    let answer = say(inside.connect, b"CONNECT registry.example.org:443 HTTP/1.1\r\n\r\n").await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.ends_with("to allow it: --registries\n"), "{answer}");
    assert_eq!(denial(inside.events.recv().await.unwrap()).2, NetRefusal::RegistryNotListed);

    let answer = say(inside.connect, b"CONNECT api2.cursor.sh:22 HTTP/1.1\r\n\r\n").await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.ends_with("--allow-host api2.cursor.sh:22\n"), "{answer}");
    assert_eq!(denial(inside.events.recv().await.unwrap()).2, NetRefusal::PortNotListed);

    let answer = say(inside.connect, b"GET http://169.254.169.254/ HTTP/1.1\r\n\r\n").await;
    assert!(answer.starts_with(b"HTTP/1.1 405 Method Not Allowed\r\nAllow: CONNECT\r\n"));
    assert_eq!(denial(inside.events.recv().await.unwrap()).2, NetRefusal::PlainHttp);

    let answer = say(inside.connect, b"CONNECT evil.test\0.cursor.sh:443 HTTP/1.1\r\n\r\n").await;
    assert!(answer.starts_with(b"HTTP/1.1 400 Bad Request\r\n"));
    assert_eq!(denial(inside.events.recv().await.unwrap()).2, NetRefusal::BadName);
}

#[tokio::test]
async fn a_tls_client_is_refused_in_its_own_protocol() {
    let mut inside = open(limits()).await;
    assert_eq!(say(inside.tls, b"GET / HTTP/1.1\r\n\r\n").await, egress::access_denied_alert());
    assert_eq!(denial(inside.events.recv().await.unwrap()).2, NetRefusal::BadRequest);
}

#[tokio::test]
async fn names_are_answered_over_udp_and_tcp() {
    let mut inside = open(limits()).await;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let mut answer = [0; 512];
    for (name, code) in [("api2.cursor.sh", 0x80), ("secret.evil.test", 0x83)] {
        // The shim skips messages that are not questions.
        socket.send_to(b"nonsense", inside.names).await.unwrap();
        socket.send_to(&query(name), inside.names).await.unwrap();
        let (length, _) = socket.recv_from(&mut answer).await.unwrap();
        assert_eq!(answer[3], code);
        assert_eq!(answer[..length].ends_with(&[127, 0, 0, 1]), code == 0x80);
    }
    let allowed = inside.events.recv().await.unwrap();
    assert!(matches!(allowed, RunEvent::NetAllowed { via: NetVia::Dns, .. }), "{allowed:?}");
    assert_eq!(denial(inside.events.recv().await.unwrap()).2, NetRefusal::NotListed);

    let mut client = TcpStream::connect(inside.names_over_tcp).await.unwrap();
    for _ in 0..2 {
        let question = query("api2.cursor.sh");
        client.write_u16(u16::try_from(question.len()).unwrap()).await.unwrap();
        client.write_all(&question).await.unwrap();
        let mut answer = vec![0; usize::from(client.read_u16().await.unwrap())];
        client.read_exact(&mut answer).await.unwrap();
        assert!(answer.ends_with(&[127, 0, 0, 1]));
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_are_refused_and_reported_together() {
    let mut inside = open(limits()).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(TcpStream::connect(inside.connect).await.unwrap());
    }
    for _ in 0..50 {
        let mut client = TcpStream::connect(inside.connect).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable"), "{answer}");
    }
    let mut told = Vec::new();
    while let Ok(event) = inside.events.try_recv() {
        told.push(event);
    }
    told.extend(inside.network.close());
    let counts = told.iter().map(|event| match event {
        RunEvent::NetDenied { reason: NetRefusal::TooManyConnections, count, .. } => *count,
        other => panic!("{other:?}"),
    });
    assert_eq!(counts.sum::<u64>(), 50);
    assert!(told.len() <= 2, "{told:?}");
}

#[tokio::test]
async fn a_client_that_names_no_host_in_time_is_refused() {
    let handshake = Duration::from_millis(20);
    let mut inside = open(NetworkLimits { handshake, ..limits() }).await;
    let slow = say(inside.connect, b"CONNECT api2.cursor.sh").await;
    assert!(slow.starts_with(b"HTTP/1.1 408 Request Timeout"));
    assert_eq!(denial(inside.events.recv().await.unwrap()).2, NetRefusal::TooSlow);
    assert_eq!(say(inside.tls, b"\x16\x03\x01").await, egress::access_denied_alert());
    assert_eq!(denial(inside.events.recv().await.unwrap()).2, NetRefusal::TooSlow);
}

/// Two connected sockets.
async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (near, listener.accept().await.unwrap().0)
}

fn control(limits: NetworkLimits) -> EgressControl {
    let (allow, registries) = (AllowList::default(), AllowList::default());
    let policy = NetworkPolicy { allow, registries, tun: None, limits, upstream: None };
    EgressControl::new(policy, mpsc::channel(1).0)
}

#[tokio::test]
async fn a_side_that_has_sent_everything_still_receives() {
    let ((mut client, inside), (outside, mut host)) = (pair().await, pair().await);
    let relaying = tokio::spawn(async move {
        relay::relay(inside, outside, b"first ", &control(limits()), NetVia::Tls).await
    });
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let mut heard = String::new();
    host.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "first question");
    host.write_all(b"answer").await.unwrap();
    drop(host);
    let mut heard = String::new();
    client.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "answer");
    relaying.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_run_transfers_no_more_bytes_than_its_limit() {
    let ((mut client, inside), (outside, mut host)) = (pair().await, pair().await);
    let control = Arc::new(control(NetworkLimits { transfer: 100_000, ..limits() }));
    let relaying = tokio::spawn({
        let control = control.clone();
        async move { relay::relay(inside, outside, b"", &control, NetVia::Tls).await }
    });
    let sending = tokio::spawn(async move { client.write_all(&[0; 1_000_000]).await });
    let mut heard = Vec::new();
    host.read_to_end(&mut heard).await.ok();
    assert!(heard.len() <= 100_000, "{}", heard.len());
    relaying.await.unwrap().unwrap_err();
    sending.await.unwrap().ok();
    let told = control.unreported();
    assert_eq!(denial(told[0].clone()).2, NetRefusal::TooMuchData);
    let target = egress::ConnectTarget { host: "api2.cursor.sh".parse().unwrap(), port: 443 };
    assert!(control.admits(&target).is_err());
}

#[tokio::test]
async fn a_silent_connection_ends() {
    let ((mut client, inside), (outside, _host)) = (pair().await, pair().await);
    let control = control(NetworkLimits { idle: Duration::from_millis(20), ..limits() });
    let relaying =
        tokio::spawn(
            async move { relay::relay(inside, outside, b"", &control, NetVia::Tls).await },
        );
    assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
    relaying.await.unwrap().unwrap();
}
