//! A sandbox that differs from its plan is never released.

use std::fs;

use pretty_assertions::assert_eq;
use sandbox_plan::Mismatch;

use crate::launch::{self, sandboxes_work};
use crate::scene::Scene;

#[test]
fn a_sandbox_as_planned_is_verified_while_it_waits() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("a/b/project");
    scene.program(&["/bin/sh", "-c", "echo ran"]);
    let plan = scene.plan();
    scene.prepare(&plan);
    let mut blocked = launch::start(&plan);
    assert!(blocked.verify(&plan).unwrap() > 20);
    assert_eq!(blocked.finish().stdout, b"ran\n");
}

#[test]
fn a_directory_swapped_between_plan_and_start_is_noticed_and_nothing_runs() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    scene.program(&["/bin/sh", "-c", "touch ran"]);
    let plan = scene.plan();
    scene.prepare(&plan);
    let dot_cursor = &scene.request.dot_cursor;
    fs::rename(dot_cursor, dot_cursor.with_extension("old")).unwrap();
    fs::create_dir(dot_cursor).unwrap();
    fs::write(dot_cursor.join("mcp.json"), "evil").unwrap();
    let mut blocked = launch::start(&plan);
    let mismatch = blocked.verify(&plan).unwrap_err();
    assert!(
        matches!(&mismatch, Mismatch::WrongFile { path, .. } if *path == scene.in_workspace(".cursor")),
        "{mismatch}"
    );
    blocked.kill();
    assert!(!scene.in_workspace("ran").exists());
}
