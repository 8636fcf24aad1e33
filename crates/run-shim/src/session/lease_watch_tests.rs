use std::path::PathBuf;

use run_journal::KernelLock;
use run_protocol::RunId;
use tempfile::TempDir;

use super::*;
use crate::session::held_lock::{Holder, Patience};

struct Scene {
    directory: TempDir,
    holder: Holder,
}

impl Scene {
    fn new() -> Self {
        let run = RunId::generate();
        let holder =
            Holder { run, pid: 1, since_ms: 2, generation: 0, path: None, uncleaned: Vec::new() };
        Self { directory: tempfile::tempdir().unwrap(), holder }
    }

    fn lease(&self) -> PathBuf {
        self.directory.path().join("lease.lock")
    }

    fn take(&self) -> Arc<HeldLock> {
        let lock = HeldLock::acquire(&self.lease(), &self.holder, Patience::FailAtOnce);
        Arc::new(lock.unwrap())
    }

    fn note(&self) -> Holder {
        KernelLock::note(&self.lease()).unwrap().unwrap()
    }

    /// Writes to the file without holding the lock.
    fn overwrite(&self, note: &Holder) {
        fs::write(self.lease(), serde_json::to_vec(note).unwrap()).unwrap();
    }
}

#[test]
fn a_lease_that_nobody_touched_stays_ours() {
    let scene = Scene::new();
    let mut watch = LeaseWatch::new(scene.take());
    for _ in 0..3 {
        assert!(watch.is_ours());
    }
}

#[test]
fn a_lease_whose_file_was_deleted_moved_or_replaced_is_lost() {
    let changes: [fn(&Scene); 4] = [
        |scene| fs::remove_file(scene.lease()).unwrap(),
        |scene| fs::rename(scene.lease(), scene.directory.path().join("moved")).unwrap(),
        |scene| {
            // `rsync` and `tar` restore a file like this: a new file with the same content.
            let copy = scene.directory.path().join("copy");
            fs::copy(scene.lease(), &copy).unwrap();
            fs::rename(copy, scene.lease()).unwrap();
        },
        |scene| {
            fs::remove_file(scene.lease()).unwrap();
            drop(scene.take());
        },
    ];
    for change in changes {
        let scene = Scene::new();
        let mut watch = LeaseWatch::new(scene.take());
        assert!(watch.is_ours());
        change(&scene);
        assert!(!watch.is_ours());
        assert!(!watch.is_ours(), "a lost lease stays lost");
    }
}

#[test]
fn a_lease_that_was_taken_since_is_lost_although_its_file_is_the_same() {
    let scene = Scene::new();
    let mut watch = LeaseWatch::new(scene.take());
    assert!(watch.is_ours());
    let later = Holder { run: RunId::generate(), generation: 2, ..scene.holder.clone() };
    scene.overwrite(&later);
    assert!(!watch.is_ours());
    assert_eq!(scene.note(), later, "this run must not change the other run's note");
}

#[test]
fn an_older_note_that_was_copied_into_the_file_is_put_right() {
    let scene = Scene::new();
    drop(scene.take());
    let old = scene.note();
    let mut watch = LeaseWatch::new(scene.take());
    let ours = scene.note();
    assert_eq!(ours.generation, 2);
    assert!(watch.is_ours());
    scene.overwrite(&old);
    assert!(watch.is_ours(), "the lock is still ours");
    assert_eq!(scene.note(), ours, "the generation does not go back");
    fs::write(scene.lease(), "").unwrap();
    assert!(watch.is_ours());
    assert_eq!(scene.note(), ours);
}
