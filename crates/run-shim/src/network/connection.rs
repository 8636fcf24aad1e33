//! Serves connections from inside: reads the host that a client wants, decides, dials, and relays the bytes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use egress::{
    ClientHello, ConnectError, ConnectTarget, HTTPS_PORT, HeadState, HelloError, LONGEST_HEAD,
    LONGEST_HELLO, access_denied_alert, read_head, server_name,
};
use run_protocol::{NetRefusal, NetVia};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::egress_control::{Asked, EgressControl, Refused};
use super::relay::relay;
use super::{dial, dns};

/// Serves a listener's clients, until it is dropped. Then all connections close.
pub(super) async fn serve_all(listener: TcpListener, via: NetVia, control: Arc<EgressControl>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    let Some(place) = control.place() else {
                        let refused = Refused::plainly(NetRefusal::TooManyConnections);
                        turn_away(client, via, &refused);
                        control.denied(via, Asked::nothing(), refused);
                        continue;
                    };
                    let control = control.clone();
                    connections.spawn(async move {
                        // A broken connection affects only its own client.
                        serve(client, via, &control).await.ok();
                        drop(place);
                    });
                }
                // Usually the process is out of descriptors. Other connections may close soon.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Tells the client the reason, if that is possible without waiting.
fn turn_away(client: TcpStream, via: NetVia, refused: &Refused) {
    match via {
        NetVia::Connect => client.try_write(&http_refusal(&Asked::nothing(), refused)).ok(),
        NetVia::Tls => client.try_write(&access_denied_alert()).ok(),
        NetVia::Dns => None,
    };
}

async fn serve(mut client: TcpStream, via: NetVia, control: &EgressControl) -> io::Result<()> {
    let patience = control.policy.limits.handshake;
    let wanted = match via {
        NetVia::Dns => return dns::answer_over_tcp(client, control).await,
        NetVia::Tls => tokio::time::timeout(patience, tls_wanted(&mut client)).await,
        NetVia::Connect => tokio::time::timeout(patience, connect_wanted(&mut client)).await,
    };
    let wanted = match wanted {
        Ok(wanted) => wanted?,
        Err(_) => Err((Asked::nothing(), Refused::plainly(NetRefusal::TooSlow))),
    };
    let admitted = match wanted {
        Ok(Wanted { target, sent }) => match pass(&target, control).await {
            Ok(outside) => Ok((outside, Asked::target(&target), sent)),
            Err(refused) => Err((Asked::target(&target), refused)),
        },
        Err(refused) => Err(refused),
    };
    match admitted {
        Ok((outside, asked, sent)) => {
            control.allowed(via, asked);
            if via == NetVia::Connect {
                client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            }
            relay(client, outside, &sent, control, via).await
        }
        Err((asked, refused)) => {
            let answer = match via {
                NetVia::Connect => http_refusal(&asked, &refused),
                NetVia::Tls | NetVia::Dns => access_denied_alert().to_vec(),
            };
            control.denied(via, asked, refused);
            tokio::time::timeout(patience, refuse(client, &answer)).await.ok();
            Ok(())
        }
    }
}

/// Decides, then dials.
async fn pass(target: &ConnectTarget, control: &EgressControl) -> Result<TcpStream, Refused> {
    control.admits(target)?;
    dial::dial(target, control).await
}

/// The host that a client wants, and the bytes for it that the client already sent.
struct Wanted {
    target: ConnectTarget,
    sent: Vec<u8>,
}

type Answer = Result<Wanted, (Asked, Refused)>;

