//! Real projects with dependencies, offline in the real sandbox, from caches that the host's tools filled beforehand.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use crate::sandbox::strict::extend_strict;
use crate::stage::{Stage, assert_exit, printed, stderr};

/// A registry on loopback. It serves files until the test ends.
struct Registry {
    address: String,
}

impl Registry {
    /// Starts a registry whose files may contain its own address.
    fn start(files: impl FnOnce(&str) -> BTreeMap<String, Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let files = Arc::new(files(&address));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let files = Arc::clone(&files);
                std::thread::spawn(move || answer(client, &files));
            }
        });
        Self { address }
    }
}

fn answer(mut client: std::net::TcpStream, files: &BTreeMap<String, Vec<u8>>) -> Option<()> {
    let mut lines = BufReader::new(client.try_clone().ok()?).lines();
    let first = lines.next()?.ok()?;
    let path = first.split(' ').nth(1)?.trim_start_matches('/').to_owned();
    lines.map_while(Result::ok).find(String::is_empty)?;
    let (status, body) = match files.get(&path) {
        Some(body) => ("200 OK", body.as_slice()),
        None => ("404 Not Found", b"".as_slice()),
    };
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    client.write_all(head.as_bytes()).ok()?;
    client.write_all(body).ok()
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Packs a directory, and returns the archive and the checksum that `program` computes for it.
fn packed(root: &Path, name: &str, program: &str) -> (Vec<u8>, String) {
    let archive = root.join(format!("{name}.tgz"));
    let packed =
        Command::new("tar").arg("czf").arg(&archive).arg("-C").arg(root).arg(name).output();
    assert_exit(&packed.unwrap(), 0);
    let sum = printed(&Command::new(program).arg(&archive).output().unwrap());
    (std::fs::read(archive).unwrap(), sum.split(' ').next().unwrap().to_owned())
}

/// Names, kinds, sizes, times, inode numbers, modes and link targets in the home, and the contents of its files,
/// without the workspace and Cursor's own directory.
fn fingerprint(stage: &Stage) -> String {
    let script = "find . -mindepth 1 \\( -path ./project -o -path ./.cursor \\) -prune -o -printf '%p %y %s %T@ %i %m %l\\n' | sort
        find . \\( -path ./project -o -path ./.cursor \\) -prune -o -type f -print0 | sort -z | xargs -0r sha256sum";
    printed(&Command::new("sh").args(["-c", script]).current_dir(stage.home()).output().unwrap())
}

/// The toolchain that built this suite.
fn toolchain() -> PathBuf {
    Path::new(env!("CARGO")).parent().and_then(Path::parent).unwrap().to_owned()
}

/// Makes a workspace whose only dependency is packed in the cache of the stage's home, and nowhere else.
fn cargo_project(stage: &Stage) {
    let made = stage.root().join("made");
    let manifest = "[package]\nname = \"heron\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    write(&made.join("heron-1.0.0/Cargo.toml"), manifest);
    write(&made.join("heron-1.0.0/src/lib.rs"), "pub fn legs() -> u8 { 2 }\n");
    let (archive, sum) = packed(&made, "heron-1.0.0", "sha256sum");
    let registry = Registry::start(|address| {
        let index = format!(
            "{{\"name\":\"heron\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"{sum}\",\"features\":{{}},\"yanked\":false}}\n"
        );
        let config = format!("{{\"dl\":\"{address}/{{crate}}-{{version}}.crate\"}}");
        BTreeMap::from([
            ("config.json".to_owned(), config.into_bytes()),
            ("he/ro/heron".to_owned(), index.into_bytes()),
            ("heron-1.0.0.crate".to_owned(), archive),
        ])
    });
    let workspace = stage.workspace();
    let dependent = "[package]\nname = \"nest\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nheron = \"1\"\n";
    write(&workspace.join("Cargo.toml"), dependent);
    let test = "#[test]\nfn it_stands() { assert_eq!(heron::legs(), 2); }\n";
    write(&workspace.join("src/lib.rs"), test);
    let source = "[source.crates-io]\nreplace-with = \"ours\"\n[source.ours]\nregistry = \"sparse+ADDRESS/\"\n";
    write(&workspace.join(".cargo/config.toml"), &source.replace("ADDRESS", &registry.address));
    let fetched = on_host(stage, env!("CARGO"), &["fetch"]);
    assert!(fetched.status.success(), "{}", stderr(&fetched));
    std::fs::remove_dir_all(stage.home().join(".cargo/registry/src")).unwrap();
}

/// Runs one of the user's own tools in the workspace.
fn on_host(stage: &Stage, program: &str, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).env_clear().env("HOME", stage.home()).current_dir(stage.workspace());
    command
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", toolchain().join("bin").display()));
    command.output().unwrap()
}

