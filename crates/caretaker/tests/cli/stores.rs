//! A user's view of stores that are odd, broken or locked by another process.

use std::fs;
use std::path::PathBuf;

use cursor_stores::chat::schema::{ConversationStateStructure, SubagentPersistedState};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use store_fixtures::chat::{Chat, Generation, StoreWriter, Turn};
use store_fixtures::ide::{IdeHome, assistant_bubble, composer, header, user_bubble};
use store_fixtures::transcript::{Layout, TranscriptProject, every_line};
use store_fixtures::{Closing, open_writer};

use crate::scene::Scene;

fn chats(scene: &Scene) -> PathBuf {
    scene.path("home/.cursor/chats")
}

fn ide(scene: &Scene) -> IdeHome {
    IdeHome::new(&scene.path("config/Cursor/User"))
}

fn put(home: &IdeHome, id: &str, bubbles: &[Value]) {
    let headers: Vec<Value> = bubbles.iter().map(header).collect();
    home.put_conversation(&composer(id, 14, &headers), bubbles);
}

#[test]
fn terminal_escapes_in_an_id_have_no_effect() {
    let mut scene = Scene::new();
    // Behave as on a terminal. Otherwise the output filter would remove everything that looks like an escape sequence.
    scene.set("CLICOLOR_FORCE", "1");
    let home = ide(&scene);
    put(&home, "evil\u{1b}]0;retitled\u{7}", &[user_bubble("b0", "needle")]);
    home.close(Closing::Clean);
    let commands: [&[&str]; 6] = [
        &["ls"],
        &["ls", "-q"],
        &["search", "needle"],
        &["show", "evil"],
        &["tail", "evil"],
        &["stats"],
    ];
    for command in commands {
        let answer = scene.caretaker([&["sessions"], command].concat());
        assert_eq!(answer.code(), 0, "{command:?}: {}", answer.stderr());
        for text in [answer.stdout(), answer.stderr()] {
            assert!(!text.contains("\u{1b}]") && !text.contains('\u{7}'), "{command:?}: {text:?}");
        }
        assert!(!answer.stdout().is_empty(), "{command:?}");
    }
    assert!(scene.caretaker(["sessions", "search", "needle"]).stdout().contains("evil"));
}

#[test]
fn a_sub_agent_in_its_parents_store_is_found_by_its_name() {
    const PARENT: &str = "91537117-0000-4000-8000-000000000001";
    let scene = Scene::new();
    let bucket = chats(&scene).join("0123456789abcdef0123456789abcdef");
    let mut store = StoreWriter::create(&bucket.join(PARENT), PARENT, 1_790_000_000_000);
    let said = |text: &str| store.put_json(&json!({"role": "assistant", "content": text}));
    let inside = |text: &str| SubagentPersistedState {
        conversation_state: Some(ConversationStateStructure {
            root_prompt_messages_json: vec![said(text)],
            ..Default::default()
        }),
        ..Default::default()
    };
    let mut state = ConversationStateStructure {
        root_prompt_messages_json: vec![said("said by the parent")],
        ..Default::default()
    };
    state.subagent_states.insert("child-1".to_owned(), inside("said within"));
    state.subagent_states.insert("child-10".to_owned(), inside("said by the tenth"));
    let afar = store.put_message(&inside("said from afar"));
    state.subagent_state_refs.insert("referred".to_owned(), afar);
    store.put_root(&state);
    store.close(Closing::Clean);

    let show = |name: &str| scene.caretaker(["sessions", "show", name]);
    let parent = show(PARENT);
    assert!(parent.stdout().contains(&format!("{PARENT}#child-1")), "{}", parent.stdout());
    for (name, said) in [
        (format!("{PARENT}#child-1"), "said within"),
        (format!("{PARENT}#child-10"), "said by the tenth"),
        ("91537117#ref".to_owned(), "said from afar"),
    ] {
        let answer = show(&name);
        assert_eq!(answer.code(), 0, "{name}: {}", answer.stderr());
        assert!(answer.stdout().contains(said), "{name}: {}", answer.stdout());
        assert!(!answer.stdout().contains("said by the parent"), "{name}");
    }
    let exported = scene.caretaker(["sessions", "export", "91537117#child-10", "--format", "json"]);
    assert!(exported.stdout().contains("said by the tenth"), "{}", exported.stderr());
    let raw = scene.caretaker(["sessions", "show", "91537117#child-10", "--raw"]);
    assert!(raw.stdout().contains("said by the tenth"), "{}", raw.stderr());
    assert!(show("91537117#child").stderr().contains("2 conversations begin with"));
    assert!(show("91537117#nobody").stderr().contains("no conversation"));
    // No list shows sub-agents: it would have to read every chat to find them.
    let all = scene.caretaker(["sessions", "ls", "--all", "-q"]);
    assert_eq!(all.stdout(), format!("{PARENT}\n"));
}

