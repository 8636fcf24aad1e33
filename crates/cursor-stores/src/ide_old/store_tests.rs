use std::fs;

use pretty_assertions::assert_eq;
use serde_json::json;
use store_fixtures::Closing;
use store_fixtures::ide_old::{
    CHATS, COMPOSERS, GENERATIONS, PROMPTS, SESSIONS, StateDirectory, Storage, every_chat,
    every_composer, every_prompt, every_row, every_session,
};

use super::store::{OldIdeStore, Scope};
use super::test_home::{AT, HASH, Home};
use crate::StorePlaces;
use crate::model::{
    Conversation, Head, Message, Moment, Origin, Part, Role, Shelf, StoreKind, ToolCall,
    ToolResult, ToolState, Turn, TurnState, Workspace,
};
use crate::store::{
    ConversationStore, Discovered, Extent, Family, ReadConversationError, Treatment,
};

fn word(field: &str) -> String {
    field.to_owned()
}

fn head_of(home: &Home, shape: &str, id: &str) -> Head {
    let origin = Origin {
        store: StoreKind::IdeOld,
        path: home.workspace.database().as_path().into(),
        key: Some(format!("{HASH}/{shape}/{id}")),
    };
    Head { workspace: Some(Workspace::here("/srv/app")), ..Head::new(id, origin) }
}

fn message(id: &str, role: Role, turn: usize, parts: Vec<Part>) -> Message {
    Message { id: Some(id.to_owned()), turn: Some(turn), ..Message::new(role, parts) }
}

fn attachment(kind: &str, name: &str, text: Option<&str>) -> Part {
    Part::Attachment {
        kind: kind.to_owned(),
        name: Some(name.to_owned()),
        text: text.map(str::to_owned),
    }
}

#[test]
fn a_chat_tab_is_read_completely() {
    let home = Home::with(&[(CHATS, every_chat(&mut word))]);
    let by = |model: &str, message: Message| Message { model: Some(model.to_owned()), ..message };
    let mut expected = Conversation::new(Head {
        title: Some("chatTitle".to_owned()),
        updated: Some(Moment::recorded(AT)),
        mode: Some("chat".to_owned()),
        models: vec!["modelType".to_owned(), "gpt-4".to_owned()],
        n_messages: Some(7),
        ..head_of(&home, "chat", "tab-1")
    });
    expected.messages = vec![
        message(
            "b1",
            Role::User,
            0,
            vec![
                Part::text("delegate.a"),
                attachment("selection", "/srv/app/a.rs", Some("selections.text")),
                Part::Image {
                    media_type: None,
                    path: Some("image.path".to_owned()),
                    n_bytes: None,
                },
            ],
        ),
        by("modelType", message("b2", Role::Assistant, 0, vec![Part::text("rawText")])),
        message("b3", Role::User, 1, vec![Part::text("user text")]),
        by("gpt-4", message("b4", Role::Assistant, 1, vec![Part::text("ai text")])),
        message("b5", Role::User, 2, vec![Part::text("initText")]),
        Message {
            at: Some(Moment::recorded(AT)),
            ..message("b6", Role::User, 3, vec![Part::text("user rawText")])
        },
        message("b7", Role::Unknown, 3, vec![Part::text("unknown bubble")]),
    ];
    expected.turns = vec![
        Turn { model: Some("modelType".to_owned()), ..Turn::default() },
        Turn { model: Some("gpt-4".to_owned()), ..Turn::default() },
        Turn::default(),
        Turn { started: Some(Moment::recorded(AT)), ..Turn::default() },
    ];
    assert_eq!(home.read("chat", "tab-1"), expected);
    assert_eq!(home.heads(), [expected.head]);
}

