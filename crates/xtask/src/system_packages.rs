//! Debian packages that a chore needs: installed where that is possible, named where it is not.

use std::process::{Command, Stdio};

use anyhow::bail;

use crate::commands;

/// A program and the package that brings it.
pub(crate) struct Package {
    program: &'static str,
    package: &'static str,
    why: &'static str,
}

pub(crate) const C_COMPILER: Package =
    Package { program: "cc", package: "gcc libc6-dev", why: "SQLite is built from source" };
pub(crate) const BUBBLEWRAP: Package =
    Package { program: "bwrap", package: "bubblewrap", why: "runs are sandboxed with it" };
pub(crate) const GIT: Package =
    Package { program: "git", package: "git", why: "tests commit inside a sandbox" };
pub(crate) const PROTOC: Package = Package {
    program: "protoc",
    package: "protobuf-compiler",
    why: "a test reads stores with a decoder that is not ours",
};
pub(crate) const CHROMIUM: Package = Package {
    program: "chromium",
    package: "chromium",
    why: "a test opens hostile pages in a real browser",
};
pub(crate) const NODE: Package =
    Package { program: "node", package: "nodejs", why: "tests reach for the network with it" };
pub(crate) const CURL: Package =
    Package { program: "curl", package: "curl", why: "tests reach for the network with it" };
pub(crate) const PYTHON: Package =
    Package { program: "python3", package: "python3", why: "tests reach for the network with it" };
pub(crate) const OPENSSL: Package =
    Package { program: "openssl", package: "openssl", why: "tests make a certificate with it" };
pub(crate) const IPROUTE: Package =
    Package { program: "ip", package: "iproute2", why: "tests make networks of their own with it" };
pub(crate) const JQ: Package =
    Package { program: "jq", package: "jq", why: "the peer that parsing is measured against" };
pub(crate) const PIPX: Package = Package {
    program: "pipx",
    package: "pipx",
    why: "the full tests install a Python tool with it",
};
pub(crate) const NPM: Package =
    Package { program: "npm", package: "npm", why: "the full tests install Cursor's SDK with it" };
pub(crate) const MMDEBSTRAP: Package = Package {
    program: "mmdebstrap",
    package: "mmdebstrap",
    why: "the full tests make a fresh Debian with it",
};

/// Makes sure that all of them are there.
#[expect(clippy::print_stderr, reason = "a chore tells what it does")]
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

/// What to put before a command that installs; `None` where we may not.
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
