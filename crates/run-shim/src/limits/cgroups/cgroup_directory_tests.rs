//! These tests use real control groups, if this user may create them.

use std::process::{Child, Command};

use super::*;
use crate::limits::cgroups::hierarchy::Hierarchies;

/// A directory in any tree in which this user can create a group. In version 2 that needs no controllers.
fn somewhere() -> Option<PathBuf> {
    let hierarchies = Hierarchies::of_this_process().unwrap();
    let places = hierarchies.unified.iter().chain(hierarchies.legacy.values());
    let can_be_used = |place: &PathBuf| {
        let trial = place.join(format!("{PREFIX}test-somewhere-{}", std::process::id()));
        std::fs::create_dir(&trial).is_ok_and(|()| std::fs::remove_dir(&trial).is_ok())
    };
    let found = places.map(|placement| placement.own.clone()).find(can_be_used);
    if found.is_none() {
        eprintln!("this user may not make control groups here, so nothing was tested");
    }
    found
}

fn sleeper() -> Child {
    Command::new("sleep").arg("600").spawn().unwrap()
}

#[test]
fn a_group_takes_in_a_process_and_can_be_removed_when_empty() {
    let Some(parent) = somewhere() else { return };
    let group =
        CgroupDirectory::create(&parent, &format!("test-a-{}", std::process::id())).unwrap();
    let path = group.path().to_owned();
    let mut child = sleeper();
    group.add(&[child.id()]).unwrap();
    assert_eq!(group.read("cgroup.procs").unwrap().trim(), child.id().to_string());
    // The sweep leaves live groups alone.
    sweep(&parent);
    assert!(path.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    // A process that is gone needs no limits.
    group.add(&[child.id()]).unwrap();
    drop(group);
    assert!(!path.exists());
}

#[test]
fn removing_a_version_2_group_ends_the_processes_in_it() {
    let Some(parent) = somewhere() else { return };
    let group =
        CgroupDirectory::create(&parent, &format!("test-b-{}", std::process::id())).unwrap();
    let path = group.path().to_owned();
    if !path.join("cgroup.kill").exists() {
        eprintln!("this tree cannot kill a whole group, so nothing was tested");
        return;
    }
    let mut child = sleeper();
    group.add(&[child.id()]).unwrap();
    let waiting = std::thread::spawn(move || child.wait().unwrap());
    drop(group);
    assert!(!waiting.join().unwrap().success());
    assert!(!path.exists());
}
