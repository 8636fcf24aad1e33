use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn a_chats_file_is_written_in_cursors_key_order() {
    let meta = SessionMetaFile {
        schema_version: Some(1),
        created_at_ms: Some(1_790_000_000_000),
        has_conversation: Some(false),
        updated_at_ms: Some(1_790_000_000_001),
        cwd: Some("/work tree/ünïcode".to_owned()),
        title: Some("Fix".to_owned()),
        is_subagent: Some(true),
        other: Map::new(),
    };
    let text = r#"{"schemaVersion":1,"createdAtMs":1790000000000,"hasConversation":false,"updatedAtMs":1790000000001,"cwd":"/work tree/ünïcode","title":"Fix","isSubagent":true}"#;
    assert_eq!(meta.to_json(), text);
    assert_eq!(SessionMetaFile::parse(text.as_bytes()).unwrap(), meta);
}

#[test]
fn an_acp_sessions_file_has_only_its_own_keys() {
    let text = r#"{"schemaVersion":1,"cwd":"/abs"}"#;
    let meta = SessionMetaFile::parse(text.as_bytes()).unwrap();
    assert_eq!(meta.cwd.as_deref(), Some("/abs"));
    assert_eq!((meta.created_at_ms, meta.has_conversation), (None, None));
    assert_eq!(meta.to_json(), text);
}

#[test]
fn unknown_keys_and_unexpected_types_are_kept() {
    let text = r#"{"schemaVersion":2,"createdAtMs":"17","cwd":{"a":1},"later":[null]}"#;
    let meta = SessionMetaFile::parse(text.as_bytes()).unwrap();
    assert_eq!(meta.created_at_ms, Some(17));
    assert_eq!(meta.cwd, None);
    assert_eq!(Json::Object(meta.other.clone()), json!({"cwd": {"a": 1}, "later": [null]}));
    assert_eq!(
        meta.to_json(),
        r#"{"schemaVersion":2,"createdAtMs":17,"cwd":{"a":1},"later":[null]}"#
    );
}

#[test]
fn only_a_plain_file_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("meta.json");
    let missing = SessionMetaFile::read(&path).unwrap_err();
    assert!(
        matches!(missing, ReadSessionMetaError::File(PlainFileError::Missing { .. })),
        "{missing:?}"
    );

    std::fs::write(&path, r#"{"schemaVersion":1}"#).unwrap();
    assert_eq!(SessionMetaFile::read(&path).unwrap().schema_version, Some(1));

    let link = directory.path().join("link.json");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let refused = SessionMetaFile::read(&link).unwrap_err();
    assert!(
        matches!(refused, ReadSessionMetaError::File(PlainFileError::NotPlain { .. })),
        "{refused:?}"
    );

    std::fs::write(&path, vec![b' '; 1024 * 1024 + 1]).unwrap();
    let refused = SessionMetaFile::read(&path).unwrap_err();
    assert!(
        matches!(refused, ReadSessionMetaError::File(PlainFileError::TooLarge { .. })),
        "{refused:?}"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_parsing_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        SessionMetaFile::parse(&bytes).ok();
    }
}
