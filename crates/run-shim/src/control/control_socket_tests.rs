use std::time::Duration;

use pretty_assertions::assert_eq;

use super::*;

struct Server {
    _directory: tempfile::TempDir,
    path: std::path::PathBuf,
    run: RunId,
    written: watch::Sender<Written>,
    orders: mpsc::Receiver<Order>,
}

fn server() -> Server {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    let run = RunId::generate();
    let (written, seen) = watch::channel(Written { epoch: 1, seq: 3 });
    let (sender, orders) = mpsc::channel(4);
    tokio::spawn(serve(listen(&path).unwrap(), run, seen, sender));
    Server { _directory: directory, path, run, written, orders }
}

struct Client(BufReader<UnixStream>);

impl Client {
    async fn connect(server: &Server) -> Self {
        let mut client = Self(BufReader::new(UnixStream::connect(&server.path).await.unwrap()));
        let hello = ControlReply::Hello { run: server.run, journal: JOURNAL_VERSION };
        assert_eq!(client.next().await, Some(hello));
        client
    }
    async fn send(&mut self, line: &str) {
        self.0.get_mut().write_all(line.as_bytes()).await.unwrap();
    }
    async fn next(&mut self) -> Option<ControlReply> {
        let mut line = String::new();
        let read = tokio::time::timeout(Duration::from_secs(20), self.0.read_line(&mut line));
        match read.await.expect("an answer in time") {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
        }
    }
}

#[tokio::test]
async fn a_watcher_learns_the_journals_length_and_every_time_it_grows() {
    let server = server();
    let mut client = Client::connect(&server).await;
    client.send("{\"request\":\"watch\"}\n").await;
    assert_eq!(client.next().await, Some(ControlReply::Grown { epoch: 1, seq: 3 }));
    server.written.send(Written { epoch: 1, seq: 9 }).unwrap();
    assert_eq!(client.next().await, Some(ControlReply::Grown { epoch: 1, seq: 9 }));
    drop(server.written);
    assert_eq!(client.next().await, None, "the end of the run ends the connection");
}

#[tokio::test]
async fn an_order_to_stop_is_passed_on_and_confirmed() {
    let mut server = server();
    let mut client = Client::connect(&server).await;
    client.send("{\"request\":\"stop\",\"manner\":\"now\"}\n").await;
    assert_eq!(client.next().await, Some(ControlReply::Ok));
    assert!(matches!(server.orders.recv().await, Some(Order::Stop(StopManner::Now))));
}

#[tokio::test]
async fn nonsense_is_refused_with_a_reason_and_the_next_client_is_served() {
    let server = server();
    for nonsense in ["hello\n", "{\"request\":\"explode\"}\n", &format!("{}\n", "x".repeat(90_000))]
    {
        let mut client = Client::connect(&server).await;
        client.send(nonsense).await;
        assert!(matches!(client.next().await, Some(ControlReply::Refused { .. })));
    }
    let mut client = Client::connect(&server).await;
    client.send("{\"request\":\"watch\"}\n").await;
    assert!(client.next().await.is_some());
}

#[tokio::test]
async fn a_change_of_servers_is_confirmed_when_it_is_done_and_refused_with_its_reason() {
    let mut server = server();
    for done in [Ok(()), Err("there is no such server".to_owned())] {
        let mut client = Client::connect(&server).await;
        client.send("{\"request\":\"regenerate_mcp\",\"disable\":[\"notes\"]}\n").await;
        let Some(Order::ChangeServers((change, answer))) = server.orders.recv().await else {
            panic!("another order came");
        };
        assert_eq!((change.disable, change.enable), (vec!["notes".to_owned()], Vec::new()));
        answer.send(done.clone()).unwrap();
        let expected =
            done.map_or_else(|reason| ControlReply::Refused { reason }, |()| ControlReply::Ok);
        assert_eq!(client.next().await, Some(expected));
    }
    let mut client = Client::connect(&server).await;
    client.send("{\"request\":\"regenerate_mcp\"}\n").await;
    // When a run ends, it drops the order.
    drop(server.orders.recv().await);
    assert!(matches!(client.next().await, Some(ControlReply::Refused { .. })));
}