async fn tls_wanted(client: &mut TcpStream) -> io::Result<Answer> {
    let mut received = Vec::with_capacity(2048);
    let mut at_least = 1;
    loop {
        let room = LONGEST_HELLO.saturating_sub(received.len()).max(1);
        if client.take(room as u64).read_buf(&mut received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if received.len() < at_least {
            continue;
        }
        match server_name(&received) {
            Ok(ClientHello::Incomplete { at_least: wanted }) => at_least = wanted,
            Ok(ClientHello::Asks(host)) => {
                let target = ConnectTarget { host, port: HTTPS_PORT };
                return Ok(Ok(Wanted { target, sent: received }));
            }
            Err(error) => return Ok(Err(hello_refused(error))),
        }
    }
}

fn hello_refused(error: HelloError) -> (Asked, Refused) {
    match error {
        HelloError::Name { name, reason } => {
            let asked = Asked { host: Some(name), port: Some(HTTPS_PORT) };
            (asked, Refused::because(NetRefusal::BadName, reason))
        }
        HelloError::NoServerName => (Asked::nothing(), Refused::plainly(NetRefusal::NoName)),
        other => (Asked::nothing(), Refused::because(NetRefusal::BadRequest, other)),
    }
}

async fn connect_wanted(client: &mut TcpStream) -> io::Result<Answer> {
    let mut received = Vec::with_capacity(1024);
    loop {
        let known = received.len();
        let room = LONGEST_HEAD.saturating_sub(known).max(1);
        if client.take(room as u64).read_buf(&mut received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // A head ends with a line feed, so only check after one. A client that sends byte by byte then costs no more
        // than others.
        let may_end = received[known..].contains(&b'\n') || received.len() >= LONGEST_HEAD;
        if !may_end {
            continue;
        }
        match read_head(&received) {
            Ok(HeadState::Incomplete) => {}
            Ok(HeadState::Complete { target, length }) => {
                let sent = received.split_off(length);
                return Ok(Ok(Wanted { target, sent }));
            }
            Err(error) => return Ok(Err(connect_refused(error))),
        }
    }
}

fn connect_refused(error: ConnectError) -> (Asked, Refused) {
    match error {
        ConnectError::Name { authority, reason } => {
            (Asked::host(authority), Refused::because(NetRefusal::BadName, reason))
        }
        ConnectError::Method { ref host, .. } => {
            let asked = host.as_ref().map_or(Asked::nothing(), Asked::host);
            (asked, Refused::because(NetRefusal::PlainHttp, &error))
        }
        other => (Asked::nothing(), Refused::because(NetRefusal::BadRequest, other)),
    }
}

/// Sends the refusal, and closes once the client has read it.
async fn refuse(mut client: TcpStream, answer: &[u8]) -> io::Result<()> {
    client.write_all(answer).await?;
    client.shutdown().await?;
    // If the shim closed with unread bytes, the kernel would discard the answer.
    let mut unread = [0; 1024];
    for _ in 0..64 {
        if client.read(&mut unread).await? == 0 {
            break;
        }
    }
    Ok(())
}

/// The refusal as an HTTP answer. Most programs print it.
fn http_refusal(asked: &Asked, refused: &Refused) -> Vec<u8> {
    let status = match refused.reason {
        NetRefusal::PlainHttp => "405 Method Not Allowed\r\nAllow: CONNECT",
        NetRefusal::BadRequest | NetRefusal::BadName => "400 Bad Request",
        NetRefusal::Unresolved | NetRefusal::Unreachable => "502 Bad Gateway",
        NetRefusal::TooManyConnections => "503 Service Unavailable",
        NetRefusal::TooSlow => "408 Request Timeout",
        _ => "403 Forbidden",
    };
    let host = asked.host.as_deref().unwrap_or("this");
    let host: String = host.chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect();
    let what = match (refused.reason, asked.port) {
        (NetRefusal::RegistryNotListed, _) => {
            format!("{host} is a registry that this run may not reach; to allow it: --registries")
        }
        (NetRefusal::NotListed | NetRefusal::PortNotListed, Some(HTTPS_PORT) | None) => {
            format!("{host} is not on this run's list of hosts; to allow it: --allow-host {host}")
        }
        (NetRefusal::NotListed | NetRefusal::PortNotListed, Some(port)) => format!(
            "{host}:{port} is not on this run's list of hosts; to allow it: --allow-host {host}:{port}"
        ),
        (_, _) => match &refused.detail {
            Some(detail) => format!("{host} was refused: {}", detail.replace(['\r', '\n'], " ")),
            None => format!("{host} was refused"),
        },
    };
    let body = format!("caretaker: {what}\n");
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
