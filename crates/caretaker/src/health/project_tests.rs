use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use nix::unistd::geteuid;
use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;
use crate::health::Status;

/// A home with `shown/bin` and `hidden/bin` on PATH, and a workspace.
fn scene(programs: &[&str], files: &[&str]) -> (TempDir, Environment) {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    for path in programs.iter().chain(files) {
        fs::create_dir_all(at(path).parent().unwrap()).unwrap();
        fs::write(at(path), "").unwrap();
    }
    for program in programs {
        fs::set_permissions(at(program), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = std::env::join_paths([at("hidden/bin"), at("shown/bin")]).unwrap();
    let variables = [("HOME".into(), at("home").into_os_string()), (OsString::from("PATH"), path)];
    let environment = Environment::new(variables, "/".into(), geteuid()).unwrap();
    (root, environment)
}

fn check(programs: &[&str], files: &[&str]) -> Vec<(&'static str, Status, String, Option<String>)> {
    let (root, environment) = scene(programs, files);
    let shown = root.path().join("shown");
    let found = findings(&environment, &root.path().join("work"), |path| path.starts_with(&shown));
    let plain = |text: String| text.replace(root.path().to_str().unwrap(), "");
    found.into_iter().map(|it| (it.id, it.status, plain(it.summary), it.fix.map(plain))).collect()
}

#[test]
fn a_project_with_its_tools_and_dependencies_passes() {
    let found = check(
        // The first one on PATH is not visible inside, so a shell there finds the second.
        &["hidden/bin/cargo", "shown/bin/cargo"],
        &["work/Cargo.toml", "home/.cargo/registry/cache/x"],
    );
    let summary =
        "Cargo.toml: /shown/bin/cargo visible inside; dependencies in /home/.cargo/registry/cache";
    assert_eq!(found, [("cargo", Status::Ok, summary.to_owned(), None)]);
}

#[test]
fn each_missing_thing_is_named_with_one_thing_to_try() {
    let found = check(
        &["hidden/bin/go", "shown/bin/python3"],
        &["work/go.mod", "work/requirements.txt", "work/package.json"],
    );
    let said: Vec<_> =
        found.iter().map(|(id, status, summary, _)| (*id, *status, summary.as_str())).collect();
    let expected = [
        ("npm", Status::Warning, "package.json: `node` is not on PATH"),
        (
            "python",
            Status::Warning,
            "requirements.txt: /shown/bin/python3 visible inside; this host has no dependencies in /home/.cache/uv",
        ),
        ("go", Status::Warning, "go.mod: /hidden/bin/go is not visible inside"),
    ];
    assert_eq!(said, expected);
    assert!(found[1].3.as_ref().unwrap().contains("--registries"));
    assert!(found[2].3.as_ref().unwrap().contains("--expose '/hidden/bin'"));
}

#[test]
fn a_directory_without_a_manifest_passes_the_check() {
    let found = check(&[], &["work/notes.txt"]);
    let summary = "no manifest of a known tool in /work".to_owned();
    assert_eq!(found, [("project", Status::Ok, summary, None)]);
}
