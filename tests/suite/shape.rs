//! What must hold for the tree as a whole: which crate may know which.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};
use pretty_assertions::assert_eq;

use crate::programs::checkout;

/// Who depends on whom, in code that ships. Everything points from the binary to the small crates at the bottom, and the
/// readers and planners there know no other crate of ours but the protocol and the ground.
const EDGES: &[(&str, &[&str])] = &[
    ("run-protocol", &[]),
    ("ground", &[]),
    ("agent-stream", &["ground"]),
    ("cursor-home", &[]),
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
    // One entry of a journal as `tail --json` and the API show it.
    ("public-events", &["agent-stream", "run-journal", "run-protocol"]),
    // Stands in for cursor-agent, so it writes what the others read.
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
            "simulated-agent",
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
    // Tests only: reads `fixtures/formats` for the crates whose formats lie there.
    ("format-fixtures", &[]),
    // Tests and the bench only: writes what the readers read.
    ("store-fixtures", &["cursor-stores"]),
    // All of them for the bench alone.
    ("xtask", &["agent-stream", "run-journal", "run-shim", "store-fixtures"]),
    // Tests only: nothing of it ships.
    ("suite", &[]),
];

#[test]
fn crates_depend_on_each_other_only_as_the_design_draws_it() {
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
        "a crate is missing from the list of edges, or the list names one that is not there"
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
        assert_eq!(known, drawn, "the edges of {} are not those that are drawn", package.name);
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
