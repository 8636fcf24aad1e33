use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use format_fixtures::fixtures;
use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;

struct Host {
    _directory: TempDir,
    record: PathBuf,
    dot_cursor: PathBuf,
}

fn host() -> (Host, MountPoints) {
    let directory = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(directory.path()).unwrap();
    fs::create_dir(root.join("work space\n")).unwrap();
    let dot_cursor = root.join("work space\n/.cursor");
    let point = MountPoint { path: dot_cursor.clone(), kind: PointKind::Directory };
    let points = MountPoints(vec![point]);
    (Host { _directory: directory, record: root.join("record"), dot_cursor }, points)
}

impl Host {
    fn remove(&self) -> Removal {
        let removals = MountPoints::remove_ours(&self.record).unwrap();
        assert!(!self.record.exists());
        let [(path, removal)] = removals.try_into().unwrap();
        assert_eq!(path, self.dot_cursor);
        removal
    }
}

#[test]
fn created_mount_points_are_removed() {
    let (host, points) = host();
    points.create(&host.record).unwrap();
    assert_eq!(fs::metadata(&host.dot_cursor).unwrap().permissions().mode() & 0o7777, 0o700);
    assert_eq!(host.remove(), Removal::Removed);
    assert!(!host.dot_cursor.exists());
    assert_eq!(MountPoints::remove_ours(&host.record).unwrap(), []);
}

#[test]
fn nested_mount_points_are_removed_first_and_the_users_own_files_stay() {
    let (host, _) = host();
    let worktrees = host.dot_cursor.with_file_name("worktrees");
    let ours = worktrees.join("caretaker");
    let point = |path: &Path, kind| MountPoint { path: path.to_owned(), kind };
    let points = MountPoints(vec![
        point(&worktrees, PointKind::Directory),
        point(&ours, PointKind::Directory),
        point(&ours.join("locked"), PointKind::File),
    ]);
    points.create(&host.record).unwrap();
    let removed = |path: &Path| (path.to_owned(), Removal::Removed);
    let all = [removed(&ours.join("locked")), removed(&ours), removed(&worktrees)];
    assert_eq!(MountPoints::remove_ours(&host.record).unwrap(), all);

    points.create(&host.record).unwrap();
    fs::create_dir(worktrees.join("of-the-user")).unwrap();
    let removals = MountPoints::remove_ours(&host.record).unwrap();
    assert_eq!(removals[..2], all[..2]);
    assert_eq!(removals[2], (worktrees.clone(), Removal::NotEmpty));
    assert!(worktrees.join("of-the-user").exists());
}

#[test]
fn nothing_to_create_leaves_no_record() {
    let (host, _) = host();
    MountPoints::default().create(&host.record).unwrap();
    assert!(!host.record.exists());
}

#[test]
fn a_mount_point_that_now_belongs_to_someone_else_stays() {
    let (host, points) = host();
    points.create(&host.record).unwrap();
    fs::write(host.dot_cursor.join("theirs"), "").unwrap();
    assert_eq!(host.remove(), Removal::NotEmpty);
    assert!(host.dot_cursor.join("theirs").exists());

    let (host, points) = self::host();
    points.create(&host.record).unwrap();
    // The old file stays, so that no other file gets its inode.
    fs::rename(&host.dot_cursor, host.dot_cursor.with_extension("old")).unwrap();
    fs::create_dir(&host.dot_cursor).unwrap();
    assert_eq!(host.remove(), Removal::NotOurs);
    assert!(host.dot_cursor.exists());

    let (host, points) = self::host();
    points.create(&host.record).unwrap();
    fs::remove_dir(&host.dot_cursor).unwrap();
    assert_eq!(host.remove(), Removal::Gone);

    let (host, points) = self::host();
    points.create(&host.record).unwrap();
    fs::rename(&host.dot_cursor, host.dot_cursor.with_extension("old")).unwrap();
    symlink(host.dot_cursor.with_extension("old"), &host.dot_cursor).unwrap();
    assert_eq!(host.remove(), Removal::NotOurs);
    assert!(host.dot_cursor.with_extension("old").exists());
}

