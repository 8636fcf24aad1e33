use std::future::pending;

use super::*;

#[tokio::test]
async fn the_newest_stranger_pushes_the_oldest_out_and_known_clients_stay() {
    let unknown = UnknownClients::new(1);
    let mut clients = Vec::new();
    let enter = || {
        let mut entered = None;
        unknown.serve(|client| {
            entered = Some(Arc::downgrade(&client));
            async move {
                pending::<()>().await;
                drop(client);
            }
        });
        entered.unwrap()
    };
    let known = enter();
    assert!(known.upgrade().unwrap().take_place());
    clients.extend((0..MOST_WAITING + 5).map(|_| enter()));
    // The runtime drops an aborted task only when it gets its turn.
    tokio::task::yield_now().await;
    let is_here: Vec<bool> = clients.iter().map(|it| it.upgrade().is_some()).collect();
    assert_eq!(is_here[..5], [false; 5]);
    assert_eq!(is_here[5..], [true; MOST_WAITING]);
    assert!(known.upgrade().is_some());
    assert!(!clients[5].upgrade().unwrap().take_place(), "the only place is taken");
}
