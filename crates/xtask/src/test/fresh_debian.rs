//! Runs `cargo xtask demo` on a Debian that has only a Rust toolchain and a C linker, as the README promises to new users.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::tools::Tools;
use crate::commands;

/// The Debian release.
const RELEASE: &str = "bookworm";

pub(super) fn demo(tools: &Tools) -> anyhow::Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("only root can install packages in a new Debian");
    }
    let debian = tempfile::Builder::new().prefix("debian-").tempdir_in(tools.root())?;
    let root = debian.path();
    let place = root.to_string_lossy().into_owned();
    let minimal = ["--variant=minbase", "--include=ca-certificates,gcc,libc6-dev", RELEASE, &place];
    commands::run("mmdebstrap", &minimal)?;
    take_over_settings(root)?;
    let cargo_home = home_of("CARGO_HOME", ".cargo")?;
    let rustup_home = home_of("RUSTUP_HOME", ".rustup")?;
    let source = commands::workspace_root().to_string_lossy().into_owned();
    // Use bubblewrap, because in a chroot the kernel refuses the sandbox's user namespaces. Use this machine's own
    // /proc, because bubblewrap would mount over parts of a new one, and then the kernel would refuse another /proc to
    // the sandbox inside.
    let mut words: Vec<&str> =
        vec!["--bind", &place, "/", "--dev", "/dev", "--bind", "/proc", "/proc"];
    words.extend(["--perms", "1777", "--tmpfs", "/tmp", "--die-with-parent"]);
    words.extend(["--cap-add", "ALL"]);
    words.extend(["--ro-bind", &source, "/source", "--ro-bind", &rustup_home, "/rustup"]);
    words.extend(["--ro-bind", "/etc/resolv.conf", "/etc/resolv.conf"]);
    let registry = format!("{cargo_home}/registry");
    words.extend(["--ro-bind", &cargo_home, "/cargo", "--bind", &registry, "/cargo/registry"]);
    words.extend(["--setenv", "CARGO_HOME", "/cargo", "--setenv", "RUSTUP_HOME", "/rustup"]);
    words.extend(["--setenv", "CARGO_TARGET_DIR", "/build", "--setenv", "HOME", "/root"]);
    words.extend(["--setenv", "PATH", "/cargo/bin:/usr/sbin:/usr/bin:/sbin:/bin"]);
    words.extend(["--unsetenv", "CARGO", "--unsetenv", "RUSTUP_TOOLCHAIN"]);
    words.extend(["--chdir", "/source", "--", "cargo", "xtask", "demo"]);
    commands::run("bwrap", &words)
}

/// Copies this machine's settings for its package sources.
fn take_over_settings(root: &Path) -> anyhow::Result<()> {
    for directory in ["etc/apt/apt.conf.d", "usr/local/share/ca-certificates"] {
        let from = Path::new("/").join(directory);
        let Ok(entries) = std::fs::read_dir(&from) else { continue };
        std::fs::create_dir_all(root.join(directory))?;
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::copy(entry.path(), root.join(directory).join(entry.file_name()))?;
            }
        }
    }
    let bundle = "etc/ssl/certs/ca-certificates.crt";
    std::fs::copy(Path::new("/").join(bundle), root.join(bundle))?;
    Ok(())
}

/// The directory of this machine's toolchain: from the variable, or the usual place below the home directory.
#[expect(
    clippy::disallowed_methods,
    reason = "rustup and cargo read their locations from the environment"
)]
fn home_of(variable: &str, usual: &str) -> anyhow::Result<String> {
    let place = match std::env::var_os(variable) {
        Some(place) => PathBuf::from(place),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(usual),
    };
    Ok(place.to_string_lossy().into_owned())
}
