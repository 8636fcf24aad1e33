//! Finds the programs under test and the data for the tests.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path to a program from this workspace, which `cargo build` puts next to the suite.
pub(crate) fn program(name: &str) -> PathBuf {
    let suite = std::env::current_exe().unwrap();
    let program = suite.parent().and_then(Path::parent).unwrap().join(name);
    assert!(
        program.is_file(),
        "`{}` is not built: run `cargo xtask test`, or `cargo build --workspace --bins` before the suite",
        program.display()
    );
    program
}

/// Copies a program to the path where a test starts it. Another process copies it, because a child that another test
/// starts meanwhile would inherit our descriptor, and Linux cannot execute a file that is open for writing.
pub(crate) fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").args([from, to]).output().unwrap();
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
}

/// Returns a path to a program that another user can execute: in the build directory, or a copy if other users cannot
/// enter that.
pub(crate) fn for_others(program: &Path, directory: &Path) -> PathBuf {
    if is_for_others(program) {
        return program.to_owned();
    }
    let copy = directory.join(program.file_name().unwrap());
    copy_program(program, &copy);
    copy
}

/// Returns true if another user can execute this program or enter this directory.
pub(crate) fn is_for_others(path: &Path) -> bool {
    let lets_others_in =
        |path: &Path| std::fs::metadata(path).is_ok_and(|found| found.mode() & 0o001 != 0);
    path.ancestors().all(lets_others_in)
}

/// Returns the root of the checkout.
pub(crate) fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Returns the folder of captured transcripts and stores. Without it, the tests say so and use only the checkout's own
/// data.
#[expect(clippy::disallowed_methods, reason = "one of the suite's few switches")]
pub(crate) fn captures() -> Option<PathBuf> {
    let folder = std::env::var_os("CARETAKER_CAPTURES").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("CARETAKER_CAPTURES is not set: not compared with captured data");
    }
    folder
}

/// Returns the captured transcripts: those in the folder, and those in folders beside it whose names add a version, such
/// as `captures-2026.10`.
pub(crate) fn transcripts() -> Vec<PathBuf> {
    let Some(folder) = captures() else { return Vec::new() };
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    let is_ours = |path: &Path| {
        let other = path.file_name().unwrap().to_string_lossy().into_owned();
        other == name || other.starts_with(&format!("{name}-"))
    };
    let entries = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let folders = entries(folder.parent().unwrap()).into_iter().filter(|path| is_ours(path));
    let mut files: Vec<PathBuf> = folders
        .flat_map(|folder| entries(&folder))
        .filter(|path| path.extension().is_some_and(|extension| extension == "ndjson"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "the captures folder has no transcript");
    files
}
