//! Accepting connections, on the Unix socket and on loopback, and serving each in a task of its own.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::Semaphore;

use crate::api::{self, Door};
use crate::daemon::Daemon;
use crate::lobby::Lobby;

/// More than one machine's users have terminals and pages open.
const MOST_CONNECTIONS: usize = 512;
/// How much of an answer waits for a slow client; what comes after it is not read from disk before.
const WRITE_BUFFER: usize = 64 * 1024;
/// How long a client may take for the head of a request. Clients are on this machine.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// After an accept that failed, mostly for want of descriptors: others may give some back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(crate) async fn serve_unix(daemon: Arc<Daemon>, listener: UnixListener) {
    let router = api::router(Arc::clone(&daemon), Door::Unix);
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((client, _)) if is_ours(&client) => {
                let router = router.clone();
                tokio::spawn(async move {
                    serve(client, TowerToHyperService::new(router)).await;
                    drop(place);
                });
            }
            Ok(_stranger) => daemon.counters.refused_connections.one(),
            Err(error) => pause_after(error).await,
        }
    }
}

pub(crate) async fn serve_loopback(daemon: Arc<Daemon>, listener: TcpListener) {
    let Ok(address) = listener.local_addr() else { return };
    let router = api::router(daemon, Door::Loopback(address));
    let lobby = Lobby::new(MOST_CONNECTIONS);
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                // A client that vanished without a word is found out in the end.
                rustix::net::sockopt::set_socket_keepalive(&client, true).ok();
                client.set_nodelay(true).ok();
                let router = router.clone();
                lobby.enter(|visitor| {
                    let service = service_fn(move |mut request: Request<Incoming>| {
                        request.extensions_mut().insert(Arc::clone(&visitor));
                        TowerToHyperService::new(router.clone()).call(request)
                    });
                    serve(client, service)
                });
            }
            Err(error) => pause_after(error).await,
        }
    }
}

async fn pause_after(error: io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// The socket's directory is ours alone, so only root could come in besides.
fn is_ours(client: &UnixStream) -> bool {
    let us = nix::unistd::geteuid().as_raw();
    client.peer_cred().is_ok_and(|peer| peer.uid() == us || peer.uid() == 0)
}

async fn serve<C, S>(client: C, service: S)
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
{
    serve_patiently(client, service, HEAD_PATIENCE).await;
}

async fn serve_patiently<C, S>(client: C, service: S, head_patience: Duration)
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
{
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_patience)
        .max_buf_size(WRITE_BUFFER)
        .serve_connection(TokioIo::new(client), service)
        .await;
    if let Err(error) = served {
        // A client that breaks off or talks nonsense harms only itself.
        tracing::debug!(%error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// Shorter than a person waits for a test, and long enough that the test sees the client before its time is up.
    const SHORT: Duration = Duration::from_secs(1);

    /// A client that the lobby has let in and that has said this.
    async fn visit(lobby: &Arc<Lobby>, says: &str) -> DuplexStream {
        let (mut client, ours) = duplex(4096);
        client.write_all(says.as_bytes()).await.unwrap();
        lobby.enter(|visitor| {
            let service = service_fn(move |_: Request<Incoming>| {
                assert!(visitor.come_in(), "there is a place");
                async { Ok(Response::new(Body::from("hello"))) }
            });
            serve_patiently(ours, service, SHORT)
        });
        client
    }

    #[tokio::test]
    async fn a_client_that_sends_half_a_head_is_sent_away_and_its_place_is_free() {
        let lobby = Lobby::new(1);
        let mut halves = Vec::new();
        for says in ["", "GET /v1/version HTTP/1.1\r\n", "GET / HTTP/1.1\r\nhost: x\r\n"] {
            halves.push(visit(&lobby, says).await);
        }
        assert_eq!(lobby.n_waiting(), halves.len());
        for mut half in halves {
            let mut answer = Vec::new();
            let closed = tokio::time::timeout(20 * SHORT, half.read_to_end(&mut answer)).await;
            closed.expect("the connection is closed").unwrap();
            assert_eq!(String::from_utf8_lossy(&answer), "", "nobody asked anything");
        }
        assert_eq!(lobby.n_waiting(), 0);
        let mut next = visit(&lobby, "GET / HTTP/1.1\r\nconnection: close\r\n\r\n").await;
        let mut answer = String::new();
        next.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
    }
}
