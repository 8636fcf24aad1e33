use super::*;

#[test]
fn the_state_is_sent_to_a_path_or_an_abstract_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let listener = UnixDatagram::bind(&path).unwrap();
    notify(path.as_os_str(), "READY=1").unwrap();
    let mut heard = [0; 64];
    let length = listener.recv(&mut heard).unwrap();
    assert_eq!(&heard[..length], b"READY=1");

    let name = format!("caretaker-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
    let listener = UnixDatagram::bind_addr(&address).unwrap();
    notify(OsStr::new(&format!("@{name}")), "STOPPING=1").unwrap();
    let length = listener.recv(&mut heard).unwrap();
    assert_eq!(&heard[..length], b"STOPPING=1");
}
