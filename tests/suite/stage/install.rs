//! A stand-in of the installed agent in the layout of the real one: a bash launcher, and beside it `node`, `index.js`
//! and chunks that it loads later. Also the user's login and `cli-config.json`.
//!
//! `node` is a script that starts the simulated agent, if it can read everything that the real one would load.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::stage::Stage;
use crate::stage::programs::{copy_program, program};

/// What the launcher of version 2026.10.01 does.
const LAUNCHER: &str = r#"#!/usr/bin/env bash
set -euo pipefail
SCRIPT_DIR="$(dirname "$(realpath "$0")")"
export CURSOR_INVOKED_AS="$(basename "$0")"
exec -a "$0" "$SCRIPT_DIR/node" --use-system-ca "$SCRIPT_DIR/index.js" "$@"
"#;

const NODE: &str = r#"#!/usr/bin/env bash
here="$(dirname "$0")"
if [ "$1" != --use-system-ca ] || ! grep -q index "$2" || ! grep -q chunk "$here/chunks/1.js"; then
    echo "node: cannot load $2" >&2
    exit 1
fi
shift 2
if [ "$*" = --version ]; then
    exec cat "$here/version"
fi
exec "$here/simulated" "$@"
"#;

pub(crate) struct Install {
    directory: PathBuf,
}

impl Install {
    /// Installs a version as Cursor's installer and its updates do: in a directory of its own, with the links in
    /// `~/.local/bin` turned to it.
    pub(crate) fn version(stage: &Stage, version: &str) -> Self {
        let versions = stage.home().join(".local/share/cursor-agent/versions");
        let install = Self::at(&versions.join(version), version);
        let bin = stage.home().join(".local/bin");
        fs::create_dir_all(&bin).unwrap();
        for name in ["agent", "cursor-agent"] {
            let link = bin.join(format!("{name}.new"));
            symlink(install.launcher(), &link).unwrap();
            fs::rename(link, bin.join(name)).unwrap();
        }
        install
    }

    /// Installs a version into any directory, in place of the one that is there.
    pub(crate) fn at(directory: &Path, version: &str) -> Self {
        fs::remove_dir_all(directory).ok();
        fs::create_dir_all(directory.join("chunks")).unwrap();
        let write = |name: &str, text: &str, mode: u32| {
            let path = directory.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        write("index.js", "// index\n", 0o644);
        write("chunks/1.js", "// chunk\n", 0o644);
        write("version", &format!("{version}\n"), 0o644);
        write("node", NODE, 0o755);
        write("cursor-agent", LAUNCHER, 0o755);
        let (simulated, here) = (program("simulated-agent"), directory.join("simulated"));
        // A copy would take time and room.
        fs::hard_link(&simulated, &here).unwrap_or_else(|_| copy_program(&simulated, &here));
        Self { directory: directory.to_owned() }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn launcher(&self) -> PathBuf {
        self.directory.join("cursor-agent")
    }

    /// Removes the version, as a later update does.
    pub(crate) fn remove(self) {
        fs::remove_dir_all(self.directory).unwrap();
    }
}

/// Logs the user in.
pub(crate) fn log_in(stage: &Stage) {
    let directory = stage.home().join(".config/cursor");
    fs::create_dir_all(&directory).unwrap();
    let token = "a-token-that-opens-nothing";
    let login = json!({"accessToken": token, "refreshToken": token});
    fs::write(directory.join("auth.json"), login.to_string()).unwrap();
}

/// Writes a file in the user's `~/.cursor`.
pub(crate) fn in_dot_cursor(stage: &Stage, name: &str, content: &Value) {
    let directory = stage.home().join(".cursor");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join(name), content.to_string()).unwrap();
}

/// Writes the user's `cli-config.json` with these deny rules, and what the agent always writes.
pub(crate) fn user_denies(stage: &Stage, deny: &[&str]) {
    let config = json!({
        "version": 1,
        "editor": { "vimMode": false },
        "permissions": { "allow": ["Shell(ls)"], "deny": deny },
        "approvalMode": "allowlist",
        "sandbox": { "mode": "disabled" },
    });
    in_dot_cursor(stage, "cli-config.json", &config);
}
