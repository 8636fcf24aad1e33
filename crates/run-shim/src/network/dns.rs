//! Names: those of the list lead to us, and there are no others.

use std::io;
use std::sync::Arc;

use egress::{DnsQuery, DnsReply, LONGEST_UDP_QUERY};
use run_protocol::{NetRefusal, NetVia};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::desk::{Asked, Desk, Refused};

/// Questions on one connection.
const MOST_QUESTIONS: usize = 100;

/// Answers questions for ever.
pub(super) async fn answer(socket: UdpSocket, desk: Arc<Desk>) {
    // One more than a question may have, so that a longer one shows.
    let mut message = [0; LONGEST_UDP_QUERY + 1];
    loop {
        match socket.recv_from(&mut message).await {
            Ok((length, asker)) if length <= LONGEST_UDP_QUERY => {
                if let Some(answer) = answer_to(&message[..length], &desk) {
                    // Who does not take the answer has not got one.
                    socket.send_to(&answer, asker).await.ok();
                }
            }
            Ok(_) => {}
            // An answer that could not be delivered is reported here; whatever else it is, it must not make us spin.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
        }
    }
}

/// Answers the questions of one connection.
pub(super) async fn answer_over_tcp(mut client: TcpStream, desk: &Desk) -> io::Result<()> {
    for _ in 0..MOST_QUESTIONS {
        let question = tokio::time::timeout(desk.policy.limits.handshake, question(&mut client));
        let Ok(Ok(question)) = question.await else { return Ok(()) };
        let Some(answer) = answer_to(&question, desk) else { return Ok(()) };
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

fn answer_to(message: &[u8], desk: &Desk) -> Option<Vec<u8>> {
    let query = DnsQuery::read(message)?;
    let (asked, known) = match &query.name {
        Ok(name) => (Asked::host(name), desk.knows(name)),
        Err((text, reason)) => {
            (Asked::host(text), Err(Refused::because(NetRefusal::BadName, reason)))
        }
    };
    Some(match known {
        Ok(()) => {
            desk.allowed(NetVia::Dns, asked);
            query.answer(DnsReply::Known)
        }
        Err(refused) => {
            desk.denied(NetVia::Dns, asked, refused);
            query.answer(DnsReply::Unknown)
        }
    })
}
