use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn search(path: &str) -> AgentSearch {
    AgentSearch { explicit: None, path: Some(path.into()), home: Some("/h".into()) }
}

fn version(year: u16, month: u8, day: u8, build: &str) -> AgentVersion {
    AgentVersion { year, month, day, build: Some(build.to_owned()) }
}

#[test]
fn the_unambiguous_name_is_tried_everywhere_before_the_short_one() {
    let listed: Vec<_> = candidates(&search("/opt/bin:/usr/bin"))
        .into_iter()
        .map(|c| (c.path.display().to_string(), c.found_by, c.check))
        .collect();
    let (plain, proven) = (AgentCheck::Executable, AgentCheck::ExecutableThatSaysCursor);
    assert_eq!(
        listed,
        [
            ("/opt/bin/cursor-agent".to_owned(), FoundBy::SearchPath, plain),
            ("/usr/bin/cursor-agent".to_owned(), FoundBy::SearchPath, plain),
            ("/h/.local/bin/cursor-agent".to_owned(), FoundBy::InstallerDefault, plain),
            ("/opt/bin/agent".to_owned(), FoundBy::SearchPath, proven),
            ("/usr/bin/agent".to_owned(), FoundBy::SearchPath, proven),
            ("/h/.local/bin/agent".to_owned(), FoundBy::InstallerDefault, proven),
        ]
    );
}

#[test]
fn a_program_the_user_named_is_the_only_candidate() {
    let search = AgentSearch { explicit: Some("/x/agent".into()), ..search("/usr/bin") };
    assert_eq!(
        candidates(&search),
        [Candidate {
            path: "/x/agent".into(),
            found_by: FoundBy::Explicit,
            check: AgentCheck::Executable
        }]
    );
}

#[test]
fn relative_empty_and_repeated_entries_of_the_search_path_are_skipped() {
    let paths: Vec<_> = candidates(&search(":.:bin:/usr/bin:/h/.local/bin:/usr/bin"))
        .into_iter()
        .map(|c| c.path)
        .filter(|path| path.ends_with("cursor-agent"))
        .collect();
    assert_eq!(
        paths,
        [Path::new("/usr/bin/cursor-agent"), Path::new("/h/.local/bin/cursor-agent")]
    );
    assert_eq!(candidates(&AgentSearch::default()), []);
}

#[test]
fn only_the_product_name_counts_as_cursor() {
    assert!(says_it_is_cursor("Usage: agent [options]\n\nStart the Cursor Agent\n"));
    assert!(says_it_is_cursor("--api-key <key>  (or CURSOR_API_KEY)"));
    assert!(!says_it_is_cursor("Grok Build\n  --cursor-style  shape of the cursor"));
    assert!(!says_it_is_cursor("Cursors and Precursor"));
    assert!(!says_it_is_cursor(""));
}

#[test]
fn a_version_is_a_date_and_a_build() {
    assert_eq!(parse_version("2026.10.01-e373342\n"), Some(version(2026, 10, 1, "e373342")));
    let without_build = AgentVersion { year: 2026, month: 2, day: 13, build: None };
    assert_eq!(parse_version("2026.02.13"), Some(without_build));
    for wrong in [
        "",
        "1.2.3",
        "2026.13.01-x",
        "2026.10.01-",
        "2026.10.01.1-x",
        "2026.10.1-x",
        "v2026.10.01",
        "2026.10.01-a/b",
        "2026.+1.01-x",
    ] {
        assert_eq!(parse_version(wrong), None, "{wrong:?}");
    }
}

#[test]
fn an_installed_agent_is_pinned_to_its_version() {
    let path = Path::new("/h/.local/share/cursor-agent/versions/2026.10.01-e373342/cursor-agent");
    assert_eq!(
        PinnedAgent::from_canonical(path, Beside::SomethingElse),
        Ok(PinnedAgent {
            program: path.into(),
            version: Some(version(2026, 10, 1, "e373342")),
            exposure: Exposure::Directory(path.parent().unwrap().into()),
        })
    );
}

#[test]
fn an_agent_with_node_and_index_js_beside_it_needs_its_directory_wherever_it_is() {
    for (path, known) in [
        ("/opt/cursor-agent/cursor-agent", None),
        ("/h/.cache/registry/cursor/dist-package/cursor-agent", None),
        (
            "/h/.local/share/cursor-agent/versions/2026.06.15-18-00-12-6f5a2cf/cursor-agent",
            Some(version(2026, 6, 15, "18-00-12-6f5a2cf")),
        ),
    ] {
        let pinned = PinnedAgent::from_canonical(Path::new(path), Beside::TheAgent).unwrap();
        let directory = Path::new(path).parent().unwrap();
        assert_eq!(pinned.exposure, Exposure::Directory(directory.into()));
        assert_eq!(pinned.version, known);
    }
}

#[test]
fn a_program_from_elsewhere_exposes_only_itself() {
    for path in [
        "/h/agent.sh",
        "/opt/versions/2026.10.01-e373342/cursor-agent",
        "/h/cursor-agent/versions/new/cursor-agent",
    ] {
        let pinned = PinnedAgent::from_canonical(Path::new(path), Beside::SomethingElse).unwrap();
        assert_eq!(pinned.exposure, Exposure::File(path.into()));
        assert_eq!(pinned.version, None);
    }
}

#[test]
fn a_path_that_names_no_program_cannot_be_pinned() {
    for path in ["/", "cursor-agent", "", "/opt/.."] {
        let pinned = PinnedAgent::from_canonical(Path::new(path), Beside::TheAgent);
        assert_eq!(pinned, Err(NotAProgramPath(path.into())));
    }
}

proptest! {
    #[test]
    fn a_version_reads_back_as_it_was_written(
        year in 2000u16..=9999, month in 1u8..=12, day in 1u8..=31, build in proptest::option::of("[0-9a-f]{7}"),
    ) {
        let version = AgentVersion { year, month, day, build };
        prop_assert_eq!(parse_version(&version.to_string()), Some(version));
    }

    #[test]
    fn reading_a_version_takes_any_text(text in "\\PC*") {
        if let Some(version) = parse_version(&text) {
            prop_assert_eq!(version.to_string(), text.trim());
        }
    }
}
