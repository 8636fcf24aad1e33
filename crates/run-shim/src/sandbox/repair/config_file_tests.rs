use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use pretty_assertions::assert_eq;

use super::*;

struct Repository {
    directory: tempfile::TempDir,
    file: ConfigFile,
    owner: Owner,
}

impl Repository {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("config");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let file = ConfigFile::at(&path).unwrap();
        let (text, _, owner) = file.read().unwrap();
        assert_eq!(text, b"old");
        Self { directory, file, owner }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_replaced_file_is_a_new_one_with_the_same_mode_and_the_lock_is_free_again() {
    let repository = Repository::new();
    let before = File::open(repository.path("config")).unwrap().metadata().unwrap();
    let stamp = repository.file.settle();
    let replaced = repository.file.replace(b"new", repository.owner, stamp).unwrap().unwrap();
    let after = fs::metadata(repository.path("config")).unwrap();
    assert_eq!(fs::read(repository.path("config")).unwrap(), b"new");
    assert_eq!((replaced.device, replaced.inode), (after.dev(), after.ino()));
    assert_ne!(after.ino(), before.ino());
    assert_eq!(after.mode() & 0o777, 0o640);
    assert_eq!(repository.names(), ["config"]);
}

#[test]
fn a_file_that_changed_or_is_locked_is_not_replaced() {
    let repository = Repository::new();
    let stamp = repository.file.settle();
    fs::write(repository.path("config"), "newer").unwrap();
    assert_eq!(repository.file.replace(b"new", repository.owner, stamp).unwrap(), None);
    let stamp = repository.file.settle();
    fs::write(repository.path("config.lock"), "of git").unwrap();
    assert_eq!(repository.file.replace(b"new", repository.owner, stamp).unwrap(), None);
    assert_eq!(fs::read(repository.path("config")).unwrap(), b"newer");
    assert_eq!(fs::read(repository.path("config.lock")).unwrap(), b"of git");
    assert_eq!(repository.names(), ["config", "config.lock"]);
}

#[test]
fn a_lock_does_not_hold_up_the_shim_for_long() {
    let repository = Repository::new();
    fs::write(repository.path("config.lock"), "").unwrap();
    let began = Instant::now();
    repository.file.settle();
    assert!(began.elapsed() >= PATIENCE && began.elapsed() < 3 * PATIENCE);
}

#[test]
fn only_a_regular_file_of_limited_size_is_read() {
    let repository = Repository::new();
    let config = repository.path("config");
    fs::write(&config, vec![b'#'; 2 << 20]).unwrap();
    assert!(repository.file.read().is_err());
    fs::remove_file(&config).unwrap();
    symlink("/etc/passwd", &config).unwrap();
    assert!(repository.file.read().is_err());
    fs::remove_file(&config).unwrap();
    nix::unistd::mkfifo(&config, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(repository.file.read().is_err());
}

#[test]
fn the_text_is_restored_whatever_an_agent_put_in_its_place() {
    let plant: [fn(&Path); 5] = [
        |_| {},
        |config| fs::write(config, "evil").unwrap(),
        |config| symlink("/etc/passwd", config).unwrap(),
        |config| fs::create_dir(config).unwrap(),
        |config| fs::create_dir_all(config.join("inner")).unwrap(),
    ];
    for (number, plant) in plant.into_iter().enumerate() {
        let repository = Repository::new();
        let config = repository.path("config");
        fs::remove_file(&config).unwrap();
        plant(&config);
        repository.file.restore(b"old", repository.owner).unwrap();
        assert_eq!(fs::read(&config).unwrap(), b"old");
        assert!(fs::symlink_metadata(&config).unwrap().is_file());
        // A directory with something in it stays under another name.
        assert_eq!(repository.names().len(), if number == 4 { 2 } else { 1 });
    }
}
