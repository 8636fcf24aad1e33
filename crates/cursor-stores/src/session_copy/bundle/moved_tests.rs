use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use prost::Message;
use store_fixtures::chat::{Call, Chat, Generation, Step, StoreWriter, Turn, bucket_of};

use super::*;
use crate::chat::LatestRoot;
use crate::chat::schema::{
    ConversationStateStructure, ConversationTokenDetails, PlanRegistryEntry,
    SubagentPersistedState, SubagentRunState, TrackedGitRepo,
};
use crate::session_copy::bundle::header::tests::bundle;
use crate::session_copy::test_sessions::*;
use crate::session_copy::{
    BundleReader, Bundled, Imported, NewSession, ReadBundleError, import, verify_store,
};

const HOME: &str = "/home/u";
const WORKSPACE: &str = "/home/u/project";

/// Everything outside messages that can contain a path, with one path in the workspace and one outside it.
fn state_with_paths() -> ConversationStateStructure {
    let plan = |path: &str| PlanRegistryEntry { id: "p".to_owned(), path: path.to_owned() };
    let repository =
        |path: &str| TrackedGitRepo { repo_path: path.to_owned(), branch_name: "main".to_owned() };
    let run = SubagentRunState {
        title: Some("Explore".to_owned()),
        transcript_path: Some(format!("{HOME}/.cursor/projects/home-u-project/t.jsonl")),
        output_path: Some(format!("{WORKSPACE}/out.txt")),
        ..SubagentRunState::default()
    };
    let inner = ConversationStateStructure {
        read_paths: vec![format!("{WORKSPACE}/inner.rs"), "/etc/hosts".to_owned()],
        pending_tool_calls: vec![format!(r#"{{"role":"assistant","content":"in {WORKSPACE}"}}"#)],
        ..ConversationStateStructure::default()
    };
    let subagent = SubagentPersistedState {
        conversation_state: Some(inner),
        ..SubagentPersistedState::default()
    };
    ConversationStateStructure {
        token_details: Some(ConversationTokenDetails {
            prompt_context_usage_tree: Some(format!("\n {HOME}/.cursor/rules/a.mdc").into_bytes()),
            ..ConversationTokenDetails::default()
        }),
        read_paths: ["src/a.rs", "/home/u/project/src/b.rs", "/home/u/.bashrc", "/etc/fstab"]
            .map(str::to_owned)
            .to_vec(),
        plans: [
            ("in".to_owned(), plan(&format!("{WORKSPACE}/plan.md"))),
            ("out".to_owned(), plan(&format!("{HOME}/.cursor/plans/p.md"))),
        ]
        .into(),
        tracked_git_repo_branches: vec![repository(WORKSPACE), repository("/srv/other")],
        subagent_runs_by_parent_tool_call_id: [("call_1".to_owned(), run)].into(),
        subagent_states: [("explore".to_owned(), subagent)].into(),
        ..ConversationStateStructure::default()
    }
}

fn chat_with_paths(generation: Generation) -> Chat {
    let mut chat = rich_chat(generation);
    chat.turns.push(Turn::Agent {
        prompt: format!("And {WORKSPACE}/src?"),
        steps: vec![
            Step::Call(Call::shell("call_3", &format!("cat {HOME}/notes"), "nothing")),
            Step::Text("Nothing there.".to_owned()),
        ],
    });
    let file =
        |path: &str, before: &str, now: &str| (path.to_owned(), before.to_owned(), now.to_owned());
    chat.files.extend([
        file("/home/u/project/in.txt", "before", "now"),
        file("/home/u/project/telling.txt", "before", "root = /home/u/project"),
        file("/home/u/out.txt", "secret before", "secret now"),
    ]);
    chat.more = state_with_paths().encode_to_vec();
    chat
}

fn blobs_of(file: &Path) -> HashMap<BlobId, Vec<u8>> {
    let mut blobs = HashMap::new();
    let mut reader = BundleReader::open(file).unwrap();
    reader
        .visit_all::<ReadBundleError>(|id, data| {
            blobs.insert(id, data.to_vec());
            Ok(())
        })
        .unwrap();
    blobs
}

fn bundled_from(chats: &Chats, chat: &Chat) -> (Bundled, std::path::PathBuf) {
    let directory = chats.write(chat);
    let file = chats.path().with_file_name("bundle");
    (bundle(&directory, &file), file)
}

fn root_of(blobs: &HashMap<BlobId, Vec<u8>>, id: BlobId) -> ConversationStateStructure {
    ConversationStateStructure::decode(blobs[&id].as_slice()).unwrap()
}

fn import_to(chats: &Chats, file: &Path, workspace: &str) -> Imported {
    let target = NewSession {
        bucket: bucket_of(workspace),
        workspace: workspace.to_owned(),
        ..chats.new_session(ID)
    };
    import(&mut BundleReader::open(file).unwrap(), &target).unwrap()
}

#[track_caller]
fn placed(imported: Imported) -> (std::path::PathBuf, BlobId) {
    let Imported::Placed { directory, root, n_paths_left_out: 0, .. } = imported else {
        panic!("{imported:?}")
    };
    (directory, root)
}

#[test]
fn paths_outside_messages_become_relative_or_are_left_out() {
    for generation in GENERATIONS {
        let first = Chats::new();
        let (bundled, file) = bundled_from(&first, &chat_with_paths(generation));
        let blobs = blobs_of(&file);
        let root = root_of(&blobs, bundled.header.root.parse().unwrap());
        assert_eq!(root.read_paths, ["src/a.rs", "${workspace}/src/b.rs"]);
        let plans: Vec<&str> = root.plans.values().map(|plan| plan.path.as_str()).collect();
        assert_eq!(plans, ["${workspace}/plan.md"]);
        let repositories: Vec<&str> =
            root.tracked_git_repo_branches.iter().map(|repo| repo.repo_path.as_str()).collect();
        assert_eq!(repositories, ["${workspace}"]);
        let run = &root.subagent_runs_by_parent_tool_call_id["call_1"];
        assert_eq!(run.title.as_deref(), Some("Explore"));
        assert_eq!(
            (run.transcript_path.as_deref(), run.output_path.as_deref()),
            (None, Some("${workspace}/out.txt"))
        );
        let inner = root.subagent_states["explore"].conversation_state.as_ref().unwrap();
        assert_eq!(inner.read_paths, ["${workspace}/inner.rs"]);
        assert_eq!(inner.pending_tool_calls.len(), 1, "the message is kept");
        let files: Vec<&str> =
            root.file_states.keys().chain(root.file_states_v2.keys()).map(String::as_str).collect();
        assert_eq!(files, ["${workspace}/in.txt", "a.txt"]);
        if generation != Generation::Aug2025 {
            assert_eq!(root.previous_workspace_uris, ["file://${workspace}"]);
        }
        for data in blobs.values() {
            assert!(
                !String::from_utf8_lossy(data).contains("secret"),
                "no contents from outside the workspace"
            );
        }
        assert_eq!(bundled.naming.n_unknown, 0, "{generation:?}");
        assert!(bundled.naming.n_messages > 0);
        // .bashrc, fstab, hosts, a plan, a repository, a transcript, a file.
        assert_eq!(bundled.left_out.n_paths, 7);
        // A file, and the token counts of the first checkpoint in the fixture.
        assert_eq!(bundled.left_out.n_contents, 2);

        let second = Chats::new();
        let (directory, root) = placed(import_to(&second, &file, "/srv/a b"));
        let store = Source::open(&directory.join("store.db")).unwrap();
        let Fetched::Data(data) = store.fetch(root).unwrap() else { panic!() };
        let root = ConversationStateStructure::decode(data.as_slice()).unwrap();
        assert_eq!(root.read_paths, ["src/a.rs", "/srv/a b/src/b.rs"]);
        if generation != Generation::Aug2025 {
            assert_eq!(root.previous_workspace_uris, ["file:///srv/a%20b"]);
        }
        let (copy, original) = (second.read(ID), first.read(ID));
        assert_eq!(copy.messages.len(), original.messages.len());
        assert_eq!(copy.turns.len(), original.turns.len());
        assert_eq!(copy.damage, []);
        assert_eq!(verify_store(&directory.join("store.db"), &[]).unwrap().findings, []);
        // No earlier checkpoint names a path either, and every blob is reachable.
        store
            .visit(
                |_| true,
                |_, data| {
                    assert!(!String::from_utf8_lossy(data).contains("${workspace}"));
                    Ok(())
                },
            )
            .unwrap();
    }
}

#[test]
fn a_session_in_the_same_workspace_is_identical_byte_for_byte() {
    for generation in GENERATIONS {
        let (first, second) = (Chats::new(), Chats::new());
        let mut chat = rich_chat(generation);
        chat.more = ConversationStateStructure {
            read_paths: vec![format!("{WORKSPACE}/a b"), "c".to_owned()],
            ..ConversationStateStructure::default()
        }
        .encode_to_vec();
        let (bundled, file) = bundled_from(&first, &chat);
        let original = meta_of(&first.path().join(bucket_of(WORKSPACE)).join(ID)).latest_root();
        assert_ne!(original, LatestRoot::Blob(bundled.header.root.parse().unwrap()));
        let (_, root) = placed(import_to(&second, &file, WORKSPACE));
        assert_eq!(LatestRoot::Blob(root), original);
    }
}

#[test]
fn importing_a_bundle_where_it_was_made_changes_nothing() {
    let chats = Chats::new();
    let (_, file) = bundled_from(&chats, &chat_with_paths(Generation::Sep2026));
    let directory = chats.path().join(bucket_of(WORKSPACE)).join(ID);
    let before = fs::read(directory.join("store.db")).unwrap();
    let imported = import_to(&chats, &file, WORKSPACE);
    assert!(matches!(imported, Imported::NothingNew { .. }), "{imported:?}");
    assert_eq!(fs::read(directory.join("store.db")).unwrap(), before);
}

#[test]
fn a_longer_conversation_extends_a_shorter_one_in_another_workspace() {
    let here = Chats::new();
    let mut chat = chat_with_paths(Generation::Sep2026);
    let last = chat.turns.pop().unwrap();
    let older = Chats::new();
    let (_, file) = bundled_from(&older, &chat);
    placed(import_to(&here, &file, "/srv/shop"));
    chat.turns.push(last);
    let newer = Chats::new();
    let (_, file) = bundled_from(&newer, &chat);
    let imported = import_to(&here, &file, "/srv/shop");
    let Imported::Extended { directory, n_added_blobs, .. } = imported else {
        panic!("{imported:?}")
    };
    let n_all = BundleReader::open(&file).unwrap().header().n_blobs;
    assert!(n_added_blobs < n_all, "{n_added_blobs} of {n_all}");
    assert_eq!(here.read(ID).messages.len(), newer.read(ID).messages.len());
    assert_eq!(verify_store(&directory.join("store.db"), &[]).unwrap().findings, []);
}

/// Appends bytes to the latest root, as a newer build might, and makes the result the latest root.
fn append_to_root(directory: &Path, bytes: &[u8]) -> BlobId {
    let LatestRoot::Blob(root) = meta_of(directory).latest_root() else { panic!() };
    let source = Source::open(&directory.join("store.db")).unwrap();
    let Fetched::Data(mut data) = source.fetch(root).unwrap() else { panic!() };
    drop(source);
    data.extend_from_slice(bytes);
    let store = StoreWriter::create(directory, ID, 0);
    store.put(&data);
    let id = BlobId::of(&data);
    let mut meta = meta_of(directory);
    meta.set("latestRootBlobId", id.to_string().into());
    drop(store);
    damage(directory, &format!("UPDATE meta SET value = '{}'", meta.to_hex_row()));
    id
}

fn field(number: u32, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::bytes::encode(number, &value.to_vec(), &mut bytes);
    bytes
}

#[test]
fn an_unknown_field_stays_and_is_counted_if_it_names_a_path() {
    let chats = Chats::new();
    let directory = chats.write(&rich_chat(Generation::Sep2026));
    let file = chats.path().with_file_name("bundle");
    let harmless = field(901, b"from a newer build");
    append_to_root(&directory, &harmless);
    let bundled = bundle(&directory, &file);
    assert_eq!(bundled.naming.n_unknown, 0);
    let data = &blobs_of(&file)[&bundled.header.root.parse().unwrap()];
    assert!(data.ends_with(&harmless));

    let telling = field(902, b"in /home/u/project");
    append_to_root(&directory, &telling);
    let bundled = bundle(&directory, &file);
    assert_eq!(bundled.naming.n_unknown, 1);
    let data = &blobs_of(&file)[&bundled.header.root.parse().unwrap()];
    assert!(data.ends_with(&[harmless, telling].concat()), "nothing was lost or moved");
}

#[test]
fn a_blob_that_an_unknown_field_names_is_carried_unchanged_and_counted() {
    let chats = Chats::new();
    let directory = chats.write(&rich_chat(Generation::Sep2026));
    let file = chats.path().with_file_name("bundle");
    let LatestRoot::Blob(old) = meta_of(&directory).latest_root() else { panic!() };
    append_to_root(&directory, &field(903, old.as_bytes()));
    let bundled = bundle(&directory, &file);
    assert!(blobs_of(&file).contains_key(&old), "the named blob is included");
    assert!(bundled.naming.n_unknown > 0, "{:?}", bundled.naming);
    let second = Chats::new();
    let (directory, _) = placed(import_to(&second, &file, "/srv/shop"));
    assert_eq!(verify_store(&directory.join("store.db"), &[]).unwrap().findings, []);
    assert_same_talk(&second.read(ID), &chats.read(ID));
}

#[test]
fn an_import_refuses_paths_outside_the_workspace() {
    let chats = Chats::new();
    let (_, file) = bundled_from(&chats, &rich_chat(Generation::Sep2026));
    // Another program's bundle may contain a path that our bundles never have.
    let mut reader = BundleReader::open(&file).unwrap();
    let mut header = reader.header().clone();
    let root: BlobId = header.root.parse().unwrap();
    let mut blobs: Vec<Vec<u8>> = Vec::new();
    reader
        .visit_all::<ReadBundleError>(|id, data| {
            let mut data = data.to_vec();
            if id == root {
                let n_bytes_before = data.len() as u64;
                data.extend(field(18, b"/etc/passwd"));
                data.extend(field(18, b"${workspace}/../../etc/passwd"));
                data.extend(field(18, b"${workspace}/fine"));
                header.root = BlobId::of(&data).to_string();
                header.n_bytes += data.len() as u64 - n_bytes_before;
            }
            blobs.push(data);
            Ok(())
        })
        .unwrap();
    let mut bytes = serde_json::to_vec(&header).unwrap();
    bytes.push(b'\n');
    for data in blobs {
        bytes.extend((data.len() as u64).to_le_bytes());
        bytes.extend(data);
    }
    bytes.extend(BlobId::of(&bytes).as_bytes().to_vec());
    fs::write(&file, bytes).unwrap();
    let second = Chats::new();
    let imported = import_to(&second, &file, "/srv/shop");
    let Imported::Placed { directory, root, n_paths_left_out: 2, .. } = imported else {
        panic!("{imported:?}")
    };
    let store = Source::open(&directory.join("store.db")).unwrap();
    let Fetched::Data(data) = store.fetch(root).unwrap() else { panic!() };
    let root = ConversationStateStructure::decode(data.as_slice()).unwrap();
    assert_eq!(root.read_paths, ["/srv/shop/fine"]);
}
