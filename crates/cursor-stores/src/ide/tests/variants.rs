//! Every way in which Cursor has ever stored a composer's messages.

use pretty_assertions::assert_eq;
use serde_json::{Value as Json, json};
use store_fixtures::ide::{
    assistant_bubble, composer, header, inline_composer, lexical, tool_bubble, user_bubble,
};

use super::{ID, Stage, parts, texts, with};
use crate::model::{MessageKind, Moment, Part, Role, ToolState};
use crate::store::{Branches, Extent, ReadConversationError};

#[test]
fn every_version_of_a_composer_is_read() {
    let stage = Stage::new();
    for version in 0..=18 {
        let id = format!("v{version}");
        let bubbles = [user_bubble("b0", "question"), assistant_bubble("b1", "answer")];
        let headers: Vec<Json> = bubbles.iter().map(header).collect();
        let mut composer = composer(&id, version, &headers);
        if version == 0 {
            composer.as_object_mut().unwrap().remove("_v");
        }
        stage.home.put_conversation(&composer, &bubbles);
    }
    let home = stage.close();
    assert_eq!(home.heads().len(), 19);
    for version in 0..=18 {
        let read = home.read(&format!("v{version}"));
        assert_eq!(texts(&read), ["question", "answer"], "{version}");
        assert_eq!(read.damage, [], "{version}");
    }
}

#[test]
fn messages_in_tabs_are_counted_and_listed() {
    let stage = Stage::new();
    let tabs = json!([{"bubbles": [
        {"bubbleId": "y1", "type": "user", "text": "asked in a tab"},
        {"bubbleId": "y2", "type": "ai", "text": "answered in a tab"},
    ]}]);
    let composer =
        json!({"composerId": ID, "name": "Tabs", "createdAt": 1_790_000_000_000_i64, "tabs": tabs});
    stage.home.put(&format!("composerData:{ID}"), &composer);
    let without = json!({"composerId": "without", "createdAt": 1_790_000_000_000_i64, "tabs": []});
    stage.home.put("composerData:without", &without);
    let home = stage.close();
    let head = home.head(ID);
    assert!(head.shelf.is_shown());
    assert_eq!(head.n_messages, Some(2));
    assert_eq!(texts(&home.read(ID)), ["asked in a tab", "answered in a tab"]);
    assert!(!home.head("without").shelf.is_shown());
}

#[test]
fn values_are_read_whether_they_are_text_or_bytes() {
    let stage = Stage::new();
    let bubble = user_bubble("b0", "said in bytes");
    let composer = with(composer(ID, 3, &[header(&bubble)]), json!({"name": "Bytes"}));
    stage.home.put_bytes(&format!("composerData:{ID}"), composer.to_string().as_bytes());
    stage.home.put_bytes(&format!("bubbleId:{ID}:b0"), bubble.to_string().as_bytes());
    let home = stage.close();
    assert_eq!(home.head(ID).title.as_deref(), Some("Bytes"));
    assert_eq!(texts(&home.read(ID)), ["said in bytes"]);
}

#[test]
fn an_inline_conversation_has_its_tools_in_the_capabilities_as_object_or_as_text() {
    let tool = json!({"name": "read_file", "rawArgs": "{\"target_file\":\"a.rs\"}", "result": "{\"contents\":\"fn\"}",
                      "status": "completed", "toolCallId": "t1"});
    for (id, map) in
        [("object", json!({"b1": tool})), ("text", json!(json!({"b1": tool}).to_string()))]
    {
        let stage = Stage::new();
        let bubbles = [
            json!({"bubbleId": "b0", "type": 1, "text": "read it"}),
            json!({"bubbleId": "b1", "type": 2, "text": ""}),
        ];
        let composer = with(
            inline_composer(id, &bubbles),
            json!({"capabilities": [{"type": 14, "data": {}}, {"type": 15, "data": {"bubbleDataMap": map}}]}),
        );
        stage.home.put_conversation(&composer, &[]);
        let home = stage.close();
        let read = home.read(id);
        assert_eq!(read.head.mode.as_deref(), Some("ask"));
        assert_eq!(home.head(id).n_messages, Some(2));
        let [Part::ToolCall(call)] = &parts(&read, 1)[..] else { panic!("{:?}", read.messages) };
        assert_eq!((call.tool.as_str(), call.state), ("read", ToolState::Succeeded));
        assert_eq!(call.input, json!({"target_file": "a.rs"}));
        assert_eq!(call.result.as_ref().unwrap().output, json!({"contents": "fn"}));
        // No message has a time, so the times are between creation and last change.
        let at: Vec<Option<Moment>> = read.messages.iter().map(|message| message.at).collect();
        let expected =
            [1_730_000_200_000, 1_730_000_400_000].map(|at| Some(Moment::interpolated(at)));
        assert_eq!(at, expected);
    }
}

