use std::fs;
use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;

use super::*;

fn count(roots: &[PathBuf]) -> Census {
    census(roots, 64 << 10, &|| false).unwrap()
}

#[test]
fn files_count_with_the_space_that_they_take_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("w");
    fs::create_dir_all(root.join("a/b")).unwrap();
    let before = count(std::slice::from_ref(&root)).bytes;
    fs::write(root.join("a/b/file"), vec![7; 256 << 10]).unwrap();
    fs::hard_link(root.join("a/b/file"), root.join("again")).unwrap();
    fs::File::create(root.join("sparse")).unwrap().set_len(1 << 40).unwrap();
    // The census does not follow links out of the directories.
    fs::write(directory.path().join("outside"), vec![7; 1 << 20]).unwrap();
    symlink(directory.path(), root.join("link")).unwrap();
    let after = count(std::slice::from_ref(&root));
    let grown = after.bytes - before;
    assert!(((256 << 10)..(400 << 10)).contains(&grown), "{grown}");
    assert!(after.is_complete && after.full_files == 0);
}

#[test]
fn files_at_the_limit_are_counted() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("full"), vec![7; 64 << 10]).unwrap();
    fs::write(root.path().join("almost"), vec![7; (64 << 10) - 1]).unwrap();
    assert_eq!(count(&[root.path().to_owned()]).full_files, 1);
}

#[test]
fn a_walk_through_a_tree_that_is_too_deep_is_incomplete() {
    let root = tempfile::tempdir().unwrap();
    let mut deep = root.path().to_owned();
    for _ in 0..DEEPEST {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    assert!(!count(&[root.path().to_owned()]).is_complete);
}

#[test]
fn a_missing_directory_counts_as_empty_and_a_walk_can_be_stopped() {
    let root = tempfile::tempdir().unwrap();
    let missing = count(&[root.path().join("not-yet")]);
    assert!(missing.is_complete && missing.bytes == 0);
    assert!(census(&[root.path().to_owned()], 0, &|| true).is_none());
}

#[test]
fn only_the_outermost_are_walked() {
    let paths = ["/a/b", "/a", "/ab", "/c/d", "/a"].map(PathBuf::from).to_vec();
    assert_eq!(outermost(paths), ["/a", "/ab", "/c/d"].map(PathBuf::from));
}
