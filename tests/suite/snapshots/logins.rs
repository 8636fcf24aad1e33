//! `login ls` and `login restore`, with logins saved in 2020.

use std::fs;

use serde_json::{Value, json};

use super::past::{PUBLISH, WATCHER};
use super::{Form, Shown};
use crate::sandbox::login::user::{login_of, token_of};
use crate::stage::Stage;

/// The first day of 2050, in seconds. The number of days until then will have four digits for a long time.
const FAR: i64 = 2_524_608_000;
/// A day in 2020.
const PAST: i64 = 1_600_000_000;

fn login(account: &str, expires: i64, mark: &str) -> Value {
    login_of(&token_of(account, PAST, expires, mark))
}

/// Makes a stage with four saved logins from two files, and one login in use.
fn stage() -> Stage {
    let stage = Stage::of_fixed_width();
    let file = stage.home().join(".config/cursor/auth.json");
    let other = stage.home().join("second/auth.json");
    let kept = |id: &str, hours: i64, file, by, run: Option<&str>, login: Value| {
        let kept_ms = (PAST + hours * 3600) * 1000;
        let mut kept = json!({"id": id, "kept_ms": kept_ms, "file": file, "by": by, "content": login.to_string()});
        if let Some(run) = run {
            kept["replaced_by"] = json!(run);
        }
        kept
    };
    let opaque = json!({"accessToken": "opaque-0123456789", "refreshToken": "opaque-0123456789"});
    let ada = |mark| login("ada@example.com", FAR, mark);
    let shelf = json!({"v": 1, "carried": [], "kept": [
        kept("5b1c7f0e", 72, &file, "agent", Some(WATCHER), login("ada@example.com", PAST, "c")),
        kept("5b1c0003", 48, &file, "user", None, ada("b")),
        kept("c0ffee02", 24, &file, "agent", Some(PUBLISH), ada("a")),
        kept("0ddba111", 2, &other, "user", Some(PUBLISH), opaque),
    ]});
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, login("ada@example.com", FAR, "d").to_string()).unwrap();
    fs::create_dir_all(stage.root().join("state")).unwrap();
    fs::write(stage.root().join("state/logins.json"), shelf.to_string()).unwrap();
    stage
}

fn shown(stage: &Stage) -> Shown<'_> {
    // A restore saves the login that it replaces under a random id.
    Shown::of(stage)
        .also(r"(?m)\blogin restore [0-9a-f]{8}$", "login restore <id>")
        .also(r#"("kept": )"[0-9a-f]{8}""#, r#"$1"<id>""#)
}

#[test]
fn login_ls_lists_kept_logins_without_their_tokens() {
    let stage = stage();
    let shown = shown(&stage);
    shown.command("login-ls/some", &["login", "ls"]);
    shown.piped("login-ls/some", &["login", "ls"]);
    fs::write(stage.root().join("state/logins.json"), "not json").unwrap();
    shown.once("login-ls/unreadable", &["login", "ls"]);
    shown.once("login-restore/unreadable", &["login", "restore"]);
}

#[test]
fn login_restore_puts_a_login_back() {
    for (form, of_form) in [
        ("100", Form::Terminal { columns: 100 }),
        ("60", Form::Terminal { columns: 60 }),
        ("json", Form::Json),
    ] {
        let stage = stage();
        let flags: &[&str] = if matches!(of_form, Form::Json) { &["--json"] } else { &[] };
        let args = [&["login", "restore"], flags].concat();
        shown(&stage).show(&format!("login-restore/latest.{form}"), &args, of_form);
    }
    let stage = stage();
    let shown = shown(&stage);
    shown.once("login-restore/no-directory", &["login", "restore", "0dd"]);
    // This directory has no login to replace.
    fs::create_dir(stage.home().join("second")).unwrap();
    shown.once("login-restore/by-id", &["login", "restore", "0dd"]);
}

#[test]
fn a_login_that_was_not_saved_is_not_restored() {
    let stage = stage();
    let shown = shown(&stage);
    shown.once("login-restore/unknown", &["login", "restore", "zzzz"]);
    shown.once("login-restore/ambiguous", &["login", "restore", "5b1c"]);
    shown.once("login/no-command", &["login"]);
    shown.once("login/unknown-command", &["login", "show"]);
    let file = stage.home().join(".config/cursor/auth.json");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    shown.once("login-restore/not-written", &["login", "restore"]);
    fs::remove_file(stage.root().join("state/logins.json")).unwrap();
    shown.command("login-ls/none", &["login", "ls"]);
    shown.once("login-restore/none", &["login", "restore"]);
}
