//! A hostile agent replaces the user's login.
//!
//! To prove that each rule stops its attempt, a test tries the same bytes again with a user's login to which the rule
//! does not apply. Then the bytes reach the user's file.

use std::fs;
use std::process::Output;

use super::hostile::{Caller, Hostile, write};
use super::table::Verdict;
use super::whole_runs::{WholeRun, whole};
use crate::sandbox::login::user::{DAY, HOUR, REPLACE, login_of, token};
use crate::stage::assert_exit;
use crate::stage::programs::{copy_program, program};

const LOGIN: &str = ".config/cursor/auth.json";

/// The forged login, and the login that it replaces.
struct Forgery {
    own: String,
    forged: Vec<u8>,
    reason: &'static str,
    /// A user's login for which the rule does not stop the forgery.
    unprotected: Option<String>,
}

pub(super) const LOGINS: &[WholeRun] = &[
    whole("W6a", "replaces the user's login with something else", |caller| {
        held(caller, &malformed())
    }),
    whole("W6b", "replaces the user's login with a file of four megabytes", |caller| {
        held(caller, &oversized())
    }),
    whole("W6c", "replaces the user's login with another account's", |caller| {
        held(caller, &other_account())
    }),
    whole("W6d", "replaces the user's login with an older one", |caller| held(caller, &replayed())),
    whole("W6e", "replaces a long-lived token with a forged one", |caller| {
        held(caller, &too_early())
    }),
];

fn login(token: &str) -> String {
    login_of(token).to_string()
}

/// A user's login that may be renewed.
fn due() -> String {
    login(&token("me", HOUR - DAY, HOUR, "of-the-user"))
}

fn malformed() -> Forgery {
    Forgery { own: due(), forged: b"\"x\"".to_vec(), reason: "malformed", unprotected: None }
}

fn oversized() -> Forgery {
    let forged = vec![b' '; 4 << 20];
    Forgery { own: due(), forged, reason: "oversized", unprotected: None }
}

fn other_account() -> Forgery {
    Forgery {
        own: due(),
        forged: login(&token("evil", 0, DAY, "forged")).into_bytes(),
        reason: "other_account",
        unprotected: Some(login(&token("evil", HOUR - DAY, HOUR, "of-the-user"))),
    }
}

fn replayed() -> Forgery {
    Forgery {
        own: due(),
        forged: login(&token("me", HOUR - 2 * DAY, HOUR / 2, "old")).into_bytes(),
        reason: "replayed",
        unprotected: Some(login(&token("me", HOUR - 3 * DAY, HOUR / 4, "of-the-user"))),
    }
}

fn too_early() -> Forgery {
    Forgery {
        own: login(&token("me", -HOUR, 30 * DAY, "of-the-user")),
        forged: login(&token("me", 0, 60 * DAY, "forged")).into_bytes(),
        reason: "not_due",
        unprotected: Some(due()),
    }
}

/// Plays an agent that replaces the user's login with the forged one.
fn forge(hostile: &Hostile, own: &str, forged: &[u8]) -> Output {
    let home = hostile.stage.home();
    let agent = home.join(".local/share/cursor-agent/versions/2026.10.01-abc1234/cursor-agent");
    if !agent.exists() {
        fs::create_dir_all(agent.parent().unwrap()).unwrap();
        copy_program(&program("simulated-agent"), &agent);
    }
    write(&home.join(LOGIN), own);
    fs::write(hostile.workspace().join("new-login.json"), forged).unwrap();
    hostile.give_away();
    let prompt = format!("```agent\n{REPLACE}\nsay done\n```\n");
    let mut command = hostile.command(&["run", "--agent", agent.to_str().unwrap(), &prompt]);
    command.env_remove("CURSOR_API_KEY").output().unwrap()
}

/// Checks that the user's login is unchanged, and that the run says so.
fn held(caller: Caller, forgery: &Forgery) -> Verdict {
    let hostile =
        Hostile::new(caller).expect("the table leaves out callers that are impossible here");
    let output = forge(&hostile, &forgery.own, &forgery.forged);
    assert_exit(&output, 0);
    let after = fs::read_to_string(hostile.stage.home().join(LOGIN)).unwrap();
    assert_eq!(after, forgery.own, "the user's login changed");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("the agent changed its login; your login is unchanged"), "{shown}");
    let run = hostile.stage.run_ids().pop().unwrap();
    let journal = hostile.stage.journal(&run);
    let is_told = journal.iter().any(|entry| {
        entry.line["run"]["kind"] == "login_dropped"
            && entry.line["run"]["reason"] == forgery.reason
    });
    assert!(is_told, "the journal does not report the dropped login");
    Verdict::Held("the rules for carrying a login back".to_owned())
}

#[test]
fn a_forged_login_gets_through_if_its_rule_does_not_apply() {
    for forgery in [other_account(), replayed(), too_early()] {
        let own = forgery.unprotected.expect("these rules depend on the user's login");
        let hostile = Hostile::new(Caller::User).expect("every test can run as a user");
        let output = forge(&hostile, &own, &forgery.forged);
        assert_exit(&output, 0);
        let after = fs::read(hostile.stage.home().join(LOGIN)).unwrap();
        let tokens = |login: &[u8]| serde_json::from_slice::<serde_json::Value>(login).unwrap();
        assert_eq!(tokens(&after), tokens(&forgery.forged), "{} proves nothing", forgery.reason);
    }
}
