//! A home with a store in it, and a conversation to put there.

use std::path::PathBuf;

use serde_json::json;
use store_fixtures::Closing;
use store_fixtures::sdk::events::{
    checkpoint_answer, checkpoint_prompt, completed, ending, running, system, text, thinking,
    thought, tokens, usage, user,
};
use store_fixtures::sdk::{Agent, Generation, Run, state_root, write_database};
use tempfile::TempDir;

use super::discover;
use crate::StorePlaces;
use crate::model::Conversation;
use crate::store::{ConversationStore, Discovered, Extent};

pub(super) const WORKSPACE: &str = "/home/dev/My Project.v2_x";

/// A home with one store in it.
pub(super) struct Home {
    pub(super) directory: TempDir,
    pub(super) root: PathBuf,
}

impl Home {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = state_root(&directory.path().join("projects"), WORKSPACE);
        Self { directory, root }
    }

    pub(super) fn with(generation: Generation, agents: &[Agent]) -> Self {
        let home = Self::new();
        write_database(&home.root, generation, agents, Closing::Clean);
        home
    }

    pub(super) fn places(&self) -> StorePlaces {
        StorePlaces {
            projects: vec![self.directory.path().join("projects")],
            ..StorePlaces::default()
        }
    }

    pub(super) fn store(&self) -> Box<dyn ConversationStore> {
        let mut stores = stores(&self.places());
        assert_eq!(stores.len(), 1);
        stores.remove(0)
    }

    pub(super) fn read(&self, id: &str) -> Conversation {
        self.store().read(id, Extent::default()).unwrap()
    }
}

pub(super) fn stores(places: &StorePlaces) -> Vec<Box<dyn ConversationStore>> {
    let found = discover(places).into_iter();
    found
        .filter_map(|found| match found {
            Discovered::Store(store) => Some(store),
            Discovered::Skipped(_) => None,
        })
        .collect()
}

/// Two turns, the second without its prompt among the events.
pub(super) fn talk() -> Agent {
    let mut first = Run::new(
        "run-1",
        vec![
            system("gpt-5.5", &["shell"]),
            user("Fix the tests."),
            thinking("Which "),
            thinking("ones?"),
            thought(900),
            text("I loo"),
            text("k."),
            running("call-1", "shell", json!({"command": "cargo te"})),
            running("call-1", "shell", json!({"command": "cargo test"})),
            completed("call-1", "shell", json!({}), json!({"stdout": "ok", "exitCode": 0})),
            text("All "),
            text("green."),
            usage(tokens(10, 20, 30, 40)),
        ],
    );
    first.events.extend(ending("finished", None));
    first.usage = Some(tokens(11, 21, 31, 0));
    first.result = Some("All green.".to_owned());
    first.request_id = Some("request-1".to_owned());
    first.checkpoint = vec![
        json!({"role": "system", "content": "You are."}),
        checkpoint_prompt("Fix the tests."),
        checkpoint_answer("All green."),
    ];
    let mut second = Run::new(
        "run-2",
        vec![
            running("call-2", "edit", json!({"path": "src/lib.rs"})),
            completed("call-2", "edit", json!({"path": "src/lib.rs"}), json!({"diffString": "+x"})),
            text("Done."),
        ],
    );
    second.result = Some("Done.".to_owned());
    second.checkpoint = vec![checkpoint_prompt("And now the docs."), checkpoint_answer("Done.")];
    Agent::new("agent-1", WORKSPACE).with(first).with(second)
}
