//! The content of a list, and where it comes from.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;
use store_fixtures::ide::{
    HeaderColumns, HeaderRow, composer, header, inline_composer, user_bubble,
};

use super::{ID, Stage, with};
use crate::ide::listing::summary::summarise;
use crate::model::{Activity, MessageKind, Moment, Parent, Shelf, Workspace, WorkspacePlace};
use crate::store::{Family, Treatment};

#[test]
fn empty_drafted_and_archived_conversations_are_distinguished() {
    let stage = Stage::new();
    let bubble = user_bubble("b0", "said");
    for (id, fields, is_said) in [
        ("archived", json!({"isArchived": true}), true),
        ("draft", json!({"text": "not sent yet"}), false),
        (
            "draft-rich",
            json!({"richText": store_fixtures::ide::lexical("typed").to_string()}),
            false,
        ),
        ("draft-flag", json!({"isDraft": true}), false),
        ("empty", json!({"richText": store_fixtures::ide::lexical("").to_string()}), false),
        ("said", json!({"text": "and one more being typed"}), true),
    ] {
        let headers = if is_said { vec![header(&bubble)] } else { Vec::new() };
        stage.home.put_conversation(&with(composer(id, 10, &headers), fields), &[]);
        if is_said {
            stage.home.put_bubble(id, &bubble);
        }
    }
    let home = stage.close();
    let shelves: Vec<(String, Shelf)> =
        home.heads().into_iter().map(|head| (head.id, head.shelf)).collect();
    let expected = [
        ("archived", Shelf::Archived),
        ("draft", Shelf::Draft),
        ("draft-flag", Shelf::Draft),
        ("draft-rich", Shelf::Draft),
        ("empty", Shelf::Empty),
        ("said", Shelf::Shown),
    ];
    assert_eq!(shelves, expected.map(|(id, shelf)| (id.to_owned(), shelf)));
    let draft = home.read("draft");
    assert_eq!(
        (super::texts(&draft), draft.messages[0].kind),
        (vec!["not sent yet".to_owned()], MessageKind::Pending)
    );
    assert_eq!((draft.head.shelf, draft.head.n_messages), (Shelf::Draft, Some(0)));
    assert_eq!(home.read("empty").messages, []);
    let account = home.store.account();
    assert_eq!(account.n_conversations, 1);
    let hidden = [("archived", 1), ("drafts", 3), ("empty", 1)];
    assert_eq!(
        account.n_hidden,
        hidden.map(|(what, count)| (what.to_owned(), count)).into_iter().collect()
    );
}

#[test]
fn the_table_of_headers_is_read_with_any_set_of_columns() {
    for columns in [HeaderColumns::Few, HeaderColumns::Usual, HeaderColumns::Newest] {
        let stage = Stage::new();
        stage.say(ID, &[user_bubble("b0", "x")]);
        stage.say("other", &[user_bubble("b0", "not in the table")]);
        stage.home.create_headers(columns);
        let row = HeaderRow {
            composer_id: ID.to_owned(),
            workspace_id: Some("aa11".to_owned()),
            recency: Some(1_790_000_900_000),
            is_archived: true,
            value: json!({"type": "head", "composerId": ID, "name": "From the table", "hasBlockingPendingActions": true}),
            ..HeaderRow::default()
        };
        stage.home.put_header(&row, columns);
        stage.home.put_workspace("aa11", Some(&json!({"folder": "file:///srv/p"})), &[]);
        let home = stage.close();
        assert_eq!(home.heads().len(), 2, "the table is not the only catalogue");
        let head = home.head(ID);
        assert_eq!(head.title.as_deref(), Some("From the table"));
        assert_eq!(head.activity, Activity::Interrupted);
        if columns != HeaderColumns::Few {
            assert_eq!(head.updated, Some(Moment::recorded(1_790_000_900_000)));
            assert_eq!(
                (head.shelf, head.workspace),
                (Shelf::Archived, Some(Workspace::here("/srv/p")))
            );
        }
    }
}

