use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn the_file_is_private_and_has_the_new_content() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("record.json");
    for durable in [Durable::No, Durable::Yes] {
        replace_file(&path, b"one", Durable::Yes).unwrap();
        replace_file(&path, b"two", durable).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_failure_keeps_the_old_file_and_leaves_nothing_beside_it() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("record.json");
    replace_file(&path, b"one", Durable::No).unwrap();
    let failed = replace_with(&path, Durable::No, |out| {
        out.write_all(b"half")?;
        Err(io::Error::other("it broke"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "it broke");
    assert_eq!(fs::read(&path).unwrap(), b"one");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn only_drafts_of_the_dead_are_removed() {
    let place = tempfile::tempdir().unwrap();
    let make = |name: &str| fs::File::create(place.path().join(name)).unwrap();
    let long_ago = std::time::SystemTime::now() - 2 * DEAD_FOR_SURE;
    make(".new-young");
    for name in [".new-old", "record.json"] {
        make(name).set_modified(long_ago).unwrap();
    }
    remove_dead_drafts(place.path());
    let mut left: Vec<_> =
        fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".new-young", "record.json"]);
}

#[test]
fn a_link_is_replaced_and_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let (target, link) = (place.path().join("target"), place.path().join("link"));
    fs::write(&target, "kept").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    replace_file(&link, b"new", Durable::No).unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"kept");
    assert!(fs::symlink_metadata(&link).unwrap().is_file());
}
