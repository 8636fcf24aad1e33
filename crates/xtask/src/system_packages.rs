//! Debian packages that a chore needs. Installs them, or prints the command that does.

use std::process::{Command, Stdio};

use anyhow::bail;

use crate::commands;

/// A program or another file, and its package.
pub(crate) struct Package {
    /// A name on PATH, or a path.
    program: &'static str,
    package: &'static str,
    why: &'static str,
}

const fn package(program: &'static str, package: &'static str, why: &'static str) -> Package {
    Package { program, package, why }
}

pub(crate) const C_COMPILER: Package =
    package("cc", "gcc libc6-dev", "SQLite is built from source");
pub(crate) const BUBBLEWRAP: Package = package("bwrap", "bubblewrap", "runs are sandboxed with it");
pub(crate) const GIT: Package = package("git", "git", "tests commit inside a sandbox");
pub(crate) const PROTOC: Package =
    package("protoc", "protobuf-compiler", "a test reads stores with an independent decoder");
pub(crate) const CHROMIUM: Package =
    package("chromium", "chromium", "a test opens hostile pages in a real browser");
pub(crate) const NODE: Package = package("node", "nodejs", "tests use the network with it");
pub(crate) const CURL: Package = package("curl", "curl", "tests use the network with it");
pub(crate) const PYTHON: Package = package("python3", "python3", "tests use the network with it");
pub(crate) const OPENSSL: Package =
    package("openssl", "openssl", "tests make a certificate with it");
pub(crate) const IPROUTE: Package =
    package("ip", "iproute2", "tests create their own networks with it");
pub(crate) const JQ: Package = package("jq", "jq", "the program that parsing is measured against");
pub(crate) const PIPX: Package =
    package("pipx", "pipx", "the full tests install a Python tool with it");
pub(crate) const NPM: Package = package("npm", "npm", "tests install a project's packages with it");
pub(crate) const MMDEBSTRAP: Package =
    package("mmdebstrap", "mmdebstrap", "the full tests make a fresh Debian with it");
pub(crate) const GO: Package = package("go", "golang-go", "the full tests test a Go project");
pub(crate) const MAVEN: Package = package("mvn", "maven", "the full tests test a Maven project");
pub(crate) const JAVA_COMPILER: Package =
    package("javac", "default-jdk-headless", "the full tests test a Maven project");
pub(crate) const MAVEN_PLUGINS: Package = package(
    "/usr/share/java/maven-surefire-plugin.jar",
    "libmaven-compiler-plugin-java libmaven-resources-plugin-java libsurefire-java junit4",
    "`mvn test` needs these plugins",
);

/// Makes sure that all these programs are installed.
#[expect(clippy::print_stderr, reason = "a chore shows what it does")]
pub(crate) fn ensure(packages: &[Package]) -> anyhow::Result<()> {
    let missing: Vec<&Package> =
        packages.iter().filter(|package| commands::on_path(package.program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for Package { program, why, .. } in &missing {
        eprintln!("`{program}` is missing: {why}");
    }
    let names: Vec<&str> = missing.iter().flat_map(|package| package.package.split(' ')).collect();
    let install = [&["apt-get", "install", "--yes", "--no-install-recommends"], names.as_slice()];
    let install = install.concat();
    match privilege() {
        Some(prefix) => {
            for command in [&["apt-get", "update", "--quiet"], install.as_slice()] {
                let words = [prefix, command].concat();
                commands::run(words[0], &words[1..])?;
            }
            Ok(())
        }
        None => bail!("run this once, then try again:\n\n    sudo {}\n", install.join(" ")),
    }
}

/// Returns the words to put before a command that installs packages, or `None` if this user may not install any.
fn privilege() -> Option<&'static [&'static str]> {
    commands::on_path("apt-get")?;
    if nix::unistd::geteuid().is_root() {
        return Some(&["env", "DEBIAN_FRONTEND=noninteractive"]);
    }
    let sudo_asks_nothing = Command::new("sudo")
        .args(["-n", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    sudo_asks_nothing.then_some(&["sudo", "-n", "env", "DEBIAN_FRONTEND=noninteractive"])
}
