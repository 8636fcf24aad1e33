use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, PipeReader, Read};
use std::path::Path;
use std::thread;

use super::super::launch::Stdio;
use super::*;

fn start(groups: &ProcessGroups, role: Role, script: &str) -> io::Result<(ProcessGroup, Pipes)> {
    let launch = Launch {
        program: OsStr::new("/bin/sh"),
        args: &["-c", script].map(OsString::from),
        env: &[("PATH".into(), "/usr/bin:/bin".into())],
        directory: Path::new("/"),
        stdin: Stdio::Null,
        stderr: Stdio::Null,
    };
    groups.start(&launch, role)
}

/// Starts a shell and returns it with its output, after it has printed a line.
fn started(
    groups: &ProcessGroups,
    role: Role,
    script: &str,
) -> (ProcessGroup, BufReader<PipeReader>) {
    let (group, pipes) = start(groups, role, script).unwrap();
    let mut output = BufReader::new(pipes.stdout);
    output.read_line(&mut String::new()).unwrap();
    (group, output)
}

#[test]
fn killing_all_reaches_grandchildren_and_waits_for_the_reaping() {
    let groups = ProcessGroups::default();
    let (group, mut output) = started(&groups, Role::Foreground, "sleep 1000 & echo ready; wait");
    let reaper = thread::spawn(move || group.wait(|| {}));
    assert_eq!(groups.kill_all(), 1);
    assert!(groups.state().live.is_empty());
    // The pipe ends only when its last holder, the grandchild, is dead.
    output.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(reaper.join().unwrap(), Exit::Signal(Signal::SIGKILL));
}

#[test]
fn nothing_can_be_started_after_all_were_killed() {
    let groups = ProcessGroups::default();
    groups.kill_all();
    assert!(groups.is_closed());
    assert!(start(&groups, Role::Foreground, "true").is_err());
}

#[test]
fn what_a_shell_leaves_in_its_group_ends_with_it() {
    let groups = ProcessGroups::default();
    let (group, mut output) = started(&groups, Role::Foreground, "sleep 1000 & echo ready");
    assert_eq!(group.wait(|| {}), Exit::Code(0));
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
        reaper.join().unwrap();
    }
    assert_eq!(groups.state().live.get(&server.leader()), Some(&Role::Server));
    assert_eq!(groups.wait_for_background(Duration::MAX), 0);
}

#[test]
fn children_do_not_inherit_what_the_agent_blocks_or_ignores() {
    thread::spawn(|| {
        let blocked: nix::sys::signal::SigSet =
            [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
        blocked.thread_block().unwrap();
        let groups = ProcessGroups::default();
        let (group, mut pipes) =
            start(&groups, Role::Foreground, "grep -E 'SigBlk|SigIgn' /proc/self/status").unwrap();
        let mut status = String::new();
        pipes.stdout.read_to_string(&mut status).unwrap();
        for line in status.lines() {
            let mask = u64::from_str_radix(line.split('\t').nth(1).unwrap(), 16).unwrap();
            for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGPIPE] {
                assert_eq!(mask & (1 << (signal as u32 - 1)), 0, "{signal} in {line}");
            }
        }
        assert_eq!(status.lines().count(), 2);
        assert_eq!(group.wait(|| {}), Exit::Code(0));
    })
    .join()
    .unwrap();
}

#[test]
fn a_program_or_directory_that_is_missing_is_told_apart_from_success() {
    let groups = ProcessGroups::default();
    let launch = Launch {
        program: OsStr::new("/no/such/program"),
        args: &[],
        env: &[],
        directory: Path::new("/"),
        stdin: Stdio::Null,
        stderr: Stdio::Null,
    };
    let (group, _pipes) = groups.start(&launch, Role::Server).unwrap();
    assert_eq!(group.wait(|| {}), Exit::Code(127));
    let nowhere = Launch { directory: Path::new("/no/such/directory"), ..launch };
    assert_eq!(groups.start(&nowhere, Role::Server).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_background_shell_is_over_only_after_its_farewell() {
    let groups = ProcessGroups::default();
    let (group, _pipes) = start(&groups, Role::Background, "true").unwrap();
    let (said, heard) = std::sync::mpsc::channel();
    thread::spawn(move || group.wait(|| said.send("farewell").unwrap()));
    assert_eq!(groups.wait_for_background(Duration::from_secs(60)), 0);
    assert_eq!(heard.try_recv(), Ok("farewell"));
}
