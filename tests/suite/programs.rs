//! Where the programs under test and the data to test with are found.

use std::path::{Path, PathBuf};

/// A program of this workspace, as `cargo build` left it beside the suite.
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

/// The root of the checkout.
pub(crate) fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The folder of captured transcripts and stores. A checkout without it says so and tests with what it has.
#[expect(
    clippy::disallowed_methods,
    reason = "the one switch of the suite that comes from outside"
)]
pub(crate) fn captures() -> Option<PathBuf> {
    let folder = std::env::var_os("CARETAKER_CAPTURES").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("CARETAKER_CAPTURES is not set: not compared with captured data");
    }
    folder
}

/// Every captured transcript.
pub(crate) fn transcripts() -> Vec<PathBuf> {
    let Some(folder) = captures() else { return Vec::new() };
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ndjson"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "the folder of captures holds no transcript");
    files
}
