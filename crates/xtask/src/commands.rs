//! Starting other programs, with what is started shown on stderr.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, bail};

/// The root of the workspace, wherever this is called from.
pub(crate) fn workspace_root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().and_then(Path::parent).unwrap_or(here)
}

/// Runs a program in the workspace root and fails unless it succeeds.
pub(crate) fn run<S: AsRef<OsStr>>(program: &str, args: &[S]) -> anyhow::Result<()> {
    run_with(program, args, &[])
}

/// As [`run`], with these variables in its environment.
pub(crate) fn run_with<S: AsRef<OsStr>>(
    program: &str,
    args: &[S],
    environment: &[(&str, &OsStr)],
) -> anyhow::Result<()> {
    run_in(workspace_root(), program, args, environment)
}

/// As [`run_with`], in another directory, for programs that leave files where they run.
pub(crate) fn run_in<S: AsRef<OsStr>>(
    directory: &Path,
    program: &str,
    args: &[S],
    environment: &[(&str, &OsStr)],
) -> anyhow::Result<()> {
    let status = status(directory, program, args, environment)?;
    if !status.success() {
        bail!("`{}` ended with {status}", shown(program, args));
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "a chore tells what it does")]
fn status<S: AsRef<OsStr>>(
    directory: &Path,
    program: &str,
    args: &[S],
    environment: &[(&str, &OsStr)],
) -> anyhow::Result<ExitStatus> {
    eprintln!("» {}", shown(program, args));
    Command::new(program)
        .args(args)
        .envs(environment.iter().copied())
        .current_dir(directory)
        .status()
        .with_context(|| format!("`{program}` could not be started"))
}

fn shown<S: AsRef<OsStr>>(program: &str, args: &[S]) -> String {
    let words = args.iter().map(|word| word.as_ref().to_string_lossy().into_owned());
    std::iter::once(program.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The cargo that started us.
#[expect(clippy::disallowed_methods, reason = "cargo tells its subcommands by environment")]
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Where a program of this name is on PATH.
#[expect(clippy::disallowed_methods, reason = "a look-up on PATH is about the environment")]
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
