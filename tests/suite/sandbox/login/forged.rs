//! An agent that replaces the user's login.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::user::{DAY, HOUR, REPLACE, User, WAIT_FOR_GO, login_of, token};

/// Plays an agent that replaces the login. Checks that the user sees it, and returns the reasons in the journal.
fn dropped(user: &User, login: &[u8]) -> Vec<String> {
    let before = std::fs::read(user.login_file()).unwrap();
    user.leave(login);
    let (run, output) = user.play_well(&format!("{REPLACE}\nsay done"));
    let after = std::fs::read(user.login_file()).unwrap();
    assert_eq!(String::from_utf8_lossy(&after), String::from_utf8_lossy(&before));
    let shown = user.stage.output(&["show", &run]).stdout;
    let told = user.stage.output(&["tail", &run]).stdout;
    for text in [output.stdout, shown, told] {
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("the agent changed its login; your login is unchanged"), "{text}");
    }
    user.check_that_nothing_is_left_of_the_copy();
    let reasons = user.login_events(&run).into_iter().map(|event| {
        assert_eq!(event["kind"], "login_dropped", "{event}");
        event["reason"].as_str().unwrap().to_owned()
    });
    reasons.collect()
}

#[test]
fn an_agent_cannot_replace_the_users_login_with_anything_but_a_renewal() {
    let user = User::new();
    let good = token("me", 0, DAY, "good");
    let login = |login: Value| login.to_string().into_bytes();
    let attempts: [(&str, Vec<u8>); 12] = [
        ("malformed", b"\"x\"".to_vec()),
        ("malformed", b"x".to_vec()),
        ("malformed", login(json!({"accessToken": 7, "refreshToken": good}))),
        ("malformed", login(json!({"accessToken": good, "refreshToken": "two\nlines"}))),
        ("oversized", vec![b' '; 300 * 1024]),
        ("oversized", login(login_of(&"x".repeat(17 * 1024)))),
        ("other_shape", login(login_of("x"))),
        ("other_shape", login(json!({"accessToken": good}))),
        ("other_account", login(login_of(&token("evil", 0, DAY, "evil")))),
        ("other_fields", login(json!({"accessToken": good, "refreshToken": good, "more": 1}))),
        ("replayed", login(login_of(&token("me", -2 * DAY, HOUR / 2, "old")))),
        ("expired", login(login_of(&token("me", -2 * HOUR, -HOUR / 2, "past")))),
    ];
    for (reason, login) in attempts {
        // The user's own login has expired, so the new one does not have to be newer.
        let left = if reason == "expired" { -HOUR } else { HOUR };
        user.log_in(&login_of(&token("me", HOUR - DAY, left, "of-the-user")));
        assert_eq!(dropped(&user, &login), [reason], "{}", String::from_utf8_lossy(&login));
    }
    // A correct login does come back, so each of the others was refused for its own fault.
    user.log_in(&login_of(&token("me", HOUR - DAY, HOUR, "of-the-user")));
    user.leave(login_of(&good).to_string().as_bytes());
    user.play_well(&format!("{REPLACE}\nsay done"));
    assert_eq!(user.login(), login_of(&good));
}

#[test]
fn a_long_lived_login_is_not_replaced_at_all() {
    let user = User::logged_out();
    user.log_in(&login_of(&token("me", -HOUR, 30 * DAY, "of-the-user")));
    let new = login_of(&token("me", 0, 60 * DAY, "new"));
    assert_eq!(dropped(&user, new.to_string().as_bytes()), ["not_due"]);
}

#[test]
fn opaque_tokens_stay_inside_if_another_field_differs() {
    let user = User::logged_out();
    let login = |token: &str, user: &str| json!({"accessToken": token, "refreshToken": token, "userId": user});
    user.log_in(&login("opaque-0123456789abcdef", "me"));
    for other in [login("opaque-fedcba9876543210", "evil"), login_of("opaque-fedcba9876543210")] {
        assert_eq!(dropped(&user, other.to_string().as_bytes()), ["other_fields"]);
    }
}

#[test]
fn an_agent_that_writes_its_login_again_and_again_causes_few_events() {
    let user = User::new();
    let script = format!(
        "shell for i in $(seq 200); do echo $i > ~/.config/cursor/auth.json; done\n{WAIT_FOR_GO}\nsay done"
    );
    let run = user.detach(&script, &[]);
    user.stage.wait_until(&run, |line| line["kind"] == "run.login_dropped");
    user.let_go();
    assert_eq!(user.stage.output(&["wait", &run]).status.code(), Some(0));
    let events = user.login_events(&run);
    assert!(events.len() <= 2, "{events:?}");
    assert!(events.iter().all(|event| event["reason"] == "malformed"), "{events:?}");
}
