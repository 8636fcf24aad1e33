//! Tests the reader with homes that a builder writes: every shape that Cursor has ever written, and every kind of
//! damage.

mod agent;
mod bubbles;
mod damage;
mod listing;
mod searching;
mod side_rows;
mod variants;

use std::path::Path;

use serde_json::{Value as Json, json};
use store_fixtures::Closing;
use store_fixtures::ide::{IdeHome, composer, header};
use tempfile::TempDir;

use crate::model::{Conversation, Head, Message, Part};
use crate::store::{ConversationStore, Discovered, Extent};

pub(super) const ID: &str = "11110000-0000-4000-8000-000000000001";

/// A home that is written, then read.
pub(super) struct Stage {
    pub(super) directory: TempDir,
    pub(super) home: IdeHome,
}

/// A home whose writer is gone.
pub(super) struct Home {
    pub(super) directory: TempDir,
    pub(super) store: Box<dyn ConversationStore>,
}

impl Stage {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let home = IdeHome::new(directory.path());
        Self { directory, home }
    }

    /// Writes a conversation whose headers name all its bubbles.
    pub(super) fn say(&self, id: &str, bubbles: &[Json]) {
        let headers: Vec<Json> = bubbles.iter().map(header).collect();
        self.home.put_conversation(&composer(id, 10, &headers), bubbles);
    }

    pub(super) fn close(self) -> Home {
        self.home.close(Closing::Clean);
        let store = open(self.directory.path()).unwrap();
        Home { directory: self.directory, store }
    }
}

impl Home {
    pub(super) fn read(&self, id: &str) -> Conversation {
        self.store.read(id, Extent::default()).unwrap()
    }

    pub(super) fn heads(&self) -> Vec<Head> {
        let mut heads = self.store.list().heads;
        heads.sort_by(|one, other| one.id.cmp(&other.id));
        heads
    }

    pub(super) fn head(&self, id: &str) -> Head {
        self.heads().into_iter().find(|head| head.id == id).unwrap()
    }
}

/// The store of a user directory, if there is one that can be read.
pub(super) fn open(user_dir: &Path) -> Option<Box<dyn ConversationStore>> {
    let places =
        crate::StorePlaces { cursor_user_dirs: vec![user_dir.to_owned()], ..Default::default() };
    super::discover(&places).into_iter().find_map(|found| match found {
        Discovered::Store(store) => Some(store),
        Discovered::Skipped(_) => None,
    })
}

/// Sets fields in JSON.
pub(super) fn with(mut json: Json, fields: Json) -> Json {
    for (name, value) in fields.as_object().unwrap() {
        json[name] = value.clone();
    }
    json
}

/// The texts of messages that have exactly one.
pub(super) fn texts(conversation: &Conversation) -> Vec<String> {
    conversation.messages.iter().map(Message::text).collect()
}

pub(super) fn parts(conversation: &Conversation, message: usize) -> Vec<Part> {
    conversation.messages[message].parts.clone()
}

#[test]
fn a_conversation_is_read_completely_and_in_the_order_of_its_headers() {
    use pretty_assertions::assert_eq;
    use store_fixtures::ide::{assistant_bubble, thinking_bubble, tool_bubble, user_bubble};

    use crate::model::{
        Activity, Moment, Role, Shelf, StoreKind, ToolCall, ToolResult, ToolState, Turn, TurnState,
    };

    let stage = Stage::new();
    let at = |bubble: Json, second: u32| {
        with(bubble, json!({"createdAt": format!("2026-10-01T10:00:{second:02}.000Z")}))
    };
    let bubbles = [
        at(with(user_bubble("zz", "list the files"), json!({"requestId": "r1"})), 1),
        at(thinking_bubble("b2", "ls will do"), 2),
        at(
            tool_bubble(
                "a3",
                "toolu_1",
                "run_terminal_cmd",
                &json!({"command": "ls"}),
                &json!({"output": "a\nb"}),
            ),
            3,
        ),
        at(
            with(
                assistant_bubble("m4", "There are two."),
                json!({"modelInfo": {"modelName": "gpt-5"}}),
            ),
            4,
        ),
    ];
    let headers: Vec<Json> = bubbles.iter().map(header).collect();
    let composer = with(
        composer(ID, 10, &headers),
        json!({"name": "Files", "contextTokensUsed": 1200, "contextTokenLimit": 200_000, "todos": [
            {"id": "1", "content": "look", "status": "completed"},
        ]}),
    );
    stage.home.put_conversation(&composer, &bubbles);
    stage.home.put(&format!("codeBlockDiff:{ID}:1"), &json!({}));
    stage.home.put(&format!("checkpointId:{ID}:1"), &json!({}));
    stage.home.put(&format!("checkpointId:{ID}:2"), &json!({}));
    let home = stage.close();
    let read = home.read(ID);

    let second = |second: i64| Some(Moment::recorded(1_790_848_800_000 + second * 1000));
    let said = |id: &str, role: Role, at: i64, parts: Vec<Part>| Message {
        id: Some(id.to_owned()),
        role,
        kind: crate::model::MessageKind::Said,
        turn: Some(0),
        at: second(at),
        model: None,
        parts,
    };
    let call = ToolCall {
        id: Some("toolu_1".to_owned()),
        name: "run_terminal_cmd".to_owned(),
        tool: "shell".to_owned(),
        input: json!({"command": "ls"}),
        result: Some(ToolResult {
            output: json!({"output": "a\nb"}),
            error: None,
            is_truncated: false,
        }),
        state: ToolState::Succeeded,
        started: second(3),
        duration_ms: None,
        subagent: None,
    };
    let mut last = said("m4", Role::Assistant, 4, vec![Part::text("There are two.")]);
    last.model = Some("gpt-5".to_owned());
    let thought = Part::Reasoning {
        text: "ls will do".to_owned(),
        duration_ms: Some(1500),
        is_redacted: false,
    };
    assert_eq!(
        read.messages,
        [
            said("zz", Role::User, 1, vec![Part::text("list the files")]),
            said("b2", Role::Assistant, 2, vec![thought]),
            said("a3", Role::Assistant, 3, vec![Part::ToolCall(call)]),
            last,
        ]
    );
    assert_eq!(
        read.turns,
        [Turn {
            request_id: Some("r1".to_owned()),
            model: Some("gpt-5".to_owned()),
            started: second(1),
            ended: second(4),
            state: TurnState::Finished,
            ..Turn::default()
        }]
    );
    assert_eq!(read.todos.len(), 1);
    assert_eq!(
        read.also_kept.into_iter().collect::<Vec<_>>(),
        [("checkpointId".to_owned(), 2), ("codeBlockDiff".to_owned(), 1)]
    );
    assert_eq!(read.damage, []);
    let head = &read.head;
    assert_eq!((head.title.as_deref(), head.mode.as_deref()), (Some("Files"), Some("agent")));
    assert_eq!(
        (head.n_messages, head.activity, head.shelf),
        (Some(4), Activity::Idle, Shelf::Shown)
    );
    assert_eq!(
        (head.created, head.updated),
        (Some(Moment::recorded(1_790_000_000_000)), second(4))
    );
    assert_eq!(head.tokens.unwrap().context_used, Some(1200));
    assert_eq!(head.models, ["gpt-5"]);
    assert_eq!(head.origins[0].store, StoreKind::Ide);
    assert_eq!(head.origins[0].path.as_ref(), home.store.path());

    let mut listed = home.head(ID);
    listed.models.push("gpt-5".to_owned());
    assert_eq!(&listed, head, "the list agrees");
    home.store.complete(&mut listed);
    assert!(listed.n_bytes.unwrap() > 4000);
}
