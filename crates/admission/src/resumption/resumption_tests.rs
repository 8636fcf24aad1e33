use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use cursor_stores::chat::NotResumable;
use pretty_assertions::assert_eq;
use run_journal::StateRoot;
use serde_json::json;
use simulated_agent::session_store::{Closing, SessionFacts, SessionMode, SessionStore};
use simulated_agent::tools::Generation;
use tempfile::TempDir;

use super::*;
use crate::host::environment::tests::environment_of;
use crate::host::places::Places;

const SESSION: Uuid = Uuid::from_u128(0x3f25_04e0_4f89_41d3_9a0c_0305_e82c_3301);

/// A host with a workspace in which the user's own agent had a conversation.
struct Stage {
    _root: TempDir,
    path: PathBuf,
    host: Host,
}

impl Stage {
    fn new(variables: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(root.path()).unwrap();
        fs::create_dir_all(path.join("home/work")).unwrap();
        let (home, state) = (path.join("home"), path.join("state"));
        let mut all: Vec<(&str, PathBuf)> = vec![("HOME", home), ("CARETAKER_HOME", state)];
        all.extend(variables.iter().map(|(name, below)| (*name, path.join(below))));
        let all: Vec<(&str, &Path)> =
            all.iter().map(|(name, value)| (*name, value.as_path())).collect();
        let environment = environment_of(&all);
        let places = Places::of(&environment);
        let state = StateRoot::new(places.state.clone());
        Self { _root: root, path, host: Host { environment, places, state } }
    }

    fn workspace(&self) -> PathBuf {
        self.path.join("home/work")
    }

    fn converse(&self, workspace: &Path, generation: Generation) -> PathBuf {
        let workspace = WorkspacePath::new(workspace).unwrap();
        let facts = SessionFacts {
            model: "gpt-5.2".to_owned(),
            mode: SessionMode::Agent,
            started_ms: 1_790_000_000_000,
            time_zone: "Europe/Paris".to_owned(),
            generation,
            run_everything: true,
        };
        let roots = self.host.environment.cursor_roots().unwrap();
        let mut store =
            SessionStore::open(&roots.chats_of(&workspace), &workspace, SESSION, facts).unwrap();
        store.begin_turn("remember the heron", "request").unwrap();
        store.end_turn(None, "I will.").unwrap();
        store.close(Closing::Clean).unwrap();
        roots.session_dir(&workspace, SESSION).path().to_owned()
    }

