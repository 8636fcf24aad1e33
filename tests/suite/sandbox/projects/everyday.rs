//! The projects that `cargo xtask test` tests: cargo, npm, and a virtualenv.

use std::fs;

use super::registry::{Files, Registry, packed};
use super::{Project, User, write};
use crate::stage::assert_exit;

/// Makes a workspace whose only dependency is packed in the cache of the user's home, and nowhere else.
fn cargo_project(user: User) -> Project {
    let project = Project::of(user);
    let made = project.stage.root().join("made");
    let manifest = "[package]\nname = \"heron\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    write(&made.join("heron-1.0.0/Cargo.toml"), manifest);
    write(&made.join("heron-1.0.0/src/lib.rs"), "pub fn legs() -> u8 { 2 }\n");
    let (archive, sum) = packed(&made, "heron-1.0.0", "sha256sum");
    let registry = Registry::start(|address| {
        let index = format!(
            "{{\"name\":\"heron\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"{sum}\",\"features\":{{}},\"yanked\":false}}\n"
        );
        let config = format!("{{\"dl\":\"{address}/{{crate}}-{{version}}.crate\"}}");
        Files::from([
            ("config.json", config.into_bytes()),
            ("he/ro/heron", index.into_bytes()),
            ("heron-1.0.0.crate", archive),
        ])
    });
    let workspace = project.workspace();
    let dependent = "[package]\nname = \"nest\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nheron = \"1\"\n";
    write(&workspace.join("Cargo.toml"), dependent);
    let test = "#[test]\nfn it_stands() { assert_eq!(heron::legs(), 2); }\n";
    write(&workspace.join("src/lib.rs"), test);
    let source = "[source.crates-io]\nreplace-with = \"ours\"\n[source.ours]\nregistry = \"sparse+ADDRESS/\"\n";
    write(&workspace.join(".cargo/config.toml"), &source.replace("ADDRESS", &registry.address));
    project.on_host("cargo", &["fetch"]);
    fs::remove_dir_all(project.home().join(".cargo/registry/src")).unwrap();
    project
}

#[test]
fn a_cargo_project_is_tested_offline_twice_and_the_hosts_cache_stays_as_it_was() {
    for user in User::all() {
        let project = cargo_project(user);
        project.passes_cold_and_again("rm -rf target; cargo test", "it_stands ... ok");
        assert_eq!(project.caches(), serde_json::json!(["cargo"]));
    }
}

fn npm_project(user: User) -> Project {
    let project = Project::of(user);
    let made = project.stage.root().join("made");
    write(&made.join("package/package.json"), r#"{"name":"heron","version":"1.0.0"}"#);
    write(&made.join("package/index.js"), "module.exports = 2;\n");
    let (archive, sum) = packed(&made, "package", "sha1sum");
    let registry = Registry::start(|address| {
        let about = format!(
            r#"{{"name":"heron","dist-tags":{{"latest":"1.0.0"}},"versions":{{"1.0.0":{{"name":"heron","version":"1.0.0","dist":{{"tarball":"{address}/heron-1.0.0.tgz","shasum":"{sum}"}}}}}}}}"#
        );
        Files::from([("heron", about.into_bytes()), ("heron-1.0.0.tgz", archive)])
    });
    let workspace = project.workspace();
    let test =
        r#"node -e \"require('assert').equal(require('heron'), 2); console.log('it stands')\""#;
    let manifest = format!(
        r#"{{"name":"nest","version":"1.0.0","scripts":{{"test":"{test}"}},"dependencies":{{"heron":"1"}}}}"#
    );
    write(&workspace.join("package.json"), &manifest);
    write(&workspace.join(".npmrc"), &format!("registry={}/\n", registry.address));
    project.on_host("npm", &["install", "--no-audit", "--no-fund"]);
    project
}

#[test]
fn an_npm_project_is_installed_and_tested_offline_twice() {
    for user in User::all() {
        let project = npm_project(user);
        project.passes_cold_and_again("rm -r node_modules && npm ci && npm test", "\nit stands\n");
        assert!(project.workspace().join("node_modules/heron/index.js").is_file());
    }
}

#[test]
fn a_virtualenv_outside_the_workspace_is_visible_and_cannot_be_changed() {
    for user in User::all() {
        let project = Project::of(user);
        let (workspace, venv) = (project.workspace(), project.home().join("venvs/nest"));
        project
            .on_host("/usr/bin/python3", &["-m", "venv", "--without-pip", venv.to_str().unwrap()]);
        let lib = fs::read_dir(venv.join("lib")).unwrap().next().unwrap().unwrap().path();
        write(&lib.join("site-packages/heron.py"), "legs = 2\n");
        write(&workspace.join("pyproject.toml"), "[project]\nname = \"nest\"\n");
        write(&workspace.join("test.py"), "import heron\nassert heron.legs == 2\n");
        let before = project.fingerprint();
        let script = "shell \"$VIRTUAL_ENV\"/bin/python test.py && touch passed\n\
                      shell rm \"$VIRTUAL_ENV\"/pyvenv.cfg || touch kept";
        let prompt = format!("Play this:\n```agent\n{script}\n```\n");
        let mut command = project.caretaker(&["run", &prompt, "--agent", "simulated"]);
        assert_exit(&command.env("VIRTUAL_ENV", &venv).output().unwrap(), 0);
        assert!(workspace.join("passed").exists() && workspace.join("kept").exists());
        assert_eq!(project.fingerprint(), before);
    }
}
