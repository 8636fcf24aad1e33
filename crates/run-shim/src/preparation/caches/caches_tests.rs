use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sandbox_plan::{Profile, ToolCache, builtin_profiles};
use tempfile::TempDir;

use super::{empty, lock_of, make_links, make_private_parts, share};

/// A home with a cargo cache, and a workspace that uses cargo.
struct Scene {
    root: TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { root: TempDir::new().unwrap() };
        scene.write("home/work/Cargo.toml", "");
        scene.write("home/.cargo/registry/cache/reg/a-1.0.0.crate", "a");
        scene.write("home/.cargo/registry/index/reg/.cache/a", "index");
        // Otherwise a change in the same tick of the clock would leave the same time.
        for directory in ["cache/reg", "index/reg/.cache"] {
            let opened = File::open(scene.at("home/.cargo/registry").join(directory)).unwrap();
            opened.set_modified(UNIX_EPOCH).unwrap();
        }
        scene
    }

    fn at(&self, path: &str) -> PathBuf {
        fs::canonicalize(self.root.path()).unwrap().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn prepare(&self) {
        let profile = Profile::parse("default", builtin_profiles()[0].1).unwrap();
        let caches = ToolCache::find(&profile, &self.at("home/work"), &self.at("home"), &|_| None);
        assert_eq!(caches.iter().map(|cache| &*cache.tool).collect::<Vec<_>>(), ["cargo"]);
        make_private_parts(&self.at("key"), &caches[0]).unwrap();
        make_links(&self.at("key"), &caches[0]).unwrap();
    }

    fn link(&self, path: &str) -> Option<PathBuf> {
        fs::read_link(self.at("key/cargo/registry").join(path)).ok()
    }
}

const CRATE: &str = "cache/reg/a-1.0.0.crate";

#[test]
fn each_file_of_the_seed_becomes_a_link_to_its_path_inside() {
    let scene = Scene::new();
    scene.prepare();
    let target = Path::new("/run/seed/cargo/registry/cache/reg/a-1.0.0.crate");
    assert_eq!(scene.link(CRATE).as_deref(), Some(target));
    assert!(scene.link("index/reg/.cache/a").is_some());
}

#[test]
fn a_changed_seed_is_linked_again_and_an_unchanged_one_is_left_alone() {
    let scene = Scene::new();
    scene.prepare();
    let private = scene.at("key/cargo/registry");
    fs::remove_file(private.join(CRATE)).unwrap();
    scene.prepare();
    assert_eq!(scene.link(CRATE), None, "nothing changed, so the shim looked at nothing");
    scene.write("home/.cargo/registry/cache/reg/b-1.0.0.crate", "b");
    fs::remove_file(scene.at("home/.cargo/registry/index/reg/.cache/a")).unwrap();
    scene.prepare();
    assert!(scene.link(CRATE).is_some() && scene.link("cache/reg/b-1.0.0.crate").is_some());
    assert_eq!(scene.link("index/reg/.cache/a"), None, "a dangling link is removed");
}

#[test]
fn files_of_the_agent_stay_and_its_links_lead_the_shim_nowhere() {
    let scene = Scene::new();
    scene.prepare();
    let private = scene.at("key/cargo/registry");
    fs::remove_file(private.join(CRATE)).unwrap();
    fs::write(private.join(CRATE), "the agent's").unwrap();
    fs::remove_dir_all(private.join("index/reg")).unwrap();
    fs::create_dir_all(scene.at("home/.ssh/.cache")).unwrap();
    symlink(scene.at("home/.ssh"), private.join("index/reg")).unwrap();
    symlink("/run/seed/cargo/registry/cache/gone", scene.at("home/.ssh/gone")).unwrap();
    scene.write("home/.cargo/registry/index/reg/.cache/b", "index");
    scene.prepare();
    assert_eq!(fs::read_to_string(private.join(CRATE)).unwrap(), "the agent's");
    assert_eq!(fs::read_dir(scene.at("home/.ssh/.cache")).unwrap().count(), 0);
    assert!(fs::symlink_metadata(scene.at("home/.ssh/gone")).is_ok());
}

#[test]
fn a_cache_in_use_is_not_emptied_and_read_only_directories_are_no_obstacle() {
    let scene = Scene::new();
    scene.prepare();
    let key = scene.at("key");
    let held = share(&lock_of(&key)).unwrap();
    assert!(!empty(&key).unwrap());
    assert!(key.exists());
    drop(held);
    let module = key.join("cargo/registry/module@v1");
    fs::create_dir(&module).unwrap();
    fs::write(module.join("file"), "").unwrap();
    symlink(scene.at("home"), module.join("link")).unwrap();
    for mode in [0o555, 0o000] {
        fs::set_permissions(&module, fs::Permissions::from_mode(mode)).unwrap();
    }
    assert!(empty(&key).unwrap());
    assert!(!key.exists() && scene.at("home/work/Cargo.toml").exists());
}
