//! The agent cannot change the workspace's `.cursor`.

use std::fs;

use pretty_assertions::assert_eq;
use rustix::fs::{CWD, Mode};
use sandbox_plan::{MountPoints, Removal};

use crate::launch::{self, sandboxes_work};
use crate::scene::{OURS, Scene};

/// Every known way around the mount. Prints those that succeed.
const ATTACKS: &str = r#"
try() { name=$1; shift; if "$@" 2>/dev/null; then echo "succeeded: $name"; fi; }
write() { echo EVIL > .cursor/mcp.json; }
replace() { echo EVIL > .cursor/new && mv .cursor/new .cursor/mcp.json; }
add() { echo EVIL > .cursor/hooks.json; }
try write write
try replace replace
try add add
try remove rm -f .cursor/mcp.json
try chmod chmod 600 .cursor/mcp.json
try hardlink ln .cursor/mcp.json stolen
try rename mv .cursor .old
try remove-all rm -rf .cursor
try rmdir rmdir .cursor
try unmount umount .cursor
try unmount-lazily umount -l .cursor
try mask mount -t tmpfs none .cursor
try remount mount -o remount,rw,bind .cursor
try rename-workspace mv "$PWD" "$PWD.old"
parent=$(dirname "$PWD")
while [ "$parent" != / ]; do try "rename $parent" mv "$parent" "$parent.old"; parent=$(dirname "$parent"); done
cat .cursor/mcp.json
"#;

#[test]
fn mcp_json_cannot_be_written_moved_masked_or_unmounted() {
    if !sandboxes_work() {
        return;
    }
    // Directly in the home directory, deep in it, and where the repository has its own `.cursor`.
    for workspace in ["project", "a/b/project", ".local/share/project"] {
        for own in [None, Some(".cursor/mcp.json")] {
            let mut scene = Scene::new(workspace);
            if let Some(own) = own {
                scene.write(&scene.in_workspace(own), "theirs\n");
            }
            assert_eq!(scene.run(ATTACKS), OURS, "{workspace} {own:?}");
            let after = own.map(|own| fs::read_to_string(scene.in_workspace(own)).unwrap());
            assert_eq!(after.as_deref(), own.map(|_| "theirs\n"), "{workspace}");
        }
    }
}

#[test]
fn a_workspace_without_a_dot_cursor_has_none_afterwards() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    assert_eq!(scene.run("ls -A; ls .cursor"), ".cursor\nmcp.json\n");
    assert_eq!(fs::read_dir(scene.workspace()).unwrap().count(), 0);
}

#[test]
fn a_supervisor_that_is_killed_leaves_nothing_after_the_next_start() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    scene.program(&["/bin/true"]);
    let plan = scene.plan();
    scene.prepare(&plan);
    launch::start(&plan).kill();
    assert!(scene.in_workspace(".cursor").exists());
    let removed = MountPoints::remove_ours(&scene.record()).unwrap();
    assert_eq!(removed, [(scene.in_workspace(".cursor"), Removal::Removed)]);
    assert!(!scene.in_workspace(".cursor").exists());
}

#[test]
fn the_repositorys_own_instructions_are_visible_but_nothing_else_in_its_dot_cursor() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    for file in ["rules/a.mdc", "commands/b.md", "BUGBOT.md", "hooks.json", "other/c.md"] {
        scene.write(&scene.in_workspace(".cursor").join(file), file);
    }
    let seen = scene.run(
        "find .cursor -type f | sort; cat .cursor/rules/a.mdc; echo;
         touch .cursor/rules/new 2>/dev/null || mv .cursor/rules .cursor/x 2>/dev/null || echo kept",
    );
    assert_eq!(
        seen,
        ".cursor/BUGBOT.md\n.cursor/commands/b.md\n.cursor/mcp.json\n.cursor/rules/a.mdc\nrules/a.mdc\nkept\n"
    );
}

#[test]
fn a_regenerated_mcp_json_is_seen_while_the_agent_runs() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    // The script inside reports when it has read the first content, and waits until the test outside has written the
    // second.
    let [read, written] = ["read", "written"].map(|name| scene.in_workspace(name));
    for fifo in [&read, &written] {
        rustix::fs::mkfifoat(CWD, fifo, Mode::from_raw_mode(0o600)).unwrap();
    }
    let script = "cat .cursor/mcp.json; echo > read; cat written; cat .cursor/mcp.json";
    scene.program(&["/bin/sh", "-c", script]);
    let plan = scene.plan();
    scene.prepare(&plan);
    let mut blocked = launch::start(&plan);
    blocked.verify(&plan).unwrap();
    let dot_cursor = scene.request.dot_cursor.clone();
    let writer = std::thread::spawn(move || {
        fs::read(read).unwrap();
        fs::write(dot_cursor.join("mcp.json.new"), "newer\n").unwrap();
        fs::rename(dot_cursor.join("mcp.json.new"), dot_cursor.join("mcp.json")).unwrap();
        fs::write(written, "").unwrap();
    });
    let output = blocked.finish();
    writer.join().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{OURS}newer\n"));
}
