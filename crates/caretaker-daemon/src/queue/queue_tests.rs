use super::*;

fn queue() -> (tempfile::TempDir, Queue) {
    let state = tempfile::tempdir().unwrap();
    let none = BTreeMap::new;
    let caps = Caps { total: 1, groups: none(), models: none(), accounts: none() };
    let queue = Queue::new(state.path(), caps);
    (state, queue)
}

#[test]
fn a_new_run_waits_only_a_moment_for_its_credentials() {
    let (_state, queue) = queue();
    let run = RunId::generate();
    let hold = |since_ms| queue.hold(&queue.inner(), run, since_ms);
    let until_ms = queue.opened_ms + CREDENTIALS_EXPECTED_MS;
    assert_eq!(hold(queue.opened_ms), Some(Hold::Credentials { until_ms }));
    assert_eq!(hold(queue.opened_ms - 1), None, "the run is older than the daemon");
    queue.keep_credentials(run, Credentials::default());
    assert_eq!(hold(queue.opened_ms), None);
}

#[test]
fn keys_that_arrive_during_a_start_are_not_overlooked() {
    let (_state, queue) = queue();
    let run = RunId::generate();
    let missing = || Some(Hold::Keys { names: vec!["KEY".to_owned()] });
    // These credentials came before the start, and lack the key.
    let given = Credentials::default();
    queue.keep_credentials(run, given.clone());
    queue.settle_start(run, Some(&given), missing());
    assert_eq!(queue.hold(&queue.inner(), run, 0), missing());
    // The right key arrives during the start.
    let keys = BTreeMap::from([("KEY".to_owned(), "k".to_owned())]);
    queue.keep_credentials(run, Credentials { keys, proxy: None });
    queue.settle_start(run, Some(&given), missing());
    assert_eq!(queue.hold(&queue.inner(), run, 0), None);
}