#[test]
fn a_workspace_is_found_in_every_place_that_may_name_it() {
    let stage = Stage::new();
    let said = |id: &str, fields: serde_json::Value| {
        let bubble = user_bubble("b0", "x");
        stage.home.put_conversation(&with(composer(id, 10, &[header(&bubble)]), fields), &[bubble]);
    };
    let uri = |path: &str| json!({"fsPath": path, "scheme": "file", "external": format!("file://{path}")});
    said("1-own", json!({"workspaceIdentifier": {"id": "x", "uri": uri("/srv/own")}}));
    said("2-id", json!({"workspaceIdentifier": {"id": "b2"}}));
    said("3-head", json!({}));
    said("4-pane", json!({}));
    said("5-selected", json!({}));
    said("6-project", json!({}));
    said("7-repository", json!({"trackedGitRepos": [{"repoPath": "/srv/repo"}]}));
    said("8-item", json!({}));
    said(
        "9-multi",
        json!({"workspaceIdentifier": {"id": "m", "configPath": uri("/srv/all.code-workspace")}}),
    );
    said("nowhere", json!({}));
    stage.home.put_workspace(
        "b2",
        Some(&json!({"folder": "vscode-remote://wsl%2Bubuntu/home/u"})),
        &[],
    );
    stage.home.put_workspace("b3", Some(&json!({"folder": "file:///srv/b3"})), &[
        ("composer.composerData", json!({"allComposers": [{"composerId": "3-head", "name": "Named by its workspace"}]})),
        ("workbench.panel.composerChatViewPane.0000", json!({"workbench.panel.aichat.view.4-pane": {"collapsed": false}})),
    ]);
    stage.home.put_workspace(
        "b5",
        Some(&json!({"folder": "file:///srv/b5"})),
        &[(
            "composer.composerData",
            json!({"selectedComposerIds": ["5-selected"], "hasMigratedComposerData": true}),
        )],
    );
    stage.home.put_workspace("b6", None, &[]);
    stage.home.put_item(
        "glass.localAgentProjects.v1",
        &json!([{"id": "p", "name": "P", "workspace": {"id": "x", "uri": uri("/srv/glass")}}]),
    );
    stage.home.put_item("glass.localAgentProjectMembership.v1", &json!({"6-project": "p"}));
    stage.home.put_item("composer.composerHeaders", &json!({"allComposers": [
        {"type": "head", "composerId": "8-item", "name": "In the item", "workspaceIdentifier": {"id": "y", "uri": uri("/srv/item")}},
    ]}));
    let home = stage.close();
    let wsl = Workspace {
        path: "/home/u".to_owned(),
        place: WorkspacePlace::Remote("wsl+ubuntu".to_owned()),
    };
    let expected = BTreeMap::from([
        ("1-own", Some(Workspace::here("/srv/own"))),
        ("2-id", Some(wsl)),
        ("3-head", Some(Workspace::here("/srv/b3"))),
        ("4-pane", Some(Workspace::here("/srv/b3"))),
        ("5-selected", Some(Workspace::here("/srv/b5"))),
        ("6-project", Some(Workspace::here("/srv/glass"))),
        ("7-repository", Some(Workspace::here("/srv/repo"))),
        ("8-item", Some(Workspace::here("/srv/item"))),
        ("9-multi", Some(Workspace::here("/srv/all.code-workspace"))),
        ("nowhere", None),
    ]);
    let heads = home.heads();
    let found: BTreeMap<&str, Option<Workspace>> =
        heads.iter().map(|head| (head.id.as_str(), head.workspace.clone())).collect();
    assert_eq!(found, expected);
    assert_eq!(home.head("3-head").title.as_deref(), Some("Named by its workspace"));
    for (id, workspace) in expected {
        assert_eq!(home.read(id).head.workspace, workspace, "{id}");
    }
}

#[test]
fn sub_agents_and_their_parents_know_each_other() {
    let stage = Stage::new();
    let bubble = user_bubble("b0", "x");
    let said = |id: &str, fields: serde_json::Value| {
        stage.home.put_conversation(
            &with(composer(id, 16, &[header(&bubble)]), fields),
            std::slice::from_ref(&bubble),
        );
    };
    said("parent", json!({"subagentComposerIds": ["named-by-parent"]}));
    said("named-by-parent", json!({}));
    said(
        "says-so-itself",
        json!({"subagentInfo": {"parentComposerId": "parent", "toolCallId": "t1", "subagentTypeName": "explore"}}),
    );
    said("in-the-table", json!({}));
    stage.home.create_headers(HeaderColumns::Newest);
    let row = HeaderRow {
        composer_id: "in-the-table".to_owned(),
        is_subagent: true,
        subagent_type_name: Some("plan".to_owned()),
        value: json!({"subagentInfo": {"parentComposerId": "parent"}}),
        ..HeaderRow::default()
    };
    stage.home.put_header(&row, HeaderColumns::Newest);
    let home = stage.close();
    let mut subagents = home.head("parent").subagents;
    subagents.sort_unstable();
    assert_eq!(subagents, ["in-the-table", "named-by-parent", "says-so-itself"]);
    let parent = |call: Option<&str>, kind: Option<&str>| Parent {
        id: "parent".to_owned(),
        tool_call_id: call.map(str::to_owned),
        type_name: kind.map(str::to_owned),
    };
    assert_eq!(home.head("named-by-parent").parent, Some(parent(None, None)));
    assert_eq!(home.head("says-so-itself").parent, Some(parent(Some("t1"), Some("explore"))));
    assert_eq!(home.head("in-the-table").parent, Some(parent(None, Some("plan"))));
    assert_eq!(home.store.account().n_hidden.get("sub-agents"), Some(&3));
}

