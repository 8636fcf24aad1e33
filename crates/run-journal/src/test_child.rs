//! Starts this test binary again as a separate process, so that a test can kill it, limit it or give it a small disk.

use std::path::Path;
use std::process::Command;

use run_protocol::RunId;

use crate::{RunDirectory, StateRoot};

const ROLE: &str = "CARETAKER_JOURNAL_TEST_ROLE";
const STATE: &str = "CARETAKER_JOURNAL_TEST_STATE";
const RUN: &str = "CARETAKER_JOURNAL_TEST_RUN";

/// The command that starts this binary again, through `wrapper`, in one of the roles that [`play`] knows.
pub(crate) fn command(role: &str, state: &Path, run: Option<RunId>, wrapper: &[&str]) -> Command {
    let binary = std::env::current_exe().unwrap();
    let mut command = match wrapper {
        [] => Command::new(binary),
        [program, args @ ..] => {
            let mut command = Command::new(program);
            command.args(args).arg(binary);
            command
        }
    };
    command
        .args(["--exact", "test_child::play", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(STATE, state)
        .env(RUN, run.map(|run| run.to_string()).unwrap_or_default());
    command
}

#[expect(clippy::disallowed_methods, reason = "how the parent process tells its child what to do")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The child's side. In an ordinary test run there is no role.
#[test]
fn play() {
    let Some(role) = variable(ROLE) else { return };
    let state = StateRoot::new(variable(STATE).unwrap().into());
    let run = || RunDirectory::open(&state, variable(RUN).unwrap().parse().unwrap()).unwrap();
    match role.as_str() {
        "write until killed" => crate::writer::crash_tests::write_until_killed(&run()),
        "write a little and wait" => crate::writer::crash_tests::write_a_little_and_wait(&run()),
        "exceed a limit" => crate::writer::disk_full_tests::exceed_a_limit(&run()),
        "fill a disk" => crate::writer::disk_full_tests::fill_a_disk(&state),
        "refresh again and again" => crate::index::tests::refresh_again_and_again(&state),
        other => panic!("no such role: {other}"),
    }
}
