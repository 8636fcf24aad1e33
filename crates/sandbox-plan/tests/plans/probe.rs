//! A program that runs inside and makes system calls that no shell makes. It is this test's own executable.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use pretty_assertions::assert_eq;

use crate::launch::sandboxes_work;
use crate::scene::Scene;

/// Makes one system call and returns its error, or zero.
// No safe wrapper offers the filtered calls. The kernel refuses every argument here.
#[expect(unsafe_code, reason = "a refused system call can only be shown by making it")]
fn errno_of(number: i64, arguments: [i64; 4]) -> i32 {
    let [a, b, c, d] = arguments;
    // SAFETY: the calls are made with null pointers and numbers that name nothing, so the kernel touches no memory of this process.
    let result = unsafe { nix::libc::syscall(number, a, b, c, d) };
    if result == -1 { nix::errno::Errno::last_raw() } else { 0 }
}

/// This path is a directory only inside the sandbox. The probe checks it to know whether it is inside.
const INSIDE: &str = "/run/caretaker/probe";

#[test]
fn the_probe_makes_its_calls() {
    let own_pid = i64::from(std::process::id());
    assert_eq!(errno_of(nix::libc::SYS_kill, [own_pid, 0, 0, 0]), 0);
    if !Path::new(INSIDE).exists() {
        return;
    }
    let call = |name: &str, number: i64, arguments| {
        println!("probe {name} {}", errno_of(number, arguments));
    };
    for (name, number) in unconditional_refusals() {
        call(&name, number, [-1, 0, 0, 0]);
    }
    let high = 1_i64 << 32;
    call("clone-newuser", nix::libc::SYS_clone, [0x1000_0000, 0, 0, 0]);
    call("clone3", nix::libc::SYS_clone3, [0, 0, 0, 0]);
    call("openat2", nix::libc::SYS_openat2, [-1, 0, 0, 0]);
    call("tiocsti", nix::libc::SYS_ioctl, [-1, 0x5412, 0, 0]);
    call("tiocsti-high", nix::libc::SYS_ioctl, [-1, high | 0x5412, 0, 0]);
    call("tcgets", nix::libc::SYS_ioctl, [-1, 0x5401, 0, 0]);
    call("vsock", nix::libc::SYS_socket, [40, 1, 0, 0]);
    call("packet", nix::libc::SYS_socket, [17, 3, 0, 0]);
    call("alg", nix::libc::SYS_socket, [38, 5, 0, 0]);
    call("unix", nix::libc::SYS_socket, [1, 1, 0, 0]);
    call("inet-raw", nix::libc::SYS_socket, [2, 3, 1, 0]);
    call("fchmod-suid", nix::libc::SYS_fchmod, [-1, 0o4755, 0, 0]);
    call("fchmod", nix::libc::SYS_fchmod, [-1, 0o755, 0, 0]);
    call("openat-suid", nix::libc::SYS_openat, [-1, 0, 0x41, 0o4755]);
    call("openat-no-creation", nix::libc::SYS_openat, [-1, 0, 0, 0o4755]);
}

/// Returns the calls that `base.toml` refuses with any arguments, and their numbers on this machine.
fn unconditional_refusals() -> Vec<(String, i64)> {
    let base: toml::Table = include_str!("../../../../sandbox/seccomp/base.toml").parse().unwrap();
    let numbers: toml::Table =
        include_str!("../../../../sandbox/seccomp/syscalls.toml").parse().unwrap();
    let rules = base["refuse"].as_array().unwrap().iter();
    rules
        .filter(|rule| rule.get("when").is_none())
        .flat_map(|rule| rule["syscalls"].as_array().unwrap())
        .map(|name| name.as_str().unwrap().to_owned())
        .filter_map(|name| {
            let number = numbers[&name].get(std::env::consts::ARCH)?.as_integer()?;
            Some((name, number))
        })
        .collect()
}

#[test]
fn dangerous_system_calls_are_refused_and_ordinary_ones_are_not() {
    if !sandboxes_work() {
        return;
    }
    let mut scene = Scene::new("project");
    std::fs::create_dir(scene.request.inside_sockets.join("probe")).unwrap();
    let own = std::fs::canonicalize(std::env::current_exe().unwrap()).unwrap();
    scene.request.expose.push(own.clone());
    let test = "probe::the_probe_makes_its_calls";
    scene.program(&[own.to_str().unwrap(), test, "--exact", "--nocapture"]);
    let output = scene.run_program();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.signal(), None, "{text}");
    let answers: BTreeMap<&str, i32> = text
        .lines()
        .filter_map(|line| line.strip_prefix("probe ")?.split_once(' '))
        .map(|(name, errno)| (name, errno.parse().unwrap()))
        .collect();

    use nix::libc::{EAFNOSUPPORT, EBADF, ENOSYS, EPERM};
    let mut expected: BTreeMap<&str, i32> = BTreeMap::from([
        ("clone-newuser", EPERM),
        ("clone3", ENOSYS),
        ("openat2", ENOSYS),
        ("tiocsti", EPERM),
        ("tiocsti-high", EPERM),
        ("tcgets", EBADF),
        ("vsock", EAFNOSUPPORT),
        ("packet", EAFNOSUPPORT),
        ("alg", EAFNOSUPPORT),
        ("unix", 0),
        ("inet-raw", EPERM),
        ("fchmod-suid", EPERM),
        ("fchmod", EBADF),
        ("openat-suid", EPERM),
        ("openat-no-creation", nix::libc::EFAULT),
    ]);
    let always = unconditional_refusals();
    expected.extend(always.iter().map(|(name, _)| (name.as_str(), EPERM)));
    assert_eq!(answers, expected);
}
