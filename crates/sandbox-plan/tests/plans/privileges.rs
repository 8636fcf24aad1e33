//! A program inside can do nothing to the machine.

use pretty_assertions::assert_eq;

use crate::launch::sandboxes_work;
use crate::scene::Scene;

#[test]
fn there_are_no_capabilities_no_new_privileges_and_the_filters_hold() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    let fields = "CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp|Seccomp_filters";
    let status = scene.run(&format!("grep -E '^({fields}):' /proc/self/status | tr -d '\\t'"));
    let none = "0000000000000000";
    let expected = format!(
        "CapInh:{none}\nCapPrm:{none}\nCapEff:{none}\nCapBnd:{none}\nCapAmb:{none}\nNoNewPrivs:1\nSeccomp:2\nSeccomp_filters:4\n"
    );
    assert_eq!(status, expected);
}

#[test]
fn the_machine_and_other_processes_are_out_of_reach() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    let done = scene.run(
        // A successful attempt must be harmless: the same value again, a request for help, names that end with the sandbox.
        r#"try() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo "succeeded: $name"; fi; }
        core() { pattern=$(cat /proc/sys/kernel/core_pattern); echo "$pattern" > /proc/sys/kernel/core_pattern; }
        sysrq() { echo h > /proc/sysrq-trigger; }
        try core_pattern core
        try sysrq sysrq
        try remount-proc mount -o remount,rw /proc/sys
        try remount-root mount -o remount,rw /
        try mount mount -t tmpfs none /tmp
        try unmount umount /proc/sys
        try chroot chroot / true
        try unshare unshare --user true
        try nested bwrap --ro-bind / / true
        try nsenter nsenter --target 1 --mount true
        try device mknod /tmp/null c 1 3
        try hostname hostname other
        touch suid; try setuid chmod u+s suid; try setgid chmod g+s suid
        hostname; ls /proc | grep -c '^[0-9]*$' | awk '{ print ($1 < 10) ? "own processes" : "others" }'"#,
    );
    assert_eq!(done, "agent\nown processes\n");
}

#[test]
fn terminals_and_ordinary_devices_work() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    let seen = scene.run(
        "echo x > /dev/null && head -c 4 /dev/urandom | wc -c; : > /dev/shm/file && echo shm
         test -c /dev/ptmx -o -h /dev/ptmx && echo ptmx; ls /dev/sda /dev/vda /dev/kmsg /dev/mem 2>/dev/null | wc -l",
    );
    assert_eq!(seen, "4\nshm\nptmx\n0\n");
}
