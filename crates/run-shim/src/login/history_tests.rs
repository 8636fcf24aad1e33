use std::fs;
use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

struct Scene {
    root: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn state(&self) -> StateRoot {
        StateRoot::new(self.root.path().to_owned())
    }

    fn file(&self) -> PathBuf {
        self.root.path().join("auth.json")
    }
}

fn login(mark: &str) -> String {
    json!({"accessToken": mark, "refreshToken": mark}).to_string()
}

#[test]
fn only_its_owner_can_read_the_history_and_it_is_read_as_written() {
    let scene = Scene::new();
    assert_eq!(LoginHistory::read(&scene.state()).unwrap(), LoginHistory::default());
    let mut history = LoginHistory::default();
    let run = RunId::generate();
    let id = history.keep(&scene.file(), login("one").as_bytes(), Some(run));
    history.write(&scene.state()).unwrap();
    assert_eq!(LoginHistory::read(&scene.state()).unwrap(), history);
    let path = scene.root.path().join("logins.json");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let kept = kept_logins(&scene.state()).unwrap();
    assert_eq!((kept.len(), kept[0].id.as_str(), kept[0].replaced_by), (1, id.as_str(), Some(run)));
    assert_eq!((kept[0].account(), kept[0].expires_ms()), (None, None));

    fs::write(&path, "{").unwrap();
    assert!(kept_logins(&scene.state()).is_err());
    assert!(matches!(restore_login(&scene.state(), None), Err(RestoreError::Kept(_))));
}

#[test]
fn a_login_is_restored_into_its_file_even_if_the_file_is_gone() {
    let scene = Scene::new();
    let mut history = LoginHistory::default();
    history.keep(&scene.file(), login("one").as_bytes(), None);
    history.write(&scene.state()).unwrap();
    let restored = restore_login(&scene.state(), None).unwrap();
    assert_eq!(restored.kept, None);
    assert_eq!(fs::read_to_string(scene.file()).unwrap(), login("one"));
    assert!(matches!(restore_login(&scene.state(), None), Err(RestoreError::NothingKept)));
}

#[test]
fn a_file_that_is_not_a_login_is_replaced_and_not_kept() {
    let scene = Scene::new();
    fs::write(scene.file(), "x").unwrap();
    let mut history = LoginHistory::default();
    history.keep(&scene.file(), login("one").as_bytes(), None);
    history.write(&scene.state()).unwrap();
    assert_eq!(restore_login(&scene.state(), None).unwrap().kept, None);
    assert_eq!(fs::read_to_string(scene.file()).unwrap(), login("one"));
}

#[test]
fn without_an_id_the_latest_login_that_no_agent_made_is_restored() {
    let scene = Scene::new();
    let (users, renewed, again) = (login("users"), login("renewed"), login("again"));
    let mut history = LoginHistory::default();
    history.keep(&scene.file(), users.as_bytes(), Some(RunId::generate()));
    history.note_carried(&scene.file(), renewed.as_bytes());
    history.keep(&scene.file(), renewed.as_bytes(), Some(RunId::generate()));
    history.note_carried(&scene.file(), again.as_bytes());
    history.write(&scene.state()).unwrap();
    fs::write(scene.file(), &again).unwrap();
    restore_login(&scene.state(), None).unwrap();
    assert_eq!(fs::read_to_string(scene.file()).unwrap(), users);
    // The history has no login that the user made, so it restores the latest one.
    restore_login(&scene.state(), None).unwrap();
    assert_eq!(fs::read_to_string(scene.file()).unwrap(), again);
}

#[test]
fn each_login_file_has_three_kept_logins_of_its_own() {
    let (mut history, one, other) =
        (LoginHistory::default(), Path::new("/one"), Path::new("/other"));
    for number in 0..5 {
        history.keep(one, login(&format!("one-{number}")).as_bytes(), None);
        history.keep(other, login(&format!("other-{number}")).as_bytes(), None);
    }
    assert_eq!((history.of(one).count(), history.of(other).count()), (3, 3));
    assert!(history.has_token(one, "one-4") && !history.has_token(other, "one-4"));
}

#[test]
fn a_token_is_known_after_its_login_was_forgotten_and_64_are_remembered() {
    let scene = Scene::new();
    let mut history = LoginHistory::default();
    for number in 0..100 {
        history.keep(&scene.file(), login(&format!("login-{number}")).as_bytes(), None);
        history.keep(Path::new("/other"), login("same").as_bytes(), None);
    }
    history.write(&scene.state()).unwrap();
    let text = fs::read_to_string(scene.root.path().join("logins.json")).unwrap();
    assert!(!text.contains("login-50"), "only a hash of a forgotten token is written");
    let history = LoginHistory::read(&scene.state()).unwrap();
    assert_eq!(history.replaced.len(), MOST_REPLACED + 1);
    for (number, is_known) in [(99, true), (50, true), (36, true), (35, false)] {
        assert_eq!(history.has_token(&scene.file(), &format!("login-{number}")), is_known);
    }
}

#[test]
fn a_history_from_an_earlier_version_is_read() {
    let scene = Scene::new();
    let mut history = LoginHistory::default();
    history.keep(&scene.file(), login("one").as_bytes(), None);
    let mut old = serde_json::to_value(&history).unwrap();
    old.as_object_mut().unwrap().remove("replaced");
    fs::write(scene.root.path().join("logins.json"), old.to_string()).unwrap();
    assert!(LoginHistory::read(&scene.state()).unwrap().has_token(&scene.file(), "one"));
}

proptest! {
    #[test]
    fn the_users_own_latest_login_is_always_kept(by_agents in proptest::collection::vec(any::<bool>(), 1..20)) {
        let (mut history, file) = (LoginHistory::default(), Path::new("/auth.json"));
        let mut present = login("start");
        let mut of_user = None;
        let mut is_agents = false;
        for (number, by_agent) in by_agents.into_iter().enumerate() {
            let next = login(&format!("login-{number}"));
            // A user logs in without Caretaker.
            if by_agent {
                if !is_agents {
                    of_user = Some(present.clone());
                }
                history.keep(file, present.as_bytes(), None);
                history.note_carried(file, next.as_bytes());
                let latest = &history.kept[0];
                prop_assert_eq!(&latest.content, &present);
                prop_assert_eq!(latest.by == LoginOrigin::Agent, is_agents);
            }
            is_agents = by_agent;
            present = next;
            prop_assert!(history.kept.len() <= MOST);
            if let Some(of_user) = &of_user {
                prop_assert!(history.kept.iter().any(|kept| kept.content == *of_user));
            }
        }
    }
}

#[test]
fn kept_logins_of_version_1_are_read_in_full() {
    format_fixtures::check::<LoginHistory>(
        &["v1/state/logins.json"],
        format_fixtures::Layout::Compact,
    );
}
