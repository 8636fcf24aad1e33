//! Programs that only `--full` needs. This installs them below the build directory before any test starts.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands;
use crate::system_packages::{self, GO, JAVA_COMPILER, JQ, MAVEN, MAVEN_PLUGINS, MMDEBSTRAP, PIPX};

const CARGO_FUZZ: &str = "cargo-fuzz@0.13.2";
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// The versions of Cursor's SDK whose stores the tests read. Each has its own layout.
pub(super) const SDK_VERSIONS: [&str; 2] = ["1.0.9", "1.0.18"];

pub(super) struct Tools {
    root: PathBuf,
}

impl Tools {
    /// Installs the missing programs.
    pub(super) fn install() -> anyhow::Result<Self> {
        system_packages::ensure(&[JQ, PIPX, MMDEBSTRAP, GO, MAVEN, JAVA_COMPILER, MAVEN_PLUGINS])?;
        let tools = Self { root: commands::target_dir().join("tools") };
        let root = tools.root.to_string_lossy().into_owned();
        if !tools.cargo_fuzz().exists() {
            let cargo = commands::cargo();
            commands::run(&cargo, &["install", "--locked", "--root", &root, CARGO_FUZZ])?;
        }
        if !tools.schemathesis().exists() {
            let mut pipx = Command::new("pipx");
            pipx.args(["install", SCHEMATHESIS]).env("PIPX_HOME", tools.root.join("pipx"));
            commands::check(pipx.env("PIPX_BIN_DIR", tools.root.join("bin")))?;
        }
        for version in SDK_VERSIONS {
            let place = tools.sdk(version);
            if !place.join("node_modules/@cursor/sdk").exists() {
                std::fs::create_dir_all(&place)?;
                let package = format!("@cursor/sdk@{version}");
                let place = place.to_string_lossy().into_owned();
                commands::run("npm", &["install", "--no-audit", "--prefix", &place, &package])?;
            }
        }
        Ok(tools)
    }

    pub(super) fn cargo_fuzz(&self) -> PathBuf {
        self.root.join("bin/cargo-fuzz")
    }

    pub(super) fn schemathesis(&self) -> PathBuf {
        self.root.join("bin/schemathesis")
    }

    /// Returns the directory whose `node_modules` has this version of the SDK.
    pub(super) fn sdk(&self, version: &str) -> PathBuf {
        self.root.join(format!("sdk-{version}"))
    }

    /// Returns the directory for the results of the steps.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }
}
