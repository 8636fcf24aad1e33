//! Accepts connections on the Unix socket and on loopback, and serves each in its own task.

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
use crate::server::unknown_clients::UnknownClients;

/// More than the terminals and pages that one user has open.
const MOST_CONNECTIONS: usize = 512;
/// How much of an answer stays in memory for a slow client. The daemon reads the rest from disk later.
const WRITE_BUFFER: usize = 64 * 1024;
/// How long a client may take to send the head of a request. Clients are local, so this is plenty.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// The pause after a failed accept. Usually the daemon is out of descriptors, and other connections may free some.
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
    let unknown = UnknownClients::new(MOST_CONNECTIONS);
    loop {
        match listener.accept().await {
            Ok((connection, _)) => {
                // This finds clients that disappeared without closing the connection.
                rustix::net::sockopt::set_socket_keepalive(&connection, true).ok();
                connection.set_nodelay(true).ok();
                let router = router.clone();
                unknown.serve(|client| {
                    let service = service_fn(move |mut request: Request<Incoming>| {
                        request.extensions_mut().insert(Arc::clone(&client));
                        TowerToHyperService::new(router.clone()).call(request)
                    });
                    serve(connection, service)
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

/// True for the user and root. No other user can reach the socket anyway, because its directory is private.
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
        // A client that disconnects or sends nonsense harms only itself.
        tracing::debug!(%error, "a connection ended early");
    }
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
