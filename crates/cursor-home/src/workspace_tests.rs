use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

fn workspace(path: &str) -> WorkspacePath {
    WorkspacePath::new(Path::new(path)).unwrap()
}

/// Cursor's own replacement: on UTF-16 units, in three steps.
fn slug_in_three_steps(path: &str) -> String {
    let dashed: Vec<char> = path
        .encode_utf16()
        .map(|unit| char::from_u32(unit.into()).filter(char::is_ascii_alphanumeric).unwrap_or('-'))
        .collect();
    let mut collapsed = dashed;
    collapsed.dedup_by(|a, b| *a == '-' && *b == '-');
    String::from_iter(collapsed).trim_matches('-').to_owned()
}

#[test]
fn the_bucket_is_the_md5_of_the_path() {
    assert_eq!(workspace("/tmp/work").bucket(), "a70cd606fdf06596dff816f4b9b8bc27");
}

#[test]
fn a_bucket_may_also_be_named_by_sha256() {
    let work = workspace("/tmp/work");
    let sha256 = "f9be197a95b070f4bcfd5146a95439552fca4a863581c3f410f8fdfdc4bb5188";
    assert_eq!(work.bucket_by(BucketHash::Sha256), sha256);
    assert!(work.has_bucket(&work.bucket()) && work.has_bucket(sha256));
    assert!(!work.has_bucket("") && !work.has_bucket(&workspace("/tmp/other").bucket()));
}

#[test]
fn slashes_that_mean_nothing_do_not_change_the_bucket() {
    for spelling in ["/tmp/work/", "/tmp//work", "/tmp/./work", "//tmp/work//"] {
        assert_eq!(workspace(spelling), workspace("/tmp/work"), "{spelling}");
    }
    assert_eq!(workspace("/").as_path(), Path::new("/"));
}

#[test]
fn a_path_that_cannot_be_physical_is_refused() {
    let error = WorkspacePath::new(Path::new("work")).unwrap_err();
    assert_eq!(error, WorkspacePathError::NotAbsolute("work".into()));
    let error = WorkspacePath::new(Path::new("/tmp/../work")).unwrap_err();
    assert_eq!(error, WorkspacePathError::NotPhysical("/tmp/../work".into()));
}

#[test]
fn slugs_keep_letters_and_digits_only() {
    for (path, slug) in [
        ("/tmp/work", "tmp-work"),
        ("/home/Ada/My Project_2.0", "home-Ada-My-Project-2-0"),
        ("/a/b-c", "a-b-c"),
        ("/a/b/c", "a-b-c"),
        ("/.hidden/--x--", "hidden-x"),
        ("/home/josé/naïve", "home-jos-na-ve"),
        ("/日本/語", ""),
        ("/", ""),
        ("/tmp/\u{1F980}crab", "tmp-crab"),
    ] {
        assert_eq!(workspace(path).slug(), slug, "{path}");
    }
}

#[test]
fn a_path_that_is_not_utf8_has_a_bucket_and_a_slug_but_no_text() {
    let path = PathBuf::from(OsString::from_vec(b"/tmp/\xff\xfework".to_vec()));
    let workspace = WorkspacePath::new(&path).unwrap();
    assert_eq!(workspace.slug(), "tmp-work");
    assert_eq!(workspace.bucket(), hex::encode(Md5::digest(b"/tmp/\xff\xfework")));
    assert_eq!(workspace.as_utf8(), Err(WorkspacePathError::NotUtf8(path)));
}

#[test]
fn files_of_a_session_and_of_a_project_are_where_cursor_puts_them() {
    let roots = CursorRoots::in_sandbox(Path::new("/h"));
    let session = Uuid::parse_str("3F2504E0-4F89-41D3-9A0C-0305E82C3301").unwrap();
    let directory = roots.session_dir(&workspace("/tmp/work"), session);
    let base =
        "/h/.cursor/chats/a70cd606fdf06596dff816f4b9b8bc27/3f2504e0-4f89-41d3-9a0c-0305e82c3301";
    assert_eq!(directory.path(), Path::new(base));
    assert_eq!(directory.store_db(), Path::new(base).join("store.db"));
    assert_eq!(directory.meta_json(), Path::new(base).join("meta.json"));

    let project = roots.project_dir(&workspace("/tmp/work"));
    let base = Path::new("/h/.cursor/projects/tmp-work");
    assert_eq!(project.approvals(), base.join("mcp-approvals.json"));
    assert_eq!(project.disabled_servers(), base.join("mcp-disabled.json"));
    assert_eq!(project.trust_marker(), base.join(".workspace-trusted"));
    assert_eq!(project.worker_socket(), base.join("worker.sock"));
    assert_eq!(
        project.transcript(session),
        base.join(format!("agent-transcripts/{session}/{session}.jsonl"))
    );
    assert_eq!(
        project.subagent_transcripts(session),
        base.join(format!("agent-transcripts/{session}/subagents"))
    );
}

#[test]
fn a_workspace_with_an_empty_slug_uses_the_projects_directory_itself() {
    let roots = CursorRoots::in_sandbox(Path::new("/h"));
    let marker = roots.project_dir(&workspace("/日本")).trust_marker();
    assert_eq!(marker.as_os_str(), "/h/.cursor/projects/.workspace-trusted");
}

proptest! {
    #[test]
    fn a_slug_has_only_letters_digits_and_single_inner_dashes(path in "/\\PC{0,40}") {
        prop_assume!(!path.split('/').any(|part| part == ".."));
        let slug = workspace(&path).slug();
        prop_assert!(slug.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'));
        prop_assert!(!slug.contains("--"));
        prop_assert!(!slug.starts_with('-') && !slug.ends_with('-'));
        prop_assert_eq!(slug, slug_in_three_steps(&path));
    }

    #[test]
    fn a_checked_path_stays_as_it_is(path in "/[a-b./ ]{0,20}") {
        prop_assume!(!path.split('/').any(|part| part == ".."));
        let checked = workspace(&path);
        prop_assert_eq!(WorkspacePath::new(checked.as_path()).unwrap(), checked.clone());
        prop_assert!(checked.as_path() == Path::new("/") || !checked.as_utf8().unwrap().ends_with('/'));
    }

    #[test]
    fn paths_with_arbitrary_bytes_have_a_bucket_of_32_hex_digits(bytes in proptest::collection::vec(1u8..=255, 0..40)) {
        let path = PathBuf::from(OsString::from_vec([b"/", bytes.as_slice()].concat()));
        if let Ok(workspace) = WorkspacePath::new(&path) {
            prop_assert_eq!(workspace.bucket().len(), 32);
            prop_assert!(workspace.slug().is_ascii());
        }
    }
}
