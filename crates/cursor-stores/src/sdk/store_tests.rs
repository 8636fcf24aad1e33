//! Whole conversations from stores of every version and form.

use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use serde_json::{Value as Json, json};
use store_fixtures::sdk::events::{ending, failed, request, running, status, text, user};
use store_fixtures::sdk::{
    Agent, Generation, Run, chat_path, state_root, write_database, write_lines,
};
use store_fixtures::{Closing, open_writer};

use super::discover;
use super::test_home::{Home, WORKSPACE, stores, talk};
use crate::StorePlaces;
use crate::model::{
    Activity, Conversation, Head, Message, Moment, Part, Role, Shelf, StoreKind, TokenUsage,
    ToolState, Turn, TurnState, Workspace,
};
use crate::store::{Account, Discovered, Extent, Family, Treatment};
use crate::test_store::picture_of_tree;

fn told(conversation: &Conversation) -> Vec<(Role, Vec<String>)> {
    let message = |message: &Message| {
        let parts = message.parts.iter().map(|part| match part {
            Part::Text { text } => text.clone(),
            Part::Reasoning { text, duration_ms, .. } => format!("thinks {text} {duration_ms:?}"),
            Part::ToolCall(call) => {
                let output = call.result.as_ref().map(|result| result.output.to_string());
                format!("{} {} -> {output:?}", call.tool, call.input)
            }
            other => format!("{other:?}"),
        });
        (message.role, parts.collect())
    };
    conversation.messages.iter().map(message).collect()
}

