use format_fixtures::fixtures;
use pretty_assertions::assert_eq;

use super::*;

/// Returns the number of sections that an index of this version knows.
fn n_sections_known(version: i32) -> i64 {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("search.db");
    fs::write(&path, fixtures("v1/state/search.db")[0].bytes()).unwrap();
    connect(&path).unwrap().pragma_update(None, "user_version", version).unwrap();
    let index = SearchIndex::open(&path).unwrap();
    let mut heads = index.connection.prepare("SELECT head FROM heads").unwrap();
    let heads = heads.query_map([], |row| row.get::<_, String>(0)).unwrap();
    for head in heads {
        serde_json::from_str::<Head>(&head.unwrap()).unwrap();
    }
    index.connection.query_row("SELECT count(*) FROM sections", [], |row| row.get(0)).unwrap()
}

#[test]
fn an_index_of_this_version_is_used_and_any_other_is_rebuilt() {
    // The fixture has version 1. It keeps that version when the current one increases.
    let known = n_sections_known(1);
    assert_eq!(known > 0, VERSION == 1, "{known}");
    for another in [VERSION - 1, VERSION + 1, -1] {
        assert_eq!(n_sections_known(another), 0, "version {another}");
    }
}