#[test]
fn the_best_known_time_of_the_last_change_is_listed() {
    let stage = Stage::new();
    let at = 1_790_000_000_000_i64;
    let first = json!({"bubbleId": "b0", "type": 1, "createdAt": "2026-09-21T14:13:21.000Z"});
    stage.home.put_conversation(
        &with(composer("1", 10, &[first]), json!({"lastUpdatedAt": at + 5})),
        &[],
    );
    let fields = json!({"conversationCheckpointLastUpdatedAt": at + 7, "lastUpdatedAt": at});
    stage.home.put_conversation(
        &with(composer("2", 10, &[json!({"bubbleId": "b0", "type": 1})]), fields),
        &[],
    );
    stage.home.put_conversation(
        &with(composer("3", 10, &[json!({"bubbleId": "b0"})]), json!({"lastUpdatedAt": at + 9})),
        &[],
    );
    stage.home.put_conversation(&composer("4", 10, &[json!({"bubbleId": "b0"})]), &[]);
    let updated: Vec<Option<i64>> =
        stage.close().heads().iter().map(|head| head.updated.map(|at| at.at_ms)).collect();
    assert_eq!(updated, [Some(1_790_000_001_000), Some(at + 7), Some(at + 9), Some(at)]);
}

#[test]
fn rows_are_counted_by_their_keys() {
    let stage = Stage::new();
    stage.say(ID, &[user_bubble("b0", "x"), user_bubble("b1", "y")]);
    for key in [
        "ofsContent:1:file:///a",
        "composer.content.abc",
        "inlineDiffs-ws",
        "agentKv:blob:00",
        "bc-1:cloudAgent:metadata",
        "bc-2:cloudAgent:metadata",
    ] {
        stage.home.put(key, &json!("x"));
    }
    stage.home.put_item("composer.composerHeaders", &json!({}));
    stage.home.put_item("aiService.prompts", &json!([]));
    stage.home.put_item("cursorAuth/accessToken", &json!("t"));
    stage.home.put_item("secret://{\"extensionId\":\"x\"}", &json!("s"));
    stage.home.put_item("secret://other", &json!("s"));
    stage.home.put_item("loose", &json!("s"));
    let account = stage.close().store.account();
    let family = |name: &str, n_rows: u64, treatment: Treatment| Family {
        name: name.to_owned(),
        n_rows,
        treatment,
    };
    assert_eq!(
        account.families,
        [
            family("agentKv:blob:", 1, Treatment::Read),
            family("bc-…:", 2, Treatment::Counted),
            family("bubbleId:", 2, Treatment::Read),
            family("composer.content.", 1, Treatment::Counted),
            family("composerData:", 1, Treatment::Read),
            family("inlineDiffs-", 1, Treatment::Counted),
            family("ofsContent:", 1, Treatment::Counted),
            family("ItemTable composer.", 1, Treatment::Read),
            family("ItemTable cursorAuth/", 1, Treatment::NeverRead),
            family("ItemTable other", 1, Treatment::NeverRead),
            family("ItemTable secret://", 2, Treatment::NeverRead),
        ]
    );
    assert_eq!(account.damage, []);
    assert_eq!(account.backup, None);
}

#[test]
fn a_stamp_changes_with_its_conversation_and_with_nothing_else() {
    let stage = Stage::new();
    stage.say(ID, &[user_bubble("b0", "x")]);
    let store = super::open(stage.directory.path()).unwrap();
    let before = store.stamp(ID);
    stage.say("other", &[user_bubble("b0", "x")]);
    assert_eq!(store.stamp(ID), before);
    stage.home.put_bubble(ID, &user_bubble("b0", "y"));
    assert_ne!(store.stamp(ID), before);
    assert_eq!((before.is_some(), store.stamp("nothing")), (true, None));
    assert_eq!(store.watched(Some(ID)), [stage.directory.path().join("globalStorage")]);
}

#[test]
fn a_field_of_the_wrong_type_does_not_affect_the_others() {
    let mut json = inline_composer(ID, &[]);
    let names: Vec<String> = json.as_object().unwrap().keys().cloned().collect();
    for name in names {
        for wrong in [json!(7), json!("x"), json!({"a": []}), json!([[1]]), json!(null)] {
            let json =
                with(with(json.clone(), json!({"name": "kept"})), json!({name.as_str(): wrong}));
            let summary = summarise(json.to_string().as_bytes()).unwrap();
            assert!(name == "name" || summary.title.as_deref() == Some("kept"), "{name}");
        }
    }
    json["conversation"] = json!([{"createdAt": {}}, 3, {"text": "x"}]);
    assert_eq!(summarise(json.to_string().as_bytes()).unwrap().n_messages, Some(2));
    assert_eq!(summarise(br#"{"name":"a","name":"b"}"#).unwrap().title.as_deref(), Some("b"));
    assert!(summarise(b"[]").is_none() && summarise(b"{").is_none() && summarise(b"").is_none());
}

proptest! {
    #[test]
    fn no_bytes_make_a_summary_fail(bytes: Vec<u8>, text in "\\{\"(name|tabs|text|conversation|subagentInfo)\":\\PC{0,12}\\}") {
        let _read = (summarise(&bytes), summarise(text.as_bytes()));
    }
}
