//! The private dependency caches between runs: which runs have one, and when it is removed.

use std::path::Path;

use crate::sandbox::strict::extend_strict;
use crate::stage::{Stage, assert_exit, printed, stderr};

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn strict_shows_no_cache_and_keeps_none() {
    let stage = Stage::new();
    write(&stage.home().join(".cargo/registry/cache/reg/a-1.0.0.crate"), "a");
    write(&stage.workspace().join("Cargo.toml"), "");
    extend_strict(&stage, "tight", "[caller]\nroot = \"warn\"\n[limits]\nrequired = false\n");
    let explained = |profile: &str| {
        let explain = ["sandbox", "explain", "--agent", "simulated", "--profile", profile];
        printed(&stage.output(&explain))
    };
    assert!(explained("default").contains("/run/seed/cargo/registry/cache read-only from"));
    assert!(!explained("tight").contains("/run/seed"));
    assert_exit(&stage.play("say Done.", &["--profile", "tight"]), 0);
    assert!(!stage.root().join("state/caches").exists());
}

#[test]
fn gc_removes_the_caches_of_repositories_that_are_gone() {
    let stage = Stage::new();
    let old = stage.home().join("old");
    for workspace in [&old, &stage.workspace()] {
        write(&workspace.join("Cargo.toml"), "");
        let leave =
            "```agent\nshell cd ~/.cargo/registry && mkdir -p m/d && chmod 555 m/d m\n```\n";
        let run = ["run", "--agent", "simulated", leave, "-C", workspace.to_str().unwrap()];
        assert_exit(&stage.output(&run), 0);
    }
    let caches = || std::fs::read_dir(stage.root().join("state/caches")).unwrap().count();
    // Each cache is a directory and a lock.
    assert_eq!(caches(), 4);
    std::fs::remove_dir_all(&old).unwrap();
    let report = stage.json(&["gc", "--keep", "10", "--json"]);
    assert_eq!(report["caches"][0]["repository"], old.to_str().unwrap());
    assert_eq!(caches(), 4, "a dry run");
    let output = stage.output(&["gc", "--keep", "10", "--yes"]);
    assert_exit(&output, 0);
    assert!(stderr(&output).contains("deleted the dependency caches of"), "{}", stderr(&output));
    assert_eq!(caches(), 2);
    assert_exit(&stage.output(&["gc", "--older-than", "0s", "--keep", "10", "--yes"]), 0);
    assert_eq!(caches(), 0);
}
