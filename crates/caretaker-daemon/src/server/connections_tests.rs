use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

/// Short enough for a test, but long enough that the test sees the client before the timeout.
const SHORT: Duration = Duration::from_secs(1);

/// A connected client that has sent these bytes.
async fn visit(unknown: &Arc<UnknownClients>, says: &str) -> DuplexStream {
    let (mut client, ours) = duplex(4096);
    client.write_all(says.as_bytes()).await.unwrap();
    unknown.serve(|client| {
        let service = service_fn(move |_: Request<Incoming>| {
            assert!(client.take_place(), "there is a place");
            async { Ok(Response::new(Body::from("hello"))) }
        });
        serve_patiently(ours, service, SHORT)
    });
    client
}

#[tokio::test]
async fn a_client_that_sends_half_a_head_is_disconnected_and_its_slot_is_free_again() {
    let unknown = UnknownClients::new(1);
    let mut halves = Vec::new();
    for says in ["", "GET /v1/version HTTP/1.1\r\n", "GET / HTTP/1.1\r\nhost: x\r\n"] {
        halves.push(visit(&unknown, says).await);
    }
    assert_eq!(unknown.n_waiting(), halves.len());
    for mut half in halves {
        let mut answer = Vec::new();
        let closed = tokio::time::timeout(20 * SHORT, half.read_to_end(&mut answer)).await;
        closed.expect("the connection is closed").unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), "", "there was no whole request");
    }
    assert_eq!(unknown.n_waiting(), 0);
    let mut next = visit(&unknown, "GET / HTTP/1.1\r\nconnection: close\r\n\r\n").await;
    let mut answer = String::new();
    next.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
}
