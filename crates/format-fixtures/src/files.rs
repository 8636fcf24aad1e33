//! The fixtures as files.

use std::fs;
use std::path::{Path, PathBuf};

/// A file below `fixtures/formats`.
#[derive(Debug, Clone)]
pub struct Fixture {
    /// Its path below `fixtures/formats`.
    pub name: String,
    pub path: PathBuf,
}

/// `fixtures/formats`.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/formats")
}

/// Returns the fixtures whose path matches; `*` stands for a name or a part of it.
///
/// # Panics
///
/// If there is none: a test that reads nothing proves nothing.
pub fn fixtures(pattern: &str) -> Vec<Fixture> {
    let mut found = Vec::new();
    collect(&directory(), "", &mut found);
    found.retain(|fixture| matches(&fixture.name, pattern));
    found.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(!found.is_empty(), "no fixture is called {pattern}");
    found
}

fn collect(directory: &Path, below: &str, found: &mut Vec<Fixture>) {
    let entries = fs::read_dir(directory);
    for entry in entries.unwrap_or_else(|error| panic!("{}: {error}", directory.display())) {
        let path = entry.unwrap_or_else(|error| panic!("{}: {error}", directory.display())).path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = if below.is_empty() { file } else { format!("{below}/{file}") };
        if path.is_dir() {
            collect(&path, &name, found);
        } else {
            found.push(Fixture { name, path });
        }
    }
}

fn matches(name: &str, pattern: &str) -> bool {
    let (mut names, mut patterns) = (name.split('/'), pattern.split('/'));
    loop {
        match (names.next(), patterns.next()) {
            (None, None) => return true,
            (Some(name), Some(pattern)) if part_matches(name, pattern) => {}
            _ => return false,
        }
    }
}

fn part_matches(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            let ends = (0..=name.len()).filter(|end| name.is_char_boundary(*end));
            ends.into_iter().any(|end| part_matches(&name[end..], rest))
        }),
    }
}

impl Fixture {
    /// # Panics
    ///
    /// If it cannot be read.
    pub fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap_or_else(|error| panic!("{}: {error}", self.path.display()))
    }

    /// # Panics
    ///
    /// If it is not text.
    pub fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap_or_else(|_| panic!("{} is not text", self.name))
    }

    /// # Panics
    ///
    /// If it is not text.
    pub fn lines(&self) -> Vec<String> {
        self.text().lines().map(ToOwned::to_owned).collect()
    }

    /// Compares the values that the reader got with the snapshot in `fixtures/formats-read`.
    ///
    /// # Panics
    ///
    /// If they differ.
    pub fn compare_with_snapshot(&self, read: &str) {
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(directory().with_file_name("formats-read"));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        let name = self.name.replace('/', "__");
        settings.bind(|| insta::assert_snapshot!(name, read));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn a_star_stands_for_one_name_or_a_part_of_it() {
        assert!(matches("v1/runs/x/spec.json", "v1/runs/*/spec.json"));
        assert!(matches("v1/a.before.jsonl", "v1/*.before.jsonl"));
        assert!(matches("v1/a.before.jsonl", "v1/a*.*.jsonl"));
        assert!(!matches("v1/runs/x/y/spec.json", "v1/runs/*/spec.json"));
        assert!(!matches("v1/runs/x", "v1/runs/*/spec.json"));
        assert!(!matches("v1/aa", "v1/aa*a"));
    }

    /// Returns all files of a version, without README and checksums.
    fn all(version: &Path) -> Vec<Fixture> {
        let mut all = Vec::new();
        collect(version, "", &mut all);
        all.retain(|fixture| !["README.md", "SHA256SUMS"].contains(&fixture.name.as_str()));
        all
    }

    #[test]
    fn no_fixture_was_changed_added_or_removed() {
        let entries = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
        for version in entries.filter(|path| path.is_dir()) {
            compare_with_checksums(&version);
        }
    }

    fn compare_with_checksums(version: &Path) {
        let sums = fs::read_to_string(version.join("SHA256SUMS")).unwrap();
        let recorded: BTreeMap<String, String> = sums
            .lines()
            .map(|line| line.split_once("  ").unwrap())
            .map(|(sum, name)| (name.to_owned(), sum.to_owned()))
            .collect();
        let found: BTreeMap<String, String> = all(version)
            .into_iter()
            .map(|fixture| (hex::encode(Sha256::digest(fixture.bytes())), fixture.name))
            .map(|(sum, name)| (name, sum))
            .collect();
        let names: BTreeSet<&String> = recorded.keys().chain(found.keys()).collect();
        let other: Vec<&&String> =
            names.iter().filter(|name| recorded.get(**name) != found.get(**name)).collect();
        assert!(other.is_empty(), "these fixtures differ from SHA256SUMS: {other:#?}");
    }

    #[test]
    fn the_readme_names_the_writer_and_the_test_of_every_fixture() {
        let readme = fs::read_to_string(directory().join("v1/README.md")).unwrap();
        let mut unnamed = all(&directory().join("v1"));
        for row in readme.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> =
                row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
            let (pattern, test) = (cells[1], cells[3]);
            let is_of_row = |fixture: &Fixture| match pattern.strip_suffix("/**") {
                None => matches(&fixture.name, pattern),
                Some(above) => {
                    let depth = above.split('/').count();
                    let name: Vec<&str> = fixture.name.split('/').take(depth).collect();
                    matches(&name.join("/"), above)
                }
            };
            let n_before = unnamed.len();
            unnamed.retain(|fixture| !is_of_row(fixture));
            let is_any = unnamed.len() < n_before || pattern == "SHA256SUMS";
            assert!(is_any, "there is no `{pattern}`, or an earlier row already has it");
            let text = fs::read_to_string(directory().join("../..").join(test));
            let text = text.unwrap_or_else(|error| panic!("{test}: {error}"));
            let is_named = ["v1", "*"]
                .iter()
                .any(|version| text.contains(&format!("\"{version}/{pattern}\"")))
                || text.contains("formats/v1");
            assert!(is_named || pattern == "SHA256SUMS", "{test} does not read `{pattern}`");
        }
        let unnamed: Vec<String> = unnamed.into_iter().map(|fixture| fixture.name).collect();
        assert!(unnamed.is_empty(), "the README does not name {unnamed:#?}");
    }
}
