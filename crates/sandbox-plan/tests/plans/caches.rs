//! The dependency caches of a workspace, and credentials in directories that the sandbox shows.

use std::fs;

use run_protocol::NetworkMode;
use sandbox_plan::{PlanWarning, ToolCache};

use crate::scene::Scene;

/// A scene with these files in its workspace and in its home.
fn scene(in_workspace: &[&str], in_home: &[&str]) -> Scene {
    let scene = Scene::new("work");
    for path in in_workspace {
        scene.write(&scene.in_workspace(path), "");
    }
    for path in in_home {
        scene.write(&scene.home().join(path), "from the host\n");
    }
    scene
}

/// Finds the caches, and makes their private parts as the shim does.
fn with_caches(mut scene: Scene, variable: &dyn Fn(&str) -> Option<String>) -> Scene {
    let request = &scene.request;
    let caches = ToolCache::find(&request.profile, &request.workspace, &request.home, variable);
    for cache in &caches {
        for part in &cache.private {
            let path = request.cache_directory.join(&cache.tool).join(&part.relative);
            if part.is_directory {
                fs::create_dir_all(path).unwrap();
            }
        }
    }
    scene.request.caches = caches;
    scene
}

fn tools(scene: &Scene) -> Vec<&str> {
    scene.request.caches.iter().map(|cache| &*cache.tool).collect()
}

#[test]
fn only_tools_whose_files_are_near_the_top_of_the_workspace_have_caches() {
    let files = ["a/b/go.mod", "a/b/c/pom.xml", "node_modules/x/package.json", ".x/Cargo.toml"];
    let scene = with_caches(scene(&files, &[]), &|_| None);
    assert_eq!(tools(&scene), ["go", "go-build"]);
}

#[test]
fn the_seed_is_read_only_and_the_private_cache_is_writable_at_the_tools_own_path() {
    let home = [".cargo/registry/cache/reg/a.crate", ".cargo/credentials.toml"];
    let mut scene = with_caches(scene(&["Cargo.toml"], &home), &|_| None);
    let said = scene.run(
        "cat /run/seed/cargo/registry/cache/reg/a.crate
         touch /run/seed/cargo/registry/cache/x 2>/dev/null || echo read-only
         echo kept > ~/.cargo/registry/new && echo locked > ~/.cargo/.package-cache
         ls -A ~/.cargo; echo $CARGO_NET_OFFLINE",
    );
    let listed = ".package-cache\n.package-cache-mutate\nregistry\n";
    assert_eq!(said, format!("from the host\nread-only\n{listed}true\n"));
    let registry = scene.request.cache_directory.join("cargo/registry");
    assert_eq!(fs::read_to_string(registry.join("new")).unwrap(), "kept\n");
    // All runs of the repository use the same lock.
    assert_eq!(fs::read_to_string(registry.join(".package-cache")).unwrap(), "locked\n");
    let plan = scene.plan();
    assert!(plan.writable_on_host().any(|path| path.ends_with("cargo/registry")));
}

#[test]
fn a_variable_moves_the_cache_and_a_run_with_the_hosts_network_is_not_offline() {
    let mut scene = scene(&["Cargo.toml"], &["moved/registry/cache/reg/a.crate"]);
    scene.request.network = Some(NetworkMode::Host);
    let moved = scene.home().join("moved").to_str().unwrap().to_owned();
    let mut scene = with_caches(scene, &|name| (name == "CARGO_HOME").then(|| moved.clone()));
    let said = scene.run("ls -A ~/moved ~/.cargo 2>/dev/null; echo ${CARGO_NET_OFFLINE-online}");
    assert!(said.contains("registry") && said.ends_with("online\n"), "{said}");

    (scene.request.network, scene.request.reaches_registries) = (None, true);
    assert_eq!(scene.run("echo ${CARGO_NET_OFFLINE-online}"), "online\n");
}

#[test]
fn a_cache_in_a_shown_directory_needs_a_place_for_its_mount() {
    let lock = ["pnpm-lock.yaml"];
    let store = ".local/share/pnpm/store/v10/files/00/a";
    let mut there = with_caches(scene(&lock, &[store]), &|_| None);
    let said = there.run("echo new > $npm_config_store_dir/v && cat $npm_config_store_dir/v");
    assert_eq!(said, "new\n");
    let mut missing = with_caches(scene(&lock, &[".local/share/pnpm/pnpm"]), &|_| None);
    missing.program(&["/bin/true"]);
    let hidden = |warning: &PlanWarning| matches!(warning, PlanWarning::CacheHidden { tool, .. } if tool == "pnpm");
    assert!(missing.plan().warnings().iter().any(hidden));
}

#[test]
fn credentials_are_covered_in_shown_directories_and_directly_below() {
    let home = [
        ".local/bin/.npmrc",
        ".local/bin/tool",
        ".local/share/uv/credentials/a",
        ".npm-global/etc/npmrc",
    ];
    let mut scene = scene(&[], &home);
    let said = scene.run(
        "cat ~/.local/bin/.npmrc ~/.npm-global/etc/npmrc; ls -A ~/.local/share/uv/credentials; cat ~/.local/bin/tool",
    );
    assert_eq!(said, "from the host\n");
}

#[test]
fn packages_that_are_hard_links_to_a_store_are_reported() {
    let files = ["node_modules/a/1", "node_modules/a/2", "node_modules/b/3"];
    let mut scene = scene(&files, &["store/x"]);
    scene.program(&["/bin/true"]);
    let warning = PlanWarning::StoreLinked(scene.in_workspace("node_modules"));
    fs::hard_link(scene.in_workspace(files[0]), scene.home().join("store/1")).unwrap();
    assert!(!scene.plan().warnings().contains(&warning), "one link alone is not a store");
    fs::hard_link(scene.in_workspace(files[1]), scene.home().join("store/2")).unwrap();
    assert!(scene.plan().warnings().contains(&warning));
}
