use std::fs;
use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn a_link_or_a_file_in_place_of_the_directory_is_replaced() {
    let place = tempfile::tempdir().unwrap();
    let victim = tempfile::tempdir().unwrap();
    for leave in [
        &(|path: &Path| symlink(victim.path(), path)) as &dyn Fn(&Path) -> io::Result<()>,
        &|path| fs::write(path, "in the way"),
        &|_| Ok(()),
    ] {
        let path = place.path().join("project");
        leave(&path).unwrap();
        let directory = AgentsDirectory::open(place.path(), OsStr::new("project")).unwrap();
        directory.write(OsStr::new("file"), b"ours").unwrap();
        assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "ours");
        assert!(fs::symlink_metadata(&path).unwrap().is_dir());
        fs::remove_dir_all(path).unwrap();
    }
    assert_eq!(fs::read_dir(victim.path()).unwrap().count(), 0);
}

#[test]
fn links_with_the_names_of_our_files_are_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let victim = place.path().join("victim");
    fs::write(&victim, "the user's own").unwrap();
    let project = place.path().join("project");
    fs::create_dir(&project).unwrap();
    let guessed = (0..3).map(|n| format!(".caretaker-{}-{n}", std::process::id()));
    for name in guessed.chain(["file".to_owned()]) {
        symlink(&victim, project.join(name)).unwrap();
    }
    let directory = AgentsDirectory::open(place.path(), OsStr::new("project")).unwrap();
    directory.write(OsStr::new("file"), b"ours").unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "the user's own");
    assert_eq!(fs::read_to_string(project.join("file")).unwrap(), "ours");
    assert!(fs::symlink_metadata(project.join("file")).unwrap().is_file());
}

#[test]
fn replacing_a_full_directory_fails_and_leaves_no_temporary_file() {
    let place = tempfile::tempdir().unwrap();
    let project = place.path().join("project");
    fs::create_dir_all(project.join("file/inside")).unwrap();
    let directory = AgentsDirectory::open(place.path(), OsStr::new("project")).unwrap();
    directory.write(OsStr::new("file"), b"ours").unwrap_err();
    let left: Vec<_> = fs::read_dir(&project).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["file"]);
}
