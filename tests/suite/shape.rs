//! Rules for the tree as a whole: which crate may depend on which, and that the documents are right about its files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{DependencyKind, MetadataCommand};
use pretty_assertions::assert_eq;
use regex::Regex;

use crate::stage::programs::checkout;

/// The dependencies between our crates, in code that ships. All lead from the binary to the small crates at the bottom.
/// The readers and planners there depend only on `run-protocol` and `ground`.
const EDGES: &[(&str, &[&str])] = &[
    ("run-protocol", &[]),
    ("ground", &[]),
    ("agent-stream", &["ground"]),
    ("cursor-home", &["run-protocol"]),
    ("egress", &["run-protocol"]),
    ("sandbox-plan", &["egress", "ground", "run-protocol"]),
    ("cursor-stores", &["ground", "run-protocol"]),
    ("run-journal", &["ground", "run-protocol"]),
    ("workspace-history", &["ground", "run-protocol"]),
    (
        "run-shim",
        &[
            "agent-stream",
            "cursor-home",
            "cursor-stores",
            "egress",
            "ground",
            "run-journal",
            "run-protocol",
            "sandbox-plan",
            "workspace-history",
        ],
    ),
    // A journal entry as `tail --json` and the API show it.
    ("public-events", &["agent-stream", "run-journal", "run-protocol"]),
    // Replaces cursor-agent in tests, so it writes the stores that the others read.
    ("simulated-agent", &["cursor-home", "cursor-stores", "ground"]),
    (
        "admission",
        &[
            "cursor-home",
            "cursor-stores",
            "egress",
            "ground",
            "run-journal",
            "run-protocol",
            "run-shim",
            "sandbox-plan",
            "workspace-history",
        ],
    ),
    (
        "caretaker-daemon",
        &["admission", "ground", "public-events", "run-journal", "run-protocol", "run-shim"],
    ),
    (
        "caretaker",
        &[
            "admission",
            "agent-stream",
            "caretaker-daemon",
            "cursor-home",
            "cursor-stores",
            "egress",
            "ground",
            "public-events",
            "run-journal",
            "run-protocol",
            "run-shim",
            "sandbox-plan",
            "simulated-agent",
            "workspace-history",
        ],
    ),
    // Tests only: reads `fixtures/formats` for the crates that own those formats.
    ("format-fixtures", &[]),
    // Tests and the benchmark only: writes the stores that the readers read.
    ("store-fixtures", &["cursor-stores"]),
    // The benchmark needs all of these.
    ("xtask", &["agent-stream", "run-journal", "run-shim", "store-fixtures"]),
    // Tests only: none of it ships.
    ("suite", &[]),
];

#[test]
fn crates_depend_on_each_other_only_as_listed() {
    let metadata = MetadataCommand::new()
        .manifest_path(checkout().join("Cargo.toml"))
        .no_deps()
        .other_options(vec!["--offline".to_owned()])
        .exec()
        .unwrap();
    let ours: BTreeSet<String> =
        metadata.packages.iter().map(|package| package.name.to_string()).collect();
    let allowed: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    let drawn: BTreeSet<String> = allowed.keys().map(ToString::to_string).collect();
    assert_eq!(
        ours, drawn,
        "a crate is missing from the list of edges, or the list names one that does not exist"
    );

    for package in &metadata.packages {
        let known: BTreeSet<&str> = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind != DependencyKind::Development)
            .map(|dependency| dependency.name.as_str())
            .filter(|name| ours.contains(*name))
            .collect();
        let drawn: BTreeSet<&str> = allowed[package.name.as_str()].iter().copied().collect();
        assert_eq!(known, drawn, "the dependencies of {} differ from EDGES", package.name);
    }
}

#[test]
fn the_map_names_every_crate() {
    let crates = checkout().join("crates");
    let map = std::fs::read_to_string(crates.join("README.md")).unwrap();
    for entry in std::fs::read_dir(&crates).unwrap() {
        let entry = entry.unwrap();
        if !entry.file_type().unwrap().is_dir() {
            continue;
        }
        let name = entry.file_name().into_string().unwrap();
        let says = map.contains(&format!("`{name}/`"));
        assert!(says, "crates/README.md does not say what {name} is for");
    }
}

/// The map helps only while its paths are right. If you move a file, correct the map.
#[test]
fn every_path_in_the_map_exists() {
    let map = std::fs::read_to_string(checkout().join("crates/README.md")).unwrap();
    let mut missing = Vec::new();
    for paragraph in paragraphs(&map) {
        let mut places = vec![checkout().to_path_buf(), checkout().join("crates")];
        for path in paragraph.split('`').skip(1).step_by(2).filter(|code| is_path(code)) {
            match found_below(&places, path) {
                Some(found) => places.extend(found.ancestors().take(6).map(Path::to_path_buf)),
                None => missing.push(path.to_owned()),
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new(), "crates/README.md names paths that do not exist");
}

/// Paragraphs of prose and single rows of tables. A path may be relative to an earlier path of the same paragraph.
fn paragraphs(page: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in page.lines().filter(|line| !line.starts_with("    ")) {
        if line.is_empty() || line.starts_with(['|', '-']) {
            paragraphs.push(String::new());
        }
        if let Some(paragraph) = paragraphs.last_mut() {
            paragraph.push_str(line);
            paragraph.push('\n');
        }
    }
    paragraphs
}

fn is_path(code: &str) -> bool {
    let looks_like_one = code.contains('/') || code.ends_with(".rs") || code.ends_with(".toml");
    looks_like_one && !code.contains([' ', '<', '*', '(']) && !code.starts_with("/v1")
}

/// A path that begins with `/` is below the checkout. Any other path is below a directory in `places`, or below
/// its `src`.
fn found_below(places: &[PathBuf], path: &str) -> Option<PathBuf> {
    if let Some(path) = path.strip_prefix('/') {
        return Some(checkout().join(path)).filter(|found| found.exists());
    }
    let below = |place: &PathBuf| [place.join(path), place.join("src").join(path)];
    places.iter().rev().flat_map(below).find(|found| found.exists())
}

#[test]
fn every_link_and_path_in_a_document_leads_to_a_file() {
    let listed =
        Command::new("git").current_dir(checkout()).args(["ls-files", "*.md"]).output().unwrap();
    let link = Regex::new(r"\]\(([^)#:]+)(?:#[^)]*)?\)").unwrap();
    let path = Regex::new(r"`((?:crates|tests|config|sandbox)/[\w/.-]+\.\w+)`").unwrap();
    let mut broken = Vec::new();
    for page in String::from_utf8(listed.stdout).unwrap().lines() {
        let text = std::fs::read_to_string(checkout().join(page)).unwrap();
        let directory = checkout().join(page).parent().unwrap().to_path_buf();
        let links = link.captures_iter(&text).map(|found| (directory.as_path(), found));
        let paths = path.captures_iter(&text).map(|found| (checkout(), found));
        for (place, found) in links.chain(paths) {
            if !place.join(&found[1]).exists() {
                broken.push(format!("{page}: {}", &found[1]));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new(), "these links lead nowhere");
}