#[test]
fn a_conversation_map_and_tabs_are_read() {
    for (id, fields) in [
        (
            "map",
            json!({"conversationMap": {"t": {"bubbles": [{"bubbleId": "b0", "type": 1, "text": "one"}, {"bubbleId": "b1", "type": 2, "text": "two"}]}}}),
        ),
        (
            "by-id",
            json!({"conversationMap": {"b0": {"bubbleId": "b0", "type": 1, "text": "one"}, "b1": {"bubbleId": "b1", "type": 2, "text": "two"}}}),
        ),
        (
            "tabs",
            json!({"tabs": [{"bubbles": [{"id": "b0", "type": "user", "text": "one"}, {"id": "b1", "type": "ai", "text": "two"}]}]}),
        ),
    ] {
        let stage = Stage::new();
        stage.home.put_conversation(&with(composer(id, 1, &[]), fields), &[]);
        let home = stage.close();
        let read = home.read(id);
        assert_eq!(texts(&read), ["one", "two"], "{id}");
        assert_eq!(
            [read.messages[0].role, read.messages[1].role],
            [Role::User, Role::Assistant],
            "{id}"
        );
        assert!(home.head(id).shelf.is_shown(), "{id}");
    }
}

#[test]
fn bubbles_in_the_composer_and_in_rows_are_merged() {
    let stage = Stage::new();
    let rows = [
        user_bubble("b0", "question"),
        with(assistant_bubble("b2", ""), json!({"thinking": {"text": "hm"}})),
    ];
    let headers: Vec<Json> = rows.iter().map(header).collect();
    let inline = json!([
        {"bubbleId": "b0", "type": 1, "text": "question"},
        {"bubbleId": "b1", "type": 2, "text": "only inline"},
        {"bubbleId": "b2", "type": 2, "text": "text inline, thinking in the row"},
    ]);
    stage
        .home
        .put_conversation(&with(composer(ID, 2, &headers), json!({"conversation": inline})), &rows);
    let home = stage.close();
    let read = home.read(ID);
    assert_eq!(texts(&read), ["question", "only inline", "text inline, thinking in the row"]);
    assert_eq!(read.messages[2].parts[0], Part::reasoning("hm"));
}

#[test]
fn abandoned_messages_are_shown_only_on_request() {
    let stage = Stage::new();
    stage.say(ID, &[user_bubble("b0", "kept")]);
    stage.home.put_bubble(
        ID,
        &with(user_bubble("b9", "edited away"), json!({"createdAt": "2026-10-01T10:00:00Z"})),
    );
    stage.home.put_bubble(
        ID,
        &with(user_bubble("b8", "edited later"), json!({"createdAt": "2026-10-01T10:00:01Z"})),
    );
    stage.home.put_tombstone(&format!("bubbleId:{ID}:b7"));
    let home = stage.close();
    let read = home.read(ID);
    assert_eq!(texts(&read), ["kept"]);
    assert_eq!(read.also_kept.get("bubbleId without reference"), Some(&2));
    assert_eq!(read.damage, []);
    let extent = Extent { last: None, branches: Branches::WithOrphans };
    let read = home.store.read(ID, extent).unwrap();
    assert_eq!(texts(&read), ["kept", "edited away", "edited later"]);
    let kinds: Vec<MessageKind> = read.messages.iter().map(|message| message.kind).collect();
    assert_eq!(kinds, [MessageKind::Said, MessageKind::Orphan, MessageKind::Orphan]);
    assert_eq!(read.head.n_messages, Some(1));
}

#[test]
fn a_tombstone_is_not_a_conversation() {
    let stage = Stage::new();
    stage.say(ID, &[user_bubble("b0", "here")]);
    stage.home.put_tombstone("composerData:gone");
    stage.home.put_tombstone("composerData:half-gone");
    stage.home.put_bubble("half-gone", &user_bubble("b0", "left over"));
    let home = stage.close();
    assert_eq!(home.heads().len(), 1);
    assert_eq!(home.store.account().n_hidden.get("deleted"), Some(&2));
    assert!(matches!(
        home.store.read("gone", Extent::default()),
        Err(ReadConversationError::Missing(_))
    ));
    let read = home.read("half-gone");
    assert_eq!((texts(&read), read.damage.len()), (vec!["left over".to_owned()], 1));
}

