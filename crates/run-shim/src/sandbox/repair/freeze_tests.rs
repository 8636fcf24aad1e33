use std::process::{Child, Command, Stdio};

use super::*;

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn shell(script: &str) -> Killed {
    let child = Command::new("/bin/sh").args(["-c", script]).stdout(Stdio::null()).spawn();
    Killed(child.unwrap())
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

fn one_below(init: u32) -> Process {
    wait(soon(), || members(init).len() == 2).unwrap();
    members(init)[1]
}

#[test]
fn a_frozen_tree_stands_still_and_continues() {
    let tree = shell("while :; do /bin/true; done");
    let frozen = freeze(tree.0.id(), None, soon()).unwrap();
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{}/schedstat", tree.0.id())).unwrap();
        stat.split(' ').next().unwrap().to_owned()
    };
    let before = ticks();
    for _ in 0..20 {
        assert!(frozen.holds());
    }
    assert_eq!(ticks(), before);
    frozen.thaw().unwrap();
    wait(soon(), || members(tree.0.id())[0].state() != State::Stopped).unwrap();
}

#[test]
fn a_process_that_was_stopped_before_stays_stopped() {
    let tree = shell("sleep 600 & wait");
    let sleeper = one_below(tree.0.id());
    sleeper.signal(Signal::STOP).unwrap();
    wait(soon(), || sleeper.state() == State::Stopped).unwrap();
    freeze(tree.0.id(), None, soon()).unwrap().thaw().unwrap();
    wait(soon(), || members(tree.0.id())[0].state() != State::Stopped).unwrap();
    assert!(sleeper.state() == State::Stopped);
    sleeper.signal(Signal::KILL).unwrap();
}

#[test]
fn a_later_process_with_the_same_id_gets_no_signal() {
    let tree = shell("sleep 600 & wait");
    let sleeper = one_below(tree.0.id());
    let earlier = Process { started: sleeper.started - 1, ..sleeper };
    assert!(earlier.signal(Signal::KILL).is_err());
    assert!(sleeper.state() == State::Runs);
    sleeper.signal(Signal::KILL).unwrap();
}

#[test]
fn a_group_of_cgroup_v2_freezes_at_once() {
    let mount = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
    let mount = mount.into_iter().find(|mount| mount.join("cgroup.procs").exists());
    let group = mount.map(|mount| mount.join(format!("freeze-test-{}", std::process::id())));
    let Some(group) = group.filter(|group| fs::create_dir(group).is_ok()) else {
        return println!("this host has no cgroup v2 that the test may change");
    };
    let tree = shell("sleep 600 & wait");
    let sleeper = one_below(tree.0.id());
    for pid in [tree.0.id().to_string(), sleeper.pid.to_string()] {
        fs::write(group.join("cgroup.procs"), pid).unwrap();
    }
    let frozen = freeze(tree.0.id(), Some(&group), soon()).unwrap();
    assert!(matches!(frozen.means, Means::Group(_)) && frozen.holds());
    frozen.thaw().unwrap();
    sleeper.signal(Signal::KILL).unwrap();
    drop(tree);
    wait(soon(), || fs::remove_dir(&group).is_ok()).unwrap();
}
