use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdout, Stdio};
use std::thread;

use super::super::{signals, stdout::Output};
use super::*;

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

fn start(groups: &ProcessGroups, role: Role, script: &str) -> io::Result<ProcessGroup> {
    groups.start(&mut shell(script), role)
}

/// Starts a shell and returns it with its output, after it has printed a line.
fn started(
    groups: &ProcessGroups,
    role: Role,
    script: &str,
) -> (ProcessGroup, BufReader<ChildStdout>) {
    let mut group = start(groups, role, script).unwrap();
    let mut output = BufReader::new(group.child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    (group, output)
}

#[test]
fn killing_all_reaches_grandchildren_and_waits_until_the_children_are_reaped() {
    let groups = ProcessGroups::default();
    let (group, mut output) = started(&groups, Role::Foreground, "sleep 1000 & echo ready; wait");
    let reaper = thread::spawn(move || group.wait(|| {}));
    assert_eq!(groups.kill_all(), 1);
    assert!(groups.state().live.is_empty());
    // The pipe ends only when its last holder, the grandchild, is dead.
    output.read_to_end(&mut Vec::new()).unwrap();
    let status = reaper.join().unwrap().unwrap();
    assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
}

#[test]
fn nothing_can_be_started_after_kill_all() {
    let groups = ProcessGroups::default();
    groups.kill_all();
    assert!(groups.is_closed());
    assert!(start(&groups, Role::Foreground, "true").is_err());
}

#[test]
fn a_process_in_the_group_of_a_shell_ends_with_the_shell() {
    let groups = ProcessGroups::default();
    let (group, mut output) = started(&groups, Role::Foreground, "sleep 1000 & echo ready");
    assert!(group.wait(|| {}).unwrap().success());
    output.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_group_that_is_dropped_is_killed() {
    let groups = ProcessGroups::default();
    let (group, mut output) = started(&groups, Role::Server, "echo ready; exec sleep 1000");
    drop(group);
    output.read_to_end(&mut Vec::new()).unwrap();
    assert!(groups.state().live.is_empty());
}

#[test]
fn background_shells_are_awaited_and_the_slow_ones_aborted() {
    let groups = ProcessGroups::default();
    let (quick, _quick_output) =
        started(&groups, Role::Foreground, "echo ready; read line < /dev/null");
    let (slow, _slow_output) = started(&groups, Role::Foreground, "echo ready; exec sleep 1000");
    let (server, _server_output) = started(&groups, Role::Server, "echo ready; exec sleep 1000");
    let slow_leader = slow.leader();
    assert!(groups.move_to_background(slow_leader));
    let reapers =
        [thread::spawn(move || quick.wait(|| {})), thread::spawn(move || slow.wait(|| {}))];
    assert_eq!(groups.n_background(), 1);
    assert_eq!(groups.wait_for_background(Duration::from_millis(1)), 1);
    assert_eq!(groups.n_background(), 0);
    assert!(!groups.move_to_background(slow_leader));
    for reaper in reapers {
        reaper.join().unwrap().unwrap();
    }
    assert_eq!(groups.state().live.get(&server.leader()), Some(&Role::Server));
    assert_eq!(groups.wait_for_background(Duration::MAX), 0);
}

#[test]
fn children_inherit_no_blocked_or_ignored_signals() {
    let groups = ProcessGroups::default();
    // The agent listens for signals in this way.
    signals::listen(Arc::new(Output::to_stdout()), groups.clone()).unwrap();
    let mut group =
        start(&groups, Role::Foreground, "grep -E 'SigBlk|SigIgn' /proc/self/status").unwrap();
    let mut status = String::new();
    group.child.stdout.take().unwrap().read_to_string(&mut status).unwrap();
    for line in status.lines() {
        let mask = u64::from_str_radix(line.split('\t').nth(1).unwrap(), 16).unwrap();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGPIPE] {
            assert_eq!(mask & (1 << (signal as u32 - 1)), 0, "{signal} in {line}");
        }
    }
    assert_eq!(status.lines().count(), 2);
    assert!(group.wait(|| {}).unwrap().success());
}

#[test]
fn a_missing_program_or_directory_is_an_error() {
    let groups = ProcessGroups::default();
    let start = |command: &mut Command| groups.start(command, Role::Server).unwrap_err().kind();
    assert_eq!(start(&mut Command::new("/no/such/program")), io::ErrorKind::NotFound);
    let nowhere = start(shell("true").current_dir("/no/such/directory"));
    assert_eq!(nowhere, io::ErrorKind::NotFound);
    assert!(groups.state().live.is_empty());
}

#[test]
fn a_background_shell_is_over_only_after_its_farewell() {
    let groups = ProcessGroups::default();
    let group = start(&groups, Role::Background, "true").unwrap();
    let (said, heard) = std::sync::mpsc::channel();
    thread::spawn(move || group.wait(|| said.send("farewell").unwrap()));
    assert_eq!(groups.wait_for_background(Duration::from_secs(60)), 0);
    assert_eq!(heard.try_recv(), Ok("farewell"));
}
