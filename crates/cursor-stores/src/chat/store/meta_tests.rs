use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const KEY: &str = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00";
const ROOT: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn read(json: &Json) -> ChatMeta {
    ChatMeta::from_row(hex::encode(json.to_string()).as_bytes()).unwrap()
}

#[test]
fn a_new_meta_is_written_as_cursor_writes_it() {
    let mut meta = ChatMeta::new("7d74ae8c-d0b2-494d-8342-00fd38b046dd", 1_771_282_052_029);
    meta.set_latest_root(BlobId::of(b""));
    meta.set_name("Dir Changer");
    meta.set_last_used_model("claude-4.5-sonnet-thinking");
    let json = format!(
        r#"{{"agentId":"7d74ae8c-d0b2-494d-8342-00fd38b046dd","latestRootBlobId":"{ROOT}","name":"Dir Changer","mode":"default","createdAt":1771282052029,"lastUsedModel":"claude-4.5-sonnet-thinking"}}"#
    );
    assert_eq!(meta.to_hex_row(), hex::encode(json));
}

#[test]
fn a_row_is_read_whether_it_is_hex_or_json_and_with_whitespace_around_it() {
    let json = json!({"agentId": "a", "latestRootBlobId": ROOT}).to_string();
    let expected = ChatMeta::from_row(json.as_bytes()).unwrap();
    assert_eq!(expected.latest_root(), LatestRoot::Blob(BlobId::of(b"")));
    for row in [
        hex::encode(&json),
        hex::encode_upper(&json),
        format!(" {json}\n"),
        format!("{}\n", hex::encode(&json)),
    ] {
        assert_eq!(ChatMeta::from_row(row.as_bytes()).unwrap(), expected);
    }
}

#[test]
fn odd_forms_of_known_keys_are_understood() {
    let meta = read(
        &json!({"createdAt": "1754600000000", "lastUsedModel": {"name": "gpt-5"}, "latestRootBlobId": ""}),
    );
    assert_eq!(meta.created_at_ms(), Some(1_754_600_000_000));
    assert_eq!(meta.last_used_model(), Some("gpt-5"));
    assert_eq!(meta.latest_root(), LatestRoot::Absent);

    let meta = read(
        &json!({"createdAt": 1_754_600_000_000.0, "lastUsedModel": {"id": "b", "model": "a"}}),
    );
    assert_eq!(meta.created_at_ms(), Some(1_754_600_000_000));
    assert_eq!(meta.last_used_model(), Some("a"));
}

#[test]
fn an_empty_object_has_nothing_and_no_root() {
    let meta = read(&json!({}));
    assert_eq!(meta.latest_root(), LatestRoot::Absent);
    assert_eq!(
        (meta.agent_id(), meta.name(), meta.mode(), meta.created_at_ms()),
        (None, None, None, None)
    );
    assert_eq!(meta.last_used_model(), None);
    assert_eq!((meta.encryption_key(), meta.subagent_origin()), (None, None));
}

#[test]
fn a_root_that_is_not_a_blob_id_is_kept_unchanged() {
    assert_eq!(
        read(&json!({"latestRootBlobId": "abc"})).latest_root(),
        LatestRoot::Malformed("abc".to_owned())
    );
    assert_eq!(
        read(&json!({"latestRootBlobId": 7})).latest_root(),
        LatestRoot::Malformed("7".to_owned())
    );
}

#[test]
fn a_subagents_origin_is_read_and_written() {
    let origin = SubagentOrigin {
        parent_agent_id: Some("p".to_owned()),
        root_parent_agent_id: Some("r".to_owned()),
        tool_call_id: Some("t".to_owned()),
        type_name: None,
    };
    let mut meta = ChatMeta::new("a", 1);
    meta.set_subagent_origin(&origin);
    assert_eq!(
        ChatMeta::from_row(meta.to_hex_row().as_bytes()).unwrap().subagent_origin(),
        Some(origin)
    );
}

#[test]
fn the_encryption_key_is_written_but_never_shown() {
    let json = json!({"agentId": "a", "blobEncryptionKey": KEY, "zz": [1]});
    let mut set = read(&json!({"agentId": "a"}));
    set.set("blobEncryptionKey", KEY.into());
    set.set("zz", json!([1]));
    for meta in [read(&json), set] {
        assert_eq!(meta.to_hex_row(), hex::encode(json.to_string()));
        let shown = [
            format!("{meta:?}"),
            format!("{meta:#?}"),
            format!("{:?}", meta.encryption_key()),
            format!("{:?}", meta.fields()),
            serde_json::to_string(&meta).unwrap(),
            serde_json::to_string(&meta.encryption_key()).unwrap(),
        ];
        for text in shown {
            assert!(!text.contains(KEY), "the key is in {text}");
            assert!(text.contains("present"), "{text} does not mention the key");
        }
    }
}

#[test]
fn an_error_does_not_quote_the_row() {
    for row in
        [format!("\"{KEY}\""), format!("{{\"blobEncryptionKey\":\"{KEY}\""), format!("zz{KEY}")]
    {
        for row in [row.clone(), hex::encode(&row)] {
            let err = ChatMeta::from_row(row.as_bytes()).unwrap_err();
            let shown = format!("{err} {err:?}");
            assert!(!shown.contains(KEY) && !shown.contains(&hex::encode(KEY)), "{shown}");
        }
    }
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        ".{0,12}".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::vec((".{0,6}", inner), 0..4)
                .prop_map(|entries| Json::Object(entries.into_iter().collect())),
        ]
    })
}

fn any_key() -> impl Strategy<Value = String> {
    let known =
        [AGENT_ID, LATEST_ROOT, NAME, MODE, CREATED_AT, LAST_USED_MODEL, SUBAGENT, ENCRYPTION_KEY];
    prop_oneof![prop::sample::select(known.to_vec()).prop_map(str::to_owned), ".{0,8}"]
}

proptest! {
    #[test]
    fn every_key_and_its_order_survive_reading_and_writing(entries in prop::collection::vec((any_key(), any_json()), 0..12)) {
        let json = Json::Object(entries.into_iter().collect());
        let row = hex::encode(json.to_string());
        let meta = ChatMeta::from_row(row.as_bytes()).unwrap();
        prop_assert_eq!(meta.to_hex_row(), row);
        // None of these may panic.
        drop((meta.latest_root(), meta.created_at_ms(), meta.last_used_model(), meta.subagent_origin()));
    }

    #[test]
    fn no_bytes_make_reading_a_row_panic(row in prop::collection::vec(any::<u8>(), 0..200)) {
        ChatMeta::from_row(&row).ok();
        ChatMeta::from_row(hex::encode(&row).as_bytes()).ok();
    }
}
