//! `sessions tail --all -f` prints every new message in any store, old or new, exactly once.

use std::fs;

use cursor_stores::chat::schema::ConversationStateStructure;
use serde_json::json;
use store_fixtures::chat::StoreWriter;
use store_fixtures::ide::{IdeHome, assistant_bubble, composer, header, user_bubble};
use store_fixtures::transcript::{Layout, Line, TranscriptProject, as_jsonl};
use store_fixtures::{Closing, open_writer, sdk};

use crate::sessions::every_store::{Tail, user_dir};
use crate::stage::Stage;

/// A chat that another process has open.
struct LiveChat {
    store: StoreWriter,
    root: ConversationStateStructure,
}

impl LiveChat {
    fn new(stage: &Stage, bucket: char, id: &str) -> Self {
        let bucket = bucket.to_string().repeat(32);
        let directory = stage.home().join(".cursor/chats").join(bucket).join(id);
        let store = StoreWriter::create(&directory, id, 1_790_000_000_000);
        Self { store, root: ConversationStateStructure::default() }
    }

    fn say(&mut self, word: &str) {
        let content = format!("<user_query>\n{word}\n</user_query>");
        let message = self.store.put_json(&json!({"role": "user", "content": content}));
        self.root.root_prompt_messages_json.push(message);
        self.store.put_root(&self.root);
    }
}

fn say_in_ide(home: &IdeHome, id: &str, words: &[&str]) {
    let bubbles: Vec<_> = words
        .iter()
        .enumerate()
        .map(
            |(n, word)| if n == 0 { user_bubble(word, word) } else { assistant_bubble(word, word) },
        )
        .collect();
    let headers: Vec<_> = bubbles.iter().map(header).collect();
    home.put_conversation(&composer(id, 16, &headers), &bubbles);
}

#[track_caller]
fn comes_once(tail: &Tail, word: &str) {
    tail.wait_for(word);
    assert!(!tail.rest().iter().any(|line| line.contains(word)), "{word} arrived twice");
}

#[test]
fn old_and_new_conversations_of_every_store_are_followed() {
    let stage = Stage::new();
    let cursor = stage.home().join(".cursor");
    let mut old_chat = LiveChat::new(&stage, 'a', "f0110f0a-0000-4000-8000-000000000001");
    old_chat.say("before1word");
    let ide = IdeHome::new(&user_dir(&stage));
    say_in_ide(&ide, "f0110f0a-0000-4000-8000-000000000002", &["before2word"]);
    let store = sdk::state_root(&cursor.join("projects"), "/srv/app");
    let agent = |id: &str| sdk::Agent::new(id, "/srv/app").with(sdk::Run::new("run-1", Vec::new()));
    sdk::write_database(
        &store,
        sdk::Generation::September2026,
        &[agent("agent-1")],
        Closing::Clean,
    );
    let project = TranscriptProject::new(&cursor.join("projects"), "srv-other");
    let nested = project.transcript(
        Layout::Nested,
        "f0110f0a-0000-4000-8000-000000000004",
        &[Line::UserString("before4word".to_owned())],
    );

    let tail = Tail::start(&stage, "--all");
    // The follower is ready once it shows a message that arrived after its start.
    let mut n = 0;
    loop {
        n += 1;
        assert!(n < 60, "nothing was shown");
        old_chat.say(&format!("ready{n}word"));
        if tail.shows_within(&format!("ready{n}word"), std::time::Duration::from_secs(1)) {
            break;
        }
    }

    old_chat.say("oldchatword");
    comes_once(&tail, "oldchatword");
    say_in_ide(&ide, "f0110f0a-0000-4000-8000-000000000002", &["before2word", "oldideword"]);
    comes_once(&tail, "oldideword");
    let index = open_writer(&store.join("index.db"));
    let payload = json!({"schemaVersion": 1, "type": "sdk_message", "agentId": "agent-1", "runId": "run-1", "message": {
        "type": "thinking", "agent_id": "agent-1", "run_id": "run-1", "text": "oldagentword"}});
    let sql = "INSERT INTO run_events (run_id, seq, offset, event_type, payload_json, created_at) \
               VALUES ('run-1', 900, '900', 'run_stream_event', ?1, '2026-07-01T00:00:00.000Z')";
    index.execute(sql, [payload.to_string()]).unwrap();
    comes_once(&tail, "oldagentword");
    let mut content = fs::read_to_string(&nested).unwrap();
    content += &as_jsonl(&[Line::AssistantString("oldtranscriptword".to_owned())]);
    fs::write(&nested, content).unwrap();
    comes_once(&tail, "oldtranscriptword");

    // One chat is in an existing bucket, the other in a new one.
    let mut beside = LiveChat::new(&stage, 'a', "f0110f0b-0000-4000-8000-000000000001");
    beside.say("newchatword");
    comes_once(&tail, "newchatword");
    let mut elsewhere = LiveChat::new(&stage, 'b', "f0110f0c-0000-4000-8000-000000000001");
    elsewhere.say("newbucketword");
    comes_once(&tail, "newbucketword");
    elsewhere.say("newbucketagainword");
    comes_once(&tail, "newbucketagainword");
    say_in_ide(&ide, "f0110f0b-0000-4000-8000-000000000002", &["newideword"]);
    comes_once(&tail, "newideword");
    let other = TranscriptProject::new(&cursor.join("projects"), "srv-third");
    other.transcript(
        Layout::Nested,
        "f0110f0b-0000-4000-8000-000000000004",
        &[Line::UserString("newtranscriptword".to_owned())],
    );
    comes_once(&tail, "newtranscriptword");
    project.transcript(
        Layout::Subagent { parent: "f0110f0a-0000-4000-8000-000000000004" },
        "f0110f0d-0000-4000-8000-000000000004",
        &[Line::UserString("newsubagentword".to_owned())],
    );
    comes_once(&tail, "newsubagentword");
    assert!(
        !tail.rest().iter().any(|line| line.contains("before")),
        "old messages are not printed"
    );
}

#[test]
fn a_new_store_is_followed() {
    let stage = Stage::new();
    let tail = Tail::start(&stage, "--all");
    let mut chat = LiveChat::new(&stage, 'a', "f0110f0e-0000-4000-8000-000000000001");
    chat.say("firstever1word");
    // Either the message existed when the follower started and is not printed, or it is the first message.
    let mut n = 1;
    while !tail.shows_within(&format!("firstever{n}word"), std::time::Duration::from_secs(3)) {
        n += 1;
        assert!(n < 20, "nothing was shown");
        chat.say(&format!("firstever{n}word"));
    }
}