#[test]
fn a_crash_between_intent_and_creation_is_cleaned_up() {
    let (host, points) = host();
    let entries = [Entry { path: points.0[0].path.clone(), identity: None }];
    // A crash before the creation.
    write_record(&host.record, &entries).unwrap();
    assert_eq!(host.remove(), Removal::Gone);
    // A crash after the creation, but before the identity is in the record.
    write_record(&host.record, &entries).unwrap();
    create(&points.0[0]).unwrap();
    assert_eq!(host.remove(), Removal::Removed);
    // Another process was faster. Its ordinary directory does not look like Caretaker's.
    write_record(&host.record, &entries).unwrap();
    fs::create_dir(&host.dot_cursor).unwrap();
    fs::set_permissions(&host.dot_cursor, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(host.remove(), Removal::NotOurs);
    assert!(host.dot_cursor.exists());
}

#[test]
fn a_path_that_appeared_in_the_meantime_is_refused_and_left_alone() {
    let (host, points) = host();
    symlink("/oldroot/tmp/caretaker-victim", &host.dot_cursor).unwrap();
    let err = points.create(&host.record).unwrap_err();
    assert!(matches!(err, MountPointError::Appeared(path) if path == host.dot_cursor));
    assert!(!host.record.exists());
    assert!(host.dot_cursor.is_symlink());
}

#[test]
fn a_damaged_record_removes_nothing() {
    let (host, points) = host();
    points.create(&host.record).unwrap();
    for damage in ["", "x", "1 2", "1 x /tmp\0", "1 2 relative\0", "\0\0\0"] {
        fs::write(&host.record, damage).unwrap();
        assert_eq!(MountPoints::remove_ours(&host.record).unwrap(), [], "{damage:?}");
        assert!(host.dot_cursor.exists());
    }
}

#[test]
fn the_mounts_in_our_own_dot_cursor_are_made_and_keep_what_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let mounts = DotCursorMounts {
        ours: directory.path().to_owned(),
        directories: vec!["rules".into(), "a/b".into()],
        files: vec!["BUGBOT.md".into(), "c/d".into()],
    };
    fs::write(directory.path().join("BUGBOT.md"), "ours").unwrap();
    mounts.create().unwrap();
    mounts.create().unwrap();
    for path in ["rules", "a/b"] {
        assert!(directory.path().join(path).is_dir(), "{path}");
    }
    assert_eq!(fs::read(directory.path().join("BUGBOT.md")).unwrap(), b"ours");
    assert_eq!(fs::read(directory.path().join("c/d")).unwrap(), b"");
}

#[test]
fn mount_points_are_removed_if_their_record_cannot_be_completed() {
    let (host, points) = host();
    let mut n_written = 0;
    let outcome = points.create_and(&host.record, |entries| {
        n_written += 1;
        match n_written {
            1 => write_record(&host.record, entries),
            _ => Err(record_error(&host.record, io::ErrorKind::StorageFull.into())),
        }
    });
    let err = outcome.unwrap_err();
    assert!(matches!(err, MountPointError::Record { .. }), "{err}");
    for path in points.paths().chain([host.record.as_path()]) {
        assert!(!path.exists(), "{}", path.display());
    }
}

#[test]
fn only_the_user_can_read_a_record() {
    let (host, points) = host();
    points.create(&host.record).unwrap();
    assert_eq!(fs::metadata(&host.record).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn a_file_of_ours_is_removed_unless_somebody_wrote_into_it() {
    let (host, _) = host();
    let points =
        MountPoints(vec![MountPoint { path: host.dot_cursor.clone(), kind: PointKind::File }]);
    points.create(&host.record).unwrap();
    assert_eq!(fs::metadata(&host.dot_cursor).unwrap().permissions().mode() & 0o7777, 0o400);
    assert_eq!(host.remove(), Removal::Removed);
    assert!(!host.dot_cursor.exists());

    points.create(&host.record).unwrap();
    fs::set_permissions(&host.dot_cursor, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&host.dot_cursor, "theirs").unwrap();
    assert_eq!(host.remove(), Removal::NotEmpty);
    assert_eq!(fs::read_to_string(&host.dot_cursor).unwrap(), "theirs");
}

#[test]
fn a_common_dir_points_to_its_own_directory_and_is_removed_unless_somebody_changed_it() {
    let (host, _) = host();
    let git = host.dot_cursor.with_file_name("git");
    fs::create_dir(&git).unwrap();
    let path = git.join("commondir");
    let points = MountPoints(vec![MountPoint { path: path.clone(), kind: PointKind::CommonDir }]);
    let removal = || MountPoints::remove_ours(&host.record).unwrap().remove(0).1;

    points.create(&host.record).unwrap();
    assert_eq!(fs::read(&path).unwrap(), OWN_COMMON_DIR);
    assert_eq!(fs::read_dir(&git).unwrap().count(), 1, "nothing is left beside it");
    assert_eq!(removal(), Removal::Removed);
    assert_eq!(fs::read_dir(&git).unwrap().count(), 0);

    points.create(&host.record).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "../elsewhere\n").unwrap();
    assert_eq!(removal(), Removal::NotEmpty);

    assert!(matches!(points.create(&host.record), Err(MountPointError::Appeared(_))));
    assert_eq!(fs::read_dir(&git).unwrap().count(), 1, "and nothing half-made is left");
    assert_eq!(fs::read_to_string(&path).unwrap(), "../elsewhere\n");
}

#[test]
fn a_record_of_version_1_is_read_in_full_and_written_again_byte_for_byte() {
    let fixture = fixtures("v1/state/runs/*/mount-points.json").remove(0);
    let entries = read_entries(&fixture.bytes());
    let path = PathBuf::from("/home/ada/project/.git/commondir");
    let identity = entries[0].identity;
    assert!(identity.is_some_and(|it| it.device != 0 && it.inode != 0), "{identity:?}");
    assert_eq!(entries, [Entry { path, identity }]);
    let directory = tempfile::tempdir().unwrap();
    let again = directory.path().join("again");
    write_record(&again, &entries).unwrap();
    assert_eq!(fs::read(&again).unwrap(), fixture.bytes());
}
