use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use super::*;

const AMPLE: Bounds = Bounds { within: Duration::from_secs(60), most_output: 1 << 20 };
/// Writes a word to a FIFO, and keeps it open in two processes that do not end.
const HOLDS: &str = "exec 9> \"$FIFO\"; echo here >&9; sleep 600 & sleep 600";

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

fn fifo(path: &Path) -> File {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path).unwrap()
}

/// Waits for bytes, or until no process holds the FIFO any more. Returns the bytes.
fn next(fifo: &mut File) -> Vec<u8> {
    let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(&*fifo, PollFlags::IN)], Some(&limit)), Ok(1));
    let mut bytes = [0; 64];
    let n_bytes = fifo.read(&mut bytes).unwrap();
    bytes[..n_bytes].to_vec()
}

#[test]
fn an_answer_has_both_outputs_and_the_exit_code() {
    let answer = run(&mut shell("cat; echo err >&2; exit 3"), Some(b"in".to_vec()), AMPLE).unwrap();
    let (stdout, stderr) = (answer.stdout_text(), answer.stderr_text());
    assert_eq!((answer.status.code(), stdout.as_str(), stderr.as_str()), (Some(3), "in", "err\n"));
}

#[test]
fn a_program_that_hangs_is_killed_with_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    let mut held = fifo(&path);
    // On a busy machine the shell may need a while to start.
    for milliseconds in [200, 2_000, 20_000] {
        let bounds = Bounds { within: Duration::from_millis(milliseconds), ..AMPLE };
        let outcome = run(shell(HOLDS).env("FIFO", &path), None, bounds);
        assert!(matches!(outcome, Err(NoAnswer::TimedOut(_))), "{outcome:?}");
        let mut said = [0; 5];
        if held.read_exact(&mut said).is_ok() {
            assert_eq!(next(&mut held), b"", "a child still holds the FIFO");
            return;
        }
    }
    panic!("the shell did not start");
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test starts itself again, as the process to kill"
)]
fn a_program_is_killed_with_its_children_when_we_are_killed() {
    const CHILD: &str = "GROUND_COMMAND_TEST_FIFO";
    if let Some(path) = std::env::var_os(CHILD) {
        run(shell(HOLDS).env("FIFO", path), None, AMPLE).ok();
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    let mut held = fifo(&path);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "command::tests::a_program_is_killed_with_its_children_when_we_are_killed",
        ])
        .env(CHILD, &path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(next(&mut held), b"here\n");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(next(&mut held), b"");
}

#[test]
fn a_flood_is_cut() {
    let answer = run(&mut shell("head -c 3000000 /dev/zero; exit 0"), None, AMPLE);
    assert_eq!(answer.unwrap().stdout.len() as u64, AMPLE.most_output);
}

#[test]
fn the_error_names_a_program_that_is_missing() {
    let outcome = run(&mut Command::new("/no/such/program"), None, AMPLE);
    assert_eq!(outcome.unwrap_err().to_string(), "`/no/such/program` cannot be started");
}
