//! Random changes to a workspace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use proptest::prelude::*;

use crate::test_tree::TestTree;

/// One change that a run or a user may make to a workspace.
#[derive(Debug, Clone)]
pub(crate) enum Deed {
    Write(u8, u8),
    Directory(u8),
    Link(u8, u8),
    Remove(u8),
    Mode(u8, u32),
    Rename(u8, u8),
    Fifo(u8),
}

pub(crate) fn deed() -> impl Strategy<Value = Deed> {
    let mode =
        prop_oneof![Just(0o755), Just(0o644), Just(0o600), Just(0o777), Just(0o500), Just(0o444)];
    prop_oneof![
        4 => (any::<u8>(), any::<u8>()).prop_map(|(place, content)| Deed::Write(place, content)),
        1 => any::<u8>().prop_map(Deed::Directory),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(place, target)| Deed::Link(place, target)),
        2 => any::<u8>().prop_map(Deed::Remove),
        1 => (any::<u8>(), mode).prop_map(|(place, mode)| Deed::Mode(place, mode)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(from, to)| Deed::Rename(from, to)),
        1 => any::<u8>().prop_map(Deed::Fifo),
    ]
}

/// Uses few paths, so that changes often hit the same one.
fn place(number: u8) -> PathBuf {
    let names = ["a", "b", "a.b", "ü"];
    let name = |bits: u8| names[usize::from(bits & 3)];
    let mut path = PathBuf::from(name(number));
    for level in 1..=(number >> 6) {
        path.push(name(number >> (2 * level)));
    }
    path
}

pub(crate) fn act(tree: &TestTree, deed: &Deed) {
    let at = |number: u8| tree.workspace().join(place(number));
    let parent = |number: u8| fs::create_dir_all(at(number).parent().unwrap()).ok();
    // Changes that are impossible here are skipped.
    match deed {
        Deed::Write(number, content) => {
            parent(*number);
            // Do not write through a FIFO or a link in its place.
            if !fs::symlink_metadata(at(*number)).is_ok_and(|found| !found.is_file()) {
                fs::write(at(*number), [*content; 5]).ok();
            }
        }
        Deed::Directory(number) => {
            fs::create_dir_all(at(*number)).ok();
        }
        Deed::Link(number, target) => {
            parent(*number);
            std::os::unix::fs::symlink(place(*target), at(*number)).ok();
        }
        Deed::Remove(number) => {
            fs::remove_file(at(*number)).or_else(|_| fs::remove_dir_all(at(*number))).ok();
        }
        Deed::Mode(number, mode) => {
            if fs::symlink_metadata(at(*number)).is_ok_and(|found| !found.is_symlink()) {
                fs::set_permissions(at(*number), fs::Permissions::from_mode(*mode)).ok();
            }
        }
        Deed::Rename(from, to) => {
            fs::rename(at(*from), at(*to)).ok();
        }
        Deed::Fifo(number) => {
            parent(*number);
            rustix::fs::mknodat(
                rustix::fs::CWD,
                at(*number),
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::from_raw_mode(0o600),
                0,
            )
            .ok();
        }
    }
}