fn talk_as_told() -> Vec<(Role, Vec<String>)> {
    let say =
        |role: Role, parts: &[&str]| (role, parts.iter().map(|part| (*part).to_owned()).collect());
    vec![
        say(Role::User, &["Fix the tests."]),
        say(
            Role::Assistant,
            &[
                "thinks Which ones? Some(900)",
                "I look.",
                r#"shell {"command":"cargo test"} -> Some("{\"stdout\":\"ok\",\"exitCode\":0}")"#,
            ],
        ),
        say(Role::Assistant, &["All green."]),
        say(Role::User, &["And now the docs."]),
        say(Role::Assistant, &[r#"edit {"path":"src/lib.rs"} -> Some("{\"diffString\":\"+x\"}")"#]),
        say(Role::Assistant, &["Done."]),
    ]
}

fn talk_turns(generation: Option<Generation>) -> Vec<Turn> {
    let has_result = generation.is_none_or(Generation::has_result);
    let has_usage = generation.is_none_or(Generation::has_usage);
    let known = |input, output, cache_read, cache_write| TokenUsage {
        input: Some(input),
        output: Some(output),
        cache_read: Some(cache_read),
        cache_write: Some(cache_write),
        ..TokenUsage::default()
    };
    let turn = |number: i64| Turn {
        model: Some("gpt-5.5".to_owned()),
        model_params: [("reasoning".to_owned(), "high".to_owned())].into(),
        started: Some(Moment::recorded(1_790_000_000_010 + 60_000 * number)),
        ended: Some(Moment::recorded(1_790_000_005_000 + 60_000 * number)),
        state: TurnState::Finished,
        ..Turn::default()
    };
    vec![
        Turn {
            request_id: has_result.then(|| "request-1".to_owned()),
            // The row's token count covers the whole run. If the row has none, the events have one.
            tokens: Some(if has_usage { known(11, 21, 31, 0) } else { known(10, 20, 30, 40) }),
            ..turn(1)
        },
        turn(2),
    ]
}

fn assert_talk(home: &Home, generation: Option<Generation>) {
    let before = picture_of_tree(home.directory.path());
    let store = home.store();
    let listing = store.list();
    assert_eq!(listing.damage, []);
    let [head] = listing.heads.as_slice() else { panic!("not one head: {:?}", listing.heads) };
    let origin =
        crate::model::Origin { store: StoreKind::Sdk, path: store.path().into(), key: None };
    let listed_tokens = generation.is_none_or(Generation::has_usage).then_some(TokenUsage {
        input: Some(11),
        output: Some(21),
        cache_read: Some(31),
        cache_write: Some(0),
        ..TokenUsage::default()
    });
    let expected = Head {
        title: Some("About agent-1".to_owned()),
        workspace: Some(Workspace::here(WORKSPACE)),
        created: Some(Moment::recorded(1_790_000_000_000)),
        updated: Some(Moment::recorded(1_790_000_125_000)),
        models: vec!["gpt-5.5".to_owned()],
        n_bytes: head.n_bytes,
        tokens: listed_tokens,
        lineage: [
            (Head::BEGINNING, format!("1790000000000 {WORKSPACE}")),
            (1, "run-1".to_owned()),
            (2, "run-2".to_owned()),
        ]
        .into(),
        ..Head::new("agent-1", origin)
    };
    assert_eq!(head, &expected);
    let conversation = store.read("agent-1", Extent::default()).unwrap();
    assert_eq!(conversation.damage, []);
    assert_eq!(told(&conversation), talk_as_told());
    assert_eq!(conversation.turns, talk_turns(generation));
    assert_eq!(conversation.files, ["src/lib.rs"]);
    assert_eq!(conversation.head.n_messages, Some(6));
    assert!(conversation.messages.iter().all(|message| message.at.is_some()));
    let turns: Vec<_> = conversation.messages.iter().map(|message| message.turn.unwrap()).collect();
    assert_eq!(turns, [0, 0, 0, 1, 1, 1]);
    let mut completed = head.clone();
    store.complete(&mut completed);
    assert_eq!(completed.n_messages, Some(6));
    assert_eq!(picture_of_tree(home.directory.path()), before);
}

#[test]
fn every_generation_of_the_database_is_read_completely() {
    for generation in Generation::ALL {
        for closing in [Closing::Clean, Closing::Killed] {
            let home = Home::new();
            write_database(&home.root, generation, &[talk()], closing);
            assert_talk(&home, Some(generation));
        }
    }
}

#[test]
fn line_files_hold_the_same_conversation() {
    let home = Home::new();
    write_lines(&home.root, &[talk()]);
    assert_talk(&home, None);
}

#[test]
fn the_last_messages_are_read_without_the_others() {
    let home = Home::with(Generation::July2026, &[talk()]);
    let writer = open_writer(&home.root.join("index.db"));
    // Must not be read for the last three messages.
    writer
        .execute("UPDATE run_events SET payload_json = 'torn' WHERE run_id = 'run-1'", [])
        .unwrap();
    writer.close().unwrap();
    let store = home.store();
    let last = |last: usize| {
        store.read("agent-1", Extent { last: Some(last), ..Extent::default() }).unwrap()
    };
    for n_messages in [1, 2, 3] {
        let conversation = last(n_messages);
        assert_eq!(told(&conversation), talk_as_told()[6 - n_messages..]);
        assert_eq!((conversation.damage.len(), conversation.turns.len()), (0, 2));
        assert_eq!(conversation.head.n_messages, None);
    }
    assert!(!last(4).damage.is_empty());
}

#[test]
fn a_prompt_that_only_the_transcript_has_is_read_from_there() {
    let mut agent = talk();
    agent.runs.iter_mut().for_each(|run| run.checkpoint.clear());
    let home = Home::with(Generation::July2026, &[agent]);
    assert_eq!(told(&home.read("agent-1")).len(), 5);
    for file in write_transcript(&home) {
        assert_eq!(told(&home.read("agent-1")), talk_as_told(), "{}", file.display());
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_prompt_from_the_transcript_is_better_than_a_guessed_one() {
    // The only checkpoint is from before the last run, and no run names its own.
    let mut agent = talk();
    agent.runs[1].checkpoint.clear();
    let home = Home::with(Generation::July2026, &[agent]);
    let writer = open_writer(&home.root.join("index.db"));
    writer
        .execute_batch(
            "UPDATE runs SET start_checkpoint_ref_json = NULL, latest_checkpoint_ref_json = NULL;
             DELETE FROM run_events WHERE payload_json LIKE '%\"type\":\"user\"%'",
        )
        .unwrap();
    writer.close().unwrap();
    for file in write_transcript(&home) {
        let prompts: Vec<String> = home
            .read("agent-1")
            .messages
            .iter()
            .filter(|message| message.role == Role::User)
            .map(Message::text)
            .collect();
        assert_eq!(prompts, ["Fix the tests.", "And now the docs."], "{}", file.display());
        fs::remove_file(&file).unwrap();
    }
}

/// Writes the transcript of [`talk`] in one layout, then in the other.
fn write_transcript(home: &Home) -> impl Iterator<Item = PathBuf> {
    let line = |role: &str, text: &str| {
        json!({"role": role, "message": {"content": [{"type": "text", "text": text}]}}).to_string()
            + "\n"
    };
    let prompt = |text: &str| {
        let text = format!("<timestamp>Monday</timestamp>\n<user_query>\n{text}\n</user_query>");
        line("user", &text)
    };
    let lines = [
        prompt("Fix the tests."),
        line("assistant", "All green."),
        "{\"type\":\"turn_ended\",\"status\":\"success\"}\n".to_owned(),
        prompt("And now the docs."),
        line("assistant", "Done."),
    ];
    let transcripts = home.root.parent().unwrap().parent().unwrap().join("agent-transcripts");
    let files = [transcripts.join("agent-1/agent-1.jsonl"), transcripts.join("agent-1.jsonl")];
    files.into_iter().inspect(move |file| {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, lines.concat()).unwrap();
    })
}

#[test]
fn a_run_without_events_has_what_its_checkpoint_says() {
    let mut agent = talk();
    agent.runs.iter_mut().for_each(|run| run.events.clear());
    let home = Home::with(Generation::September2026, &[agent.clone()]);
    let conversation = home.read("agent-1");
    let texts: Vec<String> = conversation.messages.iter().map(Message::text).collect();
    assert_eq!(texts, ["Fix the tests.", "All green.", "And now the docs.", "Done."]);
    let at = conversation.messages[1].at.unwrap();
    assert_eq!(at.confidence, crate::model::Confidence::Interpolated);

    // Without a checkpoint there is still the result.
    agent.runs.iter_mut().for_each(|run| run.checkpoint.clear());
    let home = Home::with(Generation::September2026, &[agent.clone()]);
    let texts: Vec<String> = home.read("agent-1").messages.iter().map(Message::text).collect();
    assert_eq!(texts, ["All green.", "Done."]);
}

#[test]
fn the_checkpoint_is_read_if_the_runs_are_gone() {
    let home = Home::with(Generation::July2026, &[talk()]);
    let writer = open_writer(&home.root.join("index.db"));
    writer.execute_batch("DELETE FROM run_events; DELETE FROM runs").unwrap();
    writer.close().unwrap();
    let conversation = home.read("agent-1");
    let texts: Vec<String> = conversation.messages.iter().map(Message::text).collect();
    assert_eq!(texts, ["Fix the tests.", "All green.", "And now the docs.", "Done."]);
    assert_eq!(conversation.turns.len(), 2);
    assert_eq!(conversation.head.shelf, Shelf::Shown);
}

fn one_run(status_word: &str, messages: Vec<Json>) -> Agent {
    let run = Run::new("run-1", messages).ended(status_word);
    Agent::new("agent-1", WORKSPACE).with(run)
}

#[test]
fn every_status_is_read() {
    let table = [
        ("QUEUED", TurnState::Running, Activity::Interrupted, None),
        ("CREATING", TurnState::Running, Activity::Interrupted, None),
        ("RUNNING", TurnState::Running, Activity::Interrupted, None),
        ("FINISHED", TurnState::Finished, Activity::Idle, None),
        ("ERROR", TurnState::Failed, Activity::Failed, Some("quota")),
        ("CANCELLED", TurnState::Cancelled, Activity::Idle, None),
        ("EXPIRED", TurnState::Cancelled, Activity::Interrupted, Some("expired")),
        ("DREAMING", TurnState::Unknown, Activity::Idle, None),
    ];
    for (word, state, activity, error) in table {
        let mut agent =
            one_run(word, vec![user("Go."), running("c", "shell", json!({"command": "x"}))]);
        agent.runs[0].error = (word == "ERROR").then(|| "quota".to_owned());
        let home = Home::with(Generation::July2026, &[agent]);
        let conversation = home.read("agent-1");
        let turn = &conversation.turns[0];
        assert_eq!((turn.state, turn.error.as_deref()), (state, error), "{word}");
        assert_eq!(conversation.head.activity, activity, "{word}");
        assert_eq!(home.store().list().heads[0].activity, activity, "{word}");
        let is_over = !["QUEUED", "CREATING", "RUNNING", "DREAMING"].contains(&word);
        assert_eq!(turn.ended.is_some(), is_over, "{word}");
        assert_eq!(
            conversation.head.pending.len(),
            usize::from(state == TurnState::Running),
            "{word}"
        );
        let call = conversation.messages[1].tool_calls().next().unwrap();
        let expected = match state {
            TurnState::Running => ToolState::Pending,
            TurnState::Cancelled => ToolState::Cancelled,
            _ => ToolState::Unknown,
        };
        assert_eq!(call.state, expected, "{word}");
    }
}

#[test]
fn a_run_whose_row_was_never_ended_ends_as_its_events_say() {
    let mut agent = one_run("RUNNING", vec![user("Go."), status("ERROR", Some("no more quota"))]);
    agent.runs[0].events.extend(ending("error", None));
    let conversation = Home::with(Generation::July2026, &[agent]).read("agent-1");
    let turn = &conversation.turns[0];
    assert_eq!((turn.state, turn.error.as_deref()), (TurnState::Failed, Some("no more quota")));
    assert_eq!(conversation.head.activity, Activity::Failed);
}

#[test]
fn a_running_run_was_updated_with_its_last_event() {
    let mut agent = one_run("RUNNING", vec![user("Go."), text("Go"), text("ing")]);
    agent.runs[0].ended_ms = agent.runs[0].created_ms;
    let last_event = Some(Moment::recorded(agent.runs[0].created_ms + 300));
    let home = Home::with(Generation::July2026, &[agent]);
    assert_eq!(home.store().list().heads[0].updated, last_event);
    assert_eq!(home.read("agent-1").head.updated, last_event);
}

#[test]
fn agents_are_put_on_their_shelves() {
    let mut archived = talk();
    archived.status = "ARCHIVED".to_owned();
    archived.id = "agent-archived".to_owned();
    archived.runs.iter_mut().for_each(|run| run.id += "-archived");
    let home =
        Home::with(Generation::Future, &[talk(), archived, Agent::new("agent-empty", WORKSPACE)]);
    fs::create_dir_all(home.root.join("agents/agent-without-a-row")).unwrap();
    fs::write(home.root.join("agents/agent-without-a-row/store.db"), "x").unwrap();
    let store = home.store();
    let shelves: Vec<_> =
        store.list().heads.into_iter().map(|head| (head.id, head.shelf)).collect();
    let expected = [
        ("agent-1", Shelf::Shown),
        ("agent-archived", Shelf::Archived),
        ("agent-empty", Shelf::Empty),
    ];
    assert_eq!(shelves, expected.map(|(id, shelf)| (id.to_owned(), shelf)));
    let family = |name: &str, n_rows: u64, treatment: Treatment| Family {
        name: name.to_owned(),
        n_rows,
        treatment,
    };
    let expected = Account {
        n_conversations: 3,
        n_hidden: [("archived".to_owned(), 1), ("empty".to_owned(), 1)].into(),
        families: vec![
            family("agents", 3, Treatment::Read),
            family("moods", 1, Treatment::Counted),
            family("run_events", 36, Treatment::Read),
            family("runs", 4, Treatment::Read),
            family("agents/*/store.db", 2, Treatment::Read),
            family("agents/*/store.db without an agent", 1, Treatment::Counted),
        ],
        damage: Vec::new(),
        backup: None,
    };
    assert_eq!(store.account(), expected);
}

#[test]
fn failures_and_results_without_a_message_are_kept() {
    let mut agent = one_run(
        "FINISHED",
        vec![user("Go."), failed("c", "read", json!({}), json!("gone")), text("Half a")],
    );
    agent.runs[0].result = Some("Half a sentence.".to_owned());
    let conversation = Home::with(Generation::July2026, &[agent.clone()]).read("agent-1");
    assert_eq!(conversation.messages.last().unwrap().text(), "Half a sentence.");
    agent.runs[0].result = Some("Something else.".to_owned());
    let conversation = Home::with(Generation::July2026, &[agent]).read("agent-1");
    let result = Part::Attachment {
        kind: "result".to_owned(),
        name: None,
        text: Some("Something else.".to_owned()),
    };
    assert_eq!(conversation.messages.last().unwrap().parts, [result]);
}

#[test]
fn stores_are_found_wherever_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let projects = directory.path().join("projects");
    let agent = |id: &str| Agent::new(id, "/");
    write_database(
        &state_root(&projects, "/"),
        Generation::July2026,
        &[agent("rootless")],
        Closing::Clean,
    );
    write_database(
        &state_root(&projects, "/a b"),
        Generation::July2026,
        &[agent("slug")],
        Closing::Clean,
    );
    let given = directory.path().join("app/state");
    write_database(&given, Generation::July2026, &[agent("given")], Closing::Clean);
    write_lines(&given, &[agent("lines")]);
    let parent = directory.path().join("stores");
    write_lines(&parent.join("one"), &[agent("below")]);
    fs::create_dir_all(projects.join("slug/sdk-agent-store/empty")).unwrap();
    std::os::unix::fs::symlink(&given, projects.join("slug/sdk-agent-store/link")).unwrap();
    let places = StorePlaces {
        projects: vec![projects.clone(), directory.path().join("missing")],
        sdk_stores: vec![given.clone(), given, parent, directory.path().join("nothing")],
        ..StorePlaces::default()
    };
    let mut ids: Vec<String> =
        stores(&places).iter().flat_map(|store| store.list().heads).map(|head| head.id).collect();
    ids.sort();
    assert_eq!(ids, ["below", "given", "lines", "rootless", "slug"]);
    let skipped: Vec<PathBuf> = discover(&places)
        .into_iter()
        .filter_map(|found| match found {
            Discovered::Skipped(place) => Some(place.path.as_ref().to_owned()),
            Discovered::Store(_) => None,
        })
        .collect();
    assert_eq!(
        skipped,
        [projects.join("slug/sdk-agent-store/empty"), directory.path().join("nothing")]
    );
}

#[test]
fn a_stamp_changes_with_its_own_conversation_only() {
    let mut other = talk();
    other.id = "agent-2".to_owned();
    other.runs.iter_mut().for_each(|run| run.id += "-other");
    let home = Home::with(Generation::July2026, &[talk(), other]);
    let store = home.store();
    assert_eq!(store.stamp("agent-3"), None);
    let stamps = || (store.stamp("agent-1").unwrap(), store.stamp("agent-2").unwrap());
    let before = stamps();
    assert_eq!(stamps(), before);
    let writer = open_writer(&home.root.join("index.db"));
    let sql = "INSERT INTO run_events (run_id, seq, offset, event_type, created_at) VALUES ('run-2', 99, '99', 'x', 'y')";
    writer.execute(sql, []).unwrap();
    let after = stamps();
    assert_ne!(after.0, before.0);
    assert_eq!(after.1, before.1);
    let of_agent = chat_path(&home.root, "agent-1").parent().unwrap().to_owned();
    assert_eq!(store.watched(Some("agent-1")), [home.root.clone(), of_agent]);
    assert_eq!(store.watched(None), std::slice::from_ref(&home.root));

    let lines = Home::new();
    write_lines(&lines.root, &[talk()]);
    let store = lines.store();
    let before = store.stamp("agent-1").unwrap();
    assert_eq!(store.stamp("agent-1"), Some(before));
    let mut more = talk();
    more.runs[1].events.extend(ending("finished", None));
    write_lines(&lines.root, &[more]);
    assert_ne!(store.stamp("agent-1"), Some(before));
    assert_eq!(store.stamp("agent-2"), None);
}

#[test]
fn an_id_leads_nowhere_else() {
    let mut agent = talk();
    agent.id = "../../../outside".to_owned();
    agent.runs.iter_mut().for_each(|run| run.checkpoint.clear());
    let home = Home::with(Generation::July2026, &[agent]);
    fs::write(home.directory.path().join("outside.jsonl"), "{}").unwrap();
    assert_eq!(home.read("../../../outside").messages.len(), 5);
    let path = super::history::agent_blobs::chat_path(Path::new("/store"), "../x");
    assert!(path.starts_with("/store/agents") && path.components().count() == 5);
}

#[test]
fn the_request_id_comes_from_the_events_if_the_row_has_none() {
    let agent = one_run("FINISHED", vec![request("request-9"), user("Go."), text("Gone.")]);
    let conversation = Home::with(Generation::May2026, &[agent]).read("agent-1");
    assert_eq!(conversation.turns[0].request_id.as_deref(), Some("request-9"));
}
