use std::fs;
use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;

use super::*;

const AMPLE: Effort =
    Effort { most_entries: 100_000, longest: Duration::from_secs(600), most_found: 64 };

fn made(paths: &[&str]) -> (tempfile::TempDir, Directory) {
    let host = tempfile::tempdir().unwrap();
    for path in paths {
        fs::create_dir_all(host.path().join(path)).unwrap();
    }
    let directory = Directory::open(&fs::canonicalize(host.path()).unwrap()).unwrap();
    (host, directory)
}

fn found(search: &Search) -> Vec<(NestedKind, &str)> {
    let mut found: Vec<_> =
        search.found.iter().map(|nested| (nested.kind, nested.path.to_str().unwrap())).collect();
    found.sort_by_key(|(_, path)| *path);
    found
}

#[test]
fn every_kind_is_found_except_the_workspaces_own_and_skipped_ones() {
    let (host, directory) = made(&[
        ".git/modules/lib/objects",
        "lib",
        "deep/er/clone/.git/objects",
        "bare.git/objects",
        "bare.git/refs/heads",
        "linked",
        "skipped/.git",
        "node_modules/x/.GIT",
        "plain/objects",
    ]);
    fs::write(host.path().join("lib/.git"), "gitdir: ../.git/modules/lib").unwrap();
    fs::write(host.path().join("bare.git/HEAD"), "ref: refs/heads/main").unwrap();
    symlink("/elsewhere", host.path().join("linked/.git")).unwrap();
    symlink("deep", host.path().join("way-round")).unwrap();
    let search = search(&directory, &[Path::new("skipped")], AMPLE);
    assert_eq!(
        found(&search),
        [
            (NestedKind::Bare, "bare.git"),
            (NestedKind::Directory, "deep/er/clone/.git"),
            (NestedKind::File, "lib/.git"),
            (NestedKind::Link, "linked/.git"),
            (NestedKind::Directory, "node_modules/x/.GIT"),
        ]
    );
    assert_eq!(search.cut_after, None);
}

#[test]
fn a_search_that_is_cut_short_says_so_and_looks_in_near_and_light_directories_first() {
    let (host, directory) = made(&["near/.git", "node_modules/far/.git"]);
    for number in 0..100 {
        fs::write(host.path().join(format!("node_modules/{number}")), "").unwrap();
    }
    let short = search(&directory, &[], Effort { most_entries: 50, ..AMPLE });
    assert_eq!(found(&short), [(NestedKind::Directory, "near/.git")]);
    assert_eq!(short.cut_after, Some(104));
    let hasty = search(&directory, &[], Effort { longest: Duration::ZERO, ..AMPLE });
    assert_eq!((hasty.found.len(), hasty.cut_after), (0, Some(0)));
    let few = search(&directory, &[], Effort { most_found: 1, ..AMPLE });
    assert_eq!((few.found.len(), few.cut_after.is_some()), (1, true));
}
