use std::os::unix::fs::{PermissionsExt, symlink};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

/// An opaque token. The verdict accepts any token of the same length if all other fields agree.
fn access(mark: &str) -> String {
    format!("opaque-0123456789-{mark}")
}

struct Scene {
    root: tempfile::TempDir,
    run: RunId,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { root: tempfile::tempdir().unwrap(), run: RunId::generate() };
        fs::create_dir_all(scene.run()).unwrap();
        scene.log_in("a1");
        scene
    }

    fn run(&self) -> PathBuf {
        self.state().run_dir(&self.run)
    }

    fn state(&self) -> StateRoot {
        StateRoot::new(self.root.path().to_owned())
    }

    fn host_file(&self) -> PathBuf {
        self.root.path().join("auth.json")
    }

    fn inside(&self) -> PathBuf {
        LoginCopy::mounted_in(&self.run()).join("auth.json")
    }

    fn login(&self, mark: &str) -> Value {
        json!({"accessToken": access(mark), "refreshToken": "refresh-0123456789", "userId": "me"})
    }

    fn log_in(&self, mark: &str) {
        fs::write(self.host_file(), self.login(mark).to_string()).unwrap();
    }

    fn copy(&self) -> LoginCopy {
        LoginCopy::make(&self.state(), self.run, &self.host_file()).unwrap()
    }

    fn refresh(&self) {
        fs::write(self.inside(), self.login("a2").to_string()).unwrap();
    }

    /// Makes a file look old.
    fn older(&self, file: &Path) {
        let file = fs::File::options().write(true).open(file).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }

    fn host(&self) -> Value {
        serde_json::from_slice(&fs::read(self.host_file()).unwrap()).unwrap()
    }

    fn inside_login(&self) -> Value {
        serde_json::from_slice(&fs::read(self.inside()).unwrap()).unwrap()
    }

    /// Checks that only the user's file is left.
    fn check_clean(&self) {
        assert_eq!(fs::read_dir(self.run()).unwrap().count(), 0);
        let beside = fs::read_dir(self.root.path()).unwrap();
        let names: Vec<_> = beside.map(|entry| entry.unwrap().file_name()).collect();
        let ours = |name: &OsString| name.to_string_lossy().contains("caretaker");
        assert!(!names.iter().any(ours), "{names:?}");
    }
}

fn look(copy: &LoginCopy) -> Exchanged {
    lock(&copy.exchange).exchange(Look::Settled).unwrap()
}

#[track_caller]
fn check_dropped(exchanged: &Exchanged, why: LoginDrop) {
    assert!(
        matches!(exchanged, Exchanged::Dropped { reason, .. } if *reason == why),
        "{exchanged:?}"
    );
}

#[track_caller]
fn check_carried(exchanged: &Exchanged) {
    assert!(matches!(exchanged, Exchanged::CarriedBack { .. }), "{exchanged:?}");
}

#[test]
fn only_the_user_can_read_the_copy_and_dropping_it_removes_it() {
    let scene = Scene::new();
    let copy = scene.copy();
    assert_eq!(copy.tokens().collect::<Vec<_>>(), [&access("a1"), "refresh-0123456789"]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&scene.inside()), 0o600);
    assert_eq!(mode(&LoginCopy::mounted_in(&scene.run())), 0o700);
    assert_eq!(fs::read(scene.inside()).unwrap(), fs::read(scene.host_file()).unwrap());
    drop(copy);
    scene.check_clean();
}