#[test]
fn missing_and_deleted_messages_are_reported() {
    let stage = Stage::new();
    let bubbles = [
        user_bubble("b0", "question"),
        assistant_bubble("b1", "answer"),
        assistant_bubble("b2", "more"),
    ];
    let mut headers: Vec<Json> = bubbles.iter().map(header).collect();
    headers[1]["grouping"]["textPreview"] = json!("ans…");
    stage.home.put_conversation(&composer(ID, 10, &headers), &bubbles[..1]);
    stage.home.put_tombstone(&format!("bubbleId:{ID}:b2"));
    let home = stage.close();
    let read = home.read(ID);
    assert_eq!(texts(&read), ["question", "ans…"]);
    let damage: Vec<(&str, &str)> =
        read.damage.iter().map(|damage| (damage.place.as_str(), damage.what.as_str())).collect();
    let (b1, b2) = (format!("bubbleId:{ID}:b1"), format!("bubbleId:{ID}:b2"));
    assert_eq!(damage, [(b1.as_str(), "the row is missing"), (b2.as_str(), "was deleted")]);
}

#[test]
fn messages_without_their_composer_are_read_by_their_times() {
    let stage = Stage::new();
    for (id, second) in [("b0", 2), ("b1", 1), ("b2", 3)] {
        let at = format!("2026-10-01T10:00:0{second}.000Z");
        stage
            .home
            .put_bubble(ID, &with(user_bubble(id, &second.to_string()), json!({"createdAt": at})));
    }
    let home = stage.close();
    assert_eq!(texts(&home.read(ID)), ["1", "2", "3"]);
    let listing = home.store.list();
    assert_eq!(listing.heads[0].activity, crate::model::Activity::Damaged);
    assert_eq!(listing.heads[0].n_messages, Some(3));
    assert_eq!(listing.damage[0].place, format!("composerData:{ID}"));
}

#[test]
fn only_the_last_messages_are_read_if_asked_for() {
    let stage = Stage::new();
    let bubbles: Vec<Json> =
        (0..20).map(|number| user_bubble(&format!("b{number}"), &number.to_string())).collect();
    stage.say(ID, &bubbles);
    let home = stage.close();
    let read = home.store.read(ID, Extent { last: Some(3), branches: Branches::Current }).unwrap();
    assert_eq!(texts(&read), ["17", "18", "19"]);
    assert_eq!(read.head.n_messages, Some(20));
}

#[test]
fn a_prompt_without_text_gets_the_text_of_its_editor() {
    let stage = Stage::new();
    let rich = with(
        user_bubble("b0", ""),
        json!({"richText": lexical("first line\nsecond line").to_string()}),
    );
    let plain = with(user_bubble("b1", ""), json!({"richText": "not an editor's state"}));
    stage.say(ID, &[rich, plain]);
    assert_eq!(
        texts(&stage.close().read(ID)),
        ["first line\nsecond line", "not an editor's state"]
    );
}

#[test]
fn a_summary_comes_after_the_messages_that_it_summarises() {
    let stage = Stage::new();
    let bubbles = [user_bubble("b0", "one"), user_bubble("b1", "two")];
    let headers: Vec<Json> = bubbles.iter().map(header).collect();
    let summary = json!({"latestConversationSummary": {"summary": {"summary": "so far"}, "lastBubbleId": "b0"}});
    stage.home.put_conversation(&with(composer(ID, 10, &headers), summary), &bubbles);
    let read = stage.close().read(ID);
    assert_eq!(texts(&read), ["one", "so far", "two"]);
    assert_eq!(read.messages[1].kind, MessageKind::Summary);
    assert_eq!(read.head.n_messages, Some(2));
}

#[test]
fn a_sub_agent_of_an_older_build_belongs_to_the_call_that_started_it() {
    let stage = Stage::new();
    let call = "call_VF\nfc_05";
    stage.say(
        ID,
        &[
            user_bubble("b0", "delegate"),
            tool_bubble("b1", call, "task_v2", &json!({"prompt": "go"}), &json!({"agentId": "x"})),
        ],
    );
    stage.home.put_bubble(&format!("task-{call}"), &assistant_bubble("t0", "done in the child"));
    let home = stage.close();
    let child = format!("task-{call}");
    let read = home.read(ID);
    assert_eq!(read.head.subagents, std::slice::from_ref(&child));
    assert_eq!(read.messages[1].tool_calls().next().unwrap().subagent.as_ref(), Some(&child));
    assert_eq!(texts(&home.read(&child)), ["done in the child"]);
    let head = home.head(&child);
    assert_eq!(head.parent.unwrap().tool_call_id.as_deref(), Some(call));
    assert_eq!((head.n_messages, home.store.list().damage), (Some(1), Vec::new()));
}
