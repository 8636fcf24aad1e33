//! The run's control socket. Clients on the host watch the journal's growth, stop the run, or change its MCP servers.
//!
//! Each line is one JSON object. A silent, noisy or broken client harms only itself.

use std::io;
use std::path::Path;
use std::sync::Arc;

use run_protocol::{
    ControlReply, ControlRequest, Epoch, JOURNAL_VERSION, RunId, ServerChange, StopManner,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

/// More clients than any user has terminals open.
const MOST_CLIENTS: usize = 256;
/// The longest request: a few paths and server names.
const LONGEST_REQUEST: u64 = 64 * 1024;
/// The answer once the run has ended.
const OVER: &str = "the run is over";

/// A change to the agent's servers, and the channel for its result.
pub(crate) type AskedChange = (ServerChange, oneshot::Sender<Result<(), String>>);

/// A request to the run.
#[derive(Debug)]
pub(crate) enum Order {
    Stop(StopManner),
    Suspend,
    ChangeServers(AskedChange),
    /// The shim received a signal.
    Interrupt,
}

/// The last event that readers can find in the journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) epoch: Epoch,
    pub(crate) seq: u64,
}

/// Serves clients until it is dropped.
pub(crate) async fn serve(
    listener: UnixListener,
    run: RunId,
    written: watch::Receiver<Written>,
    orders: mpsc::Sender<Order>,
) {
    let places = Arc::new(Semaphore::new(MOST_CLIENTS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((client, _)) if is_ours(&client) => {
                let (written, orders) = (written.clone(), orders.clone());
                tokio::spawn(async move {
                    // A client that disconnects does not affect the run.
                    serve_client(client, run, written, orders).await.ok();
                    drop(place);
                });
            }
            Ok(_stranger) => {}
            // Usually the process is out of descriptors. Other clients may disconnect soon.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
        }
    }
}

/// Tells whether the client is this user or root. The directory's permissions keep all others out.
fn is_ours(client: &UnixStream) -> bool {
    let us = nix::unistd::geteuid().as_raw();
    client.peer_cred().is_ok_and(|peer| peer.uid() == us || peer.uid() == 0)
}

async fn serve_client(
    client: UnixStream,
    run: RunId,
    mut written: watch::Receiver<Written>,
    orders: mpsc::Sender<Order>,
) -> io::Result<()> {
    let (reader, mut writer) = client.into_split();
    let mut reader = BufReader::new(reader);
    reply(&mut writer, &ControlReply::Hello { run, journal: JOURNAL_VERSION }).await?;
    while let Some(request) = next_request(&mut reader).await? {
        match request {
            Ok(ControlRequest::Watch) => {
                written.mark_changed();
                return tell_of_growth(&mut reader, &mut writer, written).await;
            }
            Ok(ControlRequest::Stop { manner }) => {
                order(&mut writer, &orders, Order::Stop(manner)).await?;
            }
            Ok(ControlRequest::Suspend) => {
                order(&mut writer, &orders, Order::Suspend).await?;
            }
            Ok(ControlRequest::RegenerateMcp(change)) => {
                let done = change_servers(&orders, change).await;
                let answer = done
                    .map_or_else(|reason| ControlReply::Refused { reason }, |()| ControlReply::Ok);
                reply(&mut writer, &answer).await?;
            }
            Err(reason) => {
                return reply(&mut writer, &ControlReply::Refused { reason }).await;
            }
        }
    }
    Ok(())
}

async fn order(
    writer: &mut OwnedWriteHalf,
    orders: &mpsc::Sender<Order>,
    order: Order,
) -> io::Result<()> {
    let answer = match orders.send(order).await {
        Ok(()) => ControlReply::Ok,
        Err(_) => ControlReply::Refused { reason: OVER.to_owned() },
    };
    reply(writer, &answer).await
}

/// Waits until the change is done, because the client relies on the new file.
async fn change_servers(orders: &mpsc::Sender<Order>, change: ServerChange) -> Result<(), String> {
    let (sender, answer) = oneshot::channel();
    let sent = orders.send(Order::ChangeServers((change, sender))).await;
    match (sent, answer.await) {
        (Ok(()), Ok(done)) => done,
        _ => Err(OVER.to_owned()),
    }
}

/// Reports the journal's growth. A slow client gets only the latest position, because the journal itself is the queue.
async fn tell_of_growth(
    reader: &mut BufReader<OwnedReadHalf>,
    writer: &mut OwnedWriteHalf,
    mut written: watch::Receiver<Written>,
) -> io::Result<()> {
    let mut nothing_more = [0; 64];
    loop {
        tokio::select! {
            changed = written.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                let Written { epoch, seq } = *written.borrow_and_update();
                reply(writer, &ControlReply::Grown { epoch, seq }).await?;
            }
            read = reader.read(&mut nothing_more) => {
                if read? == 0 {
                    return Ok(());
                }
            }
        }
    }
}

async fn next_request(
    reader: &mut BufReader<OwnedReadHalf>,
) -> io::Result<Option<Result<ControlRequest, String>>> {
    let mut line = Vec::new();
    let length = reader.take(LONGEST_REQUEST).read_until(b'\n', &mut line).await?;
    if length == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&line).map_err(|error| format!("not a request: {error}"))))
}

async fn reply(writer: &mut OwnedWriteHalf, reply: &ControlReply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    writer.write_all(&line).await
}

/// Makes the socket. Its directory's permissions keep other users out.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(path)
}

#[cfg(test)]
#[path = "control_socket_tests.rs"]
mod tests;
