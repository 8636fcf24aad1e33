//! Many processes try every action on one session at once.

use std::sync::Mutex;

use cursor_stores::chat::latest_ancestry;
use pretty_assertions::assert_eq;

use crate::stage::{Stage, assert_exit, stderr};

const USERS: usize = 6;
/// The actions. Each process starts with a different action, so that many orders occur.
const ORDERS: [&str; 12] = [
    "resume", "verify", "steal", "gc", "wait", "fork", "suspend", "bundle", "detach", "check",
    "kill", "wait",
];

/// Performs one action, and returns an error if its exit code is not allowed.
fn order(stage: &Stage, session: &str, what: &str, user: usize) -> Result<(), String> {
    let file = stage.root().join(format!("bundle-{user}")).to_str().unwrap().to_owned();
    // Another process may hold the session (4) or cancel the run (130).
    let of_a_run: &[i32] = &[0, 4, 130];
    let (output, expected): (_, &[i32]) = match what {
        "resume" => (stage.resume(session, "say On.\nshell true", &[]), of_a_run),
        "steal" => (stage.resume(session, "say Mine.", &["--steal"]), of_a_run),
        // A waiting command is never refused.
        "wait" => (stage.resume(session, "say At last.", &["--wait"]), &[0, 130]),
        "detach" => (stage.resume(session, "say On.\nshell sleep 1", &["--detach"]), &[0, 4]),
        "suspend" => (stage.output(&["suspend", "--all"]), &[0]),
        // The latest run may have been refused and deleted.
        "kill" => (stage.output(&["kill", "--now", "-"]), &[0, 3]),
        "gc" => (stage.output(&["sessions", "gc", session, "--yes", "--no-backup"]), &[0, 4]),
        "fork" => (stage.output(&["sessions", "fork", session]), &[0]),
        "verify" => (stage.output(&["sessions", "verify", session]), &[0]),
        "check" => (stage.output(&["resume", "--check", session]), &[0, 4]),
        _ => (stage.output(&["sessions", "bundle", session, "-o", &file, "--force"]), &[0]),
    };
    match output.status.code() {
        Some(code) if expected.contains(&code) => Ok(()),
        code => Err(format!(
            "{what}: {code:?}\n{}\n{}",
            stderr(&output),
            String::from_utf8_lossy(&output.stdout)
        )),
    }
}

#[test]
fn many_commands_on_one_session_at_once_lose_nothing_and_report_the_truth() {
    let stage = Stage::new();
    let session = stage.begin_session();
    let store = stage.session_dir(&session).join("store.db");
    let before = latest_ancestry(&store).unwrap().1.unwrap();
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for user in 0..USERS {
            let (stage, session, wrong) = (&stage, &session, &wrong);
            scope.spawn(move || {
                let orders = ORDERS.iter().cycle().skip(user * ORDERS.len() / USERS);
                for what in orders.take(ORDERS.len()) {
                    if let Err(why) = order(stage, session, what, user) {
                        wrong.lock().unwrap().push(why);
                    }
                }
            });
        }
    });
    assert_eq!(wrong.into_inner().unwrap(), [] as [String; 0]);
    let suspended = stage.output(&["suspend", "--all"]);
    assert_exit(&suspended, 0);
    let after = latest_ancestry(&store).unwrap().1.unwrap();
    assert!(after.extends(&before), "the conversation continues where it was");
    let recalled = stage.resume(&session, "recall", &[]);
    assert_exit(&recalled, 0);
    assert!(String::from_utf8_lossy(&recalled.stdout).contains("The first turn."));
    stage.assert_no_survivors("after the storm");
}