#[test]
fn a_composer_with_its_bubbles_is_read_completely_and_a_lone_head_is_left_to_another_reader() {
    let home = Home::with(&[(COMPOSERS, every_composer(&mut word))]);
    let mut expected = Conversation::new(Head {
        title: Some("composer name".to_owned()),
        created: Some(Moment::recorded(AT)),
        updated: Some(Moment::recorded(AT + 100_000)),
        mode: Some("agent".to_owned()),
        n_messages: Some(3),
        ..head_of(&home, "composer", "composer-1")
    });
    let mut call = ToolCall::new("run_terminal_cmd", json!({"command": "tool params"}));
    call.id = Some("call_1".to_owned());
    call.state = ToolState::Succeeded;
    call.result = Some(ToolResult {
        output: json!({"output": "tool result"}),
        error: None,
        is_truncated: false,
    });
    expected.messages = vec![
        message(
            "c1",
            Role::User,
            0,
            vec![Part::text("composer user text"), attachment("file", "attached file", None)],
        ),
        message(
            "c2",
            Role::Assistant,
            0,
            vec![
                Part::reasoning("composer thinking"),
                Part::text("composer ai text"),
                Part::Code {
                    language: Some("rust".to_owned()),
                    path: Some("/srv/app/b.rs".to_owned()),
                    text: "code block".to_owned(),
                },
            ],
        ),
        message("c3", Role::Assistant, 0, vec![Part::ToolCall(call)]),
    ];
    expected.turns = vec![Turn::default()];
    assert_eq!(home.read("composer", "composer-1"), expected);
    assert_eq!(home.heads(), [expected.head]);
    let modern = json!({"selectedComposerIds": ["x"], "hasMigratedComposerData": true});
    assert_eq!(Home::with(&[(COMPOSERS, modern)]).heads(), []);
}

#[test]
fn a_vs_code_session_is_read_completely() {
    let home = Home::with(&[(SESSIONS, every_session(&mut word))]);
    let mut expected = Conversation::new(Head {
        title: Some("customTitle".to_owned()),
        created: Some(Moment::recorded(AT)),
        updated: Some(Moment::recorded(AT + 200_000)),
        mode: Some("chat".to_owned()),
        models: vec!["copilot/gpt-4o".to_owned()],
        n_messages: Some(2),
        ..head_of(&home, "session", "session-1")
    });
    let invocation = json!({
        "kind": "toolInvocationSerialized", "toolId": "copilot_readFile", "toolCallId": "call_2",
        "isComplete": true, "invocationMessage": "invocation message",
    });
    let mut call = ToolCall::new("copilot_readFile", invocation);
    call.id = Some("call_2".to_owned());
    call.state = ToolState::Succeeded;
    let answer = Message {
        turn: Some(0),
        model: Some("copilot/gpt-4o".to_owned()),
        ..Message::new(
            Role::Assistant,
            vec![
                Part::text("response valuemarkdown content"),
                Part::reasoning("response thinking"),
                Part::ToolCall(call),
                Part::Unknown {
                    kind: "of_tomorrow".to_owned(),
                    value: json!({"kind": "of_tomorrow", "body": "unknown response"}),
                },
                Part::Error { text: "error details".to_owned() },
            ],
        )
    };
    let prompt = message(
        "request-1",
        Role::User,
        0,
        vec![Part::text("request text"), attachment("file", "file:a.rs", Some("variable"))],
    );
    expected.messages = vec![Message { at: Some(Moment::recorded(AT)), ..prompt }, answer];
    expected.turns = vec![Turn {
        request_id: Some("request-1".to_owned()),
        model: Some("copilot/gpt-4o".to_owned()),
        started: Some(Moment::recorded(AT)),
        state: TurnState::Failed,
        error: Some("error details".to_owned()),
        ..Turn::default()
    }];
    assert_eq!(home.read("session", "session-1"), expected);
    assert_eq!(home.heads(), [expected.head]);
    // Newer builds keep sessions by id.
    let session = every_session(&mut word)[0].clone();
    let by_id = Home::with(&[(SESSIONS, json!({"session-1": session}))]);
    assert_eq!(by_id.read("session", "session-1").messages, expected.messages);
}

