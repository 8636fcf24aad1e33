use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::chat::ChatStore;
use crate::test_store::TestStore;

/// Lists a root's messages, each as the one word that it contains.
fn listed(store: TestStore, root: &ConversationStateStructure) -> Vec<String> {
    let closed = store.close();
    let store = ChatStore::open_read_only(&closed.path()).unwrap();
    let words = store.at_once(|blobs| {
        let entries = list_messages(blobs, root, &mut Notes::default())?;
        entries
            .into_iter()
            .map(|entry| match entry.content {
                EntryContent::Summary { text, .. } => Ok(format!("summary: {text}")),
                EntryContent::Blob(id) => match blobs.get(id)? {
                    crate::chat::store::blobs::Fetched::Data(data) => {
                        Ok(String::from_utf8(data).unwrap())
                    }
                    other => panic!("{other:?}"),
                },
            })
            .collect()
    });
    words.unwrap()
}

fn ids(store: &TestStore, words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| store.put(word.as_bytes()).to_vec()).collect()
}

fn archive(store: &TestStore, messages: &[&str], summary: &str) -> Vec<u8> {
    let archive = ConversationSummaryArchive {
        summarized_messages: ids(store, messages),
        summary: summary.to_owned(),
        window_tail: 0,
        summary_message: store.put(summary.as_bytes()).to_vec(),
    };
    store.put_message(&archive).to_vec()
}

#[test]
fn summarised_messages_come_once_and_before_the_summary() {
    let store = TestStore::new();
    let one = archive(&store, &["system", "info", "a", "b"], "sum 1");
    let two = archive(&store, &["system", "b", "sum 1", "c", "d"], "sum 2");
    let root = ConversationStateStructure {
        root_prompt_messages_json: ids(&store, &["system", "d", "sum 2", "e", "b"]),
        summary_archive: Some(one.clone()),
        summary_archives: vec![one, two],
        ..ConversationStateStructure::default()
    };
    // The last `b` stays, because the user said it again after the summary.
    assert_eq!(
        listed(store, &root),
        ["system", "info", "a", "b", "sum 1", "c", "d", "sum 2", "e", "b"]
    );
}

#[test]
fn a_new_system_prompt_does_not_end_the_repetition() {
    let store = TestStore::new();
    let root = ConversationStateStructure {
        summary_archive: Some(archive(&store, &["system", "a", "b"], "sum")),
        root_prompt_messages_json: ids(&store, &["system 2", "info 2", "b", "sum", "c"]),
        ..ConversationStateStructure::default()
    };
    assert_eq!(listed(store, &root), ["system", "a", "b", "sum", "system 2", "info 2", "c"]);
}

#[test]
fn a_summary_without_a_message_is_a_text() {
    let store = TestStore::new();
    let archive = ConversationSummaryArchive {
        summarized_messages: ids(&store, &["a"]),
        summary: "in short".to_owned(),
        ..ConversationSummaryArchive::default()
    };
    let root = ConversationStateStructure {
        summary_archives: vec![store.put_message(&archive).to_vec()],
        root_prompt_messages_json: ids(&store, &["b"]),
        ..ConversationStateStructure::default()
    };
    assert_eq!(listed(store, &root), ["a", "summary: in short", "b"]);
}

#[test]
fn the_same_words_said_twice_are_listed_twice() {
    let store = TestStore::new();
    let again = json!({"role": "user", "content": "again"}).to_string();
    let root = ConversationStateStructure {
        root_prompt_messages_json: ids(&store, &[&again, "x", &again]),
        ..ConversationStateStructure::default()
    };
    assert_eq!(listed(store, &root), [again.as_str(), "x", again.as_str()]);
}
