//! `caretaker login` lists and restores replaced logins.

use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::user::{DAY, HOUR, REPLACE, User, login_of, token};
use crate::stage::assert_exit;

/// Plays an agent that replaces the login with one that looks correct.
fn replace(user: &User, login: &Value) {
    user.leave(login.to_string().as_bytes());
    user.play_well(&format!("{REPLACE}\nsay done"));
    assert_eq!(user.login(), *login);
}

/// Returns a login that has almost expired, so that the next one may replace it.
fn forged(number: i64) -> Value {
    login_of(&token("me", HOUR + number - DAY, HOUR + number, &format!("forged-{number}")))
}

fn kept(user: &User) -> Vec<Value> {
    let output = user.stage.output(&["login", "ls", "--json"]);
    assert_exit(&output, 0);
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_login_that_an_agent_replaced_is_restored_and_that_can_be_undone() {
    let user = User::new();
    let own = user.login();
    let new = forged(1);
    replace(&user, &new);

    let kept_logins = kept(&user);
    assert_eq!(kept_logins.len(), 1, "{kept_logins:?}");
    let run = user.stage.run_ids().pop().unwrap();
    let kept_login = &kept_logins[0];
    assert_eq!(kept_login["v"], 1);
    assert_eq!(kept_login["replaced_by"], json!(run));
    assert_eq!(kept_login["account"], "me");
    assert_eq!(kept_login["file"], json!(user.login_file()));
    assert_eq!(kept_login["id"], user.login_events(&run)[0]["kept"]);
    let printed = user.stage.output(&["login", "ls"]).stdout;
    let printed = String::from_utf8(printed).unwrap();
    for text in [printed, kept_login.to_string()] {
        assert!(!text.contains(own["accessToken"].as_str().unwrap()), "{text}");
    }
    let mode = |name: &str| {
        let found = std::fs::metadata(user.stage.root().join("state").join(name)).unwrap();
        found.permissions().mode() & 0o777
    };
    assert_eq!(mode("logins.json"), 0o600);

    let restored = user.stage.output(&["login", "restore", "--json"]);
    assert_exit(&restored, 0);
    let report: Value = serde_json::from_slice(&restored.stdout).unwrap();
    assert_eq!(report["restored"], kept_login["id"]);
    assert_eq!(user.login(), own);
    let file = std::fs::metadata(user.login_file()).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    user.check_that_nothing_is_left_of_the_copy();

    let back = user.stage.output(&["login", "restore"]);
    assert_exit(&back, 0);
    assert_eq!(user.login(), new, "Caretaker also keeps the login from before the restore");
}

#[test]
fn agents_cannot_push_the_users_own_login_out_of_the_three_saved_ones() {
    let user = User::new();
    let own = user.login();
    for number in 1..=5 {
        replace(&user, &forged(number));
    }
    let kept_logins = kept(&user);
    assert_eq!(kept_logins.len(), 3, "{kept_logins:?}");
    let of_user: Vec<&Value> = kept_logins.iter().filter(|login| login["by"] == "user").collect();
    assert_eq!(of_user.len(), 1, "{kept_logins:?}");
    let id = of_user[0]["id"].as_str().unwrap();
    // A prefix is enough.
    let restored = user.stage.output(&["login", "restore", &id[..4]]);
    assert_exit(&restored, 0);
    assert_eq!(user.login(), own);
}

#[test]
fn a_login_that_was_not_saved_is_not_restored() {
    let user = User::new();
    let own = user.login();
    let none = user.stage.output(&["login", "restore"]);
    assert_exit(&none, 3);
    assert_eq!(kept(&user), Vec::<Value>::new());
    replace(&user, &forged(1));
    let unknown = user.stage.output(&["login", "restore", "zzzz"]);
    assert_exit(&unknown, 3);
    assert_ne!(user.login(), own);
}

#[test]
fn an_earlier_login_of_the_user_is_a_replay_whatever_it_says() {
    let user = User::logged_out();
    let login = |mark: &str| login_of(&format!("opaque-0123456789-{mark}"));
    user.log_in(&login("one"));
    replace(&user, &login("two"));
    user.leave(login("one").to_string().as_bytes());
    let (run, _) = user.play_well(&format!("{REPLACE}\nsay done"));
    assert_eq!(user.login_events(&run)[0]["reason"], "replayed");
    assert_eq!(user.login(), login("two"));
}
