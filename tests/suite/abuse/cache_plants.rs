//! Attempts on the private dependency caches, which stay between runs.

use std::fs;
use std::path::{Path, PathBuf};

use super::evidence::Snapshot;
use super::hostile::{Caller, Hostile, write};
use super::table::Verdict;
use super::whole_runs::{ALL, ONE, WholeRun, held, hostile};
use crate::stage::{assert_exit, stderr};

pub(super) const CACHE_PLANTS: &[WholeRun] = &[
    WholeRun {
        id: "K4",
        does: "leaves a link in its cache where the next run's shim makes links",
        callers: ALL,
        act: cache_link,
    },
    WholeRun {
        id: "K5",
        does: "poisons another repository's cache",
        callers: ONE,
        act: cache_of_another,
    },
];

/// The agent replaces a directory of its private cache with a link to the user's directory. Then the host's cache
/// grows, and the shim of the next run makes links.
fn cache_link(caller: Caller) -> Verdict {
    let hostile = hostile(caller);
    let home = hostile.stage.home();
    let victim = home.join("victim");
    write(&victim.join("reg/file"), "the user's own");
    hostile.give_away();
    let before = Snapshot::of(&victim);
    let plant = "shell mv ~/.cargo/registry/cache ~/.cargo/registry/aside && ln -s ~/victim ~/.cargo/registry/cache && touch planted";
    let output = hostile.play(&format!("{plant}\nsay done"), &[]);
    assert_exit(&output, 0);
    assert!(hostile.workspace().join("planted").exists(), "nothing was planted");
    let caches = hostile.stage.root().join("state/caches");
    let caches = fs::read_dir(caches).unwrap().map(|entry| entry.unwrap().path());
    let mut planted = caches.map(|cache| cache.join("cargo/registry/cache/reg/file"));
    assert!(
        planted.any(|path| path.exists()),
        "on the host, a writer that follows links gets there"
    );
    write(&home.join(".cargo/registry/cache/new/b-1.0.0.crate"), "a package");
    hostile.give_away();
    let output = hostile.play("shell ls ~/.cargo/registry/cache/ > listed\nsay done", &[]);
    assert_eq!(before.difference(&Snapshot::of(&victim)), None, "{}", stderr(&output));
    assert_exit(&output, 0);
    let listed = fs::read_to_string(hostile.workspace().join("listed")).unwrap();
    assert_eq!(listed, "", "inside the sandbox, the link should lead nowhere");
    held("a writer that follows no links")
}

/// Leaves a file in the private cache.
pub(super) const POISON: &str = "echo EVIL > ~/.cargo/registry/poison";

/// Makes a workspace that has nothing to do with the other one.
pub(super) fn another_repository(hostile: &Hostile) -> PathBuf {
    let another = hostile.stage.home().join("work/another");
    write(&another.join("Cargo.toml"), "# a package\n");
    hostile.give_away();
    another
}

/// One run leaves a file in its cache. The next run in the same repository finds it; a run in another repository does
/// not, and neither does a run with a fresh cache.
fn cache_of_another(caller: Caller) -> Verdict {
    let hostile = hostile(caller);
    let finds = |workspace: &Path, flags: &[&str]| {
        let script = "```agent\nshell ls ~/.cargo/registry > listed\n```\n";
        let run = ["run", "--agent", "simulated", script, "-C", workspace.to_str().unwrap()];
        let output = hostile.command(&[&run, flags].concat()).output().unwrap();
        assert_exit(&output, 0);
        fs::read_to_string(workspace.join("listed")).unwrap().contains("poison")
    };
    let output = hostile.play(&format!("shell {POISON}\nsay done"), &[]);
    assert_exit(&output, 0);
    let another = another_repository(&hostile);
    assert!(finds(&hostile.workspace(), &[]), "the cache is not kept, so this proves nothing");
    assert!(!finds(&another, &[]), "a run in another repository sees it");
    assert!(!finds(&hostile.workspace(), &["--fresh-cache"]), "a fresh cache has it");
    held("a cache for each repository")
}
