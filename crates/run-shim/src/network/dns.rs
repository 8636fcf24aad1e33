//! Answers DNS queries. Listed names resolve to the shim, and all others do not exist.

use std::io;
use std::sync::Arc;

use egress::{DnsQuery, DnsReply, LONGEST_UDP_QUERY};
use run_protocol::{NetRefusal, NetVia};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::egress_control::{Asked, EgressControl, Refused};

/// The most questions on one connection.
const MOST_QUESTIONS: usize = 100;

/// Answers questions over UDP, until it is dropped.
pub(super) async fn answer(socket: UdpSocket, control: Arc<EgressControl>) {
    // One byte more than the longest question, to recognise longer ones.
    let mut message = [0; LONGEST_UDP_QUERY + 1];
    loop {
        match socket.recv_from(&mut message).await {
            Ok((length, asker)) if length <= LONGEST_UDP_QUERY => {
                if let Some(answer) = answer_to(&message[..length], &control) {
                    // If the client does not take the answer, nothing more can be done.
                    socket.send_to(&answer, asker).await.ok();
                }
            }
            Ok(_) => {}
            // The kernel reports undeliverable answers here. The pause keeps any other error from becoming a busy loop.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
        }
    }
}

/// Answers the questions on one connection.
pub(super) async fn answer_over_tcp(
    mut client: TcpStream,
    control: &EgressControl,
) -> io::Result<()> {
    for _ in 0..MOST_QUESTIONS {
        let question = tokio::time::timeout(control.policy.limits.handshake, question(&mut client));
        let Ok(Ok(question)) = question.await else { return Ok(()) };
        let Some(answer) = answer_to(&question, control) else { return Ok(()) };
        let length = u16::try_from(answer.len()).unwrap_or(0).to_be_bytes();
        client.write_all(&[&length, answer.as_slice()].concat()).await?;
    }
    Ok(())
}

async fn question(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = usize::from(client.read_u16().await?);
    if length > LONGEST_UDP_QUERY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut question = vec![0; length];
    client.read_exact(&mut question).await?;
    Ok(question)
}

fn answer_to(message: &[u8], control: &EgressControl) -> Option<Vec<u8>> {
    let query = DnsQuery::read(message)?;
    let (asked, known) = match &query.name {
        Ok(name) => (Asked::host(name), control.knows(name)),
        Err((text, reason)) => {
            (Asked::host(text), Err(Refused::because(NetRefusal::BadName, reason)))
        }
    };
    Some(match known {
        Ok(()) => {
            control.allowed(NetVia::Dns, asked);
            query.answer(DnsReply::Known)
        }
        Err(refused) => {
            control.denied(NetVia::Dns, asked, refused);
            query.answer(DnsReply::Unknown)
        }
    })
}
