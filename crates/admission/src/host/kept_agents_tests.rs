use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;
use run_protocol::AgentKind;
use tempfile::TempDir;

use super::*;

/// An installed agent, and a state directory.
struct Scene {
    root: TempDir,
    state: StateRoot,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let state = StateRoot::new(root.path().join("state"));
        let scene = Self { root, state };
        fs::create_dir_all(scene.installed().join("bin")).unwrap();
        for (name, text) in [("cursor-agent", "launcher"), ("node", "node"), ("bin/rg", "rg")] {
            fs::write(scene.installed().join(name), text).unwrap();
        }
        let node = fs::Permissions::from_mode(0o755);
        fs::set_permissions(scene.installed().join("node"), node).unwrap();
        symlink("../node", scene.installed().join("bin/node")).unwrap();
        scene
    }

    fn installed(&self) -> PathBuf {
        self.root.path().join("install")
    }

    fn agent(&self) -> AgentProgram {
        AgentProgram {
            kind: AgentKind::Cursor,
            program: self.installed().join("cursor-agent").into(),
            leading_arguments: vec![],
            expose: vec![self.installed().into()],
            kept: None,
            version: None,
        }
    }

    fn keep(&self) -> Kept {
        keep(&self.state, &self.agent()).unwrap()
    }
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

#[test]
fn a_kept_version_takes_no_room_is_made_once_and_survives_its_removal() {
    let scene = Scene::new();
    let first = scene.keep();
    let kept = first.directory.clone().unwrap();
    assert!(first.is_new);
    assert_eq!(inode(&kept.join("bin/rg")), inode(&scene.installed().join("bin/rg")));
    assert_eq!(fs::read_link(kept.join("bin/node")).unwrap(), Path::new("../node"));
    let again = scene.keep();
    assert_eq!((again.directory.as_ref(), again.is_new), (Some(&kept), false));
    fs::remove_dir_all(scene.installed()).unwrap();
    assert_eq!(fs::read_to_string(kept.join("bin/rg")).unwrap(), "rg");
    assert_eq!(fs::metadata(kept.join("node")).unwrap().mode() & 0o777, 0o755);
    assert_eq!(fs::read_dir(scene.state.agents()).unwrap().count(), 1, "no draft is left");
}

#[test]
fn an_update_in_place_gets_another_directory_and_a_child_keeps_its_parents() {
    let scene = Scene::new();
    let parent = AgentProgram { kept: scene.keep().directory.map(BytesPath), ..scene.agent() };
    fs::remove_file(scene.installed().join("bin/rg")).unwrap();
    fs::write(scene.installed().join("bin/rg"), "newer").unwrap();
    let newer = scene.keep();
    assert!(newer.is_new);
    let text = |directory: &Path| fs::read_to_string(directory.join("bin/rg")).unwrap();
    assert_eq!(text(&newer.directory.unwrap()), "newer");
    let child = keep(&scene.state, &parent).unwrap();
    assert_eq!(text(&child.directory.unwrap()), "rg");
}

#[test]
fn on_another_file_system_the_files_are_copied_once() {
    let scene = Scene::new();
    let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else { return };
    if fs::metadata(elsewhere.path()).unwrap().dev()
        == fs::metadata(scene.root.path()).unwrap().dev()
    {
        eprintln!("/dev/shm is on the same file system, so nothing was tested");
        return;
    }
    let state = StateRoot::new(elsewhere.path().join("state"));
    let kept = keep(&state, &scene.agent()).unwrap().directory.unwrap();
    assert_eq!(fs::read_to_string(kept.join("bin/rg")).unwrap(), "rg");
    assert_eq!(fs::metadata(kept.join("node")).unwrap().mode() & 0o777, 0o755);
    assert!(!keep(&state, &scene.agent()).unwrap().is_new);
}

#[test]
fn a_version_that_no_run_needs_is_removed_but_never_while_a_run_is_being_created() {
    let scene = Scene::new();
    let kept = scene.keep();
    let directory = kept.directory.clone().unwrap();
    assert_eq!(remove_unneeded(&scene.state).unwrap(), Vec::<PathBuf>::new());
    assert!(directory.exists());
    drop(kept);
    let removed = remove_unneeded(&scene.state).unwrap();
    assert!(!directory.exists());
    assert_eq!(removed, [directory]);
}

#[test]
fn a_single_file_and_the_simulated_agent_are_not_kept() {
    let scene = Scene::new();
    let agent = scene.agent();
    let file = AgentProgram { expose: vec![agent.program.clone()], ..agent.clone() };
    let simulated = AgentProgram { kind: AgentKind::Simulated, ..agent };
    for agent in [file, simulated] {
        assert_eq!(keep(&scene.state, &agent).unwrap().directory, None);
    }
}
