//! Rows that belong to messages: their position, their limits and their damage.

use pretty_assertions::assert_eq;
use serde_json::json;
use store_fixtures::ide::{assistant_bubble, user_bubble};

use super::{ID, Stage, parts, with};
use crate::model::{MessageKind, Part};
use crate::store::Extent;

fn attachment(kind: &str, name: &str, text: Option<&str>) -> Part {
    Part::Attachment {
        kind: kind.to_owned(),
        name: Some(name.to_owned()),
        text: text.map(str::to_owned),
    }
}

#[test]
fn an_attachment_of_the_bubble_itself_does_not_appear_twice() {
    let stage = Stage::new();
    let rules = json!({"cursorRules": [{"filename": "style.mdc"}]});
    stage.say(ID, &[with(user_bubble("b0", "hello"), rules.clone())]);
    stage.home.put(&format!("messageRequestContext:{ID}:b0"), &rules);
    let read = stage.close().read(ID);
    assert_eq!(parts(&read, 0), [Part::text("hello"), attachment("rule", "style.mdc", None)]);
    assert!(read.also_kept.is_empty(), "{:?}", read.also_kept);
}

#[test]
fn context_is_found_by_the_request_of_its_prompt_and_a_checkpoint_by_the_answer_after_it() {
    let stage = Stage::new();
    stage.say(
        ID,
        &[
            with(user_bubble("b0", "hello"), json!({"requestId": "r1"})),
            with(assistant_bubble("b1", "hi"), json!({"afterCheckpointId": "c1"})),
        ],
    );
    stage.home.put(&format!("messageRequestContext:{ID}:r1"), &json!({"todos": ["one", "two"]}));
    let files = json!({
        "files": [{"uri": {"fsPath": "/srv/a.rs", "path": "/srv/a.rs", "scheme": "file"}, "isNewlyCreated": true}],
        "newlyCreatedFolders": [], "inlineDiffNewlyCreatedResources": {"files": [], "folders": []},
    });
    stage.home.put(&format!("checkpointId:{ID}:c1"), &files);
    let read = stage.close().read(ID);
    assert_eq!(parts(&read, 0)[1], attachment("context", "todos", Some("one\ntwo")));
    let created = attachment("checkpoint", "/srv/a.rs", Some("isNewlyCreated: true\n"));
    assert_eq!(parts(&read, 1)[1], created);
}

#[test]
fn rows_without_a_message_come_at_the_end_and_do_not_count() {
    let stage = Stage::new();
    stage.say(ID, &[user_bubble("b0", "hello"), assistant_bubble("b1", "hi")]);
    let change = json!({"original": {"startLineNumber": 1, "endLineNumberExclusive": 1}, "modified": ["lost"]});
    stage.home.put(&format!("codeBlockDiff:{ID}:d9"), &json!({"newModelDiffWrtV0": [change]}));
    // Belongs to another conversation whose id begins with this one's.
    stage.home.put(&format!("codeBlockDiff:{ID}:x:d1"), &json!({"newModelDiffWrtV0": [change]}));
    let home = stage.close();
    let read = home.read(ID);
    assert_eq!((read.head.n_messages, read.messages.len()), (Some(2), 3));
    let last = &read.messages[2];
    assert_eq!((last.kind, last.id.as_deref()), (MessageKind::Context, Some("codeBlockDiff:d9")));
    let text = "@@ -0,0 +1,1 @@\n+lost\n".to_owned();
    assert_eq!(last.parts, [Part::Code { language: Some("diff".to_owned()), path: None, text }]);
    let window = Extent { last: Some(2), ..Extent::default() };
    let read = home.store.read(ID, window).unwrap();
    assert_eq!(read.messages.len(), 2, "only the last two messages");
    assert_eq!(read.also_kept.get("codeBlockDiff"), Some(&1));
}

#[test]
fn a_row_that_is_not_json_is_shown_as_text_and_reported_as_damaged() {
    let stage = Stage::new();
    stage.say(ID, &[user_bubble("b0", "hello")]);
    stage.home.put_bytes(&format!("messageRequestContext:{ID}:b0"), b"{\"gitStatusRaw\":\"half");
    stage.home.put_tombstone(&format!("checkpointId:{ID}:c1"));
    let read = stage.close().read(ID);
    assert_eq!(parts(&read, 0)[1], Part::damaged(b"{\"gitStatusRaw\":\"half"));
    let places: Vec<&str> = read.damage.iter().map(|damage| damage.place.as_str()).collect();
    assert_eq!(places, [format!("messageRequestContext:{ID}:b0")]);
    assert_eq!(read.also_kept.into_iter().collect::<Vec<_>>(), [("checkpointId".to_owned(), 1)]);
}

#[test]
fn rows_beyond_the_size_limit_are_counted_but_not_read() {
    let stage = Stage::new();
    stage.say(ID, &[user_bubble("b0", "hello")]);
    let large = json!({"gitStatusRaw": "x".repeat(30 * 1024 * 1024)});
    for number in 0..3 {
        stage.home.put(&format!("messageRequestContext:{ID}:r{number}"), &large);
    }
    let read = stage.close().read(ID);
    assert_eq!(read.messages.len(), 3, "the prompt and two of the rows");
    assert_eq!(read.also_kept.get("messageRequestContext"), Some(&1));
    assert_eq!(read.damage, []);
}