/// Runs a command in the workspace inside a sandbox. Returns its output and its exit code.
fn inside(stage: &Stage, command: &str, flags: &[&str]) -> (String, String) {
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", toolchain().join("bin").display());
    let script = format!(
        "shell[timeout=120s] ( {command} ) > ../.said 2>&1; echo $? > ended; cp ../.said said"
    );
    let toolchain = toolchain();
    let shown = ["--expose", toolchain.to_str().unwrap()];
    let prompt = format!("Play this:\n```agent\n{script}\n```\n");
    let args = [&["run", &prompt, "--agent", "simulated"], &shown[..], flags].concat();
    let output = stage.caretaker(&args).env("PATH", path).output().unwrap();
    assert_exit(&output, 0);
    let take = |name: &str| {
        let path = stage.workspace().join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        text
    };
    (take("said"), take("ended").trim().to_owned())
}

#[test]
fn a_cargo_project_is_tested_offline_twice_and_the_hosts_cache_stays_as_it_was() {
    let stage = Stage::new();
    cargo_project(&stage);
    let before = fingerprint(&stage);
    for round in ["cold", "again"] {
        let (said, code) = inside(&stage, "rm -rf target; cargo test", &[]);
        assert_eq!(code, "0", "{round}: {said}");
        assert!(said.contains("it_stands ... ok"), "{round}: {said}");
    }
    assert_eq!(fingerprint(&stage), before);
    let run = stage.run_ids().pop().unwrap();
    assert_eq!(stage.json(&["show", &run, "--json"])["caches"], serde_json::json!(["cargo"]));
}

#[test]
fn an_npm_project_is_installed_and_tested_offline_twice() {
    let stage = Stage::new();
    let made = stage.root().join("made");
    write(&made.join("package/package.json"), r#"{"name":"heron","version":"1.0.0"}"#);
    write(&made.join("package/index.js"), "module.exports = 2;\n");
    let (archive, sum) = packed(&made, "package", "sha1sum");
    let registry = Registry::start(|address| {
        let about = format!(
            r#"{{"name":"heron","dist-tags":{{"latest":"1.0.0"}},"versions":{{"1.0.0":{{"name":"heron","version":"1.0.0","dist":{{"tarball":"{address}/heron-1.0.0.tgz","shasum":"{sum}"}}}}}}}}"#
        );
        BTreeMap::from([
            ("heron".to_owned(), about.into_bytes()),
            ("heron-1.0.0.tgz".to_owned(), archive),
        ])
    });
    let workspace = stage.workspace();
    let manifest = r#"{"name":"nest","version":"1.0.0","scripts":{"test":"node -e \"require('assert').equal(require('heron'), 2)\""},"dependencies":{"heron":"1"}}"#;
    write(&workspace.join("package.json"), manifest);
    write(&workspace.join(".npmrc"), &format!("registry={}/\n", registry.address));
    let installed = on_host(&stage, "npm", &["install", "--no-audit", "--no-fund"]);
    assert!(installed.status.success(), "{}", stderr(&installed));
    let before = fingerprint(&stage);
    for round in ["cold", "again"] {
        let (said, code) = inside(&stage, "rm -r node_modules && npm ci && npm test", &[]);
        assert_eq!(code, "0", "{round}: {said}");
        assert!(workspace.join("node_modules/heron/index.js").is_file(), "{round}: {said}");
    }
    assert_eq!(fingerprint(&stage), before);
}

#[test]
fn a_virtualenv_outside_the_workspace_is_visible_and_cannot_be_changed() {
    let stage = Stage::new();
    let venv = stage.home().join("venvs/nest");
    let make = ["-m", "venv", "--without-pip", venv.to_str().unwrap()];
    let made = on_host(&stage, "/usr/bin/python3", &make);
    assert!(made.status.success(), "{}", stderr(&made));
    let lib = std::fs::read_dir(venv.join("lib")).unwrap().next().unwrap().unwrap().path();
    write(&lib.join("site-packages/heron.py"), "legs = 2\n");
    write(&stage.workspace().join("pyproject.toml"), "[project]\nname = \"nest\"\n");
    write(&stage.workspace().join("test.py"), "import heron\nassert heron.legs == 2\n");
    let before = fingerprint(&stage);
    let script = "shell \"$VIRTUAL_ENV\"/bin/python test.py && touch passed\n\
                  shell rm \"$VIRTUAL_ENV\"/pyvenv.cfg || touch kept";
    let prompt = format!("Play this:\n```agent\n{script}\n```\n");
    let mut command = stage.caretaker(&["run", &prompt, "--agent", "simulated"]);
    assert_exit(&command.env("VIRTUAL_ENV", &venv).output().unwrap(), 0);
    assert!(stage.workspace().join("passed").exists() && stage.workspace().join("kept").exists());
    assert_eq!(fingerprint(&stage), before);
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
