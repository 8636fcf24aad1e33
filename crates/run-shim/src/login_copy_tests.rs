use std::os::unix::fs::{PermissionsExt, symlink};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

struct Scene {
    root: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir(scene.run()).unwrap();
        scene.log_in("a1");
        scene
    }

    fn run(&self) -> PathBuf {
        self.root.path().join("run")
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

    fn log_in(&self, access: &str) {
        let login = json!({"accessToken": access, "refreshToken": "r1", "userId": "me"});
        fs::write(self.host_file(), login.to_string()).unwrap();
    }

    fn copy(&self) -> LoginCopy {
        LoginCopy::make(&self.run(), &self.host_file()).unwrap()
    }

    fn refresh(&self) {
        let refreshed = json!({"accessToken": "a2", "refreshToken": "r2", "userId": "evil"});
        fs::write(self.inside(), refreshed.to_string()).unwrap();
    }

    /// Makes a file look as if it had been written long ago.
    fn older(&self, file: &Path) {
        let file = fs::File::options().write(true).open(file).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }

    fn host(&self) -> Value {
        serde_json::from_slice(&fs::read(self.host_file()).unwrap()).unwrap()
    }

    /// Nothing but the user's file is left of the copy.
    fn check_clean(&self) {
        assert_eq!(fs::read_dir(self.run()).unwrap().count(), 0);
        let beside = fs::read_dir(self.root.path()).unwrap();
        let names: Vec<_> = beside.map(|entry| entry.unwrap().file_name()).collect();
        let ours = |name: &OsString| name.to_string_lossy().contains("caretaker");
        assert!(!names.iter().any(ours), "{names:?}");
    }
}

#[test]
fn the_copy_is_for_its_user_alone_and_goes_with_its_owner() {
    let scene = Scene::new();
    let copy = scene.copy();
    assert_eq!(copy.tokens().collect::<Vec<_>>(), ["a1", "r1"]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&scene.inside()), 0o600);
    assert_eq!(mode(&LoginCopy::mounted_in(&scene.run())), 0o700);
    assert_eq!(fs::read(scene.inside()).unwrap(), fs::read(scene.host_file()).unwrap());
    drop(copy);
    scene.check_clean();
}

#[test]
fn refreshed_tokens_reach_the_users_file_and_nothing_else_does() {
    let scene = Scene::new();
    let link = scene.root.path().join("link.json");
    symlink(scene.host_file(), &link).unwrap();
    let copy = LoginCopy::make(&scene.run(), &link).unwrap();
    scene.refresh();
    copy.give_back(&scene.state());
    assert_eq!(scene.host(), json!({"accessToken": "a2", "refreshToken": "r2", "userId": "me"}));
    assert_eq!(fs::metadata(scene.host_file()).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(link.is_symlink());
    scene.check_clean();
}

#[test]
fn a_file_that_the_user_changed_meanwhile_stays() {
    let scene = Scene::new();
    let copy = scene.copy();
    scene.refresh();
    scene.log_in("newer");
    scene.older(&scene.inside());
    assert_eq!(exchange(&copy.directory, &scene.state()).unwrap(), Exchanged::Conflict);
    assert_eq!(scene.host()["accessToken"], "newer");
    let inside: Value = serde_json::from_slice(&fs::read(scene.inside()).unwrap()).unwrap();
    assert_eq!(inside["accessToken"], "newer", "the agent has the later one");

    scene.refresh();
    fs::remove_file(scene.host_file()).unwrap();
    assert_eq!(exchange(&copy.directory, &scene.state()).unwrap(), Exchanged::Conflict);
    assert!(!scene.host_file().exists(), "who logged out stays logged out");
    drop(copy);
    scene.check_clean();
}

#[test]
fn whatever_a_hostile_agent_leaves_there_changes_nothing() {
    let scene = Scene::new();
    let before = scene.host();
    let secret = scene.root.path().join("secret.json");
    fs::write(&secret, r#"{"accessToken":"stolen"}"#).unwrap();
    type Shape<'a> = &'a dyn Fn(&Path);
    let shapes: [Shape<'_>; 6] = [
        &|_| {},
        &|path| fs::write(path, "{").unwrap(),
        &|path| fs::write(path, vec![b' '; LARGEST as usize + 1]).unwrap(),
        &|path| symlink(&secret, path).unwrap(),
        &|path| fs::create_dir(path).unwrap(),
        &|path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
    ];
    for shape in shapes {
        let copy = scene.copy();
        fs::remove_file(scene.inside()).unwrap();
        shape(&scene.inside());
        assert_eq!(exchange(&copy.directory, &scene.state()).unwrap(), Exchanged::Nothing);
        drop(copy);
        assert_eq!(scene.host(), before);
        scene.check_clean();
    }
}

#[test]
fn what_a_run_refreshed_before_it_died_is_recovered() {
    let scene = Scene::new();
    std::mem::forget(scene.copy());
    scene.refresh();
    LoginCopy::recover(&scene.run(), &scene.state());
    assert_eq!(scene.host()["accessToken"], "a2");
    scene.check_clean();
    LoginCopy::recover(&scene.run(), &scene.state());
}

#[test]
fn what_is_no_login_is_refused_with_a_reason_and_leaves_nothing() {
    let scene = Scene::new();
    fs::write(scene.host_file(), "{}").unwrap();
    let error = LoginCopy::make(&scene.run(), &scene.host_file()).unwrap_err();
    assert!(matches!(error, LoginCopyError::Unusable { .. }), "{error}");
    fs::remove_file(scene.host_file()).unwrap();
    let error = LoginCopy::make(&scene.run(), &scene.host_file()).unwrap_err();
    assert!(matches!(error, LoginCopyError::Read { .. }), "{error}");
    scene.check_clean();
}

#[test]
fn what_another_run_refreshed_reaches_the_copy_and_is_refreshed_from_there() {
    let scene = Scene::new();
    let copy = scene.copy();
    let look = || exchange(&copy.directory, &scene.state()).unwrap();
    assert_eq!(look(), Exchanged::Nothing);
    scene.log_in("of-another-run");
    assert_eq!(look(), Exchanged::HandedIn);
    assert_eq!(fs::read(scene.inside()).unwrap(), fs::read(scene.host_file()).unwrap());
    assert_eq!(look(), Exchanged::Nothing);
    scene.refresh();
    assert_eq!(look(), Exchanged::Refreshed);
    assert_eq!(scene.host()["accessToken"], "a2");
    assert_eq!(look(), Exchanged::Nothing);
    drop(copy);
    scene.check_clean();
}

#[test]
fn of_two_that_refreshed_at_once_the_users_file_stays_and_a_later_copy_is_left_alone() {
    let scene = Scene::new();
    let copy = scene.copy();
    scene.log_in("of-another-run");
    scene.older(&scene.host_file());
    scene.refresh();
    assert_eq!(exchange(&copy.directory, &scene.state()).unwrap(), Exchanged::Conflict);
    assert_eq!(scene.host()["accessToken"], "of-another-run");
    let inside: Value = serde_json::from_slice(&fs::read(scene.inside()).unwrap()).unwrap();
    assert_eq!(inside["accessToken"], "a2");
}