#[test]
fn the_prompts_of_a_workspace_are_one_conversation() {
    let (prompts, generations) = every_prompt(&mut word);
    let home = Home::with(&[(PROMPTS, prompts), (GENERATIONS, generations)]);
    let id = format!("prompts-{HASH}");
    let conversation = home.read("prompts", &id);
    let expected = Head {
        title: Some("Prompts".to_owned()),
        created: Some(Moment::recorded(AT)),
        updated: Some(Moment::recorded(AT + 500_000)),
        n_messages: Some(3),
        ..head_of(&home, "prompts", &id)
    };
    assert_eq!(conversation.head, expected);
    let said: Vec<_> = conversation
        .messages
        .iter()
        .map(|message| (message.text(), message.id.as_deref(), message.at))
        .collect();
    assert_eq!(
        said,
        [
            ("paired prompt".to_owned(), Some("g1"), Some(Moment::recorded(AT))),
            ("lonely prompt".to_owned(), None, Some(Moment::interpolated(AT + 250_000))),
            ("lonely generation".to_owned(), Some("g2"), Some(Moment::recorded(AT + 500_000))),
        ]
    );
    assert_eq!(home.heads(), [conversation.head]);
    assert_eq!(Home::with(&[(PROMPTS, json!([])), (GENERATIONS, json!([]))]).heads(), []);
}

#[test]
fn values_are_read_as_text_or_bytes_from_the_database_or_its_log() {
    let expected = Home::with(&every_row(&mut word)).heads().len();
    assert_eq!(expected, 4);
    for storage in [Storage::Blob, Storage::Text] {
        for closing in [Closing::Clean, Closing::Killed] {
            let home = Home::new();
            home.workspace.rows(&every_row(&mut word), storage, closing);
            assert_eq!(home.heads().len(), expected, "{storage:?} {closing:?}");
        }
    }
}

#[test]
fn tabs_without_names_or_with_the_same_name_are_distinguished() {
    let bubble = |text: &str| json!([{"type": "user", "text": text}]);
    let tabs = json!({"tabs": [
        {"tabId": "same", "bubbles": bubble("one")}, {"tabId": "same", "bubbles": bubble("two")},
        {"bubbles": bubble("three\nlines")}, {"bubbles": []}, 7,
    ]});
    let home = Home::with(&[(CHATS, tabs)]);
    let heads = home.heads();
    let listed: Vec<_> =
        heads.iter().map(|head| (head.id.clone(), head.title.as_deref(), head.shelf)).collect();
    let unnamed = format!("chat-{HASH}");
    assert_eq!(
        listed,
        [
            ("same".to_owned(), Some("one"), Shelf::Shown),
            ("same#2".to_owned(), Some("two"), Shelf::Shown),
            (unnamed.clone(), Some("three"), Shelf::Shown),
            (format!("{unnamed}#2"), None, Shelf::Empty),
        ]
    );
    for head in &heads {
        let key = head.origins[0].key.clone().unwrap();
        assert_eq!(home.store().read(&key, Extent::default()).unwrap().head, *head);
    }
}

#[test]
fn the_last_messages_are_read_and_unknown_keys_are_refused() {
    let home = Home::with(&[(CHATS, every_chat(&mut word))]);
    let key = format!("{HASH}/chat/tab-1");
    let last = home.store().read(&key, Extent { last: Some(2), ..Extent::default() }).unwrap();
    let ids: Vec<_> = last.messages.iter().filter_map(|message| message.id.as_deref()).collect();
    assert_eq!(ids, ["b6", "b7"]);
    for key in [
        "",
        "x",
        "../x/chat/tab-1",
        &format!("{HASH}/chat/none"),
        &format!("{HASH}/x/tab-1"),
        "none/chat/tab-1",
    ] {
        let read = home.store().read(key, Extent::default());
        assert!(matches!(read, Err(ReadConversationError::Missing(_))), "{key}");
    }
}

