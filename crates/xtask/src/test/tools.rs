//! Programs that only the full tier needs: installed by name below the build directory before any test starts.

use std::path::{Path, PathBuf};

use crate::commands;
use crate::system_packages::{self, JQ, MMDEBSTRAP, NPM, PIPX};

const CARGO_FUZZ: &str = "cargo-fuzz@0.13.2";
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// The versions of Cursor's SDK whose stores are read, each with the layout of its time.
pub(super) const SDK_VERSIONS: [&str; 2] = ["1.0.9", "1.0.18"];

pub(super) struct Tools {
    root: PathBuf,
}

impl Tools {
    /// Installs what is missing.
    pub(super) fn install() -> anyhow::Result<Self> {
        system_packages::ensure(&[JQ, PIPX, NPM, MMDEBSTRAP])?;
        let tools = Self { root: commands::target_dir().join("tools") };
        let root = tools.root.to_string_lossy().into_owned();
        if !tools.cargo_fuzz().exists() {
            let cargo = commands::cargo();
            commands::run(&cargo, &["install", "--locked", "--root", &root, CARGO_FUZZ])?;
        }
        if !tools.schemathesis().exists() {
            let places =
                [("PIPX_HOME", tools.root.join("pipx")), ("PIPX_BIN_DIR", tools.root.join("bin"))];
            let places = places.each_ref().map(|(name, place)| (*name, place.as_os_str()));
            commands::run_with("pipx", &["install", SCHEMATHESIS], &places)?;
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

    /// The directory that has this version of the SDK in its `node_modules`.
    pub(super) fn sdk(&self, version: &str) -> PathBuf {
        self.root.join(format!("sdk-{version}"))
    }

    /// Where steps keep what they make.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }
}
