use pretty_assertions::assert_eq;

use super::*;

#[test]
fn the_file_is_read_back_and_a_damaged_file_counts_as_missing() {
    let directory = tempfile::tempdir().unwrap();
    let file = QueueFile::new(directory.path());
    assert_eq!(file.read(), QueueMemory::default());
    let lowered = Lowered::after_refusal(None, 8, 1, 2, 3);
    let memory = QueueMemory {
        gate: QueueGate::Paused,
        caps: None,
        lowered: BTreeMap::from([("default".to_owned(), lowered)]),
    };
    file.write(&memory).unwrap();
    assert_eq!(file.read(), memory);
    fs::write(directory.path().join("queue.json"), "{").unwrap();
    assert_eq!(file.read(), QueueMemory::default());
}
