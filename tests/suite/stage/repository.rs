//! Git with an empty configuration.

use std::path::Path;
use std::process::Command;

use crate::stage::stderr;

/// Runs git in a directory and returns its output.
pub(crate) fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Makes this directory a repository, with one file in one commit.
pub(crate) fn make_repository(directory: &Path) {
    git(directory, &["init", "-q", "-b", "main"]);
    std::fs::write(directory.join("plain"), "plain\n").unwrap();
    git(directory, &["add", "."]);
    git(directory, &["commit", "-qm", "one"]);
}