    fn decide(&self, workspace: Option<&Path>) -> Result<PathBuf, Reason> {
        let when_held = WhenHeld::Refuse;
        let question = Question { host: &self.host, session: SESSION, workspace, when_held };
        let decided = |answer: Answer| match answer.unwrap() {
            Ok(resumption) => Ok(resumption.workspace.as_path().to_owned()),
            Err(refusal) => Err(refusal.reason),
        };
        let whole = decided(question.decide());
        let glance = decided(question.decide_at_a_glance(&ListedChats::of(&self.host).unwrap()));
        match whole {
            // A list cannot contain a session that is in no store.
            Err(Reason::UnknownSession) => {
                assert_eq!(glance, Err(Reason::Store(NotResumable::NoStore)));
            }
            _ => assert_eq!(glance, whole, "a list says what a resume would say"),
        }
        whole
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn a_session_is_resumed_in_its_own_workspace_from_any_directory() {
    let stage = Stage::new(&[]);
    assert_eq!(stage.decide(None), Err(Reason::UnknownSession));
    stage.converse(&stage.workspace(), Generation::V2026_09);
    assert_eq!(stage.decide(None), Ok(stage.workspace()));
    let link = stage.path.join("home/link");
    symlink(stage.workspace(), &link).unwrap();
    assert_eq!(stage.decide(Some(&link)), Ok(stage.workspace()));
    let other = stage.path.join("home/other");
    fs::create_dir(&other).unwrap();
    let (asked, actual) = (text(&other), text(&stage.workspace()));
    assert_eq!(stage.decide(Some(&other)), Err(Reason::OtherWorkspace { asked, actual }));
}

#[test]
fn a_store_of_an_early_build_names_its_workspace_or_the_user_must() {
    let stage = Stage::new(&[]);
    let directory = stage.converse(&stage.workspace(), Generation::V2026_01);
    assert!(!directory.join("meta.json").exists());
    assert_eq!(stage.decide(Some(&stage.workspace())), Ok(stage.workspace()));
    match stage.decide(None) {
        Ok(workspace) => assert_eq!(workspace, stage.workspace()),
        Err(reason) => assert_eq!(reason, Reason::WorkspaceUnknown { directory: text(&directory) }),
    }
}

#[test]
fn moved_missing_and_linked_workspaces_are_told_apart() {
    let stage = Stage::new(&[]);
    stage.converse(&stage.workspace(), Generation::V2026_09);
    let moved = stage.path.join("home/moved");
    fs::rename(stage.workspace(), &moved).unwrap();
    let recorded = text(&stage.workspace());
    assert_eq!(stage.decide(None), Err(Reason::WorkspaceGone { recorded: recorded.clone() }));
    let asked = text(&moved);
    assert_eq!(
        stage.decide(Some(&moved)),
        Err(Reason::WorkspaceMoved { recorded: recorded.clone(), asked: asked.clone() })
    );
    symlink(&moved, stage.workspace()).unwrap();
    assert_eq!(stage.decide(None), Err(Reason::BucketMismatch { recorded, physical: asked }));
}

#[test]
fn a_session_under_another_configuration_root_is_refused_and_both_roots_are_named() {
    let before = Stage::new(&[]);
    before.converse(&before.workspace(), Generation::V2026_09);
    let environment = environment_of(&[
        ("HOME", &before.path.join("home")),
        ("CARETAKER_HOME", &before.path.join("state")),
        ("CURSOR_CONFIG_DIR", &before.path.join("elsewhere")),
    ]);
    let places = Places::of(&environment);
    let state = StateRoot::new(places.state.clone());
    let (recorded, present) =
        (text(&before.path.join("home/.cursor")), text(&before.path.join("elsewhere")));
    let stage = Stage { host: Host { environment, places, state }, ..before };
    assert_eq!(stage.decide(None), Err(Reason::OtherConfigRoot { recorded, present }));
}

#[test]
fn one_id_in_two_buckets_is_ambiguous() {
    let stage = Stage::new(&[]);
    stage.converse(&stage.workspace(), Generation::V2026_09);
    let other = stage.path.join("home/other");
    fs::create_dir(&other).unwrap();
    let directory = stage.converse(&other, Generation::V2026_09);
    let Err(Reason::SeveralBuckets { directories }) = stage.decide(Some(&other)) else {
        panic!("{:?}", stage.decide(Some(&other)))
    };
    assert_eq!(directories.len(), 2);
    // Without a store there is no conversation: Cursor records a session before it creates the store.
    fs::remove_file(directory.join("store.db")).unwrap();
    assert_eq!(stage.decide(None), Ok(stage.workspace()));
}

#[test]
fn a_session_that_the_command_line_agent_cannot_continue_is_named_by_its_kind() {
    let stage = Stage::new(&[]);
    let acp = stage.path.join("home/.cursor/acp-sessions").join(SESSION.to_string());
    fs::create_dir_all(&acp).unwrap();
    let acp = Reason::AnotherKind { store: cursor_stores::model::StoreKind::Acp };
    assert_eq!(stage.decide(None), Err(acp.clone()));
    let refusal = Refusal { session: SESSION, reason: acp };
    assert!(refusal.hint().contains("sessions fork"));
    assert_eq!(refusal.clone().into_error().exit_code(), run_protocol::ExitCode::NotResumable);
}

#[test]
fn a_refusal_has_a_kind_a_sentence_and_a_hint() {
    let reason = Reason::Store(NotResumable::MissingRoot { root: "ab".to_owned() });
    let refusal = Refusal { session: SESSION, reason };
    let report = serde_json::to_value(refusal::RefusalReport::of(&refusal)).unwrap();
    assert_eq!(report["reason"], json!({"kind": "missing_root", "root": "ab"}));
    assert_eq!((&report["kind"], &report["exit_code"]), (&json!("resume.refused"), &json!(6)));
    let held = Reason::Store(NotResumable::HeldByProcess { pid: 7, program: "node".to_owned() });
    assert_eq!(
        serde_json::to_value(&held).unwrap(),
        json!({"kind": "held_by_process", "pid": 7, "program": "node"})
    );
}