#[test]
fn renewed_tokens_reach_the_users_file_and_the_previous_login_is_kept() {
    let scene = Scene::new();
    let link = scene.root.path().join("link.json");
    symlink(scene.host_file(), &link).unwrap();
    let copy = LoginCopy::make(&scene.state(), scene.run, &link).unwrap();
    scene.refresh();
    let events = copy.give_back();
    let kept = history::kept_logins(&scene.state()).unwrap();
    assert_eq!(events, [RunEvent::LoginCarriedBack { kept: kept[0].id.clone() }]);
    assert_eq!((kept.len(), kept[0].replaced_by), (1, Some(scene.run)));
    assert_eq!(scene.host(), scene.login("a2"));
    assert_eq!(fs::metadata(scene.host_file()).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(link.is_symlink());
    scene.check_clean();
}

#[test]
fn nothing_is_carried_back_if_the_previous_login_cannot_be_kept() {
    let scene = Scene::new();
    let copy = scene.copy();
    fs::write(scene.root.path().join("logins.json"), "{").unwrap();
    scene.refresh();
    check_dropped(&look(&copy), LoginDrop::NotWritten);
    assert_eq!(scene.host(), scene.login("a1"));
}

#[test]
fn one_run_changes_the_login_a_limited_number_of_times() {
    let scene = Scene::new();
    let copy = scene.copy();
    for number in 0..MOST_CARRIED {
        fs::write(scene.inside(), scene.login(&format!("n{number}")).to_string()).unwrap();
        check_carried(&look(&copy));
    }
    let before = scene.host();
    scene.refresh();
    check_dropped(&look(&copy), LoginDrop::TooMany);
    assert_eq!(scene.host(), before);
}

#[test]
fn a_file_that_the_user_changed_meanwhile_stays() {
    let scene = Scene::new();
    let copy = scene.copy();
    scene.refresh();
    scene.log_in("newer");
    scene.older(&scene.inside());
    check_dropped(&look(&copy), LoginDrop::HostChanged);
    assert_eq!(scene.host(), scene.login("newer"));
    assert_eq!(scene.inside_login(), scene.login("newer"), "the agent has the later login");

    scene.refresh();
    fs::remove_file(scene.host_file()).unwrap();
    check_dropped(&look(&copy), LoginDrop::HostChanged);
    assert!(!scene.host_file().exists(), "a user who logged out stays logged out");
    drop(copy);
    scene.check_clean();
}

#[test]
fn no_file_from_a_hostile_agent_changes_the_users_login() {
    let scene = Scene::new();
    let before = scene.host();
    let secret = scene.root.path().join("secret.json");
    fs::write(&secret, scene.login("stolen").to_string()).unwrap();
    type Shape<'a> = &'a dyn Fn(&Path);
    let shapes: [(Shape<'_>, Option<LoginDrop>); 6] = [
        (&|_| {}, None),
        (&|path| fs::write(path, "{").unwrap(), Some(LoginDrop::Malformed)),
        (
            &|path| fs::write(path, vec![b' '; LARGEST as usize + 1]).unwrap(),
            Some(LoginDrop::Oversized),
        ),
        (&|path| symlink(&secret, path).unwrap(), Some(LoginDrop::Malformed)),
        (&|path| fs::create_dir(path).unwrap(), Some(LoginDrop::Malformed)),
        (
            &|path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            Some(LoginDrop::Malformed),
        ),
    ];
    for (shape, reason) in shapes {
        let copy = scene.copy();
        fs::remove_file(scene.inside()).unwrap();
        shape(&scene.inside());
        let events = copy.give_back();
        let expected = reason.map(|reason| RunEvent::LoginDropped { reason, count: 1 });
        assert_eq!(events, Vec::from_iter(expected));
        assert_eq!(scene.host(), before);
        scene.check_clean();
    }
}

#[test]
fn half_a_file_is_dropped_only_after_the_agent_has_closed_it() {
    let scene = Scene::new();
    let copy = scene.copy();
    fs::write(scene.inside(), "{").unwrap();
    assert_eq!(lock(&copy.exchange).exchange(Look::AnyTime).unwrap(), Exchanged::Nothing);
    check_dropped(&look(&copy), LoginDrop::Malformed);
}

#[test]
fn tokens_that_a_run_refreshed_before_it_died_are_recovered() {
    let scene = Scene::new();
    std::mem::forget(scene.copy());
    scene.refresh();
    LoginCopy::recover(scene.run, &scene.state());
    assert_eq!(scene.host(), scene.login("a2"));
    assert!(!scene.run().join("login").exists());
    LoginCopy::recover(scene.run, &scene.state());
}

#[test]
fn a_missing_or_unusable_login_is_refused_with_a_reason_and_leaves_nothing() {
    let scene = Scene::new();
    let make = || LoginCopy::make(&scene.state(), scene.run, &scene.host_file()).unwrap_err();
    fs::write(scene.host_file(), "{}").unwrap();
    let error = make();
    assert!(matches!(error, LoginCopyError::Unusable { .. }), "{error}");
    fs::remove_file(scene.host_file()).unwrap();
    let error = make();
    assert!(matches!(error, LoginCopyError::Read { .. }), "{error}");
    scene.check_clean();
}

#[test]
fn tokens_that_another_run_refreshed_reach_the_copy_which_can_refresh_them_again() {
    let scene = Scene::new();
    let copy = scene.copy();
    assert_eq!(look(&copy), Exchanged::Nothing);
    scene.log_in("of-another-run");
    assert_eq!(look(&copy), Exchanged::HandedIn);
    assert_eq!(fs::read(scene.inside()).unwrap(), fs::read(scene.host_file()).unwrap());
    assert_eq!(look(&copy), Exchanged::Nothing);
    scene.refresh();
    check_carried(&look(&copy));
    assert_eq!(scene.host(), scene.login("a2"));
    assert_eq!(look(&copy), Exchanged::Nothing);
    drop(copy);
    scene.check_clean();
}

#[test]
fn if_two_refresh_at_once_the_users_file_stays_and_a_later_copy_is_left_alone() {
    let scene = Scene::new();
    let copy = scene.copy();
    scene.log_in("of-another-run");
    scene.older(&scene.host_file());
    scene.refresh();
    check_dropped(&look(&copy), LoginDrop::HostChanged);
    assert_eq!(scene.host(), scene.login("of-another-run"));
    assert_eq!(scene.inside_login(), scene.login("a2"));
}
