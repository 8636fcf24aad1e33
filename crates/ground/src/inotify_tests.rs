use super::*;

#[test]
fn changes_are_reported_with_their_names_and_so_is_the_end_of_a_watch() {
    let place = tempfile::tempdir().unwrap();
    let inotify = Inotify::new().unwrap();
    let what = WatchFlags::CREATE | WatchFlags::CLOSE_WRITE | WatchFlags::DELETE_SELF;
    let watch = inotify.add(place.path(), what).unwrap();
    assert!(!inotify.wait(Some(Duration::ZERO)).unwrap());
    assert_eq!(inotify.read().unwrap(), []);
    std::fs::write(place.path().join("a"), "1").unwrap();
    assert!(inotify.wait(None).unwrap());
    let change = |what| Change { watch, what, name: Some("a".into()) };
    assert_eq!(
        inotify.read().unwrap(),
        [change(ReadFlags::CREATE), change(ReadFlags::CLOSE_WRITE)]
    );
    std::fs::remove_dir_all(place.path()).unwrap();
    let last = inotify.read().unwrap().pop().unwrap();
    assert!(last.is_end_of_watch() && last.watch == watch);
}