#[test]
fn a_stamp_changes_with_the_database() {
    let home = Home::with(&[(CHATS, every_chat(&mut word))]);
    let (store, key) = (home.store(), format!("{HASH}/chat/tab-1"));
    let first = store.stamp(&key).unwrap();
    home.read("chat", "tab-1");
    assert_eq!(store.stamp(&key), Some(first));
    home.workspace.rows(&[(CHATS, json!({"tabs": []}))], Storage::Text, Closing::Killed);
    assert_ne!(store.stamp(&key), Some(first));
    assert_eq!(store.watched(Some(&key)), [home.workspace.path()]);
    assert_eq!(store.watched(None), [home.storage().as_path(), home.workspace.path()]);
    assert_eq!(store.stamp("none/chat/x"), None);
}

#[test]
fn prompts_of_all_workspaces_and_very_old_databases_are_found() {
    let home = Home::new();
    let global = StateDirectory::global(home.directory.path());
    let (prompts, generations) = every_prompt(&mut word);
    // The rest of the global database belongs to the modern IDE.
    let rows = [(PROMPTS, prompts), (GENERATIONS, generations), (CHATS, every_chat(&mut word))];
    global.rows(&rows, Storage::Blob, Closing::Clean);
    let oldest = global.path().join("cursor.cursor/chat.sqlite");
    fs::create_dir(oldest.parent().unwrap()).unwrap();
    fs::write(&oldest, "old").unwrap();

    let places = StorePlaces {
        cursor_user_dirs: vec![home.directory.path().to_owned()],
        ..StorePlaces::default()
    };
    let mut stores = Vec::new();
    let mut skipped = Vec::new();
    for found in super::discover(&places) {
        match found {
            Discovered::Store(store) => stores.push(store),
            Discovered::Skipped(place) => skipped.push(place),
        }
    }
    assert_eq!(
        skipped.iter().map(|place| place.path.as_ref()).collect::<Vec<_>>(),
        [oldest.as_path()]
    );
    assert_eq!(
        stores.iter().map(|store| store.path()).collect::<Vec<_>>(),
        [home.storage().as_path(), global.path()]
    );
    let listing = stores[1].list();
    assert_eq!((listing.heads.len(), listing.damage.len()), (1, 0));
    let head = &listing.heads[0];
    assert!(
        head.id.starts_with("prompts-") && head.origins[0].path.as_ref().starts_with(global.path())
    );
    let read = stores[1].read(head.origins[0].key(head), Extent::default()).unwrap();
    assert_eq!((&read.head, read.messages.len()), (head, 3));
    let store = OldIdeStore::new(global.path().to_owned(), Scope::Global);
    assert!(store.read("global/chat/tab-1", Extent::default()).is_err());
    let families = store.account().families;
    let oldest = Family {
        name: "cursor.cursor/*.sqlite".to_owned(),
        n_rows: 1,
        treatment: Treatment::Counted,
    };
    assert!(families.contains(&oldest), "{families:?}");
    let chats = Family { name: CHATS.to_owned(), n_rows: 1, treatment: Treatment::Counted };
    assert!(families.contains(&chats), "{families:?}");
}

#[test]
fn everything_is_accounted_for() {
    let home = Home::with(&every_row(&mut word));
    home.workspace.back_up();
    fs::create_dir(home.workspace.path().join("chatSessions")).unwrap();
    fs::write(home.workspace.path().join("chatSessions/a.json"), "{}").unwrap();
    StateDirectory::workspace(home.directory.path(), "without-a-database");
    let account = home.store().account();
    let family =
        |name: &str, n_rows, treatment| Family { name: name.to_owned(), n_rows, treatment };
    assert_eq!(
        account.families,
        [
            family(CHATS, 1, Treatment::Read),
            family(COMPOSERS, 1, Treatment::Read),
            family(SESSIONS, 1, Treatment::Read),
            family(PROMPTS, 1, Treatment::Read),
            family(GENERATIONS, 1, Treatment::Read),
            family("cursorAuth/ and secret://", 2, Treatment::NeverRead),
            family("other rows of ItemTable", 1, Treatment::NeverRead),
            family("state.vscdb.backup", 1, Treatment::Counted),
            family("chatSessions/*", 1, Treatment::Counted),
        ]
    );
    assert_eq!((account.n_conversations, account.damage, account.backup), (4, vec![], None));
}