#[test]
fn conversations_of_the_ide_are_found_by_the_models_that_only_their_messages_name() {
    let scene = Scene::new();
    let home = ide(&scene);
    let mut answer = assistant_bubble("b1", "an answer");
    answer["modelInfo"] = json!({"modelName": "claude-4.5-sonnet"});
    put(&home, "by-claude", &[user_bubble("b0", "a question"), answer]);
    put(&home, "by-nobody", &[user_bubble("b0", "a question")]);
    home.close(Closing::Clean);
    let listed = scene.caretaker(["sessions", "ls", "--model", "CLAUDE", "--json"]);
    let listed: Value = serde_json::from_str(listed.stdout()).unwrap();
    let ids: Vec<&Value> =
        listed["sessions"].as_array().unwrap().iter().map(|head| &head["id"]).collect();
    assert_eq!(ids, ["by-claude"]);
    assert_eq!(listed["sessions"][0]["models"], json!(["claude-4.5-sonnet"]));
}

#[test]
fn an_unreadable_store_of_a_conversation_is_reported_even_if_another_store_has_the_rest() {
    const ID: &str = "9678f7a7-0000-4000-8000-000000000001";
    let scene = Scene::new();
    let directory = chats(&scene).join("0123456789abcdef0123456789abcdef").join(ID);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("store.db"), "garbage".repeat(1_000)).unwrap();
    let project = TranscriptProject::new(&scene.path("home/.cursor/projects"), "srv-app");
    project.transcript(Layout::Nested, ID, &every_line(&mut |field| format!("word of {field}")));
    let shown = scene.caretaker(["sessions", "show", ID]);
    assert!(shown.stdout().contains("word of"), "{}", shown.stderr());
    assert!(shown.stdout().contains("not an SQLite database"), "{}", shown.stdout());
    let shown = scene.caretaker(["sessions", "show", ID, "--json"]);
    let shown: Value = serde_json::from_str(shown.stdout()).unwrap();
    let told = shown["damage"].to_string();
    assert!(told.contains("not an SQLite database"), "{told}");
}

#[test]
fn stores_that_another_process_locks_are_called_locked() {
    let scene = Scene::new();
    let mut writers = Vec::new();
    let mut paths = Vec::new();
    for number in 0..4 {
        let id = format!("10c4ed00-0000-4000-8000-00000000000{number}");
        let chat = Chat::new(Generation::Feb2026, &id).with_turns(vec![Turn::plain("ask", "tell")]);
        paths.push(chat.write_cli(&chats(&scene), Closing::Clean).join("store.db"));
    }
    let home = ide(&scene);
    put(&home, "in-the-ide", &[user_bubble("b0", "a question")]);
    paths.push(home.path());
    home.close(Closing::Clean);
    for path in &paths {
        let writer = open_writer(path);
        writer
            .execute_batch("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE; CREATE TABLE t (x)")
            .unwrap();
        writers.push(writer);
    }
    // Compare metadata, and do not read the files: a process that closes a file gives up its locks on it.
    let picture = || -> Vec<_> {
        let facts = paths.iter().map(|path| fs::metadata(path).unwrap());
        facts.map(|facts| (facts.len(), facts.modified().unwrap())).collect()
    };
    let before = picture();
    let listed = scene.caretaker(["sessions", "ls", "--json"]);
    let states: Value = serde_json::from_str(listed.stdout()).unwrap();
    let states: Vec<&Value> =
        states["sessions"].as_array().unwrap().iter().map(|head| &head["activity"]).collect();
    assert_eq!(states, ["locked"; 4], "{}", listed.stderr());
    assert!(listed.stderr().contains("locked by another process"), "{}", listed.stderr());
    // The conversation may be in the locked store, where the command cannot see it.
    let shown = scene.caretaker(["sessions", "show", "in-the-ide"]);
    assert_eq!(shown.code(), 3, "{}", shown.stderr());
    assert!(shown.stderr().contains("locked by another process"), "{}", shown.stderr());
    assert_eq!(picture(), before);
}
