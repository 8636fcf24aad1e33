//! Starts other programs, and shows each command on stderr.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// Returns the root of the workspace.
pub(crate) fn workspace_root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().and_then(Path::parent).unwrap_or(here)
}

/// Runs a program in the workspace root and fails unless it succeeds.
pub(crate) fn run<S: AsRef<OsStr>>(program: &str, args: &[S]) -> anyhow::Result<()> {
    check(Command::new(program).args(args).current_dir(workspace_root()))
}

/// Runs a command, shows it on stderr, and fails unless it succeeds.
#[expect(clippy::print_stderr, reason = "a chore shows what it does")]
pub(crate) fn check(command: &mut Command) -> anyhow::Result<()> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let shown = words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    eprintln!("» {shown}");
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    ensure!(status.success(), "`{shown}` ended with {status}");
    Ok(())
}

/// Returns a command for the cargo that started this program, in the workspace root.
pub(crate) fn cargo_command<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(cargo());
    command.args(args).current_dir(workspace_root());
    command
}

/// Returns the cargo that started this program.
#[expect(clippy::disallowed_methods, reason = "cargo passes this to its subcommands")]
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Finds a program on PATH.
#[expect(clippy::disallowed_methods, reason = "PATH is part of the environment")]
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// Cargo's build directory.
#[expect(clippy::disallowed_methods, reason = "cargo's own setting")]
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => workspace_root().join(directory),
        None => workspace_root().join("target"),
    }
}
