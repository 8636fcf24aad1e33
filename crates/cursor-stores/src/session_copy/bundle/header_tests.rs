use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use store_fixtures::chat::{Chat, Generation, Turn};

use super::*;
use crate::session_copy::test_sessions::*;
use crate::session_copy::{
    BundleReader, Bundled, ImportError, Imported, LeftOutTally, ReadBundleError, import,
    write_bundle,
};

pub(in crate::session_copy) fn bundle(directory: &Path, file: &Path) -> Bundled {
    let origin = BundleOrigin {
        program: "caretaker 0.1.0".to_owned(),
        store: "cli".to_owned(),
        bundled_at_ms: 1_795_000_000_000,
    };
    let paths = MachinePaths::new(Some("/home/u/project"), &["/home/u"]);
    let begin = || fs::File::create(file);
    write_bundle(&directory.join("store.db"), ID, &origin, &paths, begin).unwrap().1
}

fn small_bundle() -> (Chats, PathBuf) {
    let chats = Chats::new();
    let chat = Chat::new(Generation::Sep2026, ID).with_turns(vec![Turn::plain("Hi.", "Ho.")]);
    let directory = chats.write(&chat);
    let file = chats.path().with_file_name("bundle");
    bundle(&directory, &file);
    (chats, file)
}

fn import_into(chats: &Chats, file: &Path) -> Result<Imported, ImportError> {
    import(&mut BundleReader::open(file)?, &chats.new_session(ID))
}

#[test]
fn a_bundle_has_the_same_conversation_on_another_machine_for_every_build() {
    for generation in GENERATIONS {
        let (first, second) = (Chats::new(), Chats::new());
        let directory = first.write(&rich_chat(generation));
        let file = first.path().with_file_name("bundle");
        let bundled = bundle(&directory, &file);
        assert_eq!(bundled.header.session, ID);

        let bytes = fs::read(&file).unwrap();
        let secret = "5ec2e7".repeat(10);
        assert!(!String::from_utf8_lossy(&bytes).contains(&secret), "the bundle contains the key");
        let header = bytes.split(|byte| *byte == b'\n').next().unwrap();
        assert!(!String::from_utf8_lossy(header).contains("/home"), "the header contains a path");
        let names_paths = generation != Generation::Aug2025;
        assert_eq!(bundled.naming.n_messages > 0, names_paths, "how many messages name a path");
        assert_eq!(bundled.naming.n_unknown, 0);
        assert_eq!(bundled.left_out, LeftOutTally::default());

        let imported = import_into(&second, &file).unwrap();
        let Imported::Placed { directory, root, n_blobs, .. } = imported else {
            panic!("{imported:?}")
        };
        let has_paths = generation != Generation::Aug2025;
        assert_eq!(root.to_string() != bundled.header.root, has_paths, "it has the new workspace");
        assert_eq!(n_blobs, bundled.header.n_blobs);
        assert_same_talk(&second.read(ID), &first.read(ID));
        let meta = meta_of(&directory);
        assert_eq!(meta.agent_id(), Some(ID));
        assert!(meta.encryption_key().is_none());
        let approval_mode = meta.fields().get("approvalMode");
        assert_eq!(approval_mode, None, "the source machine's permissions do not apply here");
        assert_eq!(meta.name(), Some("A chat"));
        assert_eq!(
            crate::session_copy::verify_store(&directory.join("store.db"), &[]).unwrap().findings,
            []
        );
        assert!(matches!(import_into(&second, &file), Ok(Imported::NothingNew { .. })));
    }
}

#[test]
fn a_truncated_bundle_is_refused_and_leaves_nothing() {
    let (_first, file) = small_bundle();
    let bytes = fs::read(&file).unwrap();
    let second = Chats::new();
    for length in (0..bytes.len()).step_by(97).chain([bytes.len() - 1, bytes.len() - 32]) {
        fs::write(&file, &bytes[..length]).unwrap();
        let err = import_into(&second, &file).unwrap_err();
        assert!(
            matches!(
                err,
                ImportError::Bundle(ReadBundleError::Truncated | ReadBundleError::NotABundle)
            ),
            "{length}: {err:?}"
        );
        assert_eq!(second.names(), [] as [PathBuf; 0], "{length}");
    }
}

#[test]
fn an_invalid_bundle_is_refused_with_the_reason() {
    let (_first, file) = small_bundle();
    let bytes = fs::read(&file).unwrap();
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let header: serde_json::Value = serde_json::from_slice(&bytes[..end]).unwrap();
    let second = Chats::new();
    let refused = |key: &str, value: serde_json::Value| {
        let mut header = header.clone();
        header[key] = value;
        fs::write(&file, [header.to_string().as_bytes(), &bytes[end..]].concat()).unwrap();
        let err = import_into(&second, &file).unwrap_err();
        assert_eq!(second.names(), [] as [PathBuf; 0], "{err:?}");
        let ImportError::Bundle(err) = err else { panic!("{err:?}") };
        err
    };
    use ReadBundleError as E;
    assert!(matches!(refused("version", 3.into()), E::TooNew { version: 3 }));
    assert!(matches!(refused("format", "tar".into()), E::NotABundle));
    assert!(matches!(refused("session", "../../../../tmp/x".into()), E::Header { .. }));
    assert!(matches!(refused("session", "/etc/passwd".into()), E::Header { .. }));
    assert!(matches!(refused("root", "..".into()), E::Header { .. }));
    assert!(matches!(refused("n_blobs", (-1).into()), E::Header { .. }));
    assert!(matches!(refused("n_blobs", u64::MAX.into()), E::Truncated | E::BlobTooLarge { .. }));
    assert!(matches!(refused("n_bytes", 1.into()), E::Count));
    assert!(matches!(refused("name", "another".into()), E::WrongHash));

    let mut longer = bytes.clone();
    longer.push(0);
    fs::write(&file, longer).unwrap();
    let err = import_into(&second, &file).unwrap_err();
    assert!(matches!(err, ImportError::Bundle(E::Trailing)), "{err:?}");
    // A blob of sixteen exabytes.
    let mut huge = bytes.clone();
    huge[end + 1..end + 9].fill(0xff);
    fs::write(&file, huge).unwrap();
    let err = import_into(&second, &file).unwrap_err();
    assert!(matches!(err, ImportError::Bundle(E::BlobTooLarge { index: 0, .. })), "{err:?}");
    assert_eq!(second.names(), [] as [PathBuf; 0]);
}

#[test]
fn a_bundle_of_the_first_version_is_imported_unchanged() {
    let (_first, file) = small_bundle();
    let bytes = fs::read(&file).unwrap();
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[..end]).unwrap();
    header["version"] = 1.into();
    let mut bytes = [header.to_string().as_bytes(), &bytes[end..bytes.len() - 32]].concat();
    bytes.extend(BlobId::of(&bytes).as_bytes().to_vec());
    fs::write(&file, bytes).unwrap();
    let imported = import_into(&Chats::new(), &file).unwrap();
    let Imported::Placed { root, .. } = imported else { panic!("{imported:?}") };
    assert_eq!(root.to_string(), header["root"].as_str().unwrap());
}

#[test]
fn a_file_that_is_not_plain_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(BundleReader::open(&fifo), Err(ReadBundleError::File(_))));
    assert!(matches!(BundleReader::open(directory.path()), Err(ReadBundleError::File(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_changed_byte_is_noticed(at: prop::sample::Index, flip in 1..=255_u8) {
        let (_first, file) = small_bundle();
        let mut bytes = fs::read(&file).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        fs::write(&file, bytes).unwrap();
        let second = Chats::new();
        prop_assert!(import_into(&second, &file).is_err());
        prop_assert_eq!(second.names(), [] as [PathBuf; 0]);
    }
}
